//! `coop await`: waits until something listens on a socket and becomes the program that needs it.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait. A server that starts at all does so within a second, on a busy machine within a few.
const LIMIT: Duration = Duration::from_secs(15);
/// How often to look: nothing tells that a socket listens.
const PACE: Duration = Duration::from_millis(10);

/// Becomes the first of two commands once somebody listens, else the second. Returns only if that cannot be run.
pub(crate) fn run(socket: &Path, words: usize, commands: &[OsString]) -> io::Error {
    let (wanted, instead) = commands.split_at(words.min(commands.len()));
    let until = Instant::now() + LIMIT;
    let mut listens = UnixStream::connect(socket).is_ok();
    while !listens && Instant::now() < until {
        thread::sleep(PACE);
        listens = UnixStream::connect(socket).is_ok();
    }
    let chosen = if listens { wanted } else { instead };
    match chosen {
        [program, args @ ..] => Command::new(program).args(args).exec(),
        [] => io::Error::other("there is nothing to run"),
    }
}
