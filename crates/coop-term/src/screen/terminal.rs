//! The terminal's state and what printing and moving do to it.
//!
//! The cells live in two grids of `alacritty_terminal`, which brings storage, scrollback and reflow. What the control
//! functions mean is ours, so that it can be held against xterm.js case by case (`make test` does).

use std::mem;

use alacritty_terminal::grid::{Dimensions, Grid};
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};
use coop_api::{CursorShape, Mouse, Size};

use super::cell::{self, BLANK, Cell, Extra, ExtraId, Extras, Ink, with_blank};
use super::keyboard::Keyboard;
use super::palette::Palette;
use crate::width::char_width;

/// Bytes of marks that a cell may carry beside its character; a flood of combining marks must not eat memory.
const MAX_MARKS: usize = 32;
/// Lines kept above the screen; narrower terminals keep no more, wider ones fewer (see `MAX_KEPT_CELLS`).
const MAX_SCROLLBACK: usize = 1000;
/// Bounds the scrollback's memory: 400,000 cells of 16 bytes are 6.4 MB.
const MAX_KEPT_CELLS: usize = 400_000;
const MAX_TITLES: usize = 16;
pub(super) const TAB_WIDTH: usize = 8;
/// Tab stops are kept for the widest terminal there can be, so that a narrow moment does not lose any.
const TABS: usize = 1000;

pub(super) struct Terminal {
    pub(super) grid: Grid<Cell>,
    pub(super) other: Grid<Cell>,
    /// First and last row of the scroll region.
    pub(super) top: usize,
    pub(super) bottom: usize,
    pub(super) tabs: Vec<bool>,
    pub(super) charset: CharsetIndex,
    pub(super) flags: Switches,
    /// What DECSC saved beside the cursor, for the shown and the other screen.
    pub(super) saved: Saved,
    pub(super) other_saved: Saved,
    pub(super) cursor_style: (CursorShape, bool),
    pub(super) keyboard: Keyboard,
    pub(super) palette: Palette,
    pub(super) extras: Extras,
    /// The character that REP repeats; anything but printing forgets it.
    pub(super) last_printed: Option<char>,
    pub(super) title: String,
    pub(super) title_count: u64,
    title_stack: Vec<String>,
    pub(super) cwd: Option<String>,
    /// What is to be sent back to the child.
    pub(super) replies: Vec<u8>,
}

/// Modes that are on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switches {
    pub(super) alt: bool,
    pub(super) app_cursor: bool,
    pub(super) app_keypad: bool,
    pub(super) autowrap: bool,
    pub(super) bracketed_paste: bool,
    pub(super) cursor_visible: bool,
    pub(super) focus: bool,
    pub(super) insert: bool,
    pub(super) mouse: Mouse,
    pub(super) newline: bool,
    pub(super) origin: bool,
    pub(super) reverse_wrap: bool,
    pub(super) sgr_mouse: bool,
    pub(super) synchronized: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            alt: false,
            app_cursor: false,
            app_keypad: false,
            autowrap: true,
            bracketed_paste: false,
            cursor_visible: true,
            focus: false,
            insert: false,
            mouse: Mouse::Off,
            newline: false,
            origin: false,
            reverse_wrap: false,
            sgr_mouse: false,
            synchronized: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) origin: bool,
    pub(super) charset: CharsetIndex,
}

