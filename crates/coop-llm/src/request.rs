//! What is asked of a model, and what it says.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{text_of, tool_uses};
use crate::{Message, Part, Price, ToolUse, Usage};

/// One call of a model: the whole conversation, and what it may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// What the model is told before the conversation.
    pub system: Option<String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// What is to be different from the agent's defaults.
    pub config: RequestConfig,
}

/// Settings of one call; what is not given is the agent's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestConfig {
    /// The most tokens that the model may write.
    pub max_tokens: Option<u32>,
    /// How freely the model chooses its words.
    pub temperature: Option<f64>,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Whether and how the model thinks before it speaks.
    pub thinking: Option<ThinkingMode>,
    /// What all attempts at the call may take together.
    pub budget: Option<Budget>,
    /// Fields that are put into the request's body as they are, for what this crate has no word for.
    pub extra: Map<String, Value>,
}

/// What all attempts at a call may take together: one that broke off is paid for too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Tokens, read and written.
    pub tokens: Option<u64>,
    /// US dollars, and what tokens cost.
    pub cost: Option<(f64, Price)>,
    /// The tokens that each attempt reads, as far as that is known before.
    pub input: u64,
}

impl Budget {
    /// Returns whether one more attempt, which writes at most so many tokens, keeps to it.
    pub fn has_room(&self, spent: &Usage, output: u32) -> bool {
        let next = self.input.saturating_add(u64::from(output));
        let fits = |most: u64| spent.total().saturating_add(next) <= most;
        let is_payable = |(most, price): (f64, Price)| {
            let next = (self.input as f64 * price.dearest_input() + f64::from(output) * price.output) / 1e6;
            price.cost(spent) + next <= most
        };
        self.tokens.is_none_or(fits) && self.cost.is_none_or(is_payable)
    }
}

/// How a model thinks before it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingMode {
    /// As much as the model sees fit.
    Adaptive,
    /// With at most so many tokens.
    Budget(u32),
}

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`; at most 64.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The arguments, as a JSON Schema of an object.
    pub parameters: Value,
}

/// What a model said to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// All it said, in order.
    pub parts: Vec<Part>,
    /// The tokens that this took, with those of attempts that broke off.
    pub usage: Usage,
    /// Why it stopped.
    pub stop: StopReason,
    /// The model that answered, in the provider's words.
    pub model: String,
    /// The provider's name for the call.
    pub request_id: Option<String>,
}

impl Response {
    /// Returns its words, without thoughts.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }

    /// Returns the calls of tools, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        tool_uses(&self.parts)
    }
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has said all it wanted to.
    Complete,
    /// It waits for tools.
    ToolUse,
    /// It has written as much as it may.
    MaxTokens,
    /// It wrote one of the texts at which to stop.
    StopSequence,
    /// It will not answer that.
    Refusal,
    /// A long turn is to be continued by sending the conversation again.
    Pause,
    /// The conversation is too long for the model.
    ContextExceeded,
    /// Something newer than this crate.
    Other(String),
}
