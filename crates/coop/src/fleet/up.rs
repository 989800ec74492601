//! `coop up`: the daemon.

use std::env;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use coop_api::Token;
use coop_fleet::adapter::{MachineAdapter, SidecarAdapter};
use coop_fleet::claims::Claims;
use coop_fleet::engine::Agent;
use coop_fleet::fleet::{Fleet, Machine, Notify};
use coop_fleet::launcher::RunOwner;
use coop_fleet::shim::{LocalHttp, Ports};
use coop_fleet::store::Store;
use coop_server::fleet::{Fate, FleetServer};
use coop_server::{Config, Listener, ProcessRole, Sessions, TokenUse};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::charter::Charter;
use super::cli::{ToolsReach, Up};
use super::cluster;
use super::guests::Guests;
use super::hub::Hub;
use super::launch::Launched;
use super::places::{Places, ToolLimits, agents_of, is_there};
use super::tellings::Tellings;
use super::{socket, state_folder};
use crate::listen::socket_file;
use crate::log_file::LogOwner;
use crate::serve::{Signals, start_log};
use crate::{sandbox, shield};

/// How long clients may take to go.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the fleet may take to end: what it is at, and writing that down.
const PATIENCE: Duration = Duration::from_secs(15);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) async fn up(options: Up) -> anyhow::Result<i32> {
    let state = state_folder(options.state.state.as_deref())?;
    if options.detach {
        return detach(&state);
    }
    if options.own_session {
        rustix::process::setsid().context("cannot leave the session of whoever started this")?;
    }
    start_log(options.log_format, options.log_level, LogOwner::of(options.own_session));
    if !options.host.is_loopback() && options.auth_token.is_none() {
        bail!(
            "anyone who can reach {} could steer these agents: give a token with --auth-token or COOP_AUTH_TOKEN, or \
             leave --host at 127.0.0.1",
            options.host
        );
    }
    shield::raise(ProcessRole::Daemon);
    tokio::spawn(shield::reap_orphans());
    let notify = notify(&options)?;
    let (token, token_use) = match options.auth_token.clone() {
        None if options.port.is_some() => (Some(new_token()?), TokenUse::OtherUsers),
        given => (given, TokenUse::Always),
    };
    // It is ours until this process ends, however it ends.
    let _lock = lock(&state)?;
    let mut signals = Signals::new()?;
    let (unix, _socket) = socket_file(&socket(&state))?;
    let mut lines = vec![format!("listening unix {}", _socket.path.display())];
    let mut listeners = vec![Listener::Unix(unix)];
    if let Some(port) = options.port {
        let listener = TcpListener::bind((options.host, port)).await;
        let listener = listener
            .with_context(|| format!("cannot listen on {}:{port}; choose another --port, or 0", options.host))?;
        let address = listener.local_addr()?;
        lines.push(format!("listening http http://{address}"));
        if let (Some(token), TokenUse::OtherUsers) = (&token, token_use) {
            lines.push(format!("open http://{address}/#token={}", token.expose()));
        }
        listeners.push(Listener::Tcp(listener));
    }
    let place = options.store.place(&state)?;
    let coop = env::current_exe().context("cannot find coop's own program file")?;
    let shims = LocalHttp::new(&state, Ports::Any, serde_json::Map::new());
    let mut charter = Charter::of(&state)?;
    let Launched { adapter: sidecars, place: launcher, cluster } =
        options.launch.adapter(&coop, &state, &charter.id).await?;
    if let Some(cluster) = &cluster {
        lines.extend(cluster::check(cluster).await?.map(|warning| format!("warning {warning}")));
    }
    let claims = Claims::default();
    let sidecars = sidecars.heeding(claims.clone());
    let adapter = MachineAdapter::new(sidecars.clone(), shims.clone());
    let sandbox = sandbox::of_daemon(&state, &coop).inspect_err(|error| {
        tracing::warn!(%error, "gates and commands of agents in a sandbox are refused");
    });
    let machine = Machine { notify, sandbox: sandbox.ok(), refuses_gates: sidecars.refuses_commands() };
    let guests = Guests::new(&state, Tellings::new(), claims);
    guests.find_again().await;
    let patience = options.store_patience;
    let (place_of_store, outside, of_shims) = (place.clone(), machine.clone(), shims.clone());
    let opening = tokio::task::spawn_blocking(move || {
        let store = Store::open(&place_of_store)?;
        store.set_patience(patience)?;
        // Those behind shims are processes of this machine, whatever is said; those that others applied are not ours to end.
        let living = |agent: &Agent| is_there(agent) && !of_shims.has(&agent.id);
        let ours = agents_of(&store, RunOwner::Fleet)?;
        let living: Vec<_> = ours.into_iter().filter(living).map(|agent| agent.id).collect();
        charter.settle(&launcher, &living)?;
        anyhow::Ok(Fleet::start(store, adapter, outside)?)
    });
    // A store may have to be waited for; whoever has enough of that can say so.
    let (fleet, task) = tokio::select! {
        opened = opening => opened.context("the store's owner broke off")??,
        () = signals.next() => bail!("it was ended before {place} was open"),
    };
    let (sender, mut down) = mpsc::channel(1);
    let limits = ToolLimits {
        all_projects: options.tools_reach == ToolsReach::All,
        depth: options.spawn_depth,
        width: options.spawn_width,
    };
    let places = Places::new(fleet.clone(), sidecars.clone(), guests, &state, machine, limits)?;
    let sessions = Sessions::kept_in(&state.join("logins"));
    let config = Config { token, token_use, hosts: options.allow_host, sessions, ..Config::default() };
    let hub = Hub::new(fleet.clone(), sidecars.clone(), shims, &state, sender, places, place.kind());
    let server = FleetServer::new(hub.over(cluster.clone()), config);
    let mut beside = JoinSet::new();
    beside.spawn(tidy(fleet.clone(), sidecars.clone(), options.keep_days));
    if let Some(cluster) = cluster {
        beside.spawn(cluster::follow(fleet.clone(), sidecars, cluster));
    }
    listeners.into_iter().for_each(|listener| server.listen(listener));
    match announce(&lines) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        told => told.context("cannot write to standard output")?,
    }
    tokio::pin!(task);
    let fate = tokio::select! {
        () = signals.next() => Fate::Stay,
        fate = down.recv() => fate.unwrap_or(Fate::Stay),
        ended = &mut task => {
            // Only what cannot be written down ends it. The agents go on, and are found again.
            ended.context("the fleet broke off")??;
            return Ok(0);
        }
    };
    // They hold the fleet, which ends with the last who does.
    beside.shutdown().await;
    if fate == Fate::End {
        end_agents(&fleet).await;
    }
    server.shut_down(FAREWELL).await;
    let pulse = fleet.pulse();
    drop(fleet);
    // It may wait for its store's server, which may never come back.
    let ended = match tokio::time::timeout(PATIENCE, &mut task).await {
        Ok(ended) => ended,
        Err(_) => {
            pulse.give_up();
            task.await
        }
    };
    ended.context("the fleet broke off")??;
    Ok(0)
}

