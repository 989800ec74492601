//! A program on a terminal of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use coop_api::Size;
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
    #[error("cannot run {program:?}; check its name and that it is on PATH")]
    Exec {
        /// What was to be run.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// There was no terminal to be had.
    #[error("cannot make a terminal for the child")]
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

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Output.
    pub output: bool,
    /// Room for input.
    pub writable: bool,
    /// The child's end.
    pub end: bool,
}

/// Something that happened to a child.
#[derive(Debug)]
pub enum ChildEvent {
    /// Its terminal may have output to read.
    Readable,
    /// Its terminal may take more input.
    Writable,
    /// It has ended. It is not reaped yet: see [`Child::reap`].
    Ended,
}

/// What reading a child's terminal brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// This many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing ever more: nobody has the terminal open.
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

    /// Waits for the next of what is asked for. Cancel safe.
    pub async fn event(&self, wants: Wants) -> ChildEvent {
        tokio::select! {
            // An error shows again, and with its reason, in the read or write.
            _ = self.master.readable(), if wants.output => ChildEvent::Readable,
            _ = self.master.writable(), if wants.writable => ChildEvent::Writable,
            _ = self.exit.readable(), if wants.end => ChildEvent::Ended,
            else => std::future::pending().await,
        }
    }

    /// Reads what there is, as far as the buffer goes; the kernel gives about 4 KiB at once.
    pub fn read(&self, buffer: &mut [u8]) -> Output {
        match self.master.try_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?)) {
            Ok(0) => Output::End,
            Ok(length) => Output::Bytes(length),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Output::Nothing
            }
            // EIO is what Linux says once the last process has closed the other side; other errors end it too.
            Err(_) => Output::End,
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
