//! The terminal as control sequences: fed to a fresh terminal of the same size, they make it show and do the same.

use std::fmt::Write;

use alacritty_terminal::grid::Grid;
use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};
use coop_api::{CursorShape, Mouse, Seq};

use super::cell::Cell;
use super::terminal::{TAB_WIDTH, Terminal};
use super::view;

impl Terminal {
    /// Returns the control sequences. The scrollback is not in them.
    pub(super) fn dump(&self) -> String {
        let mut out = String::from("\x1bc");
        if self.flags.alt {
            self.dump_rows(&self.other, &mut out);
            // The main screen's cursor is the one the alternate screen's exit restores.
            let saved = &self.other.saved_cursor;
            let _ = write!(out, "\x1b[{};{}H\x1b[?1049h", saved.point.line.0 + 1, saved.point.column.0 + 1);
        }
        self.dump_rows(&self.grid, &mut out);
        self.dump_state(&mut out);
        self.dump_cursor(&mut out);
        out
    }

    fn dump_rows(&self, grid: &Grid<Cell>, out: &mut String) {
        let cols = self.cols();
        let mut run_on = false;
        for row in 0..self.rows() {
            let line = view::line(grid, &self.extras, row as i32, Seq::default());
            if !run_on && (line.wrapped || !line.text.is_empty()) {
                let _ = write!(out, "\x1b[{};1H", row + 1);
            }
            out.push_str(&line.ansi());
            let mut printed = line.cells();
            if run_on && printed == 0 {
                out.push(' ');
                printed = 1;
            }
            run_on = line.wrapped && row + 1 < self.rows();
            if run_on {
                // The next character wraps by itself, but only from a full row.
                out.extend(std::iter::repeat_n(' ', cols - printed));
            }
        }
    }

    fn dump_state(&self, out: &mut String) {
        let _ = write!(out, "\x1b]2;{}\x1b\\", self.title);
        if let Some(cwd) = &self.cwd {
            let _ = write!(out, "\x1b]7;file://{}\x1b\\", cwd.replace('%', "%25"));
        }
        self.dump_tabs(out);
        let flags = &self.flags;
        let switches = [
            (flags.newline, "\x1b[20h"),
            (flags.app_cursor, "\x1b[?1h"),
            (flags.app_keypad, "\x1b="),
            (!flags.autowrap, "\x1b[?7l"),
            (!flags.cursor_visible, "\x1b[?25l"),
            (flags.reverse_wrap, "\x1b[?45h"),
            (flags.focus, "\x1b[?1004h"),
            (flags.sgr_mouse, "\x1b[?1006h"),
            (flags.bracketed_paste, "\x1b[?2004h"),
        ];
        for (on, sequence) in switches {
            if on {
                out.push_str(sequence);
            }
        }
        out.push_str(match flags.mouse {
            Mouse::Off => "",
            Mouse::Click => "\x1b[?1000h",
            Mouse::Drag => "\x1b[?1002h",
            Mouse::Motion => "\x1b[?1003h",
        });
        let style = match self.cursor_style {
            (CursorShape::Block, false) => 2,
            (CursorShape::Block, true) => 1,
            (CursorShape::Underline, blinking) => 4 - u8::from(blinking),
            (CursorShape::Bar, blinking) => 6 - u8::from(blinking),
        };
        let _ = write!(out, "\x1b[{style} q\x1b[={}u", self.keyboard.flags());
        if (self.top, self.bottom) != (0, self.rows() - 1) {
            let _ = write!(out, "\x1b[{};{}r", self.top + 1, self.bottom + 1);
        }
        if flags.origin {
            out.push_str("\x1b[?6h");
        }
    }

    fn dump_tabs(&self, out: &mut String) {
        if self.tabs.iter().take(self.cols()).enumerate().all(|(col, stop)| *stop == (col % TAB_WIDTH == 0)) {
            return;
        }
        out.push_str("\x1b[3g");
        for col in (0..self.cols()).filter(|&col| self.tabs[col]) {
            let _ = write!(out, "\x1b[{}G\x1bH", col + 1);
        }
    }

    fn dump_cursor(&self, out: &mut String) {
        let row = if self.flags.origin { self.row().saturating_sub(self.top) } else { self.row() } + 1;
        if self.pending_wrap() {
            // A wrap is pending only after the last cell was printed, so print it once more, with no mode in the way.
            let (text, width, style) = self.edge();
            let _ = write!(out, "\x1b[4l\x1b(B\x0f\x1b[{row};{}H{}", self.cols() + 1 - width, style.sgr());
            match &style.link {
                Some(link) => {
                    let _ = write!(out, "\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\");
                }
                None => out.push_str(&text),
            }
        } else {
            let _ = write!(out, "\x1b[{row};{}H", self.col() + 1);
        }
        let template = view::style(&self.grid.cursor.template, &self.extras);
        out.push_str(&template.sgr());
        if let Some(link) = &template.link {
            let _ = write!(out, "\x1b]8;;{link}\x1b\\");
        }
        for (slot, letter) in [(CharsetIndex::G0, '('), (CharsetIndex::G1, ')')] {
            if self.grid.cursor.charsets[slot] != StandardCharset::Ascii {
                let _ = write!(out, "\x1b{letter}0");
            }
        }
        if self.charset == CharsetIndex::G1 {
            out.push('\x0e');
        }
        if self.flags.insert {
            out.push_str("\x1b[4h");
        }
    }
}
