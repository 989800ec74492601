//! The loop as a state machine: what is done next, given what happened. It waits for nothing and calls nobody.
//!
//! | State | What happened | Next |
//! |---|---|---|
//! | – | begin | `Call`, or `Done` if a limit forbids it |
//! | `Call` | an answer with calls of tools | `Tools` |
//! | `Call` | an answer cut off within a call | `Call` once more with twice the room, then `Done` |
//! | `Call` | a pause | `Call` |
//! | `Call` | any other answer | `Done` |
//! | `Call` | a failure | `Done` |
//! | `Tools` | results | `Call`, or `Done` if a limit forbids it or tools fail all the time |
//! | `Tools` | cancelled, or out of time | `Done` |

use super::limits::{Room, room};
use super::outcome::{Exit, Metrics};
use super::{Limit, Limits};
use crate::message::Message;
use crate::{
    AgentError, Budget, ErrorKind, Model, Part, Price, Request, Response, StopReason, ThinkingMode, ToolResult,
    ToolUse, Usage,
};

/// What is to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// Call the model with [`Machine::request`].
    Call,
    /// Run these tools.
    Tools(Vec<ToolUse>),
    /// Nothing more.
    Done(Exit),
}

pub(super) struct Machine {
    request: Request,
    limits: Limits,
    model: String,
    price: Option<Price>,
    /// What the caller wants an answer to hold at most.
    wanted: u32,
    /// The limit that made the last call's answer shorter than that.
    shortened: Option<Limit>,
    /// Whether a call was already made again with more room.
    grown: bool,
    /// Whether that is the call under way.
    growing: bool,
    /// Pauses in a row.
    pauses: u32,
    /// Turns in a row in which all tools failed.
    failures: u32,
    /// How much of the conversation the last answer's usage accounts for: tokens, and messages.
    known: (u64, usize),
    response: Option<Response>,
    metrics: Metrics,
}

impl Machine {
    pub(super) fn new(request: Request, limits: Limits, model: &Model, price: Option<Price>) -> Self {
        let wanted = request.config.max_tokens.unwrap_or(model.max_tokens);
        let metrics = Metrics { cost: price.map(|_| 0.0), ..Metrics::default() };
        Self {
            request,
            limits,
            model: model.name.clone(),
            price,
            wanted,
            shortened: None,
            grown: false,
            growing: false,
            pauses: 0,
            failures: 0,
            known: (0, 0),
            response: None,
            metrics,
        }
    }

    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    pub(super) fn history(&self) -> &[Message] {
        &self.request.messages
    }

    pub(super) fn metrics(&self) -> Metrics {
        self.metrics
    }

    pub(super) fn cost_of(&self, usage: &Usage) -> Option<f64> {
        self.price.map(|price| price.cost(usage))
    }

    pub(super) fn begin(&mut self) -> Step {
        if self.limits.cost.is_some() && self.price.is_none() {
            let message = format!(
                "a limit on cost needs the model's price, which is not known of {:?}; set it in `prices`, or leave out the limit",
                self.model
            );
            return Step::Done(Exit::Failed(AgentError::new(ErrorKind::Invalid, message)));
        }
        self.call()
    }

