//! Patterns for commands.

use crate::glob::Glob;

/// A command by its words: each pattern fits one word, and a lone `*` at the end fits whatever follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    words: Vec<Glob>,
    open: bool,
}

impl CommandPattern {
    /// Makes a pattern, or says why it can fit nothing.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let mut words: Vec<&str> = pattern.split_whitespace().collect();
        if words.is_empty() {
            return Err("it is empty".to_owned());
        }
        if words.iter().any(|word| matches!(*word, "&&" | "||" | "|" | ";" | "&")) {
            return Err("it is one command; each one of a chain is judged by itself".to_owned());
        }
        let open = words.last() == Some(&"*");
        if open {
            words.pop();
        }
        Ok(Self { words: words.into_iter().map(Glob::new).collect(), open })
    }

    /// Tells whether a command fits.
    pub fn is_match<S: AsRef<str>>(&self, words: &[S]) -> bool {
        let enough = if self.open { words.len() >= self.words.len() } else { words.len() == self.words.len() };
        enough && self.words.iter().zip(words).all(|(pattern, word)| pattern.is_match(word.as_ref()))
    }
}
