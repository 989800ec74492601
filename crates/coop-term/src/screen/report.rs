//! What the terminal answers when a program asks it something. Without these answers real TUIs wait or give up.

use std::fmt;
use std::io::Write;

use alacritty_terminal::term::cell::Flags;
use coop_api::Color;

use super::palette::Slot;
use super::perform::reported_row;
use super::terminal::Terminal;

/// The size of a cell in pixels that we claim; there are no pixels, but some programs divide by it.
const CELL: (usize, usize) = (10, 20);
/// Replies that wait for the child; one that asks and never reads must not eat memory.
const MAX_REPLIES: usize = 64 * 1024;

impl Terminal {
    pub(super) fn reply(&mut self, text: fmt::Arguments<'_>) {
        if self.replies.len() < MAX_REPLIES {
            // Writing to a vector cannot fail.
            let _ = self.replies.write_fmt(text);
        }
    }

    /// DA1, DA2, DA3: a VT220 with colour; vim takes 277 to mean that SGR mouse reports are understood.
    pub(super) fn report_identity(&mut self, intermediates: &[u8]) {
        match intermediates {
            [] => self.reply(format_args!("\x1b[?62;22c")),
            [b'>'] => self.reply(format_args!("\x1b[>0;277;0c")),
            [b'='] => self.reply(format_args!("\x1bP!|00000000\x1b\\")),
            _ => {}
        }
    }

    pub(super) fn report_status(&mut self, what: u16, private: bool) {
        let (row, col) = (reported_row(self), self.col() + 1);
        match (what, private) {
            (5, false) => self.reply(format_args!("\x1b[0n")),
            (6, false) => self.reply(format_args!("\x1b[{row};{col}R")),
            (6, true) => self.reply(format_args!("\x1b[?{row};{col};1R")),
            // Colour scheme: dark.
            (996, true) => self.reply(format_args!("\x1b[?997;1n")),
            _ => {}
        }
    }

    /// XTWINOPS: sizes and the title stack. The title itself is never told: it is the child's own text, and sent back
    /// it would be typed.
    pub(super) fn report_window(&mut self, what: u16, which: u16) {
        let (cols, rows) = (self.cols(), self.rows());
        match what {
            11 => self.reply(format_args!("\x1b[1t")),
            14 => self.reply(format_args!("\x1b[4;{};{}t", rows * CELL.1, cols * CELL.0)),
            16 => self.reply(format_args!("\x1b[6;{};{}t", CELL.1, CELL.0)),
            18 => self.reply(format_args!("\x1b[8;{rows};{cols}t")),
            19 => self.reply(format_args!("\x1b[9;{rows};{cols}t")),
            20 => self.reply(format_args!("\x1b]L\x1b\\")),
            21 => self.reply(format_args!("\x1b]l\x1b\\")),
            // 1 is the icon's title, which we have not.
            22 if which != 1 => self.push_title(),
            23 if which != 1 => self.pop_title(),
            _ => {}
        }
    }

    pub(super) fn report_color(&mut self, code: &str, slot: Slot, end: &str) {
        let [r, g, b] = self.palette.get(slot);
        self.reply(format_args!("\x1b]{code};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{end}"));
    }

    /// DECRQSS: the current scroll region, cursor style or rendition.
    pub(super) fn report_setting(&mut self, what: &[u8]) {
        match what {
            b"r" => {
                let (top, bottom) = (self.top + 1, self.bottom + 1);
                self.reply(format_args!("\x1bP1$r{top};{bottom}r\x1b\\"));
            }
            b" q" => {
                let (shape, blinking) = self.cursor_style;
                let style = 2 + 2 * shape as u8 - u8::from(blinking);
                self.reply(format_args!("\x1bP1$r{style} q\x1b\\"));
            }
            b"m" => {
                let codes = self.rendition();
                self.reply(format_args!("\x1bP1$r0{codes}m\x1b\\"));
            }
            _ => self.reply(format_args!("\x1bP0$r\x1b\\")),
        }
    }

    fn rendition(&self) -> String {
        let template = &self.grid.cursor.template;
        let flags = [
            (Flags::BOLD, ";1"),
            (Flags::DIM, ";2"),
            (Flags::ITALIC, ";3"),
            (Flags::UNDERLINE, ";4"),
            (Flags::INVERSE, ";7"),
            (Flags::HIDDEN, ";8"),
            (Flags::STRIKEOUT, ";9"),
        ];
        let mut codes: String =
            flags.into_iter().filter(|(flag, _)| template.flags.contains(*flag)).map(|(_, code)| code).collect();
        for (color, base) in [(template.fg, 38), (template.bg, 48)] {
            match color.color() {
                Color::Indexed(n) => codes.push_str(&format!(";{base}:5:{n}")),
                Color::Rgb([r, g, b]) => codes.push_str(&format!(";{base}:2::{r}:{g}:{b}")),
                Color::Default => {}
            }
        }
        codes
    }

    /// XTGETTCAP: the name and that we have 256 and 24-bit colours; everything else is said to be absent.
    pub(super) fn report_capability(&mut self, hex_names: &[u8]) {
        for name in hex_names.split(|&byte| byte == b';') {
            let value = match name.to_ascii_uppercase().as_slice() {
                b"544E" => Some("787465726D2D323536636F6C6F72"),
                b"436F" | b"636F6C6F7273" => Some("323536"),
                b"524742" => Some("38"),
                _ => None,
            };
            let name = String::from_utf8_lossy(name).into_owned();
            let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
            match value {
                Some(value) => self.reply(format_args!("\x1bP1+r{name}={value}\x1b\\")),
                None if is_hex => self.reply(format_args!("\x1bP0+r{name}\x1b\\")),
                None => self.reply(format_args!("\x1bP0+r\x1b\\")),
            }
        }
    }
}
