//! Plain lines that were written and not drawn.
//!
//! A flood of plain text at the bottom of the screen only scrolls: whatever will have scrolled out before anybody looks
//! need not be drawn at all. So whole lines wait here as they came, the newest of them, and are drawn when somebody
//! looks or something else is written. What comes out is the same, byte by byte.

use std::mem;

/// Text of printable ASCII, lines of which end with CR LF and are shorter than a row.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    older: Vec<u8>,
    newer: Vec<u8>,
    /// Lines that end in `newer`.
    lines: usize,
    /// The length of the last line, which has not ended.
    open: usize,
    /// Whether its carriage return has come and the line feed has not.
    returned: bool,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.older.is_empty() && self.newer.is_empty()
    }

    /// Takes in what it can from the front of some plain text and returns how much that was. At least the last `keep`
    /// lines are kept.
    pub(super) fn take_in(&mut self, text: &[u8], cols: usize, keep: usize) -> usize {
        let mut taken = 0;
        while taken < text.len() {
            let rest = &text[taken..];
            let end = match memchr::memchr2(b'\r', b'\n', rest) {
                Some(at) if self.open + at >= cols => return taken,
                // The line feed has still to come.
                Some(at) if rest[at..] == *b"\r" && !self.returned => {
                    self.returned = true;
                    at + 1
                }
                Some(0) if rest[0] == b'\n' && self.returned => self.end_line(1),
                Some(at) if rest[at..].starts_with(b"\r\n") && !self.returned => self.end_line(at + 2),
                None if self.open + rest.len() < cols && !self.returned => {
                    self.open += rest.len();
                    rest.len()
                }
                Some(_) | None => return taken,
            };
            self.newer.extend_from_slice(&rest[..end]);
            taken += end;
            if self.lines >= keep {
                mem::swap(&mut self.older, &mut self.newer);
                self.newer.clear();
                self.lines = 0;
            }
        }
        taken
    }

    /// Notes that a line has ended and returns what it was told.
    fn end_line(&mut self, taken: usize) -> usize {
        self.open = 0;
        self.returned = false;
        self.lines += 1;
        taken
    }

    /// Hands over all of it, oldest first, and is empty then.
    pub(super) fn drain(&mut self, mut draw: impl FnMut(&[u8])) {
        draw(&self.older);
        draw(&self.newer);
        self.older.clear();
        self.newer.clear();
        self.lines = 0;
        self.open = 0;
        self.returned = false;
    }
}
