//! `coop guard`: ends an agent whose sidecar was killed. Some agents outlive their terminal, and what they have started may
//! have left their session.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use coop_term::{session_is_empty, signal_session};
use rustix::process::{Pid, Signal, kill_process};

/// How long processes may take to end before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked whether they have.
const PACE: Duration = Duration::from_millis(50);

/// Waits until the sidecar is gone, and ends the agent's sessions and every process that was given the agent's socket.
pub(crate) fn run(socket: &Path, leaders: &[u32]) {
    // The pipe is never written to: it breaks when the sidecar is gone.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    let variable = [b"COOP_SOCKET=", socket.as_os_str().as_encoded_bytes()].concat();
    let signal = |signal: Signal| {
        leaders.iter().for_each(|&leader| signal_session(leader, signal));
        // One may have ended meanwhile.
        processes_with(&variable).into_iter().for_each(|pid| kill_process(pid, signal).unwrap_or_default());
    };
    signal(Signal::HUP);
    signal(Signal::TERM);
    let until = Instant::now() + GRACE;
    let is_over = || leaders.iter().all(|&leader| session_is_empty(leader)) && processes_with(&variable).is_empty();
    while Instant::now() < until && !is_over() {
        thread::sleep(PACE);
    }
    signal(Signal::KILL);
}

/// Returns the processes of this user with a variable in their environment.
fn processes_with(variable: &[u8]) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_it = |entry: &fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable)
    };
    let number = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    entries.filter(has_it).filter_map(number).collect()
}
