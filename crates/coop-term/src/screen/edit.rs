//! Erasing, inserting, deleting and scrolling.

use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::Flags;

use super::cell::{BLANK, Cell, Ink, with_blank};
use super::terminal::Terminal;

impl Terminal {
    /// Blanks the cells `from..to` of a row in the current background.
    pub(super) fn erase_cells(&mut self, row: usize, from: usize, to: usize) {
        let line = Line(row as i32);
        let to = to.min(self.cols());
        if from >= to {
            return;
        }
        if from == 0 && to == self.cols() {
            return with_blank(&mut self.grid, |grid| grid.reset_region::<Ink, _>(line..=line));
        }
        self.split_wide(line, from);
        self.split_wide(line, to);
        let blank = Cell::blank(self.background());
        self.grid[line][Column(from)..Column(to)].fill(blank);
    }

    pub(super) fn erase_rows(&mut self, from: usize, to: usize) {
        if from < to {
            with_blank(&mut self.grid, |grid| grid.reset_region::<Ink, _>(Line(from as i32)..Line(to as i32)));
        }
    }

    pub(super) fn erase_below(&mut self) {
        self.erase_right();
        self.erase_rows(self.row() + 1, self.rows());
    }

    pub(super) fn erase_above(&mut self) {
        self.erase_left();
        self.erase_rows(0, self.row());
    }

    pub(super) fn erase_right(&mut self) {
        if !self.pending_wrap() {
            self.erase_cells(self.row(), self.col(), self.cols());
        }
    }

    pub(super) fn erase_left(&mut self) {
        self.erase_cells(self.row(), 0, self.col() + 1);
    }

    pub(super) fn erase_chars(&mut self, count: usize) {
        self.grid.cursor.input_needs_wrap = false;
        self.erase_cells(self.row(), self.col(), self.col().saturating_add(count));
    }

    pub(super) fn insert_blank(&mut self, count: usize) {
        let count = count.min(self.cols() - self.col());
        let line = Line(self.row() as i32);
        self.split_wide(line, self.col());
        self.split_wide(line, self.cols() - count);
        self.shift(|cells| {
            cells.rotate_right(count);
            &mut cells[..count]
        });
    }

    pub(super) fn delete_chars(&mut self, count: usize) {
        let count = count.min(self.cols() - self.col());
        let line = Line(self.row() as i32);
        self.split_wide(line, self.col());
        self.split_wide(line, self.col() + count);
        self.shift(|cells| {
            cells.rotate_left(count);
            let kept = cells.len() - count;
            &mut cells[kept..]
        });
    }

    /// Turns the cells from the cursor on and blanks those that came round, which `turn` returns.
    fn shift(&mut self, turn: impl FnOnce(&mut [Cell]) -> &mut [Cell]) {
        self.grid.cursor.input_needs_wrap = false;
        let blank = Cell::blank(self.background());
        let Point { line, column } = self.grid.cursor.point;
        let cols = Column(self.cols());
        let cells = &mut self.grid[line][column..cols];
        turn(cells).fill(blank);
        // A shifted row no longer runs on into the next one.
        cells.iter_mut().for_each(|cell| cell.flags.remove(Flags::WRAPLINE));
    }

    pub(super) fn insert_lines(&mut self, count: usize) {
        let row = self.row();
        if (self.top..=self.bottom).contains(&row) {
            self.scroll_down_in(row, count);
            self.set_cursor(row, 0);
        }
    }

    pub(super) fn delete_lines(&mut self, count: usize) {
        let row = self.row();
        if (self.top..=self.bottom).contains(&row) {
            self.scroll_up_in(row, count);
            self.set_cursor(row, 0);
        }
    }

    pub(super) fn scroll_up(&mut self, count: usize) {
        self.scroll_up_in(self.top, count);
    }

    pub(super) fn scroll_down(&mut self, count: usize) {
        self.scroll_down_in(self.top, count);
    }

    fn scroll_up_in(&mut self, from: usize, count: usize) {
        let count = count.min(self.bottom + 1 - from);
        let region = Line(from as i32)..Line(self.bottom as i32 + 1);
        with_blank(&mut self.grid, |grid| grid.scroll_up::<Ink>(&region, count));
    }

    fn scroll_down_in(&mut self, from: usize, count: usize) {
        let count = count.min(self.bottom + 1 - from);
        let region = Line(from as i32)..Line(self.bottom as i32 + 1);
        with_blank(&mut self.grid, |grid| grid.scroll_down::<Ink>(&region, count));
    }

    pub(super) fn set_margins(&mut self, top: usize, bottom: usize) {
        let bottom = if bottom == 0 { self.rows() } else { bottom.min(self.rows()) };
        if bottom > top {
            (self.top, self.bottom) = (top.saturating_sub(1), bottom - 1);
            self.goto(0, 0);
        }
    }

    /// DECALN: fills the screen with E.
    pub(super) fn align(&mut self) {
        (self.top, self.bottom) = (0, self.rows() - 1);
        self.flags.origin = false;
        self.set_cursor(0, 0);
        let full = Cell { c: 'E', ..BLANK };
        for row in 0..self.rows() {
            self.grid[Line(row as i32)][Column(0)..].fill(full);
        }
    }
}
