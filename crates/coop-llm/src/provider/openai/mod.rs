//! OpenAI's chat completions, which many servers speak: what is sent. The answer is put together in `answer`.
//!
//! The protocol has no place for thoughts and for parts of other providers: they are left out. A failed tool is told by its
//! text, since a result has no mark for that.

mod answer;

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::{
    ApiKey, ErrorReply, Fault, Http, HttpRequest, Protocol, Provider, ProviderConfig, Transport, address, with_extra,
};
use crate::message::{text_of, tool_uses};
use crate::{AgentError, Message, Part, Request, Role, ToolSpec, ToolUse};

/// A model by OpenAI's chat completions, or one of the many servers that speak them.
pub type OpenAi = Provider<Chat>;

impl OpenAi {
    /// Returns a client with a connection pool of its own.
    pub fn new(key: ApiKey, config: ProviderConfig) -> Result<Self, AgentError> {
        // What is wrong is better said before there is something to do.
        address(&config, BASE_URL, PATH)?;
        Ok(Self::over(Arc::new(Http::new()?), key, config))
    }

    /// Returns a client that uses a transport.
    pub fn over(transport: Arc<dyn Transport>, key: ApiKey, config: ProviderConfig) -> Self {
        Self { protocol: Chat, key, config, transport }
    }
}

/// The protocol.
pub struct Chat;

const PATH: &str = "/v1/chat/completions";
const BASE_URL: &str = "https://api.openai.com";

impl Protocol for Chat {
    type Answer = answer::Accumulator;

    fn request(&self, key: &ApiKey, config: &ProviderConfig, request: &Request) -> Result<HttpRequest, AgentError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, key.header("Bearer ")?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(HttpRequest {
            url: address(config, BASE_URL, PATH)?,
            headers,
            body: with_extra(&body(config, request), request)?.into(),
        })
    }

    fn answer(&self) -> answer::Accumulator {
        answer::Accumulator::default()
    }

    fn fault(&self, reply: &ErrorReply) -> Fault {
        let mut fault = reply.fault();
        // An account without money does not get some by waiting.
        if reply.body["error"]["code"] == "insufficient_quota" {
            fault.retry = false;
        }
        fault
    }
}

fn body(config: &ProviderConfig, request: &Request) -> Value {
    let system = request.system.iter().filter(|text| !text.is_empty());
    let mut messages: Vec<Value> = system.map(|text| json!({"role": "system", "content": text})).collect();
    messages.extend(request.messages.iter().flat_map(written));
    let mut body = json!({
        "model": config.model.name,
        "messages": messages,
        "max_completion_tokens": request.config.max_tokens.unwrap_or(config.model.max_tokens),
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(temperature) = request.config.temperature.or(config.temperature) {
        body["temperature"] = json!(temperature);
    }
    if !request.config.stop_sequences.is_empty() {
        body["stop"] = json!(request.config.stop_sequences);
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    let ToolSpec { name, description, parameters } = tool;
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

/// Returns a message as the protocol has it, where each result is a message of its own.
fn written(message: &Message) -> Vec<Value> {
    let text = text_of(&message.content);
    match message.role {
        Role::User => {
            let results = message.content.iter().filter_map(|part| match part {
                Part::ToolResult(result) => {
                    Some(json!({"role": "tool", "tool_call_id": result.tool_use_id, "content": result.content}))
                }
                Part::Text(_) | Part::ToolUse(_) | Part::Thinking(_) | Part::RedactedThinking(_) | Part::Other(_) => {
                    None
                }
            });
            let said = (!text.is_empty()).then(|| json!({"role": "user", "content": text}));
            results.chain(said).collect()
        }
        Role::Assistant => {
            let calls: Vec<Value> = tool_uses(&message.content).map(call).collect();
            match (text.is_empty(), calls.is_empty()) {
                (true, true) => vec![],
                (false, true) => vec![json!({"role": "assistant", "content": text})],
                (true, false) => vec![json!({"role": "assistant", "content": null, "tool_calls": calls})],
                (false, false) => vec![json!({"role": "assistant", "content": text, "tool_calls": calls})],
            }
        }
    }
}

/// The arguments are a text here, so they go back as they were written even if they are no JSON.
fn call(call: &ToolUse) -> Value {
    let function = json!({"name": call.name, "arguments": call.input.as_str()});
    json!({"id": call.id, "type": "function", "function": function})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Json, ToolResult};

    #[test]
    fn a_conversation_is_written_as_the_protocol_has_it() {
        let call = |id: &str| {
            Part::ToolUse(ToolUse { id: id.into(), name: "read".into(), input: Json::new(r#"{"b": 1, "a": 2}"#) })
        };
        let result = |id: &str| ToolResult { tool_use_id: id.into(), content: format!("of {id}"), is_error: false };
        let request = Request {
            system: Some("Be.".into()),
            messages: vec![
                Message::user("Hi"),
                Message::assistant(vec![Part::text("Let me."), call("1"), call("2")]),
                Message::results(vec![result("1"), result("2")]),
                Message::assistant(vec![Part::text("So.")]),
            ],
            tools: vec![ToolSpec { name: "read".into(), description: "r".into(), parameters: json!({}) }],
            ..Request::default()
        };
        let called = |id: &str| {
            json!({"id": id, "type": "function", "function":
            {"name": "read", "arguments": r#"{"b": 1, "a": 2}"#}})
        };
        assert_eq!(
            body(&ProviderConfig::new("m"), &request),
            json!({
                "model": "m", "max_completion_tokens": 8192, "stream": true, "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "system", "content": "Be."},
                    {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Let me.", "tool_calls": [called("1"), called("2")]},
                    {"role": "tool", "tool_call_id": "1", "content": "of 1"},
                    {"role": "tool", "tool_call_id": "2", "content": "of 2"},
                    {"role": "assistant", "content": "So."},
                ],
                "tools": [{"type": "function", "function": {"name": "read", "description": "r", "parameters": {}}}],
            })
        );
    }
}