impl Terminal {
    pub(super) fn new(size: Size) -> Self {
        let (cols, rows) = (usize::from(size.cols()), usize::from(size.rows()));
        Self {
            grid: Grid::new(rows, cols, scrollback_for(cols)),
            other: Grid::new(1, 1, 0),
            top: 0,
            bottom: rows - 1,
            tabs: default_tabs(),
            charset: CharsetIndex::G0,
            flags: Switches::default(),
            saved: Saved::default(),
            other_saved: Saved::default(),
            cursor_style: (CursorShape::Block, false),
            keyboard: Keyboard::default(),
            palette: Palette::default(),
            extras: Extras::default(),
            last_printed: None,
            title: String::new(),
            title_count: 0,
            title_stack: Vec::new(),
            cwd: None,
            replies: Vec::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        let size = (self.cols(), self.rows());
        let Ok(size) = Size::new(size.0 as u32, size.1 as u32) else { return };
        let before = mem::replace(self, Self::new(size));
        // What is around the screen is not part of it.
        self.replies = before.replies;
        self.title = before.title;
        self.title_count = before.title_count;
        self.cwd = before.cwd;
    }

    /// DECSTR: the modes go back, what is on the screen stays.
    pub(super) fn soft_reset(&mut self) {
        self.flags = Switches {
            alt: self.flags.alt,
            bracketed_paste: self.flags.bracketed_paste,
            focus: self.flags.focus,
            mouse: self.flags.mouse,
            newline: self.flags.newline,
            sgr_mouse: self.flags.sgr_mouse,
            synchronized: self.flags.synchronized,
            ..Switches::default()
        };
        (self.top, self.bottom) = (0, self.rows() - 1);
        self.charset = CharsetIndex::G0;
        self.saved = Saved::default();
        let cursor = &mut self.grid.cursor;
        cursor.template = BLANK;
        cursor.charsets = Default::default();
        self.grid.saved_cursor = Default::default();
    }

    pub(super) fn resize(&mut self, size: Size) {
        let (cols, rows) = (usize::from(size.cols()), usize::from(size.rows()));
        if self.flags.alt {
            // The main screen's cursor is the one that leaving the alternate screen brings back, and moves with the text.
            self.other.cursor = self.other.saved_cursor.clone();
            reflow(&mut self.other, rows, cols);
            self.other.saved_cursor = self.other.cursor.clone();
            self.grid.resize::<Ink>(false, rows, cols);
        } else {
            reflow(&mut self.grid, rows, cols);
            if self.has_other() {
                self.other.resize::<Ink>(false, rows, cols);
            }
        }
        // A wrap that was pending at the old edge is not pending in the middle of a row.
        for cursor in [&mut self.grid.cursor, &mut self.grid.saved_cursor, &mut self.other.saved_cursor] {
            if cursor.input_needs_wrap && cursor.point.column.0 + 1 < cols {
                cursor.input_needs_wrap = false;
                cursor.point.column += 1;
            }
        }
        (self.top, self.bottom) = (0, rows - 1);
        for line in 0..rows as i32 {
            self.mend_halves(Line(line));
        }
    }

    pub(super) fn cols(&self) -> usize {
        self.grid.columns()
    }

    pub(super) fn rows(&self) -> usize {
        self.grid.screen_lines()
    }

    pub(super) fn row(&self) -> usize {
        self.grid.cursor.point.line.0.max(0) as usize
    }

    pub(super) fn col(&self) -> usize {
        self.grid.cursor.point.column.0
    }

    pub(super) fn pending_wrap(&self) -> bool {
        self.grid.cursor.input_needs_wrap
    }

    /// Puts the cursor there, within the screen, and forgets a pending wrap.
    pub(super) fn set_cursor(&mut self, row: usize, col: usize) {
        let point = Point::new(Line(row.min(self.rows() - 1) as i32), Column(col.min(self.cols() - 1)));
        self.grid.cursor.point = point;
        self.grid.cursor.input_needs_wrap = false;
    }

    /// Puts the cursor where a program means it: rows count from the scroll region in origin mode.
    pub(super) fn goto(&mut self, row: usize, col: usize) {
        if self.flags.origin {
            self.set_cursor((row.saturating_add(self.top)).min(self.bottom), col);
        } else {
            self.set_cursor(row, col);
        }
    }

    pub(super) fn move_up(&mut self, count: usize) {
        let row = self.row();
        let limit = if row >= self.top { self.top } else { 0 };
        self.set_cursor(row.saturating_sub(count).max(limit), self.col());
    }

    pub(super) fn move_down(&mut self, count: usize) {
        let row = self.row();
        let limit = if row <= self.bottom { self.bottom } else { self.rows() - 1 };
        self.set_cursor(row.saturating_add(count).min(limit), self.col());
    }

    pub(super) fn move_right(&mut self, count: usize) {
        self.set_cursor(self.row(), self.col().saturating_add(count));
    }

    pub(super) fn move_left(&mut self, count: usize) {
        self.set_cursor(self.row(), self.col().saturating_sub(count));
    }

    pub(super) fn backspace(&mut self) {
        let back_wraps = self.flags.reverse_wrap && self.flags.autowrap;
        if back_wraps && self.pending_wrap() {
            self.grid.cursor.input_needs_wrap = false;
        } else if back_wraps && self.col() == 0 && self.wraps_from_above() {
            self.set_cursor(self.row() - 1, self.cols() - 1);
        } else {
            self.move_left(1);
        }
    }

    fn wraps_from_above(&self) -> bool {
        let row = self.row();
        row > self.top && self.is_wrapped(Line(row as i32 - 1))
    }

    pub(super) fn is_wrapped(&self, line: Line) -> bool {
        self.grid[line][Column(self.cols() - 1)].flags.contains(Flags::WRAPLINE)
    }

    pub(super) fn carriage_return(&mut self) {
        self.set_cursor(self.row(), 0);
    }

    /// Goes down one row, scrolling at the bottom of the scroll region.
    pub(super) fn index(&mut self) {
        self.grid.cursor.input_needs_wrap = false;
        let row = self.row();
        if row == self.bottom {
            self.scroll_up(1);
        } else if row + 1 < self.rows() {
            self.grid.cursor.point.line += 1;
        }
    }

    pub(super) fn line_feed(&mut self) {
        self.index();
        if self.flags.newline {
            self.carriage_return();
        }
    }

    pub(super) fn reverse_index(&mut self) {
        self.grid.cursor.input_needs_wrap = false;
        let row = self.row();
        if row == self.top {
            self.scroll_down(1);
        } else if row > 0 {
            self.grid.cursor.point.line -= 1;
        }
    }

    pub(super) fn tab(&mut self, count: usize) {
        if self.pending_wrap() {
            return;
        }
        let mut col = self.col();
        for _ in 0..count.min(self.cols()) {
            col = (col + 1..self.cols()).find(|&col| self.tabs[col]).unwrap_or(self.cols() - 1);
        }
        self.set_cursor(self.row(), col);
    }

    pub(super) fn back_tab(&mut self, count: usize) {
        if self.pending_wrap() {
            return;
        }
        let mut col = self.col();
        for _ in 0..count.min(self.cols()) {
            col = (0..col).rev().find(|&col| self.tabs[col]).unwrap_or(0);
        }
        self.set_cursor(self.row(), col);
    }

    /// Tells whether a line of plain text would just be printed as it is and scroll the screen by one row.
    pub(super) fn scrolls_with_plain_lines(&self) -> bool {
        self.row() + 1 == self.rows()
            && self.col() == 0
            && (self.top, self.bottom + 1) == (0, self.rows())
            && !self.prints_slowly()
    }

    /// Returns how many lines there can be, on the screen and above it.
    pub(super) fn most_lines(&self) -> usize {
        self.rows() + scrollback_for(self.cols())
    }

    /// Prints text, carriage returns and line feeds.
    pub(super) fn print_plain(&mut self, mut text: &[u8]) {
        while let Some(&first) = text.first() {
            match first {
                b'\r' | b'\n' => {
                    self.last_printed = None;
                    if first == b'\r' {
                        self.carriage_return();
                    } else {
                        self.line_feed();
                    }
                    text = &text[1..];
                }
                _ => {
                    let end = memchr::memchr2(b'\r', b'\n', text).unwrap_or(text.len());
                    self.print_ascii(&text[..end]);
                    text = &text[end..];
                }
            }
        }
    }

    fn prints_slowly(&self) -> bool {
        self.flags.insert || !self.flags.autowrap || self.grid.cursor.charsets[self.charset] != StandardCharset::Ascii
    }

    /// Prints plain ASCII without control characters; the fast path of almost all output.
    pub(super) fn print_ascii(&mut self, text: &[u8]) {
        if self.prints_slowly() {
            return text.iter().for_each(|&byte| self.print(char::from(byte)));
        }
        let Some(&last) = text.last() else { return };
        self.last_printed = Some(char::from(last));
        let cols = self.cols();
        let mut rest = text;
        while !rest.is_empty() {
            if self.pending_wrap() {
                self.wrap();
            }
            let Point { line, column } = self.grid.cursor.point;
            let (now, after) = rest.split_at(rest.len().min(cols - column.0));
            rest = after;
            let end = Column(column.0 + now.len());
            let template = self.grid.cursor.template;
            let row = &self.grid[line];
            let is_second_half = |at: Column| at.0 < cols && row[at].flags.contains(Flags::WIDE_CHAR_SPACER);
            if is_second_half(column) || is_second_half(end) {
                self.split_wide(line, column.0);
                self.split_wide(line, end.0);
            }
            for (cell, &byte) in self.grid[line][column..end].iter_mut().zip(now) {
                *cell = Cell { c: char::from(byte), ..template };
            }
            let full = end.0 == cols;
            self.grid.cursor.point.column = if full { Column(cols - 1) } else { end };
            self.grid.cursor.input_needs_wrap = full;
        }
    }

    pub(super) fn print(&mut self, c: char) {
        let c = self.grid.cursor.charsets[self.charset].map(c);
        match char_width(c) {
            // DEL and the C1 controls, which are not printed.
            None => {}
            Some(0) => self.combine(c),
            Some(width) => self.print_cells(c, width),
        }
    }

    fn print_cells(&mut self, c: char, width: usize) {
        self.last_printed = Some(c);
        let cols = self.cols();
        if self.pending_wrap() {
            if self.flags.autowrap {
                self.wrap();
            } else {
                self.grid.cursor.input_needs_wrap = false;
            }
        }
        if width == 2 && self.col() + 1 == cols {
            if !self.flags.autowrap {
                return;
            }
            self.put(' ', Flags::LEADING_WIDE_CHAR_SPACER);
            self.wrap();
        }
        if self.flags.insert {
            self.insert_blank(width);
        }
        if width == 2 {
            self.put(c, Flags::WIDE_CHAR);
            self.grid.cursor.point.column += 1;
            self.put(' ', Flags::WIDE_CHAR_SPACER);
        } else {
            self.put(c, Flags::empty());
        }
        if self.col() + 1 < cols {
            self.grid.cursor.point.column += 1;
        } else {
            self.grid.cursor.input_needs_wrap = true;
        }
    }

    /// Adds a zero-width character to the character before the cursor.
    fn combine(&mut self, c: char) {
        let Point { line, column } = self.grid.cursor.point;
        let mut col = if self.pending_wrap() { column.0 } else { column.0.saturating_sub(1) };
        if self.grid[line][Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER) {
            col = col.saturating_sub(1);
        }
        // As in xterm, what was marked is not repeated.
        self.last_printed = None;
        let mut extra = self.extras.get(self.grid[line][Column(col)].extra).cloned().unwrap_or_default();
        if extra.marks.len() < MAX_MARKS {
            extra.marks.push(c);
            let id = self.intern(extra);
            self.grid[line][Column(col)].extra = id;
        }
    }

    /// Changes what the next characters have beside their colours.
    pub(super) fn change_extra(&mut self, change: impl FnOnce(&mut Extra)) {
        let mut extra = self.extras.get(self.grid.cursor.template.extra).cloned().unwrap_or_default();
        change(&mut extra);
        self.grid.cursor.template.extra = self.intern(extra);
    }

    fn intern(&mut self, extra: Extra) -> ExtraId {
        if self.extras.are_many() {
            self.collect_extras();
        }
        self.extras.intern(extra).unwrap_or(ExtraId::NONE)
    }

    fn collect_extras(&mut self) {
        let mut used = self.extras.unmarked();
        for grid in [&self.grid, &self.other] {
            for line in grid.topmost_line().0..grid.screen_lines() as i32 {
                grid[Line(line)][..].iter().for_each(|cell| cell::mark(&mut used, cell));
            }
            cell::mark(&mut used, &grid.cursor.template);
            cell::mark(&mut used, &grid.saved_cursor.template);
        }
        self.extras.keep_only(&used);
    }

    pub(super) fn repeat(&mut self, count: usize) {
        let Some(c) = self.last_printed else { return };
        // More than a screenful shows nothing else, and an endless count must not stall us. What is left out is whole
        // rows, so that the cursor ends where it would have.
        let (cols, most) = (self.cols(), self.cols() * (self.rows() + 1));
        let count = if count > most { most + (count - most) % cols } else { count };
        for _ in 0..count {
            self.print(c);
        }
        self.last_printed = None;
    }

    fn wrap(&mut self) {
        let Point { line, column } = self.grid.cursor.point;
        self.grid[line][column].flags.insert(Flags::WRAPLINE);
        self.index();
        self.grid.cursor.point.column = Column(0);
    }

    /// Writes one cell at the cursor. Half of a wide character that loses its other half becomes blank.
    fn put(&mut self, c: char, flags: Flags) {
        let Point { line, column } = self.grid.cursor.point;
        let template = self.grid.cursor.template;
        let cell = &mut self.grid[line][column];
        let was = cell.flags;
        if was.intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER) {
            if !flags.contains(Flags::WIDE_CHAR_SPACER) {
                self.split_wide(line, column.0);
            }
            self.split_wide(line, column.0 + 1);
        }
        self.grid[line][column] = Cell { c, flags: template.flags | flags, ..template };
    }

