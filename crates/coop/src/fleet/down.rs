//! `coop down`.

use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use tokio::io::Interest;
use tokio::time::timeout;

use super::ask::Daemon;
use crate::bridge::watch;

/// Agents may take their time to end, and what is being done may come to its end before.
const LONGEST: Duration = Duration::from_secs(120);

/// Ends the daemon, and waits until it has ended: what comes after that, a new daemon or the end of a test, must not meet it
/// or its agents.
pub(super) async fn down(daemon: &Daemon, kill: bool) -> anyhow::Result<i32> {
    let pid = daemon.get("health").await?["pid"].as_i64();
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    // Before it is told, so that it is this process and no other that has its number by then.
    let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok());
    let answer = daemon.post("down", &json!({ "kill": kill })).await?;
    if let Some(process) = process {
        let process = watch(process, Interest::READABLE)?;
        let ended = timeout(LONGEST, process.readable()).await;
        ended.context("the daemon was told to end and has not yet; see `coop status`")??.retain_ready();
    }
    daemon.done(&answer)
}
