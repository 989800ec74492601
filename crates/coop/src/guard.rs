//! `coop guard`: ends an agent whose sidecar was killed. Some agents outlive their terminal.

use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

use coop_term::{session_is_empty, signal_session};
use rustix::process::Signal;

/// How long processes may take to end before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked whether they have.
const PACE: Duration = Duration::from_millis(50);

/// Waits until the sidecar is gone, and ends what it has left behind.
pub(crate) fn run(leaders: &[u32]) {
    // The pipe is never written to: it breaks when the sidecar is gone.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    for &leader in leaders {
        signal_session(leader, Signal::HUP);
        signal_session(leader, Signal::TERM);
    }
    let until = Instant::now() + GRACE;
    while Instant::now() < until && !leaders.iter().all(|&leader| session_is_empty(leader)) {
        thread::sleep(PACE);
    }
    for &leader in leaders {
        signal_session(leader, Signal::KILL);
    }
}
