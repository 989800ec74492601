//! Output of any length in a little memory.

use std::collections::VecDeque;

use super::MAX_OUTPUT;

/// Keeps the beginning and the end of what a program says: what it was about, and how it ended.
#[derive(Debug, Default)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

const HALF: usize = MAX_OUTPUT / 2;

impl Capture {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, tail) = bytes.split_at(bytes.len().min(HALF - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(&tail[tail.len().saturating_sub(HALF)..]);
        self.tail.drain(..self.tail.len().saturating_sub(HALF));
    }

    /// Returns it as text, with the length of what is missing in the middle.
    pub(super) fn text(mut self) -> String {
        let missing = self.total - (self.head.len() + self.tail.len()) as u64;
        if missing == 0 {
            self.head.extend(self.tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), self.tail.make_contiguous());
        format!("{head}\n[… {missing} bytes left out …]\n{}", String::from_utf8_lossy(tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_whole_in_any_pieces() {
        let text = "äöü".repeat(10_000);
        for size in [1, 7, 4096, 100_000] {
            let mut capture = Capture::default();
            text.as_bytes().chunks(size).for_each(|piece| capture.push(piece));
            assert_eq!(capture.text(), text);
        }
    }

    #[test]
    fn of_much_the_middle_goes() {
        let mut capture = Capture::default();
        capture.push(b"first");
        (0..1000).for_each(|_| capture.push(&[b'x'; 1000]));
        capture.push(b"last");
        let text = capture.text();
        assert!(text.starts_with("firstxxx") && text.ends_with("xxxlast"));
        assert!(text.contains("[… 934473 bytes left out …]") && text.len() < MAX_OUTPUT + 100);
    }
}
