//! The sidecar: bind, start, serve, end.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Context;
use coop_api::{AgentId, Agents, Reply, Request, Size};
use coop_server::{Config, Server};
use coop_session::{Handle, Options, StartError};
use coop_term::{Exit, SpawnError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::level_filters::LevelFilter;

use crate::bridge;
use crate::cli::{Linger, LogFormat, LogLevel, Serve};
use crate::command::command;
use crate::config::AgentConfig;
use crate::driven;
use crate::leftovers::Folder;
use crate::listen::{self, SocketFile};
use crate::shield;

/// A second signal counts as another order only after this: `timeout` and shells send one to a process and to its group.
const SAME_ORDER: Duration = Duration::from_millis(500);
/// A child that fails within this time after the start was not seen by anybody.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How many of its last lines are shown then.
const LAST_LINES: usize = 10;
/// How long clients may take to go once they were told to.
const FAREWELL: Duration = Duration::from_secs(2);

/// The command could not be run.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct CannotRun(StartError);

impl CannotRun {
    /// The exit code a shell gives for it.
    pub(crate) fn code(&self) -> u8 {
        match &self.0 {
            StartError::Spawn(SpawnError::Exec { source, .. }) if source.kind() == io::ErrorKind::NotFound => 127,
            StartError::Spawn(SpawnError::Exec { .. }) => 126,
            StartError::Spawn(SpawnError::Terminal(_)) | StartError::Thread(_) => 1,
        }
    }
}

pub(crate) async fn run(mut options: Serve) -> anyhow::Result<i32> {
    // Inside another coop the variable names that one's socket, not ours.
    if std::env::var_os("COOP").is_some()
        && options.socket.as_deref() == std::env::var_os("COOP_SOCKET").as_deref().map(AsRef::as_ref)
    {
        options.socket = None;
    }
    if options.own_session {
        rustix::process::setsid().context("cannot leave the session of whoever started this")?;
    }
    start_log(options.log_format, options.log_level);
    let size = Size::new(options.cols, options.rows).context("--cols and --rows")?;
    let config = AgentConfig::read(&options.agent_config)?;
    if let Some(target) = &options.attach {
        bridge::check(target).await?;
    }
    shield::raise();
    tokio::spawn(shield::reap_adopted());
    let mut signals = Signals::new()?;
    let Running { handle, done, server, agent, lines, _folder, _socket } = start(&options, config, size).await?;
    match announce(agent, &lines) {
        // Whoever wanted to know is gone. The agent is not theirs alone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        told => told.context("cannot write to standard output")?,
    }
    let began = Instant::now();
    let (exit, was_told) = until_done(&handle, done, &mut signals, options.linger).await;
    let failed = exit.is_some_and(|exit| exit.code != Some(0)) && !was_told;
    let last_lines = if failed { last_lines(&handle).await } else { Vec::new() };
    server.shut_down(FAREWELL).await;
    if options.attach.is_some() && exit.is_some_and(|exit| exit.code == Some(1)) {
        // A bridge that failed says why.
        anyhow::bail!("{}", last_lines.last().map_or("it failed", |line| line.trim_start_matches("coop: ")));
    }
    if began.elapsed() < AT_ONCE && !last_lines.is_empty() {
        let _ = writeln!(
            io::stderr(),
            "coop: the program failed at once; this was on its screen:\n{}",
            last_lines.join("\n")
        );
    }
    Ok(exit.map_or(1, |exit| exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1)))
}

/// A session that is served.
pub(crate) struct Running {
    pub(crate) handle: Handle,
    pub(crate) done: oneshot::Receiver<Option<Exit>>,
    pub(crate) server: Server<Handle>,
    /// Which agent it is.
    pub(crate) agent: &'static str,
    /// Where it can be reached.
    pub(crate) lines: Vec<String>,
    pub(crate) _folder: Option<Folder>,
    pub(crate) _socket: SocketFile,
}

/// Binds, prepares and starts, in this order: what is wrong is better said before anything runs.
pub(crate) async fn start(options: &Serve, config: AgentConfig, size: Size) -> anyhow::Result<Running> {
    let bound = listen::bind(options).await?;
    let (command, queries) = command(options, &bound.socket.path)?;
    let chosen = driven::choose(options, &command)?;
    let (driven, folder) = driven::agent(options, &chosen, config, &command)?.unzip();
    let session = Options {
        id: AgentId(format!("{}-{}", chosen.name, std::process::id())),
        agent: chosen.name.to_owned(),
        command,
        driven,
        size,
        ring: options.ring_size,
        queries,
        grace: options.grace,
        idle_timeout: Some(options.idle_timeout).filter(|timeout| !timeout.is_zero()),
    };
    let (handle, done) = coop_session::start(session).await.map_err(CannotRun)?;
    let token = options.auth_token.clone();
    let server = Server::new(handle.clone(), Config { token, hosts: options.allow_host.clone() });
    for (listener, surface) in bound.listeners {
        server.listen(listener, surface);
    }
    Ok(Running { handle, done, server, agent: chosen.name, lines: bound.lines, _folder: folder, _socket: bound.socket })
}

/// Returns the last lines on the screen that are not empty.
async fn last_lines(handle: &Handle) -> Vec<String> {
    let Ok(Reply::Screen(screen)) = handle.call(handle.id(), Request::Screen).await else { return Vec::new() };
    let lines: Vec<_> = screen.lines.iter().map(|line| line.plain()).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|&line| line.to_owned()).collect()
}

/// Waits for the session's end, passing on what should bring it about: a signal, or the child's own exit. Returns also
/// whether there was a signal.
async fn until_done(
    handle: &Handle,
    mut done: oneshot::Receiver<Option<Exit>>,
    signals: &mut Signals,
    linger: Linger,
) -> (Option<Exit>, bool) {
    let mut asked = false;
    let mut told: Option<Instant> = None;
    loop {
        tokio::select! {
            exit = &mut done => return (exit.ok().flatten(), told.is_some()),
            () = signals.next() => {
                if told.is_some_and(|told| told.elapsed() < SAME_ORDER) {
                    continue;
                }
                tracing::info!(forced = asked, "told to stop");
                told = Some(Instant::now());
                asked = true;
            }
            () = exited(handle, linger), if !asked => asked = true,
        }
        // Asked a second time, the session no longer waits for the child.
        let _ = handle.call(handle.id(), Request::Shutdown).await;
    }
}

/// Waits until the child has exited and the time to linger is over.
async fn exited(handle: &Handle, linger: Linger) {
    let mut ended = handle.ended();
    loop {
        if ended.wait_for(|ended| *ended).await.is_err() {
            return;
        }
        match linger {
            Linger::Forever => std::future::pending().await,
            Linger::For(time) => {
                // Somebody may start it again meanwhile.
                let again = ended.wait_for(|ended| !ended);
                if tokio::time::timeout(time, again).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The signals that end a sidecar.
pub(crate) struct Signals([tokio::signal::unix::Signal; 3]);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?]))
    }

    pub(crate) async fn next(&mut self) {
        let [terminate, interrupt, hang_up] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// Tells on standard output which agent it is and where it can be reached, a line each, and that it is ready.
fn announce(agent: &str, lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "agent {agent}")?;
    for line in lines {
        writeln!(out, "listening {line}")?;
    }
    writeln!(out, "ready")?;
    out.flush()
}

pub(crate) fn start_log(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // A log that nobody reads any more must not take the agent with it.
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Json => builder.json().init(),
        LogFormat::Text => builder.init(),
    }
}
