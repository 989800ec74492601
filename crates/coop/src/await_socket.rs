//! `coop await`: waits until something listens on a socket and becomes the program that needs it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How often to look: nothing tells that a socket listens.
const PACE: Duration = Duration::from_millis(10);

/// Becomes the first of two commands once somebody listens, else the second. Returns only if that cannot be run.
pub(crate) fn run(socket: &Path, missing: &Path, within: Duration, words: usize, commands: &[OsString]) -> io::Error {
    let (wanted, instead) = commands.split_at(words.min(commands.len()));
    let until = Instant::now() + within;
    let mut listens = UnixStream::connect(socket).is_ok();
    while !listens && Instant::now() < until {
        thread::sleep(PACE);
        listens = UnixStream::connect(socket).is_ok();
    }
    if !listens {
        // The file is how the agent's driver learns of it; the words are for the person in front of it.
        let told = format!("coop: nobody listens on {}\r\n", socket.display());
        let _ = io::stdout().write_all(told.as_bytes()).and_then(|()| io::stdout().flush());
        if let Err(error) = tell(missing) {
            return error;
        }
    }
    let chosen = if listens { wanted } else { instead };
    match chosen {
        [program, args @ ..] => Command::new(program).args(args).exec(),
        [] => io::Error::other("there is nothing to run"),
    }
}

/// Writes that the companion is missing, in a folder that is made for it.
fn tell(missing: &Path) -> io::Result<()> {
    fs::create_dir_all(missing.parent().unwrap_or(missing))?;
    fs::write(missing, r#"{"companion":"missing"}"#)
}
