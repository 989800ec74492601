//! What an agent can do of what is wanted of it, said before anything runs.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};
use coop_api::Capability;
use coop_drivers::{Driver, Known, Launch, SetupError};
use coop_session::{StartConfig, StopConfig, StopMode};
use coop_term::Command;

/// How long a program may take to say its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// Refuses options of ours that an agent's driver would not heed. The conversation to go on with may be one that a file names.
pub(super) fn heeded(
    driver: &dyn Driver,
    known: &Known,
    launch: &Launch,
    by_file: Option<(&Path, &str)>,
) -> anyhow::Result<()> {
    let heeds = driver.heeds();
    let (name, runtime) = (known.name, launch.runtime.as_str());
    if let Some((file, conversation)) = by_file.filter(|_| !heeds.resume) {
        let file = file.display();
        bail!(
            "{file} names the conversation {conversation}, and coop cannot go on with one for {name} run as {runtime}; delete {file} to begin without"
        );
    }
    if launch.resume.is_some() && !heeds.resume {
        bail!("--resume: coop cannot do that for {name} run as {runtime}; give {name} its own option for it");
    }
    if launch.allowed.anything() && !heeds.allowed {
        bail!("--acp-allow: {name} run as {runtime} does not speak ACP");
    }
    if launch.isolated.is_some() && !heeds.isolated {
        bail!(
            "--isolate: coop cannot give {name} run as {runtime} a configuration of its own; set one by its own variables"
        );
    }
    if launch.settings.is_some() && !heeds.settings {
        bail!("--agent-config: coop has no way to hand settings to {name} run as {runtime}");
    }
    if launch.ask_first && !heeds.ask_first {
        bail!("--ask-first: coop cannot make {name} run as {runtime} ask about each tool");
    }
    if !launch.mcp.is_empty() && !heeds.mcp {
        bail!("coop has no way to hand servers of tools to {name} run as {runtime}");
    }
    Ok(())
}

/// Names the file in what a driver says of a conversation that is not named by `--resume` but by a file.
pub(super) fn with_file(wrong: SetupError, by_file: Option<(&Path, &str)>) -> anyhow::Error {
    match (wrong.0.strip_prefix("--resume: "), by_file) {
        (Some(why), Some((file, conversation))) => {
            let file = file.display();
            anyhow!("--session-file {file} names the conversation {conversation}: {why}; leave one of them out")
        }
        _ => wrong.into(),
    }
}

/// Refuses a gate that would hold nothing and a start text that nobody would be told.
pub(super) fn offered(
    driver: &dyn Driver,
    known: &Known,
    launch: &Launch,
    stop: &StopConfig,
    start: &StartConfig,
) -> anyhow::Result<()> {
    let (name, runtime, offered) = (known.name, launch.runtime.as_str(), driver.capabilities());
    if stop.mode != StopMode::Allow && !offered.contains(&Capability::StopGate) {
        bail!("--agent-config: the end of a turn cannot be held for {name} run as {runtime}; use stop mode allow");
    }
    if *start != StartConfig::default() && !offered.contains(&Capability::StartContext) {
        bail!("--agent-config: {name} run as {runtime} cannot be told anything at its start; leave out start");
    }
    Ok(())
}

/// Returns what the agent's program says of its version; nothing if it says nothing in time.
pub(super) fn version(command: &Command, launch: &Launch) -> Option<String> {
    let (program, args) = launch.split().0.split_first()?;
    let args = args.iter().map(String::as_str).chain(["--version"]).map(OsString::from).collect();
    let mut asked = Command { program: program.into(), args, ..command.clone() }.without_terminal();
    asked.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = asked.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = io::Read::read_to_string(&mut stdout, &mut text);
        // If nobody waits any more, it took too long.
        let _ = tell.send(read.map(|_| text));
    });
    let text = told.recv_timeout(VERSION_WITHIN);
    let _ = child.kill();
    let _ = child.wait();
    let text = text.ok()?.ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}
