//! The process of a shim, and what is written down of it.
//!
//! Its output goes to files and not to pipes: it lives on when we end, and may write whenever it likes.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::client::Client;
use crate::adapter::AgentConfig;
use crate::bounded;
use crate::sidecar::Identity;

/// How long a shim may take until it answers.
const READY: Duration = Duration::from_secs(30);
/// The pauses between two looks whether it does.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);

/// A shim that answers, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) identity: Identity,
    pub(crate) port: u16,
}

/// Why there is no shim.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("it runs already")]
    Exists,
    #[error("{what}: {error}")]
    Io { what: &'static str, error: io::Error },
    #[error("{0}")]
    Failed(String),
}

/// Starts a shim and waits until it answers.
pub(crate) async fn launch(config: &AgentConfig, folder: &Path, port: u16) -> Result<(Running, Child), LaunchError> {
    let failed = |what: &'static str| move |error: io::Error| LaunchError::Io { what, error };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("cannot make its folder"))?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join("shim.log"));
    let log = log.map_err(failed("cannot open its log"))?;
    // The lock is the shim's with the log: as long as that lives there is no second one.
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LaunchError::Exists),
        Err(TryLockError::Error(error)) => return Err(failed("cannot lock its log")(error)),
    }
    let output = folder.join("shim.out");
    let out = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&output);
    let out = out.map_err(failed("cannot open its output"))?;
    let mut child = command(config, port, out, log).spawn().map_err(failed("cannot run it"))?;
    let started = ready(&mut child, &output, port).await;
    match started {
        Ok(running) => {
            // One that nobody could find later must not stay.
            if let Err(error) = keep(folder, "shim.json", &running) {
                end_group(&running.identity, Signal::KILL);
                return Err(failed("cannot write shim.json")(error));
            }
            Ok((running, child))
        }
        Err(why) => {
            if let Some(identity) = child.id().and_then(Identity::of) {
                end_group(&identity, Signal::KILL);
            }
            let _ = child.wait().await;
            Err(LaunchError::Failed(why))
        }
    }
}

fn command(config: &AgentConfig, port: u16, out: File, log: File) -> Command {
    let mut words = config.command.iter();
    let mut command = bounded::command(words.next().map_or("", String::as_str));
    command.args(words).envs(&config.env).env("AGENT_PORT", port.to_string()).current_dir(&config.folder);
    command.stdin(Stdio::null()).stdout(out).stderr(log).process_group(0);
    command
}

/// Waits until a shim has said where it listens, and answers there.
async fn ready(child: &mut Child, output: &Path, port: u16) -> Result<Running, String> {
    let until = Instant::now() + READY;
    let mut pause = SHORTEST;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended with {status}"));
        }
        let identity = child.id().and_then(Identity::of);
        let port = if port == 0 { said_port(output) } else { Some(port) };
        if let (Some(identity), Some(port)) = (identity, port)
            && Client::new(port).get("health").await.is_ok()
        {
            return Ok(Running { identity, port });
        }
        if Instant::now() > until {
            let what = if port.is_some() { "did not answer" } else { "did not say its port" };
            return Err(format!("it {what} within {} s", READY.as_secs()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// Returns the port that a shim's first line says.
fn said_port(output: &Path) -> Option<u16> {
    let text = fs::read_to_string(output).ok()?;
    let (line, _) = text.split_once('\n')?;
    let told: Value = serde_json::from_str(line).ok()?;
    told["port"].as_u64()?.try_into().ok()
}

/// Sends a signal to a shim and what it has started, and to nobody who has its number by now.
pub(crate) fn end_group(identity: &Identity, signal: Signal) {
    if let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw)
        && identity.is_alive()
    {
        let _ = kill_process_group(pid, signal);
    }
}

/// Writes something down, whole or not at all.
pub(crate) fn keep(folder: &Path, name: &str, what: &impl Serialize) -> io::Result<()> {
    crate::private::write(&folder.join(name), serde_json::to_string(what).map_err(io::Error::other)?)
}

pub(crate) fn kept<T: DeserializeOwned>(folder: &Path, name: &str) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(folder.join(name)).ok()?).ok()
}
