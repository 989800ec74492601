//! What commands a line has, as a POSIX shell would read it.
//!
//! ```text
//! line        = newline* command ((";" | "&" | (("&&" | "||" | "|") newline*) | newline+) command)* [";" | "&"] newline*
//! command     = word+ redirection*
//! redirection = [number] (">" | ">>" | "&>") plain-word
//! ```
//!
//! Anything beyond that is [`Opaque`]: substitutions, variables, groups, loops, assignments, patterns, here documents. It is
//! not refused, but nobody can tell by looking what it does.

/// Why a line cannot be told apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Opaque(&'static str);

/// A command in its words, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub words: Vec<String>,
    /// Whether its output goes to a file.
    pub writes: bool,
}

/// Words of the shell's own at the beginning of a command.
const KEYWORDS: [&str; 21] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
    "in", "time", "coproc", "!", "[[", "{", "}",
];

/// Splits a line into its commands.
pub fn split(line: &str) -> Result<Vec<Command>, Opaque> {
    let mut reader = Reader {
        rest: line.chars().peekable(),
        commands: Vec::new(),
        words: Vec::new(),
        word: None,
        writes: false,
        redirects: false,
        needs_command: false,
    };
    reader.read()?;
    reader.end_command(After::End)?;
    if reader.commands.is_empty() {
        return Err(Opaque("there is no command in it"));
    }
    Ok(reader.commands)
}

/// Returns a word as a shell reads it: nothing in it means anything.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Tells whether a shell might not take this word, at the beginning of a command, for a program: a word of its own, or
/// `NAME=…`, which changes what the command does, as `LD_PRELOAD=…` does.
pub(crate) fn is_special(word: &str) -> bool {
    KEYWORDS.contains(&word) || is_assignment(word)
}

/// Tells whether it sets a variable.
pub fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Tells whether a program is a shell that reads a line as `split` does, by its name or path.
pub fn is_shell(program: &str) -> bool {
    matches!(base_name(program), "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash")
}

/// Tells whether a shell with this flag runs text on its command line.
pub(crate) fn runs_text(flag: &str) -> bool {
    flag.starts_with('-') && !flag.starts_with("--") && flag.contains('c')
}

/// Tells whether a file may be what a program reads from a pipe or an open file.
pub(crate) fn is_stream(file: &str) -> bool {
    file == "-" || file.contains("dev/") || file.contains("proc/")
}

/// Folders with programs of the system.
const SYSTEM_FOLDERS: [&str; 4] = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Returns the name of a program that is looked up by the shell or is the system's; nothing for one in another folder.
pub(crate) fn system_name(program: &str) -> Option<&str> {
    match program.rsplit_once('/') {
        None => Some(program),
        Some((folder, name)) => SYSTEM_FOLDERS.contains(&folder).then_some(name),
    }
}

/// Returns a program's name without its folder.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

const STRANGE: Opaque = Opaque("it is not plain where its output goes");

/// What comes after a command.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// Another command, or the end: after `;` and `&`.
    Any,
    /// Another command: after `&&`, `||` and `|`.
    Command,
    /// A line's end, which may be anywhere between commands.
    Line,
    End,
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    commands: Vec<Command>,
    words: Vec<String>,
    word: Option<Word>,
    writes: bool,
    /// Whether the command so far has a redirection.
    redirects: bool,
    /// Whether the last sign needs a command after it.
    needs_command: bool,
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
                    self.end_command(if c == ';' { After::Any } else { After::Line })?;
                }
                '&' => {
                    if self.rest.next_if_eq(&'>').is_some() {
                        if self.rest.peek() == Some(&'&') {
                            return Err(STRANGE);
                        }
                        self.end_word();
                        self.redirection()?;
                    } else {
                        let goes_on = self.rest.next_if_eq(&'&').is_some();
                        self.end_command(if goes_on { After::Command } else { After::Any })?;
                    }
                }
                '|' => {
                    if self.rest.next_if_eq(&'|').is_none() {
                        self.rest.next_if_eq(&'&');
                    }
                    self.end_command(After::Command)?;
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
                '~' if self.may_be_home() => return Err(Opaque("it names somebody's home")),
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

    /// Reads where the output goes: to another stream, to nowhere, or to a file.
    fn redirection(&mut self) -> Result<(), Opaque> {
        self.redirects = true;
        if self.rest.next_if_eq(&'&').is_some() {
            return match self.rest.next() {
                Some('1' | '2') if self.at_end_of_word() => Ok(()),
                _ => Err(STRANGE),
            };
        }
        self.rest.next_if_eq(&'>');
        while self.rest.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        let mut target = String::new();
        while !self.at_end_of_word() {
            target.extend(self.rest.next());
        }
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
        // A number right before another redirection belongs to that.
        let is_number = target.bytes().all(|byte| byte.is_ascii_digit());
        let is_next = self.rest.peek().is_some_and(|c| "<>".contains(*c));
        if target.is_empty() || !target.chars().all(is_plain) || is_number && is_next {
            return Err(STRANGE);
        }
        self.writes |= target != "/dev/null";
        Ok(())
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

    /// Tells whether a tilde here stands for a home: at the beginning of a word, and of a value in some shells.
    fn may_be_home(&self) -> bool {
        self.word.as_ref().is_none_or(|word| word.text.ends_with(['=', ':']))
    }

    fn end_command(&mut self, after: After) -> Result<(), Opaque> {
        self.end_word();
        let (words, writes) = (std::mem::take(&mut self.words), std::mem::take(&mut self.writes));
        let redirects = std::mem::take(&mut self.redirects);
        let Some(first) = words.first() else {
            return match after {
                // `> file` alone empties it.
                _ if redirects => Err(Opaque("it has a redirection without a command")),
                After::Line => Ok(()),
                After::End if !self.needs_command => Ok(()),
                After::End | After::Any | After::Command => Err(Opaque("there is no command before or after a sign")),
            };
        };
        if KEYWORDS.contains(&first.as_str()) {
            return Err(Opaque("it has a loop, a condition or another word of the shell's own"));
        }
        if is_assignment(first) {
            return Err(Opaque("it sets a variable"));
        }
        self.needs_command = after == After::Command;
        self.commands.push(Command { words, writes });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
