//! What is done before each child of an agent: its files, its companion, its port and its token.

use std::env;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use coop_api::Token;
use coop_drivers::{Known, Launch, Link, Ready, Rules, Setup};
use coop_session::{Prepared, ServiceOptions};
use coop_term::{Command, Streams};

use super::files::{write_private, write_private_beneath};
use crate::hook;
use crate::paths::text;
use crate::record::{Record, Server};

/// Makes ready for one more child, with a conversation of its own and a token for its hooks alone.
pub(super) fn prepare(
    known: &Known,
    launch: &Launch,
    command: &Command,
    rules: &Rules,
    session: Option<&Path>,
) -> io::Result<Prepared> {
    // Whoever was attached to the server that was there before finds this one in its place.
    let before = session.and_then(|path| Record::read(path).ok()).and_then(|record| record.server);
    let port = before.as_ref().and_then(Server::free_port);
    let launch = Launch {
        session_id: uuid::Uuid::new_v4().to_string(),
        secret: before.map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), |server| server.password),
        port: port.map_or_else(free_port, Ok)?,
        ..launch.clone()
    };
    let driver = (known.new)(rules.clone(), &launch);
    let Setup { command: argv, env, files, watch, companion, link, opening, at_home } =
        driver.setup(&launch).map_err(io::Error::other)?;
    if let Some(path) = session {
        let (driver, folder) = (known.name.to_owned(), launch.cwd.clone());
        Record { driver, folder, env: at_home.into_iter().collect(), server: Server::of(&link) }.write(path)?;
    }
    for file in &files {
        match &launch.isolated {
            Some(own) => write_private_beneath(own, file)?,
            None => write_private(file)?,
        }
    }
    let ready = companion.as_ref().and_then(|companion| companion.ready.clone());
    let argv = match ready {
        Some(ready) => once_ready(ready, argv)?,
        None => argv,
    };
    let companion = companion.map(|companion| with(command, companion.command, companion.env));
    let services = launch.allowed.anything().then(|| ServiceOptions {
        allowed: launch.allowed,
        folder: PathBuf::from(&launch.cwd),
        env: command.clone(),
    });
    let mut command = with(command, argv, env);
    let token = uuid::Uuid::new_v4().simple().to_string();
    command.env.push((hook::TOKEN.into(), Some(token.clone().into())));
    command.streams = match link {
        Link::Pipe => Streams::Pipes,
        Link::None | Link::Socket { .. } | Link::Http { .. } => Streams::Terminal,
    };
    let hook_token = Some(Token::new(token).map_err(io::Error::other)?);
    Ok(Prepared {
        command,
        driver,
        runtime: launch.runtime,
        // What settings allow is asked all the same with `ask_first`.
        permission_mode: match launch.ask_first {
            true => known.mode_in(&launch.command),
            false => known.mode_of(&launch.command, launch.settings.as_ref()),
        },
        watch,
        companion,
        link,
        opening,
        hook_token,
        services,
    })
}

/// Returns the command that waits for the companion and becomes the agent.
fn once_ready(ready: Ready, argv: Vec<String>) -> io::Result<Vec<String>> {
    let coop = text(&env::current_exe()?).map_err(io::Error::other)?;
    let wait = [coop, "await".to_owned(), ready.socket, ready.missing, argv.len().to_string(), "--".to_owned()];
    Ok([wait.to_vec(), argv, ready.instead].concat())
}

/// Returns a command with other words and more variables.
fn with(command: &Command, argv: Vec<String>, env: Vec<(String, String)>) -> Command {
    let mut argv = argv.into_iter().map(OsString::from);
    let mut command = Command { program: argv.next().unwrap_or_default(), args: argv.collect(), ..command.clone() };
    command.env.extend(env.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
    command
}

/// Returns a port that is free now. An agent's server that finds it taken says so, and is known by its secret anyway.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
