//! Makes a long JSON object short enough to be sent, while it is read.
//!
//! Long strings lose their ends, and a value of the outermost object that is long all the same is left out; in both
//! places a note says so. What comes out is JSON if what went in was.

/// How many bytes of each string are kept. Two of them with their notes fit into an event, which holds 64 KiB of a tool.
const STRING: usize = 30 * 1024;
/// How long a value of the outermost object may be, with its strings cut.
const VALUE: usize = 1024 * 1024;

/// What has been seen, cut.
#[derive(Default)]
pub(super) struct Cut {
    out: Vec<u8>,
    depth: usize,
    string: Option<Text>,
    value: Value,
}

/// Where in a string we are.
#[derive(Default)]
struct Text {
    kept: usize,
    left_out: usize,
    /// The beginning of a character or an escape: none is torn apart.
    unit: Vec<u8>,
}

/// Where in the outermost object we are.
#[derive(Clone, Copy, Default)]
enum Value {
    /// Between two values.
    #[default]
    Between,
    /// In one whose beginning in what comes out is known.
    From(usize),
    /// In one that is left out.
    LeftOut,
}

impl Cut {
    pub(super) fn feed(&mut self, text: &[u8]) {
        for &byte in text {
            match self.string.take() {
                Some(text) => self.string = self.in_string(text, byte),
                None => self.outside(byte),
            }
            if let Value::From(begin) = self.value
                && self.out.len() > begin + VALUE
            {
                self.out.truncate(begin);
                self.out.extend_from_slice(b"\"[coop left this out: it is too long]\"");
                self.value = Value::LeftOut;
            }
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    fn push(&mut self, bytes: &[u8]) {
        if !matches!(self.value, Value::LeftOut) {
            self.out.extend_from_slice(bytes);
        }
    }

    fn outside(&mut self, byte: u8) {
        if self.depth == 1 && matches!(byte, b',' | b'}') {
            self.value = Value::Between;
        }
        self.push(&[byte]);
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => self.value = Value::From(self.out.len()),
            b'"' => self.string = Some(Text::default()),
            _ => {}
        }
    }

    /// Takes one more byte of a string, and returns the string unless it ends there.
    fn in_string(&mut self, mut text: Text, byte: u8) -> Option<Text> {
        if text.unit.is_empty() && byte == b'"' {
            if text.left_out > 0 {
                self.push(format!(" [coop cut {} bytes]", text.left_out).as_bytes());
            }
            self.push(b"\"");
            return None;
        }
        text.unit.push(byte);
        if text.unit.len() >= length(&text.unit) {
            if text.left_out == 0 && (text.kept < STRING || is_second_half(&text.unit)) {
                text.kept += text.unit.len();
                self.push(&text.unit);
            } else {
                text.left_out += text.unit.len();
            }
            text.unit.clear();
        }
        Some(text)
    }
}

/// Returns how long the character or escape is that begins like this.
fn length(unit: &[u8]) -> usize {
    match unit {
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        [0xc0..=0xdf, ..] => 2,
        [0xe0..=0xef, ..] => 3,
        [0xf0..=0xff, ..] => 4,
        _ => 1,
    }
}

/// Tells whether an escape is the second half of a character, which is nothing without it.
fn is_second_half(unit: &[u8]) -> bool {
    matches!(unit, [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Cuts a text that comes in pieces of this size.
    fn cut(text: &str, piece: usize) -> Value {
        let mut cut = Cut::default();
        text.as_bytes().chunks(piece).for_each(|piece| cut.feed(piece));
        let bytes = cut.into_bytes();
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
    }

    #[test]
    fn what_is_short_stays_as_it_is() {
        let text =
            r#" {"a": "x\"}\\", "b": [1, {"c": null}], "d": {"e": "é漢👍 \ud83d\udc4d"}, "f": -1.5e3, "g": {}} "#;
        for piece in 1..20 {
            assert_eq!(cut(text, piece), serde_json::from_str::<Value>(text).expect("it is JSON"));
        }
    }

    #[test]
    fn long_strings_lose_their_ends_and_no_character_is_torn() {
        // However the beginning shifts them, the cut comes between two.
        for unit in ["a", "é", "漢", "👍", r"\n", r"\ud83d\udc4d"] {
            for shift in 0..12 {
                let long = format!("{}{}", "-".repeat(shift), unit.repeat(STRING + 1));
                let text = format!(r#"{{"tool": {{"output": "{long}"}}, "name": "x"}}"#);
                let found = cut(&text, 1000);
                assert_eq!(found["name"], "x");
                let output = found["tool"]["output"].as_str().expect("a string");
                let kept = output.split(" [coop cut ").next().expect("a beginning");
                assert!(kept.len() < STRING + 12 && output.ends_with(" bytes]"), "{unit} {shift}: {}", output.len());
            }
        }
    }

    #[test]
    fn a_long_value_is_left_out_and_the_rest_stays() {
        let lines: Vec<_> = (0..200_000).map(|n| format!("line {n}, \"quoted\"")).collect();
        let text = json!({ "a": 1, "response": { "lines": lines, "more": [[]] }, "z": "end" }).to_string();
        let left_out = "[coop left this out: it is too long]";
        assert_eq!(cut(&text, 4096), json!({ "a": 1, "response": left_out, "z": "end" }));
    }
}
