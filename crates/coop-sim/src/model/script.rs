//! What the model says when the prompt does not tell it: a file in TOML.
//!
//! ```toml
//! text = "Hello from the mock model."    # the answer to everything else
//!
//! [usage]                                # the tokens that every answer tells
//! input = 1200
//! output = 42
//! cache_read = 5000
//! cache_write = 300
//!
//! [[reply]]                              # the first that fits and is not used up
//! when = "(?i)deploy"                    # a pattern for the newest text of the user; all, if absent
//! times = 2                              # 1 if absent; "always"
//! delay_ms = 100                         # before the answer begins
//! text = "On it."
//! tool = "Bash"                          # as the agent calls it
//! input = { command = "make deploy" }
//! cut = true                             # close the connection in the middle
//!
//! [[reply]]                              # or a failure
//! error = { status = 529, type = "overloaded_error", message = "Overloaded", retry_after = 1 }
//! ```

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fs, io};

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::directive::Times;
use super::fault::Fault;
use super::reply::Ending;

/// What the model says.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub(crate) text: String,
    pub(crate) usage: Usage,
    pub(crate) reply: Vec<Scripted>,
}

/// The tokens that an answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

/// One reply of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Entry")]
pub(crate) struct Scripted {
    pub(crate) when: Option<Regex>,
    pub(crate) times: Times,
    pub(crate) delay: Duration,
    pub(crate) ending: Ending,
    pub(crate) outcome: ScriptedOutcome,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ScriptedOutcome {
    Say { text: Option<String>, tool: Option<(String, Value)> },
    Fail(Fault),
}

/// Why there is no script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The text is not a script.
    #[error("cannot understand the script")]
    Parse(#[from] toml::de::Error),
}

impl Script {
    /// Reads a script from a file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = fs::read_to_string(path).map_err(|source| ScriptError::Read { path: path.to_owned(), source })?;
        text.parse()
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Ok(toml::from_str(text)?)
    }
}

impl Default for Script {
    fn default() -> Self {
        Self { text: "Hello from the mock model.".to_owned(), usage: Usage::default(), reply: Vec::new() }
    }
}

/// What the recordings of the real agents show.
impl Default for Usage {
    fn default() -> Self {
        Self { input: 1200, output: 42, cache_read: 5000, cache_write: 300 }
    }
}

impl Usage {
    /// Returns all that went in, cached or not.
    pub(crate) fn whole_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns all that went in and out.
    pub(crate) fn total(&self) -> u64 {
        self.whole_input().saturating_add(self.output)
    }
}

/// A reply as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    when: Option<String>,
    times: Option<EntryTimes>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    cut: bool,
    text: Option<String>,
    tool: Option<String>,
    input: Option<Map<String, Value>>,
    error: Option<Fault>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EntryTimes {
    Number(u32),
    Word(EntryWord),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum EntryWord {
    Always,
}

#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("`when` is not a pattern: {0}")]
    Pattern(#[from] regex::Error),
    #[error("a reply is an error or an answer, not both")]
    ErrorAndAnswer,
    #[error("`input` needs a `tool`")]
    InputWithoutTool,
    #[error("an error's status is from 400 to 599")]
    Status,
}

impl TryFrom<Entry> for Scripted {
    type Error = EntryError;

    fn try_from(entry: Entry) -> Result<Self, EntryError> {
        let when = entry.when.as_deref().map(Regex::new).transpose()?;
        let times = match entry.times {
            None => Times::Only(1),
            Some(EntryTimes::Number(times)) => Times::Only(times),
            Some(EntryTimes::Word(EntryWord::Always)) => Times::Always,
        };
        let ending = if entry.cut { Ending::Cut } else { Ending::Complete };
        let delay = Duration::from_millis(entry.delay_ms);
        let outcome = match (entry.error, entry.text, entry.tool, entry.input) {
            (Some(fault), None, None, None) if !entry.cut => match fault.status {
                400..=599 => ScriptedOutcome::Fail(fault),
                _ => return Err(EntryError::Status),
            },
            (Some(_), ..) => return Err(EntryError::ErrorAndAnswer),
            (None, _, None, Some(_)) => return Err(EntryError::InputWithoutTool),
            (None, text, None, None) => ScriptedOutcome::Say { text, tool: None },
            (None, text, Some(tool), input) => {
                ScriptedOutcome::Say { text, tool: Some((tool, Value::Object(input.unwrap_or_default()))) }
            }
        };
        Ok(Self { when, times, delay, ending, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let ScriptError::Parse(error) = text.parse::<Script>().unwrap_err() else { panic!("not read from a file") };
        error.message().to_owned()
    }

    #[test]
    fn an_empty_script_says_hello() {
        let script: Script = "".parse().unwrap();
        assert_eq!(script.text, "Hello from the mock model.");
        assert_eq!(script.usage, Usage { input: 1200, output: 42, cache_read: 5000, cache_write: 300 });
    }

    #[test]
    fn a_script_is_read_whole() {
        let script: Script = r#"
            text = "Hm."
            usage = { input = 7 }
            [[reply]]
            when = "(?i)deploy"
            times = "always"
            delay_ms = 20
            cut = true
            text = "On it."
            tool = "Bash"
            input = { command = "make" }
            [[reply]]
            error = { status = 529, type = "overloaded_error", message = "Busy", retry_after = 1 }
        "#
        .parse()
        .unwrap();
        assert_eq!((script.text.as_str(), script.usage.input, script.usage.output), ("Hm.", 7, 42));
        let [answer, failure] = &script.reply[..] else { panic!("{:?}", script.reply) };
        assert!(answer.when.as_ref().is_some_and(|when| when.is_match("Deploy it")));
        assert_eq!((answer.times, answer.delay), (Times::Always, Duration::from_millis(20)));
        assert_eq!(answer.ending, Ending::Cut);
        let tool = ("Bash".to_owned(), serde_json::json!({ "command": "make" }));
        assert_eq!(answer.outcome, ScriptedOutcome::Say { text: Some("On it.".to_owned()), tool: Some(tool) });
        assert_eq!(failure.times, Times::Only(1));
        let kind = Some("overloaded_error".to_owned());
        let fault = Fault { status: 529, kind, message: Some("Busy".to_owned()), retry_after: Some(1) };
        assert_eq!(failure.outcome, ScriptedOutcome::Fail(fault));
    }

    #[test]
    fn a_script_that_makes_no_sense_is_refused() {
        assert!(refusal("[[reply]]\nwhen = '('").starts_with("`when` is not a pattern"));
        assert_eq!(refusal("[[reply]]\ninput = {}"), "`input` needs a `tool`");
        assert_eq!(
            refusal("[[reply]]\ntext = 'x'\nerror = { status = 500 }"),
            "a reply is an error or an answer, not both"
        );
        assert_eq!(refusal("[[reply]]\nerror = { status = 200 }"), "an error's status is from 400 to 599");
        assert!(refusal("txet = 'x'").starts_with("unknown field `txet`"));
    }
}
