//! Messages as JSON: the log and the stream differ only in when the usage is counted.

use serde_json::{Value, json};

use super::ids::MessageId;
use super::notice::{ApiError, Block, StopReason};
use super::tool::{Success, ToolCall, ToolOutcome};
use super::usage;

/// When a message was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// As it streamed by: no stop reason, and hardly any output counted.
    Streamed,
    /// When it was complete.
    Complete(StopReason),
}

/// One content block of an answer as a message of its own.
pub(crate) fn assistant(id: &MessageId, model: &str, block: &Block, moment: Moment) -> Value {
    let (stop_reason, usage) = match moment {
        Moment::Streamed => (None, usage::at_start()),
        Moment::Complete(stop) => (Some(stop.name()), usage::of_request()),
    };
    json!({
        "id": id.0, "type": "message", "role": "assistant", "model": usage::plain_model(model),
        "content": [content(block)], "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
    })
}

/// A message the CLI made up itself: an error, or an answer cut short.
pub(crate) fn synthetic(id: &str, text: &str) -> Value {
    json!({
        "id": id, "type": "message", "role": "assistant", "model": "<synthetic>", "container": null,
        "content": [{ "type": "text", "text": text }], "stop_reason": "stop_sequence", "stop_sequence": "",
        "stop_details": null, "context_management": null,
        "usage": { "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "service_tier": null },
    })
}

pub(crate) fn content(block: &Block) -> Value {
    match block {
        Block::Thinking(text) => json!({ "type": "thinking", "thinking": text, "signature": "" }),
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::ToolUse(call) => {
            json!({ "type": "tool_use", "id": call.id.0, "name": call.tool.name(), "input": call.input })
        }
    }
}

pub(crate) fn tool_result(call: &ToolCall, outcome: &ToolOutcome) -> Value {
    let mut result = json!({ "type": "tool_result", "tool_use_id": call.id.0, "content": outcome.content });
    match outcome.success {
        Success::Done if call.tool.is_dialogue() => {}
        Success::Done => result["is_error"] = json!(false),
        Success::Failed | Success::Refused | Success::Rejected => result["is_error"] = json!(true),
    }
    json!({ "role": "user", "content": [result] })
}

pub(crate) fn user_text(text: &str) -> Value {
    json!({ "role": "user", "content": [{ "type": "text", "text": text }] })
}

/// The fields of an assistant line that reports an error.
pub(crate) fn error_fields(error: ApiError) -> Value {
    json!({ "isApiErrorMessage": true, "apiErrorStatus": error.status, "error": error.word() })
}

/// Adds the fields of one object to another.
pub(crate) fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend(more);
    }
}
