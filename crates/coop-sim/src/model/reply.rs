//! What the model answers, whatever the protocol, and how it goes over the wire.

use std::time::Duration;

use serde_json::Value;

use super::asked::ToolKind;
use super::script::Usage;

/// An answer: some text, then perhaps one call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) id: ReplyId,
    /// The name of the model that was asked.
    pub(crate) model: String,
    pub(crate) text: Vec<Delta>,
    pub(crate) call: Option<Call>,
    pub(crate) usage: Usage,
}

/// Differs between all answers, those of other runs too: agents take two messages with one id for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplyId(pub(crate) String);

/// A piece of text and the pause before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) text: String,
    pub(crate) wait: Duration,
}

/// The call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) kind: ToolKind,
    pub(crate) input: Value,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    /// The connection is closed in the middle.
    Cut,
    /// Nothing comes after the beginning, until the client goes.
    Hang,
}

/// A piece of the body and the pause before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) text: String,
    pub(crate) wait: Duration,
}

impl Reply {
    /// Returns the whole text.
    pub(crate) fn text(&self) -> String {
        self.text.iter().map(|delta| delta.text.as_str()).collect()
    }

    /// Returns how long the text takes.
    pub(crate) fn duration(&self) -> Duration {
        self.text.iter().map(|delta| delta.wait).sum()
    }
}

impl Frame {
    /// Returns a server-sent event without a name.
    pub(crate) fn data(data: &Value) -> Self {
        Self { text: format!("data: {data}\n\n"), wait: Duration::ZERO }
    }

    /// Returns a server-sent event with the name that its `type` says.
    pub(crate) fn event(data: &Value) -> Self {
        let name = data["type"].as_str().unwrap_or_default();
        Self { text: format!("event: {name}\ndata: {data}\n\n"), wait: Duration::ZERO }
    }

    pub(crate) fn after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

/// Returns a text word by word.
pub(crate) fn words(text: &str) -> Vec<Delta> {
    text.split_inclusive(' ').map(|word| Delta { text: word.to_owned(), wait: Duration::ZERO }).collect()
}

/// Splits a text in two.
pub(crate) fn halves(text: &str) -> [String; 2] {
    let middle = text.chars().count() / 2;
    [text.chars().take(middle).collect(), text.chars().skip(middle).collect()]
}

/// Returns what is sent of the frames of an answer that does not end well.
pub(crate) fn until(ending: Ending, mut frames: Vec<Frame>) -> Vec<Frame> {
    match ending {
        Ending::Complete => {}
        Ending::Cut => frames.truncate((frames.len() / 2).max(1)),
        Ending::Hang => frames.truncate(1),
    }
    frames
}
