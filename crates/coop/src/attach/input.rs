//! Finding the detach key in what is typed.

use anyhow::Context;
use coop_api::Modes;
use coop_term::encode_keys;

/// Knows the key that detaches, in every form a terminal may send it.
pub(super) struct Detector {
    forms: Vec<Vec<u8>>,
}

pub(super) enum Typed {
    Text(Vec<u8>),
    Detach,
}

impl Detector {
    pub(super) fn new(key: &str) -> anyhow::Result<Self> {
        let mut forms = Vec::new();
        for kitty in [0, 1, 8] {
            let modes = Modes { kitty, ..Modes::default() };
            forms.push(encode_keys(&[key], &modes).context("--detach-key")?);
        }
        forms.dedup();
        Ok(Self { forms })
    }

    /// A key comes in one read, so it is looked for at the beginning of each; within a paste it is text.
    pub(super) fn scan(&self, bytes: &[u8]) -> Typed {
        match self.forms.iter().any(|form| form == bytes) {
            true => Typed::Detach,
            false => Typed::Text(bytes.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_known_in_every_form_and_not_within_text() {
        let detector = Detector::new("Ctrl-]").expect("a key");
        for form in [&b"\x1d"[..], b"\x1b[93;5u"] {
            assert!(matches!(detector.scan(form), Typed::Detach));
        }
        assert!(matches!(detector.scan(b"a\x1db"), Typed::Text(_)));
        assert!(Detector::new("Ctrl-Nope").is_err());
    }
}