    /// Blanks the wide character that lies across the left edge of a column: one half of it is about to change.
    pub(super) fn split_wide(&mut self, line: Line, col: usize) {
        if col < self.cols() && self.grid[line][Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER) {
            blank_half(&mut self.grid[line][Column(col)]);
            if col > 0 {
                blank_half(&mut self.grid[line][Column(col - 1)]);
            }
        }
    }

    /// Blanks every half of a wide character in the row that has lost its other half.
    fn mend_halves(&mut self, line: Line) {
        let cols = self.cols();
        for col in 0..cols {
            let flags = self.grid[line][Column(col)].flags;
            let orphan = if flags.contains(Flags::WIDE_CHAR) {
                col + 1 == cols || !self.grid[line][Column(col + 1)].flags.contains(Flags::WIDE_CHAR_SPACER)
            } else if flags.contains(Flags::WIDE_CHAR_SPACER) {
                col == 0 || !self.grid[line][Column(col - 1)].flags.contains(Flags::WIDE_CHAR)
            } else {
                false
            };
            if orphan {
                blank_half(&mut self.grid[line][Column(col)]);
            }
        }
    }

    pub(super) fn save_cursor(&mut self) {
        self.grid.saved_cursor = self.grid.cursor.clone();
        self.saved = Saved { origin: self.flags.origin, charset: self.charset };
    }

