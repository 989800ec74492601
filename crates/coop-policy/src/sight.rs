//! What a line runs, for rules that deny or ask: such a rule is meant for a program however it is started.
//!
//! A command is seen by the name of its program without the folder, without the options before its first word, and behind
//! programs that run another one: `env`, `sudo`, `timeout 5`, `sh -c '…'`. Where an option may or may not have a value both
//! readings are seen. So more is seen than runs, never less, as long as the line is not opaque; and a program can run
//! others that no line shows.

use crate::shell::{base_name, is_assignment, is_shell, is_special, runs_text, split};

/// How deep commands may be within commands.
const DEEPEST: usize = 8;
/// How many commands are looked at.
const MOST_COMMANDS: usize = 256;

/// Programs that run the command that their words hold, and how many words stand before it.
const RUNNERS: &[(&str, usize)] = &[
    ("builtin", 0),
    ("busybox", 0),
    ("caffeinate", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("doas", 0),
    ("env", 0),
    ("exec", 0),
    ("flock", 1),
    ("ionice", 0),
    ("ltrace", 0),
    ("nice", 0),
    ("nohup", 0),
    ("nsenter", 0),
    ("parallel", 0),
    ("runuser", 0),
    ("script", 0),
    ("setpriv", 0),
    ("setsid", 0),
    ("stdbuf", 0),
    ("strace", 0),
    ("su", 1),
    ("sudo", 0),
    ("systemd-run", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("toybox", 0),
    ("unshare", 0),
    ("watch", 0),
    ("xargs", 0),
];
/// Programs that read a program in another language from their command line, and the letters of the options for it. The text
/// of `awk` needs no option.
const INTERPRETERS: &[(&str, &str)] =
    &[("lua", "e"), ("node", "ep"), ("perl", "eE"), ("php", "r"), ("python", "c"), ("ruby", "e")];

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
        self.commands.extend([rest].into_iter().chain(starts(rest, 1)).map(as_named));
        if is_shell(name) {
            self.shell(rest, depth);
        } else if name == "eval" {
            self.line(&rest.join(" "), depth + 1);
        } else if let Some((_, before)) = RUNNERS.iter().find(|(runner, _)| *runner == name) {
            self.runner(name, rest, *before, depth);
        } else if name == "find" {
            let is_run = |word: &String| word.starts_with("-exec") || word.starts_with("-ok");
            for (at, _) in rest.iter().enumerate().filter(|(_, word)| is_run(word)) {
                self.command(&rest[at + 1..], depth + 1);
            }
        } else if name == "git" && sets_git(rest) {
            self.hide("a setting of git may be a command of its own");
        } else if reads_a_program(name, rest) {
            self.hide("it holds a program in another language");
        }
    }

    fn shell(&mut self, rest: &[String], depth: usize) {
        match rest.iter().position(|word| runs_text(word)) {
            Some(at) => {
                rest[at + 1..].iter().filter(|word| !word.starts_with('-')).for_each(|text| self.line(text, depth + 1));
            }
            None if rest.iter().all(|word| word.starts_with('-')) => self.hide("a shell runs what it reads"),
            None => {}
        }
    }

    fn runner(&mut self, name: &str, rest: &[String], before: usize, depth: usize) {
        if name == "xargs" || name == "parallel" {
            self.hide(format!("{name} runs what it reads"));
        }
        for word in rest.iter().filter(|word| !is_assignment(word)) {
            if word.starts_with("-S") || word.starts_with("--sp") {
                self.hide(format!("{name} splits words by itself"));
            } else if word.contains(char::is_whitespace) {
                // Some give it to a shell.
                let text =
                    word.strip_prefix("--").and_then(|long| long.split_once('=')).map_or(&**word, |(_, text)| text);
                self.line(text, depth + 1);
            }
        }
        starts(rest, before + 1).into_iter().for_each(|words| self.command(words, depth + 1));
    }

    fn hide(&mut self, why: impl Into<String>) {
        self.opaque.get_or_insert(why.into());
    }
}

/// Returns the places where the words after a program's own options may begin: after an option, its value may or may not
/// come first. Ends with the word that is surely the last of `sure` ones.
fn starts(words: &[String], sure: usize) -> Vec<&[String]> {
    let (mut found, mut passed, mut may_be_value) = (Vec::new(), 0, false);
    for (at, word) in words.iter().enumerate() {
        if word.starts_with(['-', '+']) || is_assignment(word) {
            may_be_value = word.starts_with('-') && word != "--";
            continue;
        }
        found.push(&words[at..]);
        passed += usize::from(!may_be_value);
        may_be_value = false;
        if passed == sure {
            break;
        }
    }
    found
}

/// Tells whether git is given settings: an alias is a command, and many others name programs.
fn sets_git(rest: &[String]) -> bool {
    let after = starts(rest, 1).last().map_or(0, |words| words.len());
    let own = &rest[..rest.len() - after];
    own.iter().any(|word| word.starts_with("-c") || word.starts_with("--config-env") || word.starts_with("--exec-path"))
}

fn reads_a_program(name: &str, rest: &[String]) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_flag = |word: &String, letters: &str| match word.strip_prefix("--") {
        Some(long) => ["eval", "print"].iter().any(|flag| long.starts_with(flag)),
        None => word.starts_with('-') && word.contains(|c| letters.contains(c)),
    };
    let found = INTERPRETERS.iter().find(|(interpreter, _)| *interpreter == plain);
    plain.ends_with("awk") || found.is_some_and(|(_, letters)| rest.iter().any(|word| is_flag(word, letters)))
}

/// Splits a line at whatever might part commands, with no regard to quotes.
fn rough_segments(line: &str) -> impl Iterator<Item = Vec<String>> {
    line.split(|c| ";&|\n(){}`$<>'\"".contains(c)).map(|part| {
        let words = part.split_whitespace().skip_while(|word| is_special(word));
        words.map(str::to_owned).collect()
    })
}
