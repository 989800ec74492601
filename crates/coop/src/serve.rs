//! The sidecar: bind, start, serve, end.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use coop_api::{AgentId, Agents, Event, EventBody, Lifecycle, Reply, Request, Seq, Size, Turn};
use coop_server::{Config, Links, Listener, ProcessRole, Recorded, Server, Surface};
use coop_session::{Handle, OpenRecording, Options, Recorder, Recording, StartError};
use coop_term::{Command, Exit, SpawnError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::bridge;
use crate::cli::{Linger, LogFormat, LogLevel, Serve};
use crate::command::command;
use crate::config::AgentConfig;
use crate::driven::{self, ServedTools, minute};
use crate::leftovers::Folder;
use crate::listen::{self, SocketFile};
use crate::log_file::{Log, LogOwner};
use crate::session_file::{Resumed, SessionFile, not_kept};
use crate::shim::brief;
use crate::{mcp, shield};

/// A second signal counts as another order only after this: `timeout` and shells send one to a process and to its group.
const SAME_ORDER: Duration = Duration::from_millis(500);
/// A child that fails within this time after the start was not seen by anybody.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How many of its last lines are shown then.
const LAST_LINES: usize = 10;
/// How long clients may take to go once they were told to.
const FAREWELL: Duration = Duration::from_secs(2);

/// The socket in the sidecar's folder by which the agent's hooks and tools reach the sidecar.
const AGENT_SOCKET: &str = "agent.sock";

/// The command could not be run.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct CannotRun(StartError);

impl CannotRun {
    /// Returns it for a program that this process could not become.
    pub(crate) fn of(program: OsString, source: io::Error) -> Self {
        Self(StartError::Spawn(SpawnError::Exec { program, source }))
    }

    /// The exit code a shell gives for it.
    pub(crate) fn code(&self) -> u8 {
        match &self.0 {
            StartError::Spawn(SpawnError::Exec { source, .. }) if source.kind() == io::ErrorKind::NotFound => 127,
            StartError::Spawn(SpawnError::Exec { .. } | SpawnError::Hidden { .. }) => 126,
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
    start_log(options.log_format, options.log_level, LogOwner::of(options.own_session));
    let size = Size::new(options.cols, options.rows).context("--cols and --rows")?;
    let mut config = AgentConfig::read(&options.agent_config)?;
    let mut signals = Signals::new()?;
    let session_file = tokio::select! {
        ready = make_ready(&mut options, &mut config) => ready?,
        number = signals.number() => {
            tracing::info!("told to stop before the agent was started");
            return Ok(128 + number);
        }
    };
    shield::raise(ProcessRole::Sidecar);
    tokio::spawn(shield::reap_adopted());
    let Running { handle, done, server, agent, lines, recorder, resumes, _folder, _sockets, _tools } =
        start(&options, config, size).await?;
    let resumed = || {
        let lingers = options.linger != Linger::For(Duration::ZERO);
        let (path, session) = options.resumed_by_file()?;
        Some(Resumed { path: path.to_owned(), session: session.to_owned(), lingers })
    };
    // As long as this lives there is no other sidecar for the file.
    let _kept = match session_file {
        Some(file) if resumes => {
            tokio::spawn(file.keep(handle.clone(), resumed()));
            None
        }
        other => other,
    };
    match announce(agent, &lines) {
        // Whoever wanted to know is gone. The agent is not theirs alone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        told => told.context("cannot write to standard output")?,
    }
    let began = Instant::now();
    let exit = until_done(&handle, done, &mut signals, options.linger).await;
    let failed = exit.is_some_and(|exit| exit.code != Some(0)) && exited_itself(&handle).await;
    let last_lines = if failed { last_lines(&handle).await } else { Vec::new() };
    let gone = if failed && !has_had_a_turn(&handle).await { resumed().filter(|one| !one.lingers) } else { None };
    if let Some(recorder) = recorder
        && tokio::time::timeout(FAREWELL, recorder.finish()).await.is_err()
    {
        tracing::warn!("the end of the recording could not be written in time");
    }
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
    if let Some(resumed) = gone {
        let _ = writeln!(io::stderr(), "coop: {}", resumed.what_to_do());
    }
    Ok(exit.map_or(1, |exit| exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1)))
}

/// Does what has to be done before anything runs. That may take a minute, and can be given up at any time.
async fn make_ready(options: &mut Serve, config: &mut AgentConfig) -> anyhow::Result<Option<SessionFile>> {
    if let Some(target) = &options.attach {
        bridge::check(target).await?;
    }
    let session_file = match &options.session_file {
        Some(path) => {
            let (file, session) = SessionFile::open(path)?;
            options.resume = session;
            Some(file)
        }
        None => None,
    };
    if let Some(path) = options.brief.take() {
        brief::apply(&path, options, config)?;
    }
    minute::over(options).await;
    Ok(session_file)
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
    pub(crate) recorder: Option<Recorder>,
    /// Whether coop can go on with its conversations.
    pub(crate) resumes: bool,
    // In this order: the agent's socket is in the folder.
    pub(crate) _tools: JoinSet<()>,
    pub(crate) _sockets: [Option<SocketFile>; 3],
    pub(crate) _folder: Folder,
}

/// Binds, prepares and starts, in this order: what is wrong is better said before anything runs.
pub(crate) async fn start(options: &Serve, config: AgentConfig, size: Size) -> anyhow::Result<Running> {
    let bound = listen::bind(options).await?;
    let folder = Folder::make()?;
    let (agent_listener, agent_socket) = listen::socket_file(&folder.path().join(AGENT_SOCKET))?;
    let (mut command, queries) = command(options, &agent_socket.path)?;
    let chosen = driven::choose(options, &command)?;
    let driven = driven::agent(options, &chosen, config, &mut command, folder.path())?;
    let resumes = driven.as_ref().is_some_and(|driven| driven.resumes);
    let (driven, served_tools) = driven.map(|driven| (driven.agent, driven.served_tools)).unzip();
    let mut tools = JoinSet::new();
    let tools_socket = serve_tools(served_tools.flatten(), &mut tools)?;
    if let Some(path) = options.session_file.as_deref().filter(|_| !resumes) {
        tracing::warn!("{}", not_kept(path));
    }
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
        guard: Some(guard(&agent_socket.path)?),
    };
    let recording = recording(options, chosen.name, &session.command)?;
    let (handle, done) = coop_session::start(session).await.map_err(CannotRun)?;
    let recorder = match recording {
        Wanted::Nothing => None,
        Wanted::Open(recording) => Some(recording.start(&handle).context("cannot record")?),
        Wanted::Full(why) => {
            handle.tell_unrecorded(why).await;
            None
        }
    };
    let links = if options.sandbox.is_wanted { Links::Refused } else { Links::Followed };
    let recorded = options.record.clone().map(|path| Recorded { path, name: chosen.name.to_owned(), links });
    let token = options.auth_token.clone();
    let served = Config {
        token,
        hosts: options.allow_host.clone(),
        steered_by: options.steered_by,
        parent_is_daemon: options.own_session,
        folder: std::env::current_dir().ok(),
        recording: recorded,
        ..Config::default()
    };
    let server = Server::new(handle.clone(), served);
    for (listener, surface) in bound.listeners {
        server.listen(listener, surface);
    }
    server.listen(Listener::Unix(agent_listener), Surface::Agent);
    Ok(Running {
        handle,
        done,
        server,
        agent: chosen.name,
        lines: bound.lines,
        recorder,
        resumes,
        _tools: tools,
        _sockets: [Some(bound.socket), Some(agent_socket), tools_socket],
        _folder: folder,
    })
}

/// Serves the fleet's tools to an agent that does not reach the daemon.
fn serve_tools(tools: Option<ServedTools>, tasks: &mut JoinSet<()>) -> anyhow::Result<Option<SocketFile>> {
    let Some(ServedTools { socket, identity }) = tools else { return Ok(None) };
    let (listener, socket) = listen::socket_file(&socket)?;
    tasks.spawn(mcp::serve_on(listener, identity));
    Ok(Some(socket))
}

/// Returns the command that ends the agent should the sidecar be killed.
fn guard(agent_socket: &Path) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find coop's own program file")?;
    let args = vec!["guard".into(), "--socket".into(), agent_socket.into()];
    Ok(Command { program: program.into(), args, ..Command::default() })
}

