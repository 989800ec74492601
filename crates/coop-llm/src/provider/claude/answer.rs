//! Anthropic's stream of events, put together.
//!
//! ```text
//! message_start (content_block_start content_block_delta* content_block_stop)* message_delta message_stop
//! ```
//!
//! with `ping` and `error` anywhere, and kinds that are not known yet. Counts of tokens are cumulative: a later one
//! replaces an earlier one.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::provider::{Answer, Fault};
use crate::{
    AgentError, Delta, ErrorKind, Json, Part, RedactedThinking, Response, StopReason, Text, Thinking, ToolUse, Usage,
};

/// An answer that is being put together.
#[derive(Debug, Default)]
pub struct Accumulator {
    blocks: BTreeMap<u64, Block>,
    usage: Usage,
    stop: Option<StopReason>,
    model: String,
    whole: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking(Thinking),
    Redacted(RedactedThinking),
    /// A call; the arguments come in pieces that mean nothing alone.
    Tool {
        start: ToolUse,
        input: String,
    },
    /// Something of the provider's own.
    Other {
        start: Json,
        input: String,
    },
}

impl Answer for Accumulator {
    fn feed(&mut self, data: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        match kind_of(data).map_err(Fault::nonsense)?.as_str() {
            "error" => Err(fault(data)),
            kind => self.take(kind, data, tell).map_err(Fault::nonsense),
        }
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(self) -> Response {
        Response {
            parts: self.blocks.into_values().filter_map(Block::finish).collect(),
            usage: self.usage,
            stop: self.stop.unwrap_or(StopReason::Complete),
            model: self.model,
            request_id: None,
        }
    }
}

impl Accumulator {
    fn take(&mut self, kind: &str, data: &str, tell: &mut dyn FnMut(Delta)) -> serde_json::Result<()> {
        match kind {
            "message_start" => {
                let MessageStart { message } = serde_json::from_str(data)?;
                self.model = message.model;
                message.usage.apply(&mut self.usage);
            }
            "content_block_start" => {
                let BlockStart { index, content_block } = serde_json::from_str(data)?;
                self.blocks.insert(index, Block::start(content_block.get())?);
            }
            "content_block_delta" => {
                let BlockDelta { index, delta } = serde_json::from_str(data)?;
                if let Some(block) = self.blocks.get_mut(&index) {
                    block.grow(delta, tell);
                }
            }
            "message_delta" => {
                let MessageDelta { delta, usage } = serde_json::from_str(data)?;
                if let Some(reason) = delta.stop_reason {
                    self.stop = Some(stop_reason(reason));
                }
                usage.apply(&mut self.usage);
            }
            "message_stop" => self.whole = true,
            // `ping`, `content_block_stop`, and what is newer than this.
            _ => {}
        }
        Ok(())
    }
}

impl Block {
    fn start(text: &str) -> serde_json::Result<Self> {
        Ok(match kind_of(text)?.as_str() {
            "text" => Self::Text(serde_json::from_str::<Text>(text)?.text),
            "thinking" => Self::Thinking(serde_json::from_str(text)?),
            "redacted_thinking" => Self::Redacted(serde_json::from_str(text)?),
            "tool_use" => Self::Tool { start: serde_json::from_str(text)?, input: String::new() },
            _ => Self::Other { start: Json::new(text), input: String::new() },
        })
    }

    fn grow(&mut self, delta: BlockChange, tell: &mut dyn FnMut(Delta)) {
        match (self, delta) {
            (Self::Text(text), BlockChange::TextDelta { text: more }) => {
                text.push_str(&more);
                // Nothing is handed on by a piece of nothing.
                if !more.is_empty() {
                    tell(Delta::Text(more));
                }
            }
            (Self::Thinking(thinking), BlockChange::ThinkingDelta { thinking: more }) => {
                thinking.thinking.push_str(&more);
                if !more.is_empty() {
                    tell(Delta::Thinking(more));
                }
            }
            (Self::Thinking(thinking), BlockChange::SignatureDelta { signature }) => {
                thinking.signature.push_str(&signature);
            }
            (Self::Tool { input, .. } | Self::Other { input, .. }, BlockChange::InputJsonDelta { partial_json }) => {
                input.push_str(&partial_json)
            }
            // Citations and other things that are not sent back.
            _ => {}
        }
    }

    fn finish(self) -> Option<Part> {
        match self {
            // The API refuses texts of nothing.
            Self::Text(text) => (!text.is_empty()).then(|| Part::text(text)),
            Self::Thinking(thinking) => Some(Part::Thinking(thinking)),
            Self::Redacted(thinking) => Some(Part::RedactedThinking(thinking)),
            Self::Tool { start, input } if input.is_empty() => Some(Part::ToolUse(start)),
            Self::Tool { start, input } => Some(Part::ToolUse(ToolUse { input: Json::new(input), ..start })),
            Self::Other { start, input } => Some(Part::Other(with_input(start, &input))),
        }
    }
}

/// Puts the input of one of the provider's own tools in its place.
fn with_input(start: Json, input: &str) -> Json {
    match (start.parse::<Value>(), serde_json::from_str::<Value>(input)) {
        (Ok(mut block), Ok(input)) => {
            block["input"] = input;
            Json::from(block)
        }
        _ => start,
    }
}

fn stop_reason(reason: String) -> StopReason {
    match reason.as_str() {
        "end_turn" => StopReason::Complete,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::Pause,
        "model_context_window_exceeded" => StopReason::ContextExceeded,
        _ => StopReason::Other(reason),
    }
}

/// Says what an error in the middle of a stream means; the status was 200 by then.
fn fault(data: &str) -> Fault {
    let told: Value = serde_json::from_str(data).unwrap_or_default();
    let (kind, retry) = match told["error"]["type"].as_str().unwrap_or_default() {
        "invalid_request_error" | "not_found_error" | "request_too_large" => (ErrorKind::Invalid, false),
        "authentication_error" | "permission_error" | "billing_error" => (ErrorKind::Agent, false),
        "rate_limit_error" => (ErrorKind::RateLimit, true),
        // `overloaded_error`, `api_error`, `timeout_error`, and what is newer.
        _ => (ErrorKind::Agent, true),
    };
    let message = told["error"]["message"].as_str().unwrap_or("the provider broke off its answer");
    let mut error = Box::new(AgentError::new(kind, message));
    error.request_id = told["request_id"].as_str().map(str::to_owned);
    Fault { error, retry }
}

fn kind_of(text: &str) -> serde_json::Result<String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str::<Kind>(text).map(|kind| kind.kind)
}

#[derive(Deserialize)]
struct MessageStart {
    message: Start,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Count,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u64,
    content_block: Box<RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta {
    index: u64,
    delta: BlockChange,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockChange {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: Stop,
    #[serde(default)]
    usage: Count,
}

#[derive(Deserialize)]
struct Stop {
    stop_reason: Option<String>,
}

/// Tokens, of which any may be left out.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Count {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Count {
    fn apply(self, usage: &mut Usage) {
        usage.input = self.input_tokens.unwrap_or(usage.input);
        usage.output = self.output_tokens.unwrap_or(usage.output);
        usage.cache_read = self.cache_read_input_tokens.unwrap_or(usage.cache_read);
        usage.cache_write = self.cache_creation_input_tokens.unwrap_or(usage.cache_write);
    }
}