/// Forgets agents that are over for long: at the start, and once a day.
async fn tidy(fleet: Fleet, adapter: SidecarAdapter, keep_days: u32) {
    if keep_days == 0 {
        return;
    }
    let mut daily = tokio::time::interval(DAY);
    loop {
        daily.tick().await;
        match fleet.forget(DAY * keep_days).await {
            Ok(forgotten) => forgotten.iter().for_each(|agent| adapter.clear_away(agent)),
            Err(error) => return tracing::error!(%error, "agents that are over cannot be forgotten"),
        }
    }
}

/// Ends the fleet's own agents. Those that others applied in a cluster are theirs, and may be steered by other fleets too.
async fn end_agents(fleet: &Fleet) {
    let agents = match fleet.look(|store| agents_of(store, RunOwner::Fleet)).await {
        Ok(agents) => agents,
        Err(error) => return tracing::error!(%error, "the agents cannot be ended"),
    };
    let ends = agents.iter().map(|agent| async {
        if let Err(error) = fleet.dismiss(&agent.id, "coop down").await {
            tracing::error!(agent = %agent.id, %error, "it cannot be ended");
        }
    });
    futures_util::future::join_all(ends).await;
}

fn notify(options: &Up) -> anyhow::Result<Notify> {
    let mut notify = Notify::default();
    if let Some(url) = &options.notify_webhook {
        notify = notify.webhook(url)?;
    }
    if let Some(command) = &options.notify_command {
        notify = notify.command(command);
    }
    Ok(if options.notify_desktop { notify.desktop() } else { notify })
}

/// Makes a token for processes that coop cannot see and for other users; processes of this user do without.
fn new_token() -> anyhow::Result<Token> {
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    Token::new(token).map_err(anyhow::Error::msg)
}

/// There is one daemon for a folder: two would do everything twice.
fn lock(state: &Path) -> anyhow::Result<File> {
    let path = state.join("fleet.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("a daemon runs already in {}; see `coop status`", state.display()),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

fn announce(lines: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "ready")?;
    out.flush()
}

/// Starts the same in the background, with its log in a file, and waits until it is ready.
fn detach(state: &Path) -> anyhow::Result<i32> {
    let path = state.join("fleet.log");
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = log.with_context(|| format!("cannot open {}", path.display()))?;
    let before = log.metadata().map_or(0, |found| found.len());
    let program = env::current_exe().context("cannot find coop's own program file")?;
    let args = env::args_os().skip(1).filter(|arg| arg != "--detach");
    let mut command = Command::new(program);
    command.args(args).arg("--own-session").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().context("cannot start the daemon")?;
    let stdout = child.stdout.take().context("the daemon has no output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        writeln!(io::stdout(), "{line}")?;
        if line == "ready" {
            return Ok(0);
        }
    }
    let status = child.wait()?;
    match last_words(&path, before) {
        Some(why) => bail!("the daemon did not start: {why}"),
        None => bail!("the daemon did not start ({status}); its log is {}", path.display()),
    }
}

/// Returns what a daemon said at its end, after so much of the log.
fn last_words(log: &Path, before: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    file.seek(SeekFrom::Start(before)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("coop: "))?;
    Some(line.to_owned())
}
