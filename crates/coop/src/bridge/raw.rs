//! The bridge's own terminal: raw while the bridge runs, and as it was afterwards.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize, ttyname};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::BridgeError;

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) cols: u16,
    pub(super) rows: u16,
}

/// The terminal on standard input and output, in raw mode until this is dropped.
pub(super) struct Terminal {
    tty: Tty,
    before: Termios,
}

impl Terminal {
    /// Takes the terminal over: no echo, no line editing, no signals from keys, no changed line ends.
    pub(super) fn open() -> Result<Self, BridgeError> {
        let before = tcgetattr(stdin()).map_err(|_| BridgeError::NotATerminal)?;
        let tty = reopen().map_err(BridgeError::Terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        // What was typed already stays; it is for the session.
        tcsetattr(&tty, OptionalActions::Now, &raw).map_err(|error| BridgeError::Terminal(error.into()))?;
        Ok(Self { tty, before })
    }

    /// Returns the terminal's size.
    pub(super) fn size(&self) -> Result<Size, BridgeError> {
        let size = tcgetwinsize(&self.tty).map_err(|error| BridgeError::Terminal(error.into()))?;
        match (size.ws_col, size.ws_row) {
            // Nobody has said how large the terminal is.
            (0, _) | (_, 0) => Ok(Size { cols: 80, rows: 24 }),
            (cols, rows) => Ok(Size { cols, rows }),
        }
    }

    /// Reads what was typed; nothing if the terminal has been hung up.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> Result<usize, BridgeError> {
        self.tty.read(buffer).await.map_err(BridgeError::Terminal)
    }

    /// Writes all of this.
    pub(super) async fn write_all(&self, bytes: &[u8]) -> Result<(), BridgeError> {
        self.tty.write_all(bytes).await.map_err(BridgeError::Terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If it is gone, there is nothing to restore.
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }
}

/// One side of a terminal that never blocks the thread.
pub(super) struct Tty(AsyncFd<OwnedFd>);

impl Tty {
    /// Takes a descriptor whose file is not shared with another process: it becomes non-blocking.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        watch(fd, Interest::READABLE | Interest::WRITABLE).map(Self)
    }

    /// Reads what there is; nothing if the other side is closed.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.async_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?)).await;
        match read {
            // What Linux says once the last process has closed the other side.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }

    /// Writes all of this.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.0.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Gives the terminal another size; those on the other side are told by SIGWINCH.
    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self, size)?)
    }
}

impl AsFd for Tty {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

/// Watches a descriptor that belongs to the watcher.
#[expect(deprecated, reason = "its successor is unsafe for descriptors that may change; an OwnedFd cannot")]
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// Opens the terminal anew, because others hold standard input too and must not find it non-blocking.
fn reopen() -> io::Result<Tty> {
    let path = ttyname(stdin(), Vec::new())?;
    Tty::new(open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}
