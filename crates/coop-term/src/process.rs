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

/// Signals what runs in the sandbox whose outermost process leads a session. Two processes of bubblewrap's are in that session
/// too: one outside, one inside as the first. If a signal ends either, the kernel kills everything in the sandbox.
pub(crate) fn signal_in_sandbox(leader: Pid, signal: Signal, target: Target) -> rustix::io::Result<()> {
    /// The program: the first that bubblewrap starts inside.
    const PROGRAM: i32 = 2;
    if (signal, target) == (Signal::KILL, Target::Session) {
        return kill_process(leader, signal);
    }
    let members = session_members(leader).into_iter().filter_map(|pid| Some((pid, number_inside(pid)?)));
    for (pid, number) in members {
        match target {
            // It leads a group as soon as it has taken the terminal.
            Target::Group if number == PROGRAM => {
                return kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal));
            }
            // It may have ended meanwhile.
            Target::Session if number >= PROGRAM => kill_process(pid, signal).unwrap_or_default(),
            Target::Group | Target::Session => {}
        }
    }
    match target {
        Target::Group => Err(rustix::io::Errno::SRCH),
        Target::Session => Ok(()),
    }
}

/// Returns the number that a process has in a PID namespace within ours.
fn number_inside(pid: Pid) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().nth(1)?.parse().ok()
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
