//! How a run ended.

use crate::{AgentError, Limit, Message, Response, Usage};

/// What is left of a run, however it ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub exit: Exit,
    /// The last answer, if there was one.
    pub response: Option<Response>,
    /// The whole conversation. It can always be continued: every call of a tool in it has a result.
    pub history: Vec<Message>,
    /// What it took.
    pub metrics: Metrics,
}

impl Outcome {
    /// Returns the last words.
    pub fn text(&self) -> String {
        self.response.as_ref().map(Response::text).unwrap_or_default()
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Exit {
    /// The model has finished.
    Completed,
    /// The model wrote as much as one answer may hold.
    OutOfTokens,
    /// The conversation is too long for the model.
    ContextFull,
    /// The model will not answer.
    Refused,
    /// The next call would have passed a limit.
    Limit(Limit),
    /// The caller cancelled.
    Cancelled,
    /// A call failed for good.
    Failed(AgentError),
}

impl Exit {
    /// Returns it in one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::OutOfTokens => "out_of_tokens",
            Self::ContextFull => "context_full",
            Self::Refused => "refused",
            Self::Limit(limit) => limit.as_str(),
            Self::Cancelled => "cancelled",
            Self::Failed(error) => error.kind.as_str(),
        }
    }
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Tokens of all calls.
    pub usage: Usage,
    /// US dollars, if the model's price is known.
    pub cost: Option<f64>,
    /// Calls of the model, also those that failed.
    pub invocations: u32,
    /// Calls of tools.
    pub tool_calls: u32,
    /// Those of them that failed.
    pub tool_errors: u32,
}
