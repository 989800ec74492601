//! Lines of JSON from the other side become values.

use serde_json::Value;

use crate::claude::hook::{AfterDeny, Decision};
use crate::claude::ids::RequestId;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    User(String),
    Request {
        id: String,
        request: ControlRequest,
    },
    Answer {
        request: RequestId,
        decision: Decision,
    },
    /// Something that asks for nothing, such as a keep-alive.
    Nothing,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ControlRequest {
    Initialize,
    Interrupt,
    SetPermissionMode(String),
    SetModel(String),
    EndSession,
    McpStatus,
    ContextUsage,
    SetMaxThinkingTokens,
    Unknown(String),
}

/// Reads one line; `None` is a line that is not the protocol.
pub(crate) fn incoming(line: &str) -> Option<Incoming> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(match text(&value, "type")?.as_str() {
        "user" => Incoming::User(content(value.get("message")?.get("content")?)?),
        "control_request" => {
            let request = value.get("request")?;
            let request = match text(request, "subtype")?.as_str() {
                "initialize" => ControlRequest::Initialize,
                "interrupt" => ControlRequest::Interrupt,
                "set_permission_mode" => ControlRequest::SetPermissionMode(text(request, "mode").unwrap_or_default()),
                "set_model" => ControlRequest::SetModel(text(request, "model").unwrap_or_default()),
                "end_session" => ControlRequest::EndSession,
                "mcp_status" => ControlRequest::McpStatus,
                "get_context_usage" => ControlRequest::ContextUsage,
                "set_max_thinking_tokens" => ControlRequest::SetMaxThinkingTokens,
                other => ControlRequest::Unknown(other.to_owned()),
            };
            Incoming::Request { id: text(&value, "request_id")?, request }
        }
        "control_response" => {
            let response = value.get("response")?;
            let decision = match text(response, "subtype")?.as_str() {
                "success" => Decision::from_json(response.get("response")?)?,
                _ => {
                    let message = text(response, "error").unwrap_or_default();
                    Decision::Deny { message, then: AfterDeny::Continue }
                }
            };
            Incoming::Answer { request: RequestId(text(response, "request_id")?), decision }
        }
        _ => Incoming::Nothing,
    })
}

/// The text of a message, whether it is one string or a list of blocks.
fn content(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
            Some(texts.join("\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_content_is_a_text_or_a_list_of_blocks() {
        let plain = r#"{"type":"user","message":{"role":"user","content":"hi"}}"#;
        let blocks = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#;
        assert_eq!(incoming(plain), Some(Incoming::User("hi".into())));
        assert_eq!(incoming(blocks), Some(Incoming::User("hi".into())));
    }

    #[test]
    fn an_answer_is_read_with_its_interrupt() {
        let line = r#"{"type":"control_response","response":{"subtype":"success","request_id":"q",
            "response":{"behavior":"deny","message":"Stop now","interrupt":true}}}"#;
        let decision = Decision::Deny { message: "Stop now".into(), then: AfterDeny::Interrupt };
        assert_eq!(incoming(line), Some(Incoming::Answer { request: RequestId("q".into()), decision }));
    }

    #[test]
    fn what_is_not_the_protocol_is_nothing_at_all() {
        assert_eq!(incoming("hello"), None);
        assert_eq!(incoming(r#"{"type":"keep_alive"}"#), Some(Incoming::Nothing));
    }
}
