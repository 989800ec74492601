//! What a line runs, for rules that deny or ask: such a rule is meant for a program however it is started.
//!
//! A command is seen by the name of its program without the folder, without the options before its first word, and behind
//! programs that run another one: `env`, `sudo`, `timeout 5`, `sh -c '…'`. Where an option may or may not have a value both
//! readings are seen. So more is seen than runs, never less, as long as the line is not opaque; and a program can run
//! others that no line shows.

use crate::programs::{RUNNERS, is_any_shell, starts, why_opaque};
use crate::shell::{base_name, is_assignment, is_special, runs_text, split};

/// How deep commands may be within commands.
const DEEPEST: usize = 8;
/// How many commands are looked at.
const MOST_COMMANDS: usize = 256;

/// The commands that a line may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Each in its words, and several times if it can be read in several ways.
    pub(crate) commands: Vec<Vec<String>>,
    /// Why there may be others.
    pub(crate) opaque: Option<String>,
}

impl Sight {
    pub(crate) fn of(line: &str) -> Self {
        let mut sight = Self::default();
        sight.line(line, 0);
        sight
    }

    fn line(&mut self, line: &str, depth: usize) {
        match split(line) {
            Ok(commands) => commands.iter().for_each(|found| self.command(&found.words, depth)),
            Err(opaque) => {
                self.hide(opaque.to_string());
                let unquoted: String = line.chars().filter(|c| !"'\"\\".contains(*c)).collect();
                for text in [line, &unquoted] {
                    rough_segments(text).for_each(|words| self.command(&words, depth));
                }
            }
        }
    }

    fn command(&mut self, words: &[String], depth: usize) {
        let Some((first, rest)) = words.split_first() else { return };
        if depth > DEEPEST || self.commands.len() >= MOST_COMMANDS {
            return self.hide("it has too many commands within commands");
        }
        let name = base_name(first);
        self.commands.push(words.to_vec());
        let as_named = |rest: &[String]| [&[name.to_owned()][..], rest].concat();
        self.commands.extend([rest].into_iter().chain(starts(rest, 1).all).map(as_named));
        if let Some(why) = why_opaque(name, rest) {
            self.hide(why);
        }
        if is_any_shell(name) {
            self.shell(rest, depth);
        } else if name == "eval" {
            self.line(&rest.join(" "), depth + 1);
        } else if let Some((_, before)) = RUNNERS.iter().find(|(runner, _)| *runner == name) {
            self.runner(rest, *before, depth);
        } else if name == "find" {
            let is_run = |word: &String| word.starts_with("-exec") || word.starts_with("-ok");
            for (at, _) in rest.iter().enumerate().filter(|(_, word)| is_run(word)) {
                self.command(&rest[at + 1..], depth + 1);
            }
        }
    }

    fn shell(&mut self, rest: &[String], depth: usize) {
        if let Some(at) = rest.iter().position(|word| runs_text(word)) {
            rest[at + 1..].iter().filter(|word| !word.starts_with('-')).for_each(|text| self.line(text, depth + 1));
        }
    }

    fn runner(&mut self, rest: &[String], before: usize, depth: usize) {
        for word in rest.iter().filter(|word| word.contains(char::is_whitespace) && !is_assignment(word)) {
            // Some give it to a shell.
            let text = word.strip_prefix("--").and_then(|long| long.split_once('=')).map_or(&**word, |(_, text)| text);
            self.line(text, depth + 1);
        }
        starts(rest, before + 1).all.into_iter().for_each(|words| self.command(words, depth + 1));
    }

    fn hide(&mut self, why: impl Into<String>) {
        self.opaque.get_or_insert(why.into());
    }
}

/// Splits a line at whatever might part commands, with no regard to quotes.
fn rough_segments(line: &str) -> impl Iterator<Item = Vec<String>> {
    line.split(|c| ";&|\n(){}`$<>'\"".contains(c)).map(|part| {
        let words = part.split_whitespace().skip_while(|word| is_special(word));
        words.map(str::to_owned).collect()
    })
}
