//! What commands a line has, as a POSIX shell would read it.
//!
//! ```text
//! line    = command ((";" | "&" | "&&" | "||" | "|" | newline) command)*
//! command = word+ (harmless redirection)*
//! ```
//!
//! Anything beyond that is [`Opaque`]: substitutions, variables, groups, loops, assignments, patterns, here documents,
//! redirections to files. It is not refused, but nobody can tell by looking what it does.

use super::glob::Glob;

/// Why a line cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Opaque(&'static str);

/// Words of the shell's own at the beginning of a command.
pub(super) const KEYWORDS: [&str; 21] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
    "in", "time", "coproc", "!", "[[", "{", "}",
];

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

/// Splits a line into its commands, each in words without quotes.
pub fn split(line: &str) -> Result<Vec<Vec<String>>, Opaque> {
    let mut reader = Reader { rest: line.chars().peekable(), commands: Vec::new(), words: Vec::new(), word: None };
    reader.read()?;
    reader.end_command()?;
    if reader.commands.is_empty() {
        return Err(Opaque("there is no command in it"));
    }
    Ok(reader.commands)
}

/// Splits a line at whatever might part commands, with no regard to quotes: to find what is denied in a line that cannot
/// be told apart.
pub(super) fn rough_segments(line: &str) -> impl Iterator<Item = Vec<&str>> {
    let is_before = |word: &&str| KEYWORDS.contains(word) || is_assignment(word);
    line.split(|c| ";&|\n(){}`$<>'\"".contains(c))
        .map(move |part| part.split_whitespace().skip_while(is_before).collect())
}

pub(super) fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash"))
}

pub(super) fn runs_text(flag: &str) -> bool {
    matches!(flag, "-c" | "-lc" | "-ec" | "-cl")
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<Word>,
}

/// A word so far, and whether any of it is quoted.
#[derive(Default)]
struct Word {
    text: String,
    quoted: bool,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Opaque> {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' => self.end_word(),
                '\n' | ';' => {
                    if c == ';' && self.rest.peek() == Some(&';') {
                        return Err(Opaque("it has a case"));
                    }
                    self.end_command()?;
                }
                '&' => {
                    if self.rest.next_if_eq(&'>').is_some() {
                        self.end_word();
                        self.redirection()?;
                    } else {
                        self.rest.next_if_eq(&'&');
                        self.end_command()?;
                    }
                }
                '|' => {
                    if self.rest.next_if_eq(&'|').is_none() {
                        self.rest.next_if_eq(&'&');
                    }
                    self.end_command()?;
                }
                '\'' => self.single()?,
                '"' => self.double()?,
                '\\' => match self.rest.next() {
                    Some('\n') | None => return Err(Opaque("a line goes on after a backslash")),
                    Some(c) => self.push_quoted(c),
                },
                '$' | '`' => return Err(Opaque("it has a substitution or a variable")),
                '(' | ')' | '{' | '}' => return Err(Opaque("it has a group or a substitution")),
                '*' | '?' | '[' | ']' => return Err(Opaque("it has a pattern for file names")),
                '~' if self.word.is_none() => return Err(Opaque("it names somebody's home")),
                '!' => return Err(Opaque("it has a negation or a reference to an earlier command")),
                '#' if self.word.is_none() => return Err(Opaque("it has a comment")),
                '<' => return Err(Opaque("it reads from a file or a here document")),
                '>' => {
                    // A number right before it says which stream.
                    match self.word.take() {
                        Some(word) if !word.quoted && word.text.bytes().all(|byte| byte.is_ascii_digit()) => {}
                        Some(word) => self.words.push(word.text),
                        None => {}
                    }
                    self.redirection()?;
                }
                c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                    return Err(Opaque("it has a strange character"));
                }
                c => self.word.get_or_insert_default().text.push(c),
            }
        }
        Ok(())
    }

    /// Passes over what writes no file: to another stream, or to nowhere.
    fn redirection(&mut self) -> Result<(), Opaque> {
        let writes = Err(Opaque("it writes to a file"));
        if self.rest.next_if_eq(&'&').is_some() {
            return match self.rest.next() {
                Some('1' | '2') if self.at_end_of_word() => Ok(()),
                _ => writes,
            };
        }
        self.rest.next_if_eq(&'>');
        while self.rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let mut target = String::new();
        while !self.at_end_of_word() {
            target.extend(self.rest.next());
        }
        if target == "/dev/null" { Ok(()) } else { writes }
    }

    fn at_end_of_word(&mut self) -> bool {
        self.rest.peek().is_none_or(|c| " \t\n;&|<>()".contains(*c))
    }

    fn push_quoted(&mut self, c: char) {
        let word = self.word.get_or_insert_default();
        word.quoted = true;
        word.text.push(c);
    }

    fn single(&mut self) -> Result<(), Opaque> {
        self.word.get_or_insert_default().quoted = true;
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(c) => self.push_quoted(c),
                None => return Err(Opaque("a quote is not closed")),
            }
        }
    }

    fn double(&mut self) -> Result<(), Opaque> {
        self.word.get_or_insert_default().quoted = true;
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('$' | '`') => return Err(Opaque("it has a substitution or a variable")),
                Some('!') => return Err(Opaque("it may have a reference to an earlier command")),
                Some('\\') => match self.rest.next() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push_quoted(c),
                    Some('\n') | None => return Err(Opaque("a line goes on after a backslash")),
                    Some(c) => {
                        self.push_quoted('\\');
                        self.push_quoted(c);
                    }
                },
                Some(c) => self.push_quoted(c),
                None => return Err(Opaque("a quote is not closed")),
            }
        }
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take() {
            self.words.push(word.text);
        }
    }

    fn end_command(&mut self) -> Result<(), Opaque> {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        let Some(first) = words.first() else { return Ok(()) };
        if KEYWORDS.contains(&first.as_str()) {
            return Err(Opaque("it has a loop, a condition or another word of the shell's own"));
        }
        if is_assignment(first) {
            return Err(Opaque("it sets a variable"));
        }
        self.commands.push(words);
        Ok(())
    }
}

/// `NAME=…` before a command changes what it does, as `LD_PRELOAD=…` does.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
