//! Processes that work in a folder.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;
use tokio::time::timeout;

/// How long a process may take to end by itself, once it was told.
const GRACE: Duration = Duration::from_secs(10);
/// How often those that come up meanwhile are ended too.
const ROUNDS: usize = 5;
/// More ancestors than any process has.
const MOST_ANCESTORS: usize = 1024;

/// A process that is in the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Blocker {
    /// Its number.
    pub pid: u32,
    /// What it is.
    pub name: String,
}

/// Returns the processes that work in a folder or below it, but for those that come from these.
pub(super) fn find(folder: &Path, but: &[u32]) -> Vec<Blocker> {
    let parents = parents();
    let comes_from = |pid: u32| {
        let line = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        line.take(MOST_ANCESTORS).any(|pid| but.contains(&pid))
    };
    let is_inside = |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(folder));
    let mut found: Vec<_> =
        parents.keys().copied().filter(is_inside).filter(|pid| !comes_from(*pid)).map(named).collect();
    found.sort();
    found
}

/// Ends the processes that work in a folder, first kindly. Returns those that are still there. Our own is never ended.
pub(super) async fn end(folder: &Path) -> Vec<Blocker> {
    for _ in 0..ROUNDS {
        let found = find(folder, &[]);
        let others: Vec<_> = found.iter().filter(|blocker| blocker.pid != std::process::id()).collect();
        if others.is_empty() {
            return found;
        }
        futures_util::future::join_all(others.iter().map(|blocker| end_one(blocker.pid, folder))).await;
    }
    find(folder, &[])
}

/// Waits a while for whoever works in a folder and is about to end, such as what an agent leaves behind for a moment. Returns
/// those that are still there.
pub(super) async fn outlast(folder: &Path) -> Vec<Blocker> {
    let ended = async {
        while let Some(blocker) = find(folder, &[]).first() {
            match held(blocker.pid).map(readable) {
                Some(Ok(watched)) => drop(watched.readable().await),
                // It is gone, or cannot be watched; then we look again.
                Some(Err(_)) | None => yield_now().await,
            }
        }
    };
    let _ = timeout(GRACE, ended).await;
    find(folder, &[])
}

/// Holds on to a process, so that its number is no other's.
fn held(pid: u32) -> Option<OwnedFd> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(raw, PidfdFlags::empty()).ok()
}

async fn end_one(pid: u32, folder: &Path) {
    let Some(handle) = held(pid) else { return };
    // The number may have been given to another before we held on to it.
    if !fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(folder)) {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        // It may be gone, or be somebody else's; the next look tells.
        let _ = pidfd_send_signal(&handle, signal);
        let Ok(copy) = handle.try_clone() else { return };
        if let Ok(watched) = readable(copy)
            && timeout(GRACE, watched.readable()).await.is_ok()
        {
            return;
        }
    }
}

#[expect(deprecated, reason = "its successor is unsafe for descriptors that may change; an OwnedFd cannot")]
fn readable(handle: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE)
}

fn named(pid: u32) -> Blocker {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Blocker { pid, name: name.trim().to_owned() }
}

/// Returns every process that there is, with its parent.
fn parents() -> HashMap<u32, u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, also blanks and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        // One that has ended and was not waited for works nowhere.
        let is_there = fields.next()? != "Z";
        Some((pid, fields.next()?.parse().ok()?)).filter(|_| is_there)
    };
    pids.filter_map(parent).collect()
}
