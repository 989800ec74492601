//! screen's own languages: its list of sessions, its quoting, its display. Pure.

/// screen refuses a command of more than 768 bytes, silently. This leaves room for its name and its quotes.
const MAX_QUOTED: usize = 700;

/// Quotes input for `stuff`, in as many pieces as screen's limit asks for.
///
/// screen interprets `^x`, `\n`, `$NAME`, `"`, `#` and more, but an octal escape is always one byte. So letters and
/// digits stand for themselves (an escape takes three digits at most) and all else is escaped. All 256 bytes arrive.
pub(super) fn quoted(input: &[u8]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for &byte in input {
        let quoted = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("\\{byte:03o}"),
        };
        if pieces.last().is_none_or(|piece| piece.len() + quoted.len() > MAX_QUOTED) {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(&quoted);
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Returns the full names of the living sessions with this name, from the output of `screen -ls`.
pub(super) fn matching(list: &str, name: &str) -> Vec<String> {
    let sessions = list.lines().filter_map(|line| line.strip_prefix('\t')?.split_once('\t'));
    let living = sessions.filter(|(_, status)| !status.contains("(Dead") && !status.contains("(Removed"));
    let named = living.filter(|(id, _)| *id == name || id.split_once('.').is_some_and(|(_, own)| own == name));
    named.map(|(id, _)| id.to_owned()).collect()
}

/// Returns the last line of a display's output, without escape sequences.
pub(super) fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let last = text.lines().map(|line| line.trim_matches(|c: char| c.is_control())).rfind(|line| !line.is_empty());
    let last = last.unwrap_or("it gave no reason");
    // The end of the line is screen's message; before it come escape sequences without blanks.
    last.rfind('[').map_or(last, |at| &last[at..]).to_owned()
}

/// Takes a sequence out of a stream.
pub(super) struct Strip {
    sequence: &'static [u8],
    /// The start of the sequence, if what came last may become it.
    held: usize,
}

impl Strip {
    pub(super) fn new(sequence: &'static [u8]) -> Self {
        Self { sequence, held: 0 }
    }

    /// Returns what of the stream can be passed on. The sequence must not start again within itself.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(bytes.len() + self.held);
        for &byte in bytes {
            if byte != self.sequence[self.held] {
                passed.extend_from_slice(&self.sequence[..self.held]);
                self.held = 0;
            }
            if byte == self.sequence[self.held] {
                self.held = (self.held + 1) % self.sequence.len();
            } else {
                passed.push(byte);
            }
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads octal escapes as `Parse` of screen does.
    fn unquote(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first == '\\' {
                bytes.push(u8::from_str_radix(&rest[1..4], 8).unwrap());
                rest = &rest[4..];
            } else {
                assert!(first.is_ascii_alphanumeric(), "{first:?} means something to screen");
                bytes.push(first as u8);
                rest = &rest[1..];
            }
        }
        bytes
    }

    #[test]
    fn every_byte_survives_quoting() {
        let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let pieces = quoted(&all);
        assert!(pieces.iter().all(|piece| piece.len() <= MAX_QUOTED));
        assert_eq!(pieces.iter().flat_map(|piece| unquote(piece)).collect::<Vec<_>>(), all);
    }

    #[test]
    fn text_stays_short() {
        assert_eq!(quoted(b"echo 1\r"), ["echo\\0401\\015"]);
        assert_eq!(quoted("é".as_bytes()), ["\\303\\251"]);
        assert_eq!(quoted(b""), Vec::<String>::new());
    }

    #[test]
    fn a_session_is_found_by_its_exact_name() {
        let list = "There are screens on:\n\t12.foo\t(11/15/26 09:23:57)\t(Detached)\n\t7.foo\t(Multi, attached)\n\
            \t345.foobar\t(11/15/26 09:23:57)\t(Attached)\n\t9.gone\t(11/15/26 09:23:57)\t(Dead ???)\n3 Sockets in /run.\n";
        assert_eq!(matching(list, "foo"), ["12.foo", "7.foo"]);
        assert_eq!(matching(list, "7.foo"), ["7.foo"]);
        assert_eq!(matching(list, "foob"), Vec::<String>::new());
        assert_eq!(matching(list, "gone"), Vec::<String>::new());
        assert_eq!(matching("No Sockets found in /run.\n", "foo"), Vec::<String>::new());
    }

    #[test]
    fn a_sequence_is_taken_out_wherever_the_stream_is_cut() {
        let stream = b"\x1b[!p\x1b[?1049h\x1b\x1b[?1049h\x1b[?10\x1b[?1049ha\x1b[?1048h\x1b[?1049l";
        let without = b"\x1b[!p\x1b\x1b[?10a\x1b[?1048h\x1b[?1049l";
        for cut in 0..stream.len() {
            let mut strip = Strip::new(b"\x1b[?1049h");
            let passed = [strip.push(&stream[..cut]), strip.push(&stream[cut..])].concat();
            assert_eq!(passed, without, "cut at {cut}");
        }
    }

    #[test]
    fn the_last_line_is_the_message() {
        let output = b"\x1b[?1l\x1b>\x1b[40;1H\r\n\x1b[?1049l\x1b[23;0;0t[remote detached from 1.foo]\r\n";
        assert_eq!(last_line(output), "[remote detached from 1.foo]");
        assert_eq!(last_line(b"Cannot open your terminal\r\n"), "Cannot open your terminal");
        assert_eq!(last_line(b""), "it gave no reason");
    }
}