    pub(super) fn replied(&mut self, response: Response) -> Step {
        self.count(&response.usage);
        self.growing = false;
        self.pauses = if response.stop == StopReason::Pause { self.pauses + 1 } else { 0 };
        let cut = matches!(response.stop, StopReason::MaxTokens | StopReason::ContextExceeded);
        let half = cut && (response.tool_uses().any(|call| !call.input.is_object()) || ends_in_a_call(&response));
        if half && response.stop == StopReason::MaxTokens && !self.grown && self.shortened.is_none() {
            // What it said is forgotten: half a call can be neither run nor sent back.
            (self.grown, self.growing) = (true, true);
            self.wanted = self.wanted.saturating_mul(2);
            return self.call();
        }
        // After a refusal, and where there is no room for results, calls are not run; and what has no result is not kept.
        let unwanted = half || matches!(response.stop, StopReason::Refusal | StopReason::ContextExceeded);
        let calls: Vec<ToolUse> = if unwanted { Vec::new() } else { response.tool_uses().cloned().collect() };
        self.keep(&response, unwanted);
        let (stop, counted) = (response.stop.clone(), response.usage.total() > 0);
        self.response = Some(response);
        if !counted && (self.limits.tokens.is_some() || self.limits.cost.is_some()) {
            if !calls.is_empty() {
                self.take(calls.iter().map(not_run).collect());
            }
            let message = "the provider does not say how many tokens it took, so a limit on tokens or cost cannot be kept; leave it out";
            return Step::Done(Exit::Failed(AgentError::new(ErrorKind::Invalid, message)));
        }
        if !calls.is_empty() {
            return Step::Tools(calls);
        }
        match stop {
            StopReason::Pause if self.pauses >= MOST_PAUSES => {
                let message = format!("the model paused {MOST_PAUSES} times in a row and said nothing more");
                Step::Done(Exit::Failed(AgentError::new(ErrorKind::Agent, message)))
            }
            StopReason::Pause => self.call(),
            StopReason::MaxTokens => Step::Done(self.shortened.map_or(Exit::OutOfTokens, Exit::Limit)),
            StopReason::ContextExceeded => Step::Done(Exit::ContextFull),
            StopReason::Refusal => Step::Done(Exit::Refused),
            StopReason::Complete | StopReason::ToolUse | StopReason::StopSequence | StopReason::Other(_) => {
                Step::Done(Exit::Completed)
            }
        }
    }

    pub(super) fn failed(&mut self, error: AgentError) -> Step {
        self.count(&error.usage);
        // How much a model can write at most is known to the provider alone, which refuses more.
        if self.growing && error.kind == ErrorKind::Invalid {
            return Step::Done(Exit::OutOfTokens);
        }
        Step::Done(ended_by(error))
    }

    pub(super) fn ran(&mut self, results: Vec<ToolResult>) -> Step {
        let all_failed = results.iter().all(|result| result.is_error);
        self.take(results);
        self.failures = if all_failed { self.failures + 1 } else { 0 };
        if self.limits.failures.is_some_and(|most| self.failures >= most) {
            let message = format!("every tool failed {} turns in a row", self.failures);
            return Step::Done(Exit::Failed(AgentError::new(ErrorKind::Tool, message)));
        }
        self.call()
    }

    /// The tools were cut off. What they said by then is kept, so that the conversation can be continued.
    pub(super) fn broken_off(&mut self, results: Vec<ToolResult>, error: AgentError) -> Step {
        self.take(results);
        Step::Done(ended_by(error))
    }

    pub(super) fn finish(self) -> (Option<Response>, Vec<Message>, Metrics) {
        (self.response, self.request.messages, self.metrics)
    }

    fn call(&mut self) -> Step {
        if self.limits.turns.is_some_and(|most| self.metrics.invocations >= most) {
            return Step::Done(Exit::Limit(Limit::Turns));
        }
        let cost = self.metrics.cost.unwrap_or(0.0);
        let thinks = matches!(self.request.config.thinking, Some(ThinkingMode::Budget(_)));
        let least = if thinks { LEAST_WITH_THOUGHTS } else { LEAST_OUTPUT }.min(self.wanted);
        let wanted = least..=self.wanted;
        match room(&self.limits, &self.metrics.usage, cost, self.price, self.next_input(), wanted) {
            Ok(Room { output, because }) => {
                self.request.config.max_tokens = Some(output);
                self.request.config.budget = self.budget();
                self.shortened = because;
                Step::Call
            }
            Err(limit) => Step::Done(Exit::Limit(limit)),
        }
    }