    pub(super) fn restore_cursor(&mut self) {
        self.grid.cursor = self.grid.saved_cursor.clone();
        let point = self.grid.cursor.point;
        let pending = self.pending_wrap();
        self.flags.origin = self.saved.origin;
        let row = point.line.0.max(0) as usize;
        // As xterm: in origin mode the cursor cannot be outside of the scroll region, which may have changed since it was saved.
        let row = if self.flags.origin { row.clamp(self.top, self.bottom) } else { row };
        self.set_cursor(row, point.column.0);
        self.grid.cursor.input_needs_wrap = pending && self.col() + 1 == self.cols();
        self.charset = self.saved.charset;
    }

    /// Shows the alternate screen, blank, with the cursor where it is.
    pub(super) fn enter_alt(&mut self) {
        if self.flags.alt {
            return;
        }
        if !self.has_other() {
            self.other = Grid::new(self.rows(), self.cols(), 0);
        }
        self.swap_screens();
        with_blank(&mut self.grid, |grid| grid.reset_region::<Ink, _>(..));
    }

    /// Tells whether the alternate screen was ever shown. Before that it is not made: most programs never show it.
    fn has_other(&self) -> bool {
        self.other.columns() > 1
    }

    pub(super) fn leave_alt(&mut self) {
        if self.flags.alt {
            self.swap_screens();
        }
    }

