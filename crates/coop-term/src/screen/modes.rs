//! Setting and reporting modes.

use coop_api::Mouse;

use super::terminal::Terminal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModeKind {
    Ansi,
    Private,
}

impl Terminal {
    pub(super) fn set_mode(&mut self, kind: ModeKind, mode: u16, on: bool) {
        match kind {
            ModeKind::Ansi => self.set_ansi_mode(mode, on),
            ModeKind::Private => self.set_private_mode(mode, on),
        }
    }

    fn set_ansi_mode(&mut self, mode: u16, on: bool) {
        match mode {
            4 => self.flags.insert = on,
            20 => self.flags.newline = on,
            _ => {}
        }
    }

    fn set_private_mode(&mut self, mode: u16, on: bool) {
        let flags = &mut self.flags;
        match mode {
            1 => flags.app_cursor = on,
            6 => {
                flags.origin = on;
                self.goto(0, 0);
            }
            7 => flags.autowrap = on,
            12 => self.cursor_style.1 = on,
            25 => flags.cursor_visible = on,
            45 => flags.reverse_wrap = on,
            47 | 1047 => {
                if on {
                    self.enter_alt();
                } else {
                    self.leave_alt();
                }
            }
            66 => flags.app_keypad = on,
            9 | 1000 => flags.mouse = if on { Mouse::Click } else { Mouse::Off },
            1002 => flags.mouse = if on { Mouse::Drag } else { Mouse::Off },
            1003 => flags.mouse = if on { Mouse::Motion } else { Mouse::Off },
            1004 => flags.focus = on,
            1006 => flags.sgr_mouse = on,
            1048 => {
                if on {
                    self.save_cursor();
                } else {
                    self.restore_cursor();
                }
            }
            1049 => {
                if on {
                    self.save_cursor();
                    self.enter_alt();
                } else {
                    self.leave_alt();
                    self.restore_cursor();
                }
            }
            2004 => flags.bracketed_paste = on,
            2026 => flags.synchronized = on,
            _ => {}
        }
    }

    /// DECRQM: 1 is on, 2 is off, 0 is not known.
    pub(super) fn report_mode(&mut self, kind: ModeKind, mode: u16) {
        let (mark, value) = match kind {
            ModeKind::Ansi => ("", self.ansi_mode(mode)),
            ModeKind::Private => ("?", self.private_mode(mode)),
        };
        let value = match value {
            Some(true) => 1,
            Some(false) => 2,
            None => 0,
        };
        self.reply(format_args!("\x1b[{mark}{mode};{value}$y"));
    }

    fn ansi_mode(&self, mode: u16) -> Option<bool> {
        match mode {
            4 => Some(self.flags.insert),
            20 => Some(self.flags.newline),
            _ => None,
        }
    }

    fn private_mode(&self, mode: u16) -> Option<bool> {
        let flags = &self.flags;
        match mode {
            1 => Some(flags.app_cursor),
            6 => Some(flags.origin),
            7 => Some(flags.autowrap),
            12 => Some(self.cursor_style.1),
            25 => Some(flags.cursor_visible),
            45 => Some(flags.reverse_wrap),
            47 | 1047 | 1049 => Some(flags.alt),
            66 => Some(flags.app_keypad),
            9 | 1000 => Some(flags.mouse == Mouse::Click),
            1002 => Some(flags.mouse == Mouse::Drag),
            1003 => Some(flags.mouse == Mouse::Motion),
            1004 => Some(flags.focus),
            1006 => Some(flags.sgr_mouse),
            2004 => Some(flags.bracketed_paste),
            2026 => Some(flags.synchronized),
            _ => None,
        }
    }
}
