//! Bytes from the terminal become keys.
//!
//! Two rules of the real one matter to whoever types for it:
//! - A bracketed paste is one key, however many reads it arrives in.
//! - Plain text of more than [`TYPED_AT_ONCE`] characters in one read counts as pasted, so its CR does not submit.

/// Nobody types so much between two reads.
const TYPED_AT_ONCE: usize = 200;

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
const ESC: u8 = 0x1b;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// CR.
    Enter,
    /// LF, or Alt and Enter: a new line, no submit.
    Newline,
    Esc,
    Up,
    Down,
    Left,
    Right,
    Tab,
    BackTab,
    Backspace,
    CtrlC,
    CtrlD,
    CtrlU,
    Paste(String),
}

#[derive(Debug, Default)]
pub(crate) struct KeyParser {
    /// The beginning of something whose end has not come yet.
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl KeyParser {
    /// Takes one read.
    pub(crate) fn feed(&mut self, read: &[u8]) -> Vec<Key> {
        let mut bytes = std::mem::take(&mut self.pending);
        bytes.extend_from_slice(read);
        let mut keys = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            rest = if self.paste.is_some() {
                self.pasted(rest, &mut keys)
            } else if rest[0] == ESC {
                match escape(rest) {
                    Escape::Paste => {
                        self.paste = Some(Vec::new());
                        &rest[PASTE_START.len()..]
                    }
                    Escape::Key(key, length) => {
                        keys.extend(key);
                        &rest[length..]
                    }
                    Escape::Unfinished => {
                        self.pending = rest.to_vec();
                        &[]
                    }
                }
            } else {
                let end = rest.iter().position(|byte| *byte == ESC).unwrap_or(rest.len());
                self.plain(&rest[..end], end == rest.len(), &mut keys);
                &rest[end..]
            };
        }
        keys
    }

    /// Whether something is held back that may be complete: ask [`KeyParser::flush`] in a moment.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Nothing followed: what is held back is all there was.
    pub(crate) fn flush(&mut self) -> Vec<Key> {
        let pending = std::mem::take(&mut self.pending);
        match pending.first() {
            Some(&ESC) => vec![Key::Esc],
            Some(_) => String::from_utf8_lossy(&pending).chars().map(Key::Char).collect(),
            None => Vec::new(),
        }
    }

    fn pasted<'a>(&mut self, rest: &'a [u8], keys: &mut Vec<Key>) -> &'a [u8] {
        let Some(paste) = &mut self.paste else { return rest };
        // The end may lie across two reads, so the search starts a little before the new bytes.
        let from = paste.len().saturating_sub(PASTE_END.len() - 1);
        let before = paste.len();
        paste.extend_from_slice(rest);
        let Some(at) = paste[from..].windows(PASTE_END.len()).position(|window| window == PASTE_END) else {
            return &[];
        };
        let end = from + at;
        let text = String::from_utf8_lossy(&paste[..end]).into_owned();
        let used = end + PASTE_END.len() - before;
        self.paste = None;
        keys.push(Key::Paste(with_newlines(&text)));
        &rest[used..]
    }

    fn plain(&mut self, bytes: &[u8], is_end_of_read: bool, keys: &mut Vec<Key>) {
        let bytes = match std::str::from_utf8(bytes) {
            Err(error) if is_end_of_read && error.error_len().is_none() => {
                self.pending = bytes[error.valid_up_to()..].to_vec();
                &bytes[..error.valid_up_to()]
            }
            Ok(_) | Err(_) => bytes,
        };
        let text = String::from_utf8_lossy(bytes);
        if text.contains('\r') && text.chars().count() > TYPED_AT_ONCE {
            keys.push(Key::Paste(with_newlines(&text)));
        } else {
            keys.extend(text.chars().filter_map(typed));
        }
    }
}

enum Escape {
    Paste,
    /// A key, or a sequence that means nothing here, and its length.
    Key(Option<Key>, usize),
    Unfinished,
}

fn escape(bytes: &[u8]) -> Escape {
    match bytes.get(1) {
        None => Escape::Unfinished,
        Some(b'[') => {
            let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                return Escape::Unfinished;
            };
            if bytes.starts_with(PASTE_START) {
                return Escape::Paste;
            }
            Escape::Key(arrow(bytes[2 + length]), 3 + length)
        }
        Some(b'O') => match bytes.get(2) {
            None => Escape::Unfinished,
            Some(letter) => Escape::Key(arrow(*letter), 3),
        },
        Some(b'\r' | b'\n') => Escape::Key(Some(Key::Newline), 2),
        Some(_) => Escape::Key(Some(Key::Esc), 1),
    }
}

fn arrow(letter: u8) -> Option<Key> {
    match letter {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'Z' => Some(Key::BackTab),
        _ => None,
    }
}

fn typed(c: char) -> Option<Key> {
    match c {
        '\r' => Some(Key::Enter),
        '\n' => Some(Key::Newline),
        '\t' => Some(Key::Tab),
        '\x7f' | '\x08' => Some(Key::Backspace),
        '\x03' => Some(Key::CtrlC),
        '\x04' => Some(Key::CtrlD),
        '\x15' => Some(Key::CtrlU),
        c if c.is_control() => None,
        c => Some(Key::Char(c)),
    }
}

fn with_newlines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_enter_are_keys() {
        assert_eq!(KeyParser::default().feed(b"n\r"), [Key::Char('n'), Key::Enter]);
    }

    #[test]
    fn a_paste_is_one_key_wherever_the_reads_end() {
        let bytes = "\x1b[200~p1\rp2 é \x1b[201~\r".as_bytes();
        for cut in 1..bytes.len() {
            let mut parser = KeyParser::default();
            let mut keys = parser.feed(&bytes[..cut]);
            keys.extend(parser.feed(&bytes[cut..]));
            assert_eq!(keys, [Key::Paste("p1\np2 é ".into()), Key::Enter], "cut at {cut}");
        }
    }

    #[test]
    fn much_plain_text_with_its_enter_in_one_read_does_not_submit() {
        let long = "x".repeat(TYPED_AT_ONCE + 1);
        let keys = KeyParser::default().feed(format!("{long}\r").as_bytes());
        assert_eq!(keys, [Key::Paste(format!("{long}\n"))]);
        let mut parser = KeyParser::default();
        parser.feed(long.as_bytes());
        assert_eq!(parser.feed(b"\r"), [Key::Enter]);
    }

    #[test]
    fn a_lone_escape_is_a_key_only_when_nothing_follows() {
        let mut parser = KeyParser::default();
        assert_eq!(parser.feed(b"\x1b"), []);
        assert!(parser.is_waiting());
        assert_eq!(parser.flush(), [Key::Esc]);
        assert_eq!(parser.feed(b"\x1b"), []);
        assert_eq!(parser.feed(b"[B"), [Key::Down]);
        assert!(!parser.is_waiting());
    }

    #[test]
    fn letters_cut_in_half_are_put_together() {
        let mut parser = KeyParser::default();
        let bytes = "é".as_bytes();
        assert_eq!(parser.feed(&bytes[..1]), []);
        assert_eq!(parser.feed(&bytes[1..]), [Key::Char('é')]);
    }
}
