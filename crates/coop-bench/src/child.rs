//! What runs on the terminals that are measured: the same programs on a bare PTY, in coop and in tmux.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::report;

/// Asks the terminal where its cursor is. It answers once it has taken in everything before.
pub(crate) const QUESTION: &[u8] = b"\x1b[6n";
/// The answer ends with this.
const ANSWER_END: u8 = b'R';
/// What `cat` and most others write at once.
const CHUNK: usize = 64 * 1024;
/// Written once the terminal is set up.
pub(crate) const READY: u8 = b'+';

/// Writes a file and reports how long that took, until the terminal has taken in the last of it.
pub(crate) fn cat(file: &Path, path: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file)?;
    let mut terminal = Terminal::take(Mode::Quiet)?;
    report::send(path, terminal.write_timed(&bytes)?)
}

/// Does the same once something is typed.
pub(crate) fn cat_when_told(file: &Path, path: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file)?;
    let mut terminal = Terminal::take(Mode::Quiet)?;
    terminal.read_byte()?;
    report::send(path, terminal.write_timed(&bytes)?)
}

pub(crate) fn flood(file: &Path, seconds: u64) -> anyhow::Result<()> {
    let bytes = fs::read(file)?;
    let mut terminal = Terminal::take(Mode::Quiet)?;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < deadline {
        for chunk in bytes.chunks(CHUNK) {
            terminal.output.write_all(chunk)?;
        }
    }
    Ok(())
}

/// Writes every byte that is typed, until the terminal is gone.
pub(crate) fn echo() -> anyhow::Result<()> {
    let mut terminal = Terminal::take(Mode::Raw)?;
    terminal.output.write_all(&[READY])?;
    loop {
        let byte = terminal.read_byte()?;
        terminal.output.write_all(&[byte])?;
    }
}

/// Ends when something is typed, and reports when.
pub(crate) fn exit(path: &Path) -> anyhow::Result<()> {
    let mut terminal = Terminal::take(Mode::Raw)?;
    terminal.output.write_all(&[READY])?;
    terminal.read_byte()?;
    report::send(path, report::now())
}

enum Mode {
    /// Keys come at once and are not echoed; output is processed as it is for most programs.
    Quiet,
    Raw,
}

/// The terminal we run on, without std's buffers in between.
struct Terminal {
    input: File,
    output: File,
}

impl Terminal {
    fn take(mode: Mode) -> anyhow::Result<Self> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut attributes = tcgetattr(&input)?;
        match mode {
            Mode::Quiet => attributes.local_modes -= LocalModes::ICANON | LocalModes::ECHO,
            Mode::Raw => attributes.make_raw(),
        }
        tcsetattr(&input, OptionalActions::Now, &attributes)?;
        Ok(Self { input, output })
    }

    fn read_byte(&mut self) -> anyhow::Result<u8> {
        let mut byte = [0];
        match self.input.read(&mut byte)? {
            0 => bail!("the terminal is gone"),
            _ => Ok(byte[0]),
        }
    }

    fn write_timed(&mut self, bytes: &[u8]) -> anyhow::Result<Duration> {
        let began = Instant::now();
        for chunk in bytes.chunks(CHUNK) {
            self.output.write_all(chunk)?;
        }
        self.output.write_all(QUESTION)?;
        while self.read_byte()? != ANSWER_END {}
        Ok(began.elapsed())
    }
}
