//! The protocols that agents speak with models: requests to [`Asked`], [`Reply`] to bytes.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use super::asked::Asked;
use super::fault::Fault;
use super::reply::{Frame, Reply};
use super::script::Usage;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Anthropic's Messages, which Claude Code speaks.
    Anthropic,
    /// OpenAI's Responses, which Codex speaks.
    Responses,
    /// OpenAI's chat completions, which OpenCode speaks.
    Chat,
    /// Google's generateContent, which the Gemini CLI speaks.
    Gemini,
}

impl Protocol {
    /// Reads a request; what is absent or of another type is taken for empty.
    pub(crate) fn read(self, path: &str, body: &Value) -> Asked {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(path, body),
        }
    }

    /// Returns the events of a streamed answer.
    pub(crate) fn frames(self, reply: &Reply) -> Vec<Frame> {
        match self {
            Self::Anthropic => anthropic::frames(reply),
            Self::Responses => responses::frames(reply),
            Self::Chat => chat::frames(reply),
            Self::Gemini => gemini::frames(reply),
        }
    }

    /// Returns an answer in one piece.
    pub(crate) fn whole(self, reply: &Reply) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(reply),
            Self::Responses => responses::whole(reply),
            Self::Chat => chat::whole(reply),
            Self::Gemini => gemini::whole(reply),
        }
    }

    /// Returns the body of an HTTP error.
    pub(crate) fn fault(self, fault: &Fault) -> Value {
        match self {
            Self::Anthropic => anthropic::fault(fault),
            Self::Responses | Self::Chat => openai_fault(fault),
            Self::Gemini => gemini::fault(fault),
        }
    }

    /// Returns the answer to a request to count tokens.
    pub(crate) fn count(self, usage: &Usage) -> Value {
        match self {
            Self::Anthropic | Self::Responses | Self::Chat => json!({ "input_tokens": usage.whole_input() }),
            Self::Gemini => json!({ "totalTokens": usage.whole_input() }),
        }
    }
}

/// Returns the list of models in the forms of Anthropic and OpenAI at once.
pub(crate) fn models() -> Value {
    let model = json!({
        "id": "mock", "object": "model", "created": 0, "owned_by": "coop",
        "type": "model", "display_name": "Mock", "created_at": "1970-01-01T00:00:00Z",
    });
    json!({ "object": "list", "data": [model], "has_more": false, "first_id": "mock", "last_id": "mock" })
}

fn openai_fault(fault: &Fault) -> Value {
    let (kind, code) = match fault.status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        429 => ("requests", json!("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", Value::Null),
        _ => ("server_error", Value::Null),
    };
    let kind = fault.kind.as_deref().unwrap_or(kind);
    let message = fault.message.clone().unwrap_or_else(|| format!("mock HTTP {}", fault.status));
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

#[cfg(test)]
mod testing {
    use serde_json::json;

    use crate::model::asked::ToolKind;
    use crate::model::reply::{Call, Frame, Reply, ReplyId, words};
    use crate::model::script::Usage;

    /// An answer of two words.
    pub(super) fn text() -> Reply {
        let id = ReplyId("1".to_owned());
        Reply { id, model: "m".to_owned(), text: words("Hello there."), call: None, usage: Usage::default() }
    }

    /// The call of a tool after a word.
    pub(super) fn call(name: &str, kind: ToolKind) -> Reply {
        let call = Call { name: name.to_owned(), kind, input: json!({ "input": "ls" }) };
        Reply { text: words("Calling."), call: Some(call), ..text() }
    }

    pub(super) fn shown(frames: &[Frame]) -> String {
        frames.iter().map(|frame| frame.text.as_str()).collect::<String>().replace("\n\n", "\n")
    }
}
