//! The chunks of a chat completion, put together: deltas of one message, then tokens, then `[DONE]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::provider::{Answer, Fault};
use crate::{AgentError, Delta, ErrorKind, Json, Part, Response, StopReason, ToolUse, Usage};

/// An answer that is being put together.
#[derive(Debug, Default)]
pub struct Accumulator {
    text: String,
    calls: BTreeMap<u64, Call>,
    usage: Usage,
    stop: Option<StopReason>,
    model: String,
    whole: bool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Answer for Accumulator {
    fn feed(&mut self, data: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        if data.trim() == "[DONE]" {
            // Without a reason to stop, the answer was not finished but given up.
            self.whole = self.stop.is_some();
            return if self.whole { Ok(()) } else { Err(Fault::cut()) };
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(Fault::nonsense)?;
        if let Some(error) = chunk.error {
            return Err(fault(&error));
        }
        self.take(chunk, tell);
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    // Some servers leave out `[DONE]`.
    fn may_end(&self) -> bool {
        self.stop.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(self) -> Response {
        let text = (!self.text.is_empty()).then(|| Part::text(self.text));
        let calls = self
            .calls
            .into_values()
            .map(|call| Part::ToolUse(ToolUse { id: call.id, name: call.name, input: Json::new(call.arguments) }));
        Response {
            parts: text.into_iter().chain(calls).collect(),
            usage: self.usage,
            stop: self.stop.unwrap_or(StopReason::Complete),
            model: self.model,
            request_id: None,
        }
    }
}

impl Accumulator {
    /// Returns which call a piece without a number belongs to: one with another name is another call.
    fn place(&self, id: &str) -> u64 {
        let last = self.calls.last_key_value();
        let known = self.calls.iter().find(|(_, call)| !id.is_empty() && call.id == id).map(|(at, _)| *at);
        let is_next = |call: &Call| !id.is_empty() && !call.id.is_empty();
        known.unwrap_or_else(|| last.map_or(0, |(at, call)| if is_next(call) { at + 1 } else { *at }))
    }

    fn take(&mut self, chunk: Chunk, tell: &mut dyn FnMut(Delta)) {
        if !chunk.model.is_empty() {
            self.model = chunk.model;
        }
        if let Some(count) = chunk.usage {
            let cached = count.prompt_tokens_details.unwrap_or_default().cached_tokens.min(count.prompt_tokens);
            self.usage.input = count.prompt_tokens - cached;
            self.usage.cache_read = cached;
            self.usage.output = count.completion_tokens;
        }
        // There is one choice, since one was asked for.
        let Some(choice) = chunk.choices.into_iter().next() else { return };
        if let Some(text) = choice.delta.content.or(choice.delta.refusal).filter(|text| !text.is_empty()) {
            self.text.push_str(&text);
            tell(Delta::Text(text));
        }
        if let Some(text) = choice.delta.reasoning_content.filter(|text| !text.is_empty()) {
            tell(Delta::Thinking(text));
        }
        for piece in choice.delta.tool_calls.unwrap_or_default() {
            let at = piece.index.unwrap_or_else(|| self.place(piece.id.as_deref().unwrap_or_default()));
            let call = self.calls.entry(at).or_default();
            let function = piece.function.unwrap_or_default();
            if let Some(id) = piece.id.filter(|id| !id.is_empty()) {
                call.id = id;
            }
            if let Some(name) = function.name.filter(|name| !name.is_empty()) {
                call.name = name;
            }
            call.arguments.push_str(&function.arguments.unwrap_or_default());
        }
        if let Some(reason) = choice.finish_reason {
            self.stop = Some(stop_reason(reason));
        }
    }
}

/// Says what an error in the middle of a stream means; the status was 200 by then.
fn fault(error: &Value) -> Fault {
    let message = error["message"].as_str().unwrap_or("the provider broke off its answer");
    let words = [&error["type"], &error["code"]].map(|word| word.as_str().unwrap_or_default());
    let status = error["code"].as_u64();
    let is = |known: &[&str]| words.iter().any(|word| known.contains(word));
    let (kind, retry) = if is(&["insufficient_quota", "authentication_error", "permission_error", "invalid_api_key"]) {
        (ErrorKind::Agent, false)
    } else if is(&["rate_limit_exceeded", "rate_limit_error"]) || status == Some(429) {
        (ErrorKind::RateLimit, true)
    } else if is(&["invalid_request_error", "context_length_exceeded"]) || status == Some(400) {
        (ErrorKind::Invalid, false)
    } else {
        // `server_error` and whatever else there is.
        (ErrorKind::Agent, true)
    };
    Fault { error: Box::new(AgentError::new(kind, message)), retry }
}

fn stop_reason(reason: String) -> StopReason {
    match reason.as_str() {
        "stop" => StopReason::Complete,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    model: String,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Count>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Change,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Change {
    content: Option<String>,
    refusal: Option<String>,
    /// Not OpenAI's own, but of several servers that speak its protocol.
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<CallChange>>,
}

#[derive(Deserialize)]
struct CallChange {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionChange>,
}

#[derive(Default, Deserialize)]
struct FunctionChange {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Count {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: u64,
}
