//! Patterns with `*` and `?`.

use std::fmt;

/// A pattern in which `*` stands for anything and `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Makes a pattern; every text is one.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Tells whether all of a text fits.
    pub fn is_match(&self, text: &str) -> bool {
        let pattern: Vec<char> = self.0.chars().collect();
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut pos) = (0, 0);
        // Where the last star stood, and how much of the text it has taken.
        let mut star: Option<(usize, usize)> = None;
        while pos < text.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, pos));
                    at += 1;
                }
                Some(&c) if c == '?' || c == text[pos] => {
                    at += 1;
                    pos += 1;
                }
                _ => match star {
                    Some((back, taken)) => {
                        star = Some((back, taken + 1));
                        at = back + 1;
                        pos = taken + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|c| *c == '*')
    }
}

impl Glob {
    /// Tells whether a text that begins so can fit.
    pub(crate) fn may_begin_with(&self, beginning: &str) -> bool {
        let plain = self.0.split(['*', '?']).next().unwrap_or_default();
        let is_whole = plain.len() == self.0.len();
        plain.starts_with(beginning) || !is_whole && beginning.starts_with(plain)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
