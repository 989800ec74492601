//! The person's own terminal: taken, and given back whatever happens.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Once;

use coop_api::Size;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Alternate screen on, cleared.
const ENTER: &str = "\x1b[?1049h\x1b[H\x1b[2J";
/// Everything an agent may have had us switch on goes off, then the screen of before comes back.
const LEAVE: &str = "\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[<9u\
                     \x1b[0 q\x1b[0m\x1b[?25h\x1b[?1049l";

pub(super) struct Local {
    tty: File,
    before: Termios,
}

impl Local {
    pub(super) fn take() -> io::Result<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty")?;
        if !rustix::termios::isatty(io::stdin()) {
            return Err(io::Error::other("standard input is not a terminal"));
        }
        let before = tcgetattr(&tty)?;
        let mut raw = before.clone();
        raw.make_raw();
        restore_on_panic(before.clone());
        tcsetattr(&tty, OptionalActions::Now, &raw)?;
        let mut local = Self { tty, before };
        local.write(ENTER)?;
        Ok(local)
    }

    pub(super) fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(&self.tty)?;
        // A terminal that does not know its size says zero.
        let (cols, rows) = (size.ws_col.clamp(Size::MIN_COLS, 1000), size.ws_row.clamp(1, 250));
        Ok(Size::new(cols.into(), rows.into()).unwrap_or(Size::DEFAULT))
    }

    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        self.tty.write_all(text.as_bytes())?;
        self.tty.flush()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.write(LEAVE);
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }
}

fn restore_on_panic(before: Termios) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if let Ok(mut tty) = File::options().write(true).open("/dev/tty") {
                let _ = tty.write_all(LEAVE.as_bytes());
                let _ = tcsetattr(&tty, OptionalActions::Now, &before);
            }
            hook(info);
        }));
    });
}
