//! A PTY with nothing around it: the best that could be had.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, bail};
use pty_process::blocking::{Command, Pty, open};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::child::QUESTION;
use crate::process::{LIMIT, Process};

/// What is read at once, at most; the kernel gives less.
const BUFFER: usize = 64 * 1024;
const ANSWER: &[u8] = b"\x1b[1;1R";

pub(crate) struct Bare {
    pty: Arc<Pty>,
    pub(crate) child: Process,
}

impl Bare {
    pub(crate) fn start(command: &[&OsStr]) -> anyhow::Result<Self> {
        let (pty, pts) = open().context("cannot open a PTY")?;
        pty.resize(pty_process::Size::new(50, 200))?;
        let (program, arguments) = command.split_first().context("nothing to run")?;
        let child = Command::new(program).args(arguments).spawn(pts).context("cannot start a child on a PTY")?;
        Ok(Self { pty: Arc::new(pty), child: Process::new(child) })
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.pty).write_all(bytes)
    }

    /// Waits for output and returns how much there was; none once the child has closed its terminal.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> anyhow::Result<usize> {
        let mut fds = [PollFd::from_borrowed_fd(self.pty.as_fd(), PollFlags::IN)];
        let limit = Timespec { tv_sec: LIMIT.as_secs().try_into()?, tv_nsec: 0 };
        if poll(&mut fds, Some(&limit))? == 0 {
            bail!("nothing came from the PTY within {LIMIT:?}");
        }
        match (&*self.pty).read(buffer) {
            Ok(length) => Ok(length),
            // What Linux says once nobody has the other side open.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Throws away all output until the child is gone, on a thread that does nothing else.
    pub(crate) fn drain(&self) -> io::Result<JoinHandle<()>> {
        let pty = Arc::clone(&self.pty);
        thread::Builder::new().name("drain".into()).spawn(move || drain(&pty))
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.child.wait(limit).map(drop)
    }
}

fn drain(mut pty: &Pty) {
    let mut buffer = vec![0; BUFFER];
    let mut last = [0; QUESTION.len()];
    while let Ok(length @ 1..) = pty.read(&mut buffer) {
        let kept = length.min(last.len());
        last.rotate_left(kept);
        let at = last.len() - kept;
        last[at..].copy_from_slice(&buffer[length - kept..length]);
        if last == QUESTION && pty.write_all(ANSWER).is_err() {
            return;
        }
    }
}
