//! What is said in a conversation.
//!
//! The shape is that of the Messages API, since it loses nothing: a message is made of parts, an assistant's message holds
//! its thinking and its tool calls, and all results of one turn are parts of one user message. Other providers are
//! translated from it. A part serialises to the API's own JSON, so a saved history can be sent as it is.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Json;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person or program that asks, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said, in order.
    pub content: Vec<Part>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Words.
    Text(Text),
    /// The model calls a tool.
    ToolUse(ToolUse),
    /// What a tool said.
    ToolResult(ToolResult),
    /// What the model thought, with the provider's signature.
    Thinking(Thinking),
    /// What the model thought, which only the provider can read.
    RedactedThinking(RedactedThinking),
    /// Anything else, kept as it came: pictures, documents, the provider's own tools.
    Other(Json),
}

/// Words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "text")]
pub struct Text {
    /// The words.
    pub text: String,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "tool_use")]
pub struct ToolUse {
    /// The provider's name for this call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them; they may be wrong in every way.
    pub input: Json,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "tool_result")]
pub struct ToolResult {
    /// Which call it answers.
    pub tool_use_id: String,
    /// What the tool said.
    pub content: String,
    /// Whether that is an account of a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// What the model thought. It goes back unchanged, or the provider refuses the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "thinking")]
pub struct Thinking {
    /// The thoughts; some models keep them to themselves and leave this empty.
    pub thinking: String,
    /// The provider's proof that it wrote them.
    #[serde(default)]
    pub signature: String,
}

/// Thoughts that only the provider can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "redacted_thinking")]
pub struct RedactedThinking {
    /// The provider's sealed text.
    pub data: String,
}

impl Message {
    /// Returns a user's message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Part::text(text)] }
    }

    /// Returns a model's message.
    pub fn assistant(content: Vec<Part>) -> Self {
        Self { role: Role::Assistant, content }
    }

    /// Returns the message with all results of a turn, in the order of the calls.
    pub fn results(results: Vec<ToolResult>) -> Self {
        Self { role: Role::User, content: results.into_iter().map(Part::ToolResult).collect() }
    }

    /// Gives the calls at the end of a conversation results that say that they were not finished, so that it can go on.
    pub fn settle(history: &mut Vec<Self>) {
        let Some(last) = history.last() else { return };
        let result = |call: &ToolUse| ToolResult {
            tool_use_id: call.id.clone(),
            content: "not finished: the run was stopped".into(),
            is_error: true,
        };
        let results: Vec<_> = tool_uses(&last.content).map(result).collect();
        if !results.is_empty() {
            history.push(Self::results(results));
        }
    }

    /// Returns all its words, without thoughts.
    pub fn text(&self) -> String {
        text_of(&self.content)
    }
}

impl Part {
    /// Returns a part of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into() })
    }
}

/// Joins the words of parts.
pub(crate) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.as_str()),
        Part::ToolUse(_) | Part::ToolResult(_) | Part::Thinking(_) | Part::RedactedThinking(_) | Part::Other(_) => None,
    });
    texts.collect()
}

/// Returns the calls among parts, in order.
pub(crate) fn tool_uses(parts: &[Part]) -> impl Iterator<Item = &ToolUse> {
    parts.iter().filter_map(|part| match part {
        Part::ToolUse(call) => Some(call),
        Part::Text(_) | Part::ToolResult(_) | Part::Thinking(_) | Part::RedactedThinking(_) | Part::Other(_) => None,
    })
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(part) => part.serialize(serializer),
            Self::ToolUse(part) => part.serialize(serializer),
            Self::ToolResult(part) => part.serialize(serializer),
            Self::Thinking(part) => part.serialize(serializer),
            Self::RedactedThinking(part) => part.serialize(serializer),
            Self::Other(part) => part.serialize(serializer),
        }
    }
}

/// Only a part's kind.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

// By hand, because serde reads tagged enums through a buffer in which the text of `Json` is lost.
impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let Kind { kind } = serde_json::from_str(text).map_err(D::Error::custom)?;
        match kind.as_str() {
            "text" => serde_json::from_str(text).map(Self::Text),
            "tool_use" => serde_json::from_str(text).map(Self::ToolUse),
            // A result made of blocks rather than one text is kept as it is.
            "tool_result" => {
                Ok(serde_json::from_str(text).map_or_else(|_| Self::Other(Json::new(text)), Self::ToolResult))
            }
            "thinking" => serde_json::from_str(text).map(Self::Thinking),
            "redacted_thinking" => serde_json::from_str(text).map(Self::RedactedThinking),
            _ => Ok(Self::Other(Json::new(text))),
        }
        .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_written_as_it_was_read() {
        let text = concat!(
            r#"[{"role":"user","content":[{"type":"text","text":"Hä?"}]},"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"Eq=="},"#,
            r#"{"type":"redacted_thinking","data":"xx"},"#,
            r#"{"type":"tool_use","id":"t1","name":"read","input":{"z": 1, "a":[ ]}},"#,
            r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":"x"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true}]}]"#,
        );
        let history: Vec<Message> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&history).unwrap(), text);
        assert_eq!(history[0].text(), "Hä?");
    }

    #[test]
    fn a_part_without_a_kind_is_refused() {
        assert!(serde_json::from_str::<Part>(r#"{"text":"x"}"#).is_err());
        assert!(serde_json::from_str::<Part>(r#"{"type":"text"}"#).is_err());
    }
}