    fn swap_screens(&mut self) {
        self.other.cursor = self.grid.cursor.clone();
        mem::swap(&mut self.grid, &mut self.other);
        mem::swap(&mut self.saved, &mut self.other_saved);
        self.keyboard.swap();
        self.flags.alt = !self.flags.alt;
    }

    pub(super) fn set_title(&mut self, title: String) {
        self.title = title;
        self.title_count += 1;
    }

    pub(super) fn push_title(&mut self) {
        if self.title_stack.len() == MAX_TITLES {
            self.title_stack.remove(0);
        }
        self.title_stack.push(self.title.clone());
    }

    pub(super) fn pop_title(&mut self) {
        if let Some(title) = self.title_stack.pop() {
            self.set_title(title);
        }
    }

    pub(super) fn background(&self) -> Ink {
        self.grid.cursor.template.bg
    }
}

/// Resizes the main screen. Its text stays at the top as long as blank rows below it can make room: left to itself the
/// grid would scroll text away while the rows below the cursor are empty.
fn reflow(grid: &mut Grid<Cell>, rows: usize, cols: usize) {
    let cursor = grid.cursor.point.line.0.max(0) as usize;
    let is_clear = |row: &usize| grid[Line(*row as i32)].is_clear();
    let used = (cursor + 1..grid.screen_lines()).rev().find(|row| !is_clear(row)).unwrap_or(cursor) + 1;
    let blank_below = grid.screen_lines() - used;
    let history = grid.history_size();
    let saved = grid.saved_cursor.clone();

    grid.resize::<Ink>(true, used, grid.columns());
    grid.resize::<Ink>(true, used, cols);
    let scrolled_off = grid.history_size().saturating_sub(history);
    let history = grid.history_size();
    grid.resize::<Ink>(true, rows, cols);
    let pulled = history.saturating_sub(grid.history_size());
    if blank_below > 0 && pulled > scrolled_off {
        let back = pulled - scrolled_off;
        with_blank(grid, |grid| grid.scroll_up::<Ink>(&(Line(0)..Line(rows as i32)), back));
        grid.cursor.point.line -= back;
    }
    grid.update_history(scrollback_for(cols));
    // A saved cursor is a place on the screen; the grid would have moved it with the rows it dropped.
    let place = saved.point;
    grid.saved_cursor = saved;
    grid.saved_cursor.point = Point::new(place.line.min(Line(rows as i32 - 1)), place.column.min(Column(cols - 1)));
}

fn scrollback_for(cols: usize) -> usize {
    MAX_SCROLLBACK.min(MAX_KEPT_CELLS / cols)
}

fn default_tabs() -> Vec<bool> {
    (0..TABS).map(|col| col % TAB_WIDTH == 0).collect()
}

fn blank_half(cell: &mut Cell) {
    cell.c = ' ';
    cell.flags.remove(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER);
    cell.extra = ExtraId::NONE;
}