    /// Returns what is left for all attempts at the next call.
    fn budget(&self) -> Option<Budget> {
        let tokens = self.limits.tokens.map(|most| most.saturating_sub(self.metrics.usage.total()));
        let left = |most: f64| most - self.metrics.cost.unwrap_or(0.0);
        let cost = self.limits.cost.map(left).zip(self.price);
        (tokens.is_some() || cost.is_some()).then(|| Budget { tokens, cost, input: self.next_input() })
    }

    /// Estimates what the next call reads: what the last one read and wrote, and what has come since.
    fn next_input(&self) -> u64 {
        let (tokens, messages) = self.known;
        let new = self.request.messages[messages..].iter().map(|message| bytes(&message.content)).sum::<u64>();
        let fixed = if messages == 0 {
            let tools = self
                .request
                .tools
                .iter()
                .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len());
            (self.request.system.as_deref().map_or(0, str::len) + tools.sum::<usize>()) as u64
        } else {
            0
        };
        tokens + (new + fixed).div_ceil(BYTES_PER_TOKEN)
    }

    fn count(&mut self, usage: &Usage) {
        self.metrics.invocations += 1;
        self.metrics.usage += *usage;
        if let Some(price) = self.price {
            self.metrics.cost = Some(price.cost(&self.metrics.usage));
        }
    }

    fn keep(&mut self, response: &Response, without_calls: bool) {
        let is_sendable = |part: &&Part| match part {
            Part::ToolUse(_) => !without_calls,
            // One that was cut off has no signature, and without it the provider refuses the conversation.
            Part::Thinking(thinking) => !thinking.signature.is_empty(),
            Part::Text(_) | Part::ToolResult(_) | Part::RedactedThinking(_) | Part::Other(_) => true,
        };
        let parts: Vec<Part> = response.parts.iter().filter(is_sendable).cloned().collect();
        // Providers refuse messages without content.
        if !parts.is_empty() {
            self.request.messages.push(Message::assistant(parts));
        }
        self.known = (response.usage.total(), self.request.messages.len());
    }

    fn take(&mut self, results: Vec<ToolResult>) {
        self.metrics.tool_calls += results.len() as u32;
        self.metrics.tool_errors += results.iter().filter(|result| result.is_error).count() as u32;
        self.request.messages.push(Message::results(results));
    }
}

/// Each pause is a call. A provider that does nothing else would be paid for ever.
const MOST_PAUSES: u32 = 20;
/// A call that may write less than this is not worth making.
const LEAST_OUTPUT: u32 = 256;
/// Where thoughts have a budget, they take 1024 tokens at the least.
const LEAST_WITH_THOUGHTS: u32 = 1024 + LEAST_OUTPUT;

/// English and code have about four bytes to a token, other scripts fewer; three is on the safe side of most.
const BYTES_PER_TOKEN: u64 = 3;

fn bytes(parts: &[Part]) -> u64 {
    let sizes = parts.iter().map(|part| match part {
        Part::Text(text) => text.text.len(),
        Part::ToolUse(call) => call.name.len() + call.input.as_str().len(),
        Part::ToolResult(result) => result.content.len(),
        Part::Thinking(thinking) => thinking.thinking.len() + thinking.signature.len(),
        Part::RedactedThinking(thinking) => thinking.data.len(),
        Part::Other(json) => json.as_str().len(),
    });
    sizes.sum::<usize>() as u64
}

fn not_run(call: &ToolUse) -> ToolResult {
    ToolResult { tool_use_id: call.id.clone(), content: "not run: the run was stopped".into(), is_error: true }
}

/// Whether the answer ends with a call of which nothing but the name is there.
fn ends_in_a_call(response: &Response) -> bool {
    matches!(response.parts.last(), Some(Part::ToolUse(call)) if call.input.as_str() == "{}")
}

fn ended_by(error: AgentError) -> Exit {
    match error.kind {
        ErrorKind::Cancelled => Exit::Cancelled,
        ErrorKind::Agent
        | ErrorKind::Tool
        | ErrorKind::Timeout
        | ErrorKind::RateLimit
        | ErrorKind::Network
        | ErrorKind::Invalid => Exit::Failed(error),
    }
}
