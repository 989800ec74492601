//! A scripted agent with the manners of OpenCode 1.18.33: its server, and a terminal interface in front of it.
//!
//! ```text
//! opencode [--port N] [--hostname H] [-s ID | -c] [--prompt TEXT]    the interface with a server of its own
//! opencode serve [--port N] [--hostname H]                           the server alone
//! opencode attach URL                                                the interface of another server; it shows nothing
//! ```
//!
//! Prompts are obeyed by their directives, as those of `coop sim claude`. It is simple where nothing is known: one model,
//! one agent, no plugins.

mod server;
mod store;
mod tui;
mod turn;
mod world;

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use self::world::World;

/// What the command line says.
#[derive(Debug, Default)]
struct Args {
    plain: Vec<String>,
    port: u16,
    hostname: Option<IpAddr>,
    session: Option<String>,
    continues: bool,
    prompt: Option<String>,
}

impl Args {
    fn parse(words: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let mut args = Self::default();
        let mut words = words.map(|word| word.into_string().ok().context("an argument is not UTF-8"));
        while let Some(word) = words.next().transpose()? {
            let (name, given) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
                _ => (word, None),
            };
            let mut value = || match given.clone() {
                Some(value) => Ok(value),
                None => words.next().transpose()?.with_context(|| format!("Not enough arguments following: {name}")),
            };
            match name.as_str() {
                "--port" => args.port = value()?.parse().context("--port")?,
                "--hostname" => args.hostname = Some(value()?.parse().context("--hostname")?),
                "-s" | "--session" => args.session = Some(value()?),
                "--prompt" => args.prompt = Some(value()?),
                "-c" | "--continue" => args.continues = true,
                "-m" | "--model" | "--agent" | "--dir" | "-p" | "--password" | "-u" | "--username" | "--log-level" => {
                    value()?;
                }
                "--print-logs" | "--pure" | "--auto" | "--mini" => {}
                _ if name.starts_with('-') => bail!("Unknown argument: {name}"),
                _ => args.plain.push(name),
            }
        }
        Ok(args)
    }
}

/// Runs it until it is told to end.
pub async fn run(words: impl Iterator<Item = OsString>) -> anyhow::Result<i32> {
    let args = Args::parse(words)?;
    let ended = async {
        match args.plain.first().map(String::as_str) {
            Some("serve") => serve(args).await,
            Some("attach") => attach(args).await,
            Some(other) => bail!("Failed to change directory to {other}"),
            None => interface(args).await,
        }
    };
    let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        outcome = ended => outcome,
        _ = terminate.recv() => Ok(143),
        _ = hangup.recv() => Ok(129),
        _ = interrupt.recv() => Ok(130),
    }
}

async fn listen(args: &Args) -> anyhow::Result<TcpListener> {
    let host = args.hostname.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    TcpListener::bind((host, args.port)).await.context("Failed to start server")
}

async fn serve(args: Args) -> anyhow::Result<i32> {
    let listener = listen(&args).await?;
    writeln!(std::io::stdout(), "opencode server listening on http://{}", listener.local_addr()?)?;
    server::serve(listener, Arc::new(World::load()?)).await?;
    Ok(0)
}

async fn interface(args: Args) -> anyhow::Result<i32> {
    let world = Arc::new(World::load()?);
    let session = match (&args.session, args.continues) {
        (Some(id), _) if !world.has(id) => bail!("Session not found: {id}"),
        (Some(id), _) => Some(id.clone()),
        (None, true) => world.last(),
        (None, false) => None,
    };
    let listener = listen(&args).await?;
    let served = server::serve(listener, Arc::clone(&world));
    let shown = tui::run(world, session, args.prompt);
    tokio::select! {
        served = served => served.map(|()| 0),
        shown = shown => shown,
    }
}

/// The real one shows the server's sessions. What matters here is that it is there, and that its server is somebody's.
async fn attach(args: Args) -> anyhow::Result<i32> {
    let url = args.plain.get(1).context("Not enough non-option arguments: got 0, need at least 1")?;
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    TcpStream::connect(address).await.with_context(|| format!("Unable to connect to {url}"))?;
    tui::show_nothing().await
}
