//! The terminal as people see it: lines of styled text.

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line as Row};
use alacritty_terminal::term::cell::Flags;
use coop_api::{Color, Cursor, Line, Modes, Run, Seq, Style, Underline};

use super::cell::{Cell, Extra, ExtraId, Extras, Ink};
use super::terminal::Terminal;

/// Returns one row of a grid; rows above the screen have negative numbers.
pub(super) fn line(grid: &Grid<Cell>, extras: &Extras, row: i32, seq: Seq) -> Line {
    let cells = &grid[Row(row)][..];
    let last = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
    let wrapped = cells[cells.len() - 1].flags.contains(Flags::WRAPLINE);
    let mut line = Line { wrapped, seq, text: String::with_capacity(last), ..Line::default() };
    let mut current: Option<&Cell> = None;
    for cell in &cells[..last] {
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
            if let Some(run) = line.runs.last_mut() {
                run.cells += 1;
            }
            continue;
        }
        let before = line.text.len();
        line.text.push(cell.c);
        line.text.push_str(extras.get(cell.extra).map_or("", |extra| &extra.marks));
        let bytes = (line.text.len() - before) as u32;
        match (current, line.runs.last_mut()) {
            (Some(same), Some(run)) if looks_like(same, cell, extras) => {
                run.bytes += bytes;
                run.cells += 1;
            }
            _ => line.runs.push(Run { bytes, cells: 1, style: style(cell, extras) }),
        }
        current = Some(cell);
    }
    line
}

fn is_blank(cell: &Cell) -> bool {
    cell.c == ' '
        && cell.bg == Ink::DEFAULT
        && !cell.flags.intersects(
            Flags::INVERSE | Flags::ALL_UNDERLINES | Flags::STRIKEOUT | Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER,
        )
        && cell.extra == ExtraId::NONE
}

const LOOKS: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::ITALIC)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT)
    .union(Flags::ALL_UNDERLINES);

fn looks_like(a: &Cell, b: &Cell, extras: &Extras) -> bool {
    let look = |cell: &Cell| extras.get(cell.extra).map(|extra| (&extra.link, extra.underline));
    let none = (&None, None);
    a.fg == b.fg
        && a.bg == b.bg
        && (a.flags & LOOKS) == (b.flags & LOOKS)
        && (a.extra == b.extra || look(a).unwrap_or(none) == look(b).unwrap_or(none))
}

/// Returns how a cell looks.
pub(super) fn style(cell: &Cell, extras: &Extras) -> Style {
    let flags = cell.flags;
    let Extra { link, underline: ink, .. } = extras.get(cell.extra).cloned().unwrap_or_default();
    let underline = if flags.contains(Flags::UNDERLINE) {
        Underline::Single
    } else if flags.contains(Flags::DOUBLE_UNDERLINE) {
        Underline::Double
    } else if flags.contains(Flags::UNDERCURL) {
        Underline::Curly
    } else if flags.contains(Flags::DOTTED_UNDERLINE) {
        Underline::Dotted
    } else if flags.contains(Flags::DASHED_UNDERLINE) {
        Underline::Dashed
    } else {
        Underline::None
    };
    Style {
        fg: cell.fg.color(),
        bg: cell.bg.color(),
        bold: flags.contains(Flags::BOLD),
        dim: flags.contains(Flags::DIM),
        italic: flags.contains(Flags::ITALIC),
        underline,
        underline_color: ink.map_or(Color::Default, |ink| ink.0.color()),
        inverse: flags.contains(Flags::INVERSE),
        hidden: flags.contains(Flags::HIDDEN),
        strike: flags.contains(Flags::STRIKEOUT),
        link,
    }
}

impl Terminal {
    pub(super) fn line(&self, row: usize, seq: Seq) -> Line {
        let mut line = line(&self.grid, &self.extras, row as i32, seq);
        // Below the last row nothing goes on, and a row whose wrap is pending has not wrapped yet.
        line.wrapped &= row + 1 < self.rows() && !(self.pending_wrap() && row == self.row());
        line
    }

    /// Returns the newest `count` lines that scrolled off, oldest first.
    pub(super) fn history(&self, count: usize) -> Vec<Line> {
        let main = if self.flags.alt { &self.other } else { &self.grid };
        let count = count.min(main.history_size()) as i32;
        (-count..0).map(|row| line(main, &self.extras, row, Seq::default())).collect()
    }

    pub(super) fn history_len(&self) -> usize {
        if self.flags.alt { self.other.history_size() } else { self.grid.history_size() }
    }

    pub(super) fn cursor(&self) -> Cursor {
        let (shape, blinking) = self.cursor_style;
        Cursor {
            row: self.row() as u16,
            col: self.col() as u16,
            visible: self.flags.cursor_visible,
            shape,
            blinking,
            pending_wrap: self.pending_wrap(),
        }
    }

    pub(super) fn modes(&self) -> Modes {
        let flags = &self.flags;
        Modes {
            alt_screen: flags.alt,
            app_cursor: flags.app_cursor,
            app_keypad: flags.app_keypad,
            bracketed_paste: flags.bracketed_paste,
            focus: flags.focus,
            mouse: flags.mouse,
            sgr_mouse: flags.sgr_mouse,
            newline: flags.newline,
            autowrap: flags.autowrap,
            insert: flags.insert,
            origin: flags.origin,
            synchronized: flags.synchronized,
            kitty: self.keyboard.flags(),
        }
    }

    /// Returns the character at the end of the cursor's row, its width and its style.
    pub(super) fn edge(&self) -> (String, usize, Style) {
        let row = &self.grid[Row(self.row() as i32)];
        let last = self.cols() - 1;
        let width = if row[Column(last)].flags.contains(Flags::WIDE_CHAR_SPACER) { 2 } else { 1 };
        let cell = &row[Column(last + 1 - width)];
        let mut text = String::from(cell.c);
        text.push_str(self.extras.get(cell.extra).map_or("", |extra| &extra.marks));
        (text, width, style(cell, &self.extras))
    }
}
