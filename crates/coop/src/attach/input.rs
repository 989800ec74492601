//! Finding the detach key in what is typed.

use anyhow::Context;
use coop_api::Modes;
use coop_term::encode_keys;

/// Knows the key that detaches, in every form a terminal may send it.
pub(super) struct Detector {
    forms: Vec<Vec<u8>>,
    /// Within a paste nothing is a key.
    pasting: bool,
}

/// What was typed before the detach key, if it was pressed, and else all of it.
pub(super) struct Typed {
    pub(super) text: Vec<u8>,
    pub(super) detach: bool,
}

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

impl Detector {
    pub(super) fn new(key: &str) -> anyhow::Result<Self> {
        let mut forms = Vec::new();
        for kitty in [0, 1, 8] {
            let modes = Modes { kitty, ..Modes::default() };
            forms.push(encode_keys(&[key], &modes).context("--detach-key")?);
        }
        forms.dedup();
        Ok(Self { forms, pasting: false })
    }

    pub(super) fn scan(&mut self, bytes: &[u8]) -> Typed {
        for at in 0..bytes.len() {
            let rest = &bytes[at..];
            if rest.starts_with(PASTE_BEGINS) {
                self.pasting = true;
            } else if rest.starts_with(PASTE_ENDS) {
                self.pasting = false;
            } else if !self.pasting && self.forms.iter().any(|form| rest.starts_with(form)) {
                return Typed { text: bytes[..at].to_vec(), detach: true };
            }
        }
        Typed { text: bytes.to_vec(), detach: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_known_in_every_form_and_not_within_a_paste() {
        let mut detector = Detector::new("Ctrl-]").expect("a key");
        let mut scan = |bytes: &[u8]| {
            let Typed { text, detach } = detector.scan(bytes);
            (String::from_utf8_lossy(&text).into_owned(), detach)
        };
        assert_eq!(scan(b"\x1d"), (String::new(), true));
        assert_eq!(scan(b"ab\x1b[93;5uc"), ("ab".into(), true));
        assert_eq!(scan(b"plain"), ("plain".into(), false));
        assert!(!scan(b"\x1b[200~a\x1db").1);
        assert!(scan(b"\x1d\x1b[201~\x1d").1);
        assert!(Detector::new("Ctrl-Nope").is_err());
    }
}
