//! What rules say of commands.

use coop_shell::is_special;

use super::glob::Glob;

/// What commands a line has, if rules can judge it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Opaque {
    #[error(transparent)]
    Line(#[from] coop_shell::Opaque),
    #[error("it writes to a file")]
    Writes,
}

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

/// Splits a line into its commands, each in words without quotes. A rule is about words: where output goes is not in them.
pub fn split(line: &str) -> Result<Vec<Vec<String>>, Opaque> {
    let commands = coop_shell::split(line)?;
    if commands.iter().any(|command| command.writes) {
        return Err(Opaque::Writes);
    }
    Ok(commands.into_iter().map(|command| command.words).collect())
}

/// Splits a line at whatever might part commands, with no regard to quotes: to find what is denied in a line that cannot
/// be told apart.
pub(super) fn rough_segments(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.split(|c| ";&|\n(){}`$<>'\"".contains(c))
        .map(|part| part.split_whitespace().skip_while(|word| is_special(word)).collect())
}
