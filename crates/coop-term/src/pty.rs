//! A program on a terminal of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use coop_api::Size;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::process::{self, Exit, Target};

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// The program; looked up in `PATH` if it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set; those without a value are taken away from what we inherited.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Where to run it, if not here.
    pub cwd: Option<PathBuf>,
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program could not be executed.
    #[error("cannot run {program:?}: {source}; check its name and that it is on PATH")]
    Exec {
        /// What was to be run.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// There was no terminal to be had.
    #[error("cannot make a terminal for the child: {0}")]
    Terminal(#[source] io::Error),
}

/// A running child with the master side of its terminal.
///
/// The child leads its own session and process group. Dropping this closes the terminal, which hangs the child up.
#[derive(Debug)]
pub struct Child {
    master: AsyncFd<OwnedFd>,
    exit: AsyncFd<OwnedFd>,
    pid: Pid,
}

/// What reading the terminal brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// This many bytes.
    Bytes(usize),
    /// Nothing now.
    Blocked,
    /// Nobody has the other side open any more.
    End,
}

impl Child {
    /// Starts a program on a new terminal. Must be called within a tokio runtime with I/O enabled.
    pub fn spawn(command: &Command, size: Size) -> Result<Self, SpawnError> {
        let terminal = |error: pty_process::Error| SpawnError::Terminal(to_io(error));
        let (pty, pts) = pty_process::blocking::open().map_err(terminal)?;
        let size_of = pty_process::Size::new(size.rows(), size.cols());
        pty.resize(size_of).map_err(terminal)?;
        set_utf8(&pts).map_err(|error| SpawnError::Terminal(error.into()))?;

        let mut builder = pty_process::blocking::Command::new(&command.program).args(&command.args);
        for (name, value) in &command.env {
            builder = match value {
                Some(value) => builder.env(name, value),
                None => builder.env_remove(name),
            };
        }
        if let Some(cwd) = &command.cwd {
            builder = builder.current_dir(cwd);
        }
        let child = builder
            .spawn(pts)
            .map_err(|error| SpawnError::Exec { program: command.program.clone(), source: to_io(error) })?;
        let pid = Pid::from_child(&child);
        // Nobody but us reaps it, so its number cannot be another's yet.
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|error| SpawnError::Terminal(error.into()))?;
        let master: OwnedFd = pty.into();
        rustix::io::ioctl_fionbio(&master, true).map_err(|error| SpawnError::Terminal(error.into()))?;
        Ok(Self {
            master: watch(master, Interest::READABLE | Interest::WRITABLE).map_err(SpawnError::Terminal)?,
            exit: watch(pidfd, Interest::READABLE).map_err(SpawnError::Terminal)?,
            pid,
        })
    }

    /// Returns the child's process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the terminal may have something to read.
    pub async fn readable(&self) -> io::Result<()> {
        self.master.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Waits until the terminal may take something.
    pub async fn writable(&self) -> io::Result<()> {
        self.master.writable().await.map(|mut guard| guard.retain_ready())
    }

    /// Reads what there is.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        match self.master.try_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?)) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(read) => Ok(ReadOutcome::Bytes(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(ReadOutcome::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(ReadOutcome::Blocked),
            // What Linux says once the last process has closed the other side.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(ReadOutcome::End),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the terminal takes now, which may be nothing.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.master.try_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            outcome => outcome,
        }
    }

    /// Gives the terminal another size; the child is told by SIGWINCH.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows(), ws_col: size.cols(), ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.master.get_ref(), size)?)
    }

    /// Signals the child and those with it.
    pub fn signal(&self, signal: Signal, target: Target) -> io::Result<()> {
        Ok(process::signal(self.pid, signal, target)?)
    }

    /// Waits until the child has ended. Does not reap it: see [`Child::reap`].
    pub async fn ended(&self) -> io::Result<()> {
        self.exit.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Returns how the child ended, if it has, and frees its process id.
    pub fn reap(&self) -> io::Result<Option<Exit>> {
        let status = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        Ok(status.map(|status| Exit { code: status.exit_status(), signal: status.terminating_signal() }))
    }
}

#[expect(deprecated, reason = "its successor is unsafe for descriptors that may change; an OwnedFd cannot")]
fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// Lets the line editor of a cooked terminal erase whole characters.
fn set_utf8(pts: &impl std::os::fd::AsFd) -> rustix::io::Result<()> {
    let mut attributes = tcgetattr(pts)?;
    attributes.input_modes |= InputModes::IUTF8;
    tcsetattr(pts, OptionalActions::Now, &attributes)
}

fn to_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}
