//! What an agent and all that it started use of the machine.
//!
//! The shim adopts whatever its agent leaves behind, so all of it is below the shim in the tree of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use coop_server::shim::Used;

/// How many of the kernel's ticks a second has, for every program on Linux.
const TICKS: f64 = 100.0;
const MIB: f64 = 1024.0 * 1024.0;

/// Measures; each reading says what was used since the one before.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: Mutex<Option<(Instant, BTreeMap<u32, u64>)>>,
}

/// A process, as the kernel tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    ticks: u64,
}

impl Meter {
    pub(super) fn read(&self) -> Used {
        let below = below(std::process::id(), &processes());
        let now = Instant::now();
        let ticks: BTreeMap<u32, u64> = below.iter().map(|process| (process.pid, process.ticks)).collect();
        let memory: u64 = below.iter().filter_map(|process| resident(process.pid)).sum();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu_percent = match &*last {
            Some((since, before)) => {
                let used: u64 =
                    ticks.iter().map(|(pid, ticks)| ticks.saturating_sub(before.get(pid).copied().unwrap_or(0))).sum();
                let seconds = now.duration_since(*since).as_secs_f64().max(1.0 / TICKS);
                100.0 * used as f64 / TICKS / seconds
            }
            // There is nothing to compare with yet.
            None => 0.0,
        };
        *last = Some((now, ticks));
        Used { cpu_percent, memory_mb: memory as f64 / MIB }
    }
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

fn parse(pid: u32, stat: &str) -> Option<Process> {
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process { pid, parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}

/// Returns all that one process has started, and what that has, and so on.
fn below(top: u32, processes: &[Process]) -> Vec<Process> {
    let mut known = BTreeSet::from([top]);
    let mut found = Vec::new();
    loop {
        let before = found.len();
        let new = processes.iter().filter(|process| known.contains(&process.parent) && !known.contains(&process.pid));
        found.extend(new.copied().collect::<Vec<_>>());
        known.extend(found.iter().map(|process| process.pid));
        if found.len() == before {
            return found;
        }
    }
}

/// Returns how many bytes of its memory are not swapped out.
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_below_a_process_is_found_and_nothing_beside_it() {
        let process = |pid, parent| Process { pid, parent, ticks: 0 };
        let all = [process(5, 4), process(2, 1), process(3, 1), process(4, 2), process(1, 0), process(6, 3)];
        let pids: BTreeSet<u32> = below(2, &all).iter().map(|process| process.pid).collect();
        assert_eq!(pids, BTreeSet::from([4, 5]));
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name_is() {
        let line = "7 (a ) b) S 3 7 7 0 -1 4194560 1 2 0 0 12 30 0 0 20 0 1 0 99 1 2";
        assert_eq!(parse(7, line), Some(Process { pid: 7, parent: 3, ticks: 42 }));
        assert_eq!(parse(7, "nothing"), None);
    }
}
