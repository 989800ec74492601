//! `shell`: a command, for at most so long, with all it starts.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, timeout_at};

use super::Root;
use super::capture::Capture;
use crate::process::{Group, command};
use crate::{Effect, Tool, ToolCx, ToolError, typed};

#[derive(Deserialize, JsonSchema)]
struct Shell {
    /// The command, as for `sh -c`.
    command: String,
    /// Seconds after which it is stopped; 120 if left out.
    seconds: Option<u64>,
}

const USUAL_TIME: Duration = Duration::from_secs(120);
/// What is left of the tool's own time to tell what happened.
const TO_TELL: Duration = Duration::from_millis(200);
/// How long to wait for the rest of the output of a program that has left the group and holds on to the pipe.
const TO_DRAIN: Duration = Duration::from_millis(200);
/// How long programs that were killed may take to let go of it: on a busy machine they have to wait for their turn to die.
const TO_DIE: Duration = Duration::from_secs(10);

pub(super) fn tool(root: &Root) -> Arc<dyn Tool> {
    let root = root.clone();
    let about = "Runs a shell command in the folder and shows what it prints. It has no input and no terminal. \
                 What it leaves in the background ends with it.";
    Arc::new(
        typed("shell", about, move |shell: Shell, cx: ToolCx| {
            let root = root.clone();
            async move { run(root.path(), &shell, &cx).await }
        })
        .with_effect(Effect::Run),
    )
}

async fn run(folder: &Path, shell: &Shell, cx: &ToolCx) -> Result<String, ToolError> {
    let begun = Instant::now();
    let time = shell.seconds.map_or(USUAL_TIME, Duration::from_secs);
    let latest = cx.deadline.checked_sub(TO_TELL).unwrap_or(cx.deadline);
    let deadline = begun.checked_add(time).map_or(latest, |deadline| deadline.min(latest));
    let (mut output, mut group) = start(folder, &shell.command)?;
    let mut capture = Capture::default();
    let ended = timeout_at(deadline, until_end(&mut group, &mut output, &mut capture)).await;
    if ended.is_err() {
        group.kill();
    }
    let last = cx.deadline.checked_sub(TO_TELL / 2).unwrap_or(cx.deadline).min(Instant::now() + TO_DIE);
    let is_whole = read_rest(&group, &mut output, &mut capture, last).await;
    let mut text = capture.text();
    if !is_whole {
        text.push_str("\n[a program that it started still runs]");
    }
    match ended {
        Ok(Ok(status)) if status.success() => Ok(text),
        Ok(Ok(status)) => Err(ToolError::Failed(format!("{text}\n[{}]", how(status)))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ToolError::Failed(format!("{text}\n[stopped after {:?}]", deadline - begun))),
    }
}

/// Starts a command; both of its outputs are one pipe, so that their order is kept.
fn start(folder: &Path, text: &str) -> std::io::Result<(Receiver, Group)> {
    let (reader, writer) = std::io::pipe()?;
    let mut shell = command("/bin/sh");
    shell.arg("-c").arg(text).current_dir(folder).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    // The command holds the pipe's other end, and goes with this call.
    let group = Group::spawn(shell)?;
    Ok((Receiver::from_owned_fd(reader.into())?, group))
}

async fn until_end(group: &mut Group, output: &mut Receiver, capture: &mut Capture) -> std::io::Result<ExitStatus> {
    tokio::select! {
        status = group.wait() => status,
        // The pipe can end first, if the command closes its output.
        error = forever(output, capture) => Err(error),
    }
}

/// Reads to the end of the output, and tells whether that came. What was killed is waited for, what wants to stay is not.
async fn read_rest(group: &Group, output: &mut Receiver, capture: &mut Capture, last: Instant) -> bool {
    loop {
        let until = last.min(Instant::now() + TO_DRAIN);
        if timeout_at(until, drain(output, capture)).await.is_ok() {
            return true;
        }
        if Instant::now() >= last || !group.is_dying() {
            return false;
        }
    }
}

async fn forever(output: &mut Receiver, capture: &mut Capture) -> std::io::Error {
    match drain(output, capture).await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

async fn drain(output: &mut Receiver, capture: &mut Capture) -> std::io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        match output.read(&mut buffer).await? {
            0 => return Ok(()),
            count => capture.push(&buffer[..count]),
        }
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}
