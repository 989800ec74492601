//! Processes as coop sees them: how they ended, and how to reach all of them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The child's own process group.
    Group,
    /// Every process of the child's terminal session, whatever group a shell put it into.
    Session,
}

/// Sends a signal to every process that still lives of the session that this one leads, or led.
pub fn signal_session(leader: u32, signal: Signal) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        signal_members(leader, signal);
    }
}

/// Tells whether no process of the session is left that this one leads, or led.
pub fn session_is_empty(leader: u32) -> bool {
    i32::try_from(leader).ok().and_then(Pid::from_raw).is_none_or(|leader| session_members(leader).is_empty())
}

fn signal_members(leader: Pid, signal: Signal) {
    for pid in session_members(leader) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

pub(crate) fn signal(leader: Pid, signal: Signal, target: Target) -> rustix::io::Result<()> {
    match target {
        Target::Group => kill_process_group(leader, signal),
        Target::Session => {
            signal_members(leader, signal);
            Ok(())
        }
    }
}

/// Returns the processes whose session is `leader`'s, by reading `/proc`.
fn session_members(leader: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![leader] };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Pid::from_raw)
        .filter(|&pid| session_of(pid) == Some(leader.as_raw_nonzero().get()))
        .collect()
}

/// Field 6 of `/proc/PID/stat`; the name before it may hold blanks and parentheses.
fn session_of(pid: Pid) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(3)?.parse().ok()
}
