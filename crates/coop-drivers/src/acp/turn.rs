//! A turn: the request with the message, which the agent answers once it is done.

use std::time::Duration;

use agent_client_protocol_schema::{
    AGENT_METHOD_NAMES, AgentMethodNames, ContentBlock, Error, PromptRequest, TextContent, Usage as Told,
};
use coop_api::{Message, Role, TurnOutcome, Usage};
use serde_json::Value;

use super::{Acp, ask, fault, signals, wire};
use crate::driver::{Expected, Say, Step};
use crate::{Meaning, Serve, Service, Signal};

/// How an agent's methods are called.
pub(super) const METHODS: AgentMethodNames = AGENT_METHOD_NAMES;
/// The ids of prompts begin after this.
const PROMPTS: i64 = 1000;
/// How long it may take until the agent shows that it has a message: as long as its model takes for the first word.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// A turn that is under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: i64,
    prompt: String,
    /// Whether the agent has shown that it has the message.
    shown: bool,
    /// Whether somebody stopped it.
    cancelled: bool,
    /// What the conversation had cost before.
    cost_before: Option<f64>,
}

/// Returns the steps that hand over a message.
pub(super) fn deliver(session: &str, number: i64, text: &str) -> Vec<Step> {
    let prompt = vec![ContentBlock::Text(TextContent::new(text))];
    let request = PromptRequest::new(session.to_owned(), prompt);
    let message = wire::request(PROMPTS + number, METHODS.session_prompt, request);
    vec![Step::Send(message), Step::Expect { what: Expected::TurnBegan, within: SHOWS_WITHIN, retry: None }]
}

pub(super) fn expect_idle() -> Step {
    Step::Expect { what: Expected::Idle, within: ENDS_WITHIN, retry: None }
}

impl Acp {
    /// Notes a message of ours that is out.
    pub(super) fn sent(&mut self, message: &Value, at: u64) -> Vec<Signal> {
        match message["method"].as_str() {
            Some(method) if method == METHODS.session_prompt => {
                let Some(id) = message["id"].as_i64() else { return Vec::new() };
                let prompt = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                self.turns = id - PROMPTS;
                self.tells_past = false;
                self.turn = Some(Turn { id, prompt, shown: false, cancelled: false, cost_before: self.cost });
                signals("session/prompt is out", vec![Meaning::Working { tool: None }])
            }
            Some(method) if method == METHODS.session_cancel => {
                if let Some(turn) = &mut self.turn {
                    turn.cancelled = true;
                }
                Vec::new()
            }
            Some(_) => Vec::new(),
            None => {
                if let Some(asking) = self.asking.remove(&message["id"].to_string()) {
                    let allowed = ask::allows(&asking, &message["result"]);
                    self.tools.decided(&asking.tool_call, allowed, at);
                }
                Vec::new()
            }
        }
    }

    /// Returns that the turn began, at the first sign of it.
    pub(super) fn turn_shows(&mut self) -> Vec<Meaning> {
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.shown) else { return Vec::new() };
        turn.shown = true;
        let message = Message { role: Role::User, text: turn.prompt.clone(), id: None, subagent: None };
        vec![Meaning::TurnBegan { prompt: Some(turn.prompt.clone()) }, Meaning::Said(message)]
    }

    /// The reply to a prompt: its turn is over.
    pub(super) fn turn_replied(&mut self, outcome: Result<&Value, Error>) -> Vec<Signal> {
        let mut meanings = self.turn_shows();
        let Some(turn) = self.turn.take() else { return Vec::new() };
        meanings.extend(self.saying.take());
        meanings.extend(self.tools.turn_ended());
        self.asking.clear();
        // The protocol has no place for it in an error, so it is among what the agent adds.
        let used = match &outcome {
            Ok(reply) => self.used(&turn, reply),
            Err(error) => error.data.as_ref().and_then(|data| self.used(&turn, data)),
        };
        let used = used.filter(|_| !self.tells_used);
        meanings.extend(used.map(|usage| Meaning::Used { id: turn.id.to_string(), usage, at: None }));
        let detail = match outcome {
            Ok(reply) => {
                let reason = reply["stopReason"].as_str().unwrap_or("no reason");
                meanings.push(Meaning::Idle(match reason {
                    "cancelled" => TurnOutcome::Interrupted,
                    "refusal" | "max_tokens" | "max_turn_requests" => TurnOutcome::Failed,
                    _ => TurnOutcome::Completed,
                }));
                format!("session/prompt ended: {reason}")
            }
            // Some have an error for what was stopped.
            Err(error) if turn.cancelled => {
                meanings.push(Meaning::Idle(TurnOutcome::Interrupted));
                format!("session/prompt ended after it was cancelled: {}", fault::words(&error))
            }
            Err(error) => {
                meanings.push(Meaning::Blocked(fault::fault(&error)));
                "session/prompt failed".to_owned()
            }
        };
        let is_interrupted = meanings.contains(&Meaning::Idle(TurnOutcome::Interrupted));
        if is_interrupted && self.launch.allowed.terminals {
            // An agent that is stopped before it hears of its terminal cannot end what runs there.
            let name = "interrupted".to_owned();
            self.to_say.push(Say::Serve(Serve { name, what: Service::KillTerminals }));
        }
        signals(&detail, meanings)
    }

    /// Returns what a turn used: as the protocol has it, or in Gemini's way.
    fn used(&self, turn: &Turn, reply: &Value) -> Option<Usage> {
        let cost_usd = self.cost.zip(turn.cost_before).map(|(now, before)| (now - before).max(0.0));
        let cost_usd = cost_usd.filter(|_| self.tells_cost);
        if let Some(told) = wire::parse::<Told>(&reply["usage"]) {
            return Some(Usage {
                input_tokens: told.input_tokens,
                output_tokens: told.output_tokens,
                cache_read_tokens: told.cached_read_tokens.unwrap_or(0),
                cache_write_tokens: told.cached_write_tokens.unwrap_or(0),
                cost_usd,
            });
        }
        let count = &reply["_meta"]["quota"]["token_count"];
        let (input, output) = (count["input_tokens"].as_u64()?, count["output_tokens"].as_u64()?);
        Some(Usage { input_tokens: input, output_tokens: output, cost_usd, ..Usage::default() })
    }
}

/// Returns what one call took, or what an earlier process did.
pub(super) fn used(params: &Value) -> Option<Meaning> {
    let tokens = |name: &str| params[name].as_u64().unwrap_or(0);
    let usage = Usage {
        input_tokens: tokens("inputTokens"),
        output_tokens: tokens("outputTokens"),
        cache_read_tokens: tokens("cachedReadTokens"),
        cache_write_tokens: tokens("cachedWriteTokens"),
        cost_usd: params["costUsd"].as_f64(),
    };
    let id = params["id"].as_str()?.to_owned();
    Some(if params["isPast"] == true {
        Meaning::UsedBefore { id, usage }
    } else {
        Meaning::Used { id, usage, at: None }
    })
}