/// What is to be recorded.
enum Wanted {
    Nothing,
    Open(Box<OpenRecording>),
    /// Something, but the disk has no room for it.
    Full(String),
}

/// Opens the recording, if one is wanted. A disk that is full keeps nobody from working.
fn recording(options: &Serve, title: &str, command: &Command) -> anyhow::Result<Wanted> {
    let Some(path) = &options.record else { return Ok(Wanted::Nothing) };
    let term = command.env.iter().rev().find(|(name, _)| name == "TERM").and_then(|(_, value)| value.as_ref());
    let term = term.map(|term| term.to_string_lossy().into_owned()).unwrap_or_default();
    let recording = Recording { path: path.clone(), limit: options.record_limit, term, title: title.to_owned() };
    match recording.open() {
        Ok(open) => Ok(Wanted::Open(Box::new(open))),
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            tracing::warn!(path = %path.display(), %error, "the terminal is not recorded");
            Ok(Wanted::Full(error.to_string()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot record to {}", path.display())),
    }
}

/// Returns the last lines on the screen that are not empty.
async fn last_lines(handle: &Handle) -> Vec<String> {
    let Ok(Reply::Screen(screen)) = handle.call(handle.id(), Request::Screen).await else { return Vec::new() };
    let lines: Vec<_> = screen.lines.iter().map(|line| line.plain()).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|&line| line.to_owned()).collect()
}

/// Tells whether the child exited before anybody wanted it to.
async fn exited_itself(handle: &Handle) -> bool {
    let Ok(Reply::Events(page)) = handle.call(handle.id(), Request::Events(Seq(0))).await else { return false };
    let ends = page.events.iter().rev().filter_map(|event| match &event.body {
        EventBody::Lifecycle(Lifecycle::Stopping) => Some(false),
        EventBody::Lifecycle(Lifecycle::Exited { .. }) => Some(true),
        _ => None,
    });
    // The newest two are the child's exit and the session's stop, in the order they came in.
    ends.take(2).last().unwrap_or(false)
}

/// Tells whether a turn has begun since the start.
async fn has_had_a_turn(handle: &Handle) -> bool {
    let Ok(Reply::Events(page)) = handle.call(handle.id(), Request::Events(Seq(0))).await else { return false };
    let began = |event: &Event| matches!(event.body, EventBody::Turn(Turn::Began { .. }));
    page.lagged.is_some() || page.events.iter().any(began)
}

/// Waits for the session's end, passing on what should bring it about: a signal, or the child's own exit.
async fn until_done(
    handle: &Handle,
    mut done: oneshot::Receiver<Option<Exit>>,
    signals: &mut Signals,
    linger: Linger,
) -> Option<Exit> {
    let mut asked = false;
    let mut told: Option<Instant> = None;
    loop {
        tokio::select! {
            exit = &mut done => return exit.ok().flatten(),
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
        self.number().await;
    }

    async fn number(&mut self) -> i32 {
        let [terminate, interrupt, hang_up] = &mut self.0;
        let kind = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = hang_up.recv() => SignalKind::hangup(),
        };
        kind.as_raw_value()
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

pub(crate) fn start_log(format: LogFormat, level: LogLevel, owner: LogOwner) {
    let level = match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // What these say of a cluster that is away is said by us, once and in people's words.
    let libraries = if level > LevelFilter::INFO { level } else { LevelFilter::OFF };
    let targets = Targets::new().with_default(level);
    let targets = targets.with_targets([("kube_client", libraries), ("kube_runtime", libraries)]);
    // A log that nobody reads any more must not take the agent with it.
    let writer = Mutex::new(Log::on_stderr(owner));
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(writer).log_internal_errors(false);
    match format {
        LogFormat::Json => builder.json().finish().with(targets).init(),
        LogFormat::Text => builder.finish().with(targets).init(),
    }
}
