//! What the input of a tool is about. Each agent kind names things in its own way, and over ACP each agent does: what is not
//! known for sure is hidden, and then no rule about paths or commands allows it.

use coop_api::Ask;
use coop_drivers::{Known, Tool};
use serde_json::Value;

use crate::shell::{Command, is_shell, quoted, split, system_name};
use crate::sight::Sight;
use crate::tools::does;

/// The names of one file or folder, in small letters and without `_`.
const PATHS: [&str; 6] = ["filepath", "path", "notebookpath", "absolutepath", "dirpath", "abspath"];
/// A name with one of these in it may be of files too.
const LIKE_PATHS: [&str; 13] =
    ["path", "file", "dir", "folder", "dest", "source", "target", "root", "location", "uri", "cwd", "from", "notebook"];
/// Names that have one of them in them and are of no file.
const UNLIKE_PATHS: [&str; 1] = ["newsource"];
/// Names of patterns, which may lead to other folders.
const PATTERNS: [&str; 4] = ["pattern", "glob", "include", "exclude"];
/// A name with one of these in it takes the tool out of the agent's sandbox, or widens it.
const ESCAPES: [&str; 6] =
    ["sandbox", "escalat", "additionalpermission", "networkapproval", "networkpolicyamendment", "bypass"];
/// Values that leave everything as it is.
const AS_USUAL: [&str; 2] = ["", "use_default"];

/// What an ask is about.
pub(crate) struct Subject {
    /// All that its tool may do; nothing if the tool is not known.
    pub(crate) does: &'static [Tool],
    pub(crate) paths: Vec<String>,
    /// Whether there may be other paths.
    pub(crate) hides_paths: bool,
    pub(crate) command: Option<Line>,
    pub(crate) leaves_sandbox: bool,
}

/// A command line.
pub(crate) struct Line {
    /// Its commands in words, for rules that allow: only what is surely all of it.
    pub(crate) plain: Result<Vec<Vec<String>>, String>,
    /// All that it may run, for rules that deny or ask.
    pub(crate) sight: Sight,
}

impl Subject {
    pub(crate) fn of(kind: Option<&Known>, ask: &Ask) -> Self {
        let does = does(kind, ask.tool.as_deref().unwrap_or_default());
        let command = ask.input.as_ref().and_then(command_line);
        // A shell whose command is not where commands are runs something all the same.
        let unseen = || does.contains(&Tool::Shell).then(|| Line::hidden("its command is not told"));
        let mut subject = Self {
            does,
            paths: Vec::new(),
            hides_paths: false,
            command: command.map(|text| Line::of(&text)).or_else(unseen),
            leaves_sandbox: ask.input.as_ref().is_some_and(leaves_sandbox),
        };
        if let Some(input) = &ask.input {
            each_entry(input, 0, &mut |key, value, depth| subject.entry(key, value, depth));
        }
        subject
    }

    fn entry(&mut self, key: &str, value: &Value, depth: usize) {
        let is_like = |names: &[&str]| names.iter().any(|name| key.contains(name));
        if is_like(&PATTERNS) {
            self.hides_paths |= texts(value).iter().any(|text| text.contains(['/', '~']) || text.contains(".."));
        } else if is_like(&LIKE_PATHS) && !UNLIKE_PATHS.contains(&key) {
            let is_plain = depth == 0 && value.is_string() && PATHS.contains(&key);
            let is_none = matches!(value, Value::Null | Value::Bool(_) | Value::Number(_));
            self.hides_paths |= !is_plain && !is_none;
            // Several may be in one text.
            self.paths.extend(texts(value).iter().flat_map(|text| text.split(", ")).map(str::to_owned));
        }
    }
}

/// Tells whether a tool's input takes it out of the agent's own sandbox, or widens that.
pub fn leaves_sandbox(input: &Value) -> bool {
    let mut leaves = false;
    each_entry(input, 0, &mut |key, value, _| {
        let is_said = match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !AS_USUAL.contains(&text.as_str()),
            Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
        };
        leaves |= is_said && ESCAPES.iter().any(|name| key.contains(name));
    });
    leaves
}

/// Calls `see` with each key, in small letters and without `_`, its value, and how deep it is.
fn each_entry(value: &Value, depth: usize, see: &mut impl FnMut(&str, &Value, usize)) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let key: String = key.to_ascii_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
                see(&key, value, depth);
                each_entry(value, depth + 1, see);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| each_entry(value, depth + 1, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

impl Line {
    fn of(text: &str) -> Self {
        let inner = shell_text(text);
        let plain = split(inner.as_deref().unwrap_or(text)).map_err(|opaque| opaque.to_string());
        let plain = plain.and_then(|commands| match commands.iter().any(|command| command.writes) {
            true => Err("it writes to a file".to_owned()),
            false => Ok(commands.into_iter().map(|command| command.words).collect()),
        });
        Self { plain, sight: Sight::of(text) }
    }

    fn hidden(why: &str) -> Self {
        Self { plain: Err(why.to_owned()), sight: Sight { commands: Vec::new(), opaque: Some(why.to_owned()) } }
    }
}

/// Returns the text that a line gives to a shell of the system, if it does nothing else: some agents run every command so.
fn shell_text(line: &str) -> Option<String> {
    let commands = split(line).ok()?;
    let [Command { words, writes: false }] = &commands[..] else { return None };
    let [shell, flag, text] = &words[..] else { return None };
    let is_meant = system_name(shell).is_some_and(is_shell) && matches!(flag.as_str(), "-c" | "-lc");
    is_meant.then(|| text.clone())
}

/// Returns the command line that a tool's input holds, as a shell would be given it. What cannot be told becomes a line that
/// is [`Opaque`](crate::Opaque).
pub fn command_line(input: &Value) -> Option<String> {
    const UNTOLD: &str = "$";
    let found = |keys: &[&str]| keys.iter().filter_map(|key| input.get(*key)).filter(|value| !value.is_null()).count();
    let value = ["command", "cmd"].iter().map(|key| &input[*key]).find(|value| !value.is_null())?;
    let line = match value {
        Value::String(text) => text.clone(),
        // A list of words is not for a shell, but the words may be.
        Value::Array(words) => {
            words.iter().map(|word| word.as_str().map_or(UNTOLD.to_owned(), quoted)).collect::<Vec<_>>().join(" ")
        }
        _ => UNTOLD.to_owned(),
    };
    // Which of two is run, and how words are put together, only the agent knows.
    let arguments: Vec<_> = ["args", "argv", "arguments"].iter().flat_map(|key| texts(&input[*key])).collect();
    let others = ["commands", "script", "args", "argv", "arguments"];
    if found(&["command", "cmd"]) > 1 || found(&others) > 0 {
        return Some([&[line.as_str()], &arguments[..], &[UNTOLD]].concat().join(" "));
    }
    Some(line)
}
