//! The terminal: raw mode for as long as we live, and its size.

use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::claude::face::Size;

/// Puts the terminal back as it was when dropped.
pub(crate) struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

impl RawMode {
    pub(crate) fn enter(terminal: OwnedFd) -> rustix::io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // The terminal may be gone; then there is nothing to put back.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

pub(crate) fn size(terminal: impl AsFd) -> Size {
    match tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size { cols: size.ws_col.into(), rows: size.ws_row.into() },
        Ok(_) | Err(_) => Size::default(),
    }
}
