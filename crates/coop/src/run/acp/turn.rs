//! A turn, as the protocol tells it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use coop_api::visible;
use coop_llm::{Decision, Event, Exit, Gate, Limit, Outcome, Part, Tool, ToolUse, Usage};
use serde_json::{Value, json};

use super::peer::{Peer, RpcError};
use crate::run::ready::Allowed;
use crate::run::show;

const ALLOW_ONCE: &str = "allow";
const ALLOW_ALWAYS: &str = "allow_always";
const REJECT: &str = "reject";

/// Returns the text of a prompt; nothing if there is anything else in it.
pub(super) fn text(prompt: &Value) -> Option<String> {
    let texts = prompt.as_array()?.iter().map(|part| match part["type"].as_str() {
        Some("text") => part["text"].as_str().map(str::to_owned),
        Some("resource_link") => part["uri"].as_str().map(str::to_owned),
        _ => None,
    });
    let texts: Option<Vec<_>> = texts.collect();
    texts.map(|texts| texts.join("\n")).filter(|text| !text.trim().is_empty())
}

/// Returns the answer to the prompt whose turn this was.
pub(super) fn reply(outcome: &Outcome) -> Result<Value, RpcError> {
    let usage = &outcome.metrics.usage;
    let usage = json!({
        "inputTokens": usage.input, "outputTokens": usage.output, "totalTokens": usage.total(),
        "cachedReadTokens": usage.cache_read, "cachedWriteTokens": usage.cache_write,
    });
    // What failed is paid for too.
    let failed = |message: String| RpcError { code: -32603, message, data: json!({ "usage": usage }) };
    let reason = match &outcome.exit {
        Exit::Completed => "end_turn",
        Exit::OutOfTokens => "max_tokens",
        Exit::Refused => "refusal",
        Exit::Cancelled => "cancelled",
        Exit::Limit(Limit::Turns) => "max_turn_requests",
        Exit::Limit(limit @ (Limit::Tokens | Limit::Cost | Limit::Time)) => {
            return Err(failed(format!("stopped by {}", limit.as_str())));
        }
        Exit::ContextFull => return Err(failed("the conversation is too long for the model".into())),
        Exit::Failed(error) => return Err(failed(error.to_string())),
    };
    Ok(json!({ "stopReason": reason, "usage": usage }))
}

/// Tells the client what happens in a turn.
pub(super) struct Teller {
    peer: Arc<Peer>,
    session: String,
    folder: PathBuf,
    /// Which turn of this process it is.
    number: u64,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    /// What the conversation has cost.
    cost: f64,
    /// What was told of this turn.
    told: Usage,
    told_cost: f64,
    /// What the last call read and wrote.
    last: u64,
    /// The calls of tools, by their ids.
    calls: HashMap<String, ToolUse>,
}

impl Teller {
    /// Returns one for a turn of a conversation that has cost so much.
    pub(super) fn new(peer: Arc<Peer>, session: String, folder: PathBuf, number: u64, cost: f64) -> Self {
        let so_far = Mutex::new(SoFar { cost, ..SoFar::default() });
        Self { peer, session, folder, number, so_far }
    }

    /// Tells that a message is here.
    pub(super) fn heard(&self, text: &str) {
        self.update(json!({ "sessionUpdate": "user_message_chunk", "content": content(text) }));
    }

    pub(super) fn tell(&self, event: &Event) {
        match event {
            Event::Reply { turn, parts, usage, cost, .. } => {
                self.said(*turn, parts);
                self.lock().last = usage.total();
                self.paid(&turn.to_string(), usage, *cost);
            }
            Event::Retry { attempt, wait, kind, message } => {
                let params = json!({
                    "sessionId": self.session, "attempt": attempt, "delayMs": wait.as_millis() as u64,
                    "error": kind.as_str(), "message": message,
                });
                self.peer.tell("_coop/retry", &params);
            }
            Event::ToolStart(call) => {
                let told = json!({ "sessionUpdate": "tool_call", "status": "in_progress" });
                self.update(merged(told, self.described(call)));
            }
            Event::ToolEnd { name, result, .. } => {
                let call = self.lock().calls.remove(&result.tool_use_id);
                let about = call.map_or_else(|| json!({ "title": visible(name) }), |call| self.described(&call));
                let status = if result.is_error { "failed" } else { "completed" };
                let told = json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": result.tool_use_id, "status": status,
                    "content": [{ "type": "content", "content": content(&result.content) }],
                });
                self.update(merged(told, about));
            }
            Event::End { metrics, .. } => {
                // What failed or was cancelled is paid for too.
                let (told, told_cost) = {
                    let so_far = self.lock();
                    (so_far.told, so_far.told_cost)
                };
                let rest = less(&metrics.usage, &told);
                if rest != Usage::default() {
                    self.paid("rest", &rest, metrics.cost.map(|cost| (cost - told_cost).max(0.0)));
                }
            }
            Event::Call { .. } | Event::Delta(_) => {}
        }
    }

    fn said(&self, turn: u32, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text(text) if !text.text.is_empty() => self.update(json!({
                    "sessionUpdate": "agent_message_chunk", "messageId": turn.to_string(), "content": content(&text.text),
                })),
                Part::Thinking(thinking) if !thinking.thinking.is_empty() => self.update(json!({
                    "sessionUpdate": "agent_thought_chunk", "content": content(&thinking.thinking),
                })),
                Part::ToolUse(call) => drop(self.lock().calls.insert(call.id.clone(), call.clone())),
                Part::Text(_)
                | Part::Thinking(_)
                | Part::RedactedThinking(_)
                | Part::ToolResult(_)
                | Part::Other(_) => {}
            }
        }
    }

    fn paid(&self, call: &str, usage: &Usage, cost: Option<f64>) {
        used(&self.peer, &self.session, &format!("{}.{call}", self.number), usage, cost);
        let (amount, tokens) = {
            let mut so_far = self.lock();
            so_far.told += *usage;
            so_far.told_cost += cost.unwrap_or(0.0);
            so_far.cost += cost.unwrap_or(0.0);
            (so_far.cost, so_far.last)
        };
        if cost.is_none() {
            return;
        }
        // How much the model could hold is not known.
        let cost = json!({ "amount": amount, "currency": "USD" });
        self.update(json!({ "sessionUpdate": "usage_update", "used": tokens, "size": 0, "cost": cost }));
    }

    fn described(&self, call: &ToolUse) -> Value {
        let input: Value = call.input.parse().unwrap_or_default();
        let path = input["path"].as_str().map(|path| self.folder.join(path));
        let locations: Vec<_> = path.iter().map(|path| json!({ "path": path })).collect();
        let kind = kind(&call.name);
        let command = input["command"].as_str().filter(|_| kind == "execute");
        let title = command.map_or_else(|| show::call(call), show::glimpse);
        json!({ "toolCallId": call.id, "title": title, "kind": kind, "rawInput": input, "locations": locations })
    }

    fn update(&self, update: Value) {
        self.peer.tell("session/update", &json!({ "sessionId": self.session, "update": update }));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of all calls that earlier processes made.
pub(super) const BEFORE: &str = "before";

/// Tells what a call of the model took. The protocol has no word for it.
pub(super) fn used(peer: &Peer, session: &str, id: &str, usage: &Usage, cost: Option<f64>) {
    let params = json!({
        "sessionId": session, "id": id, "isPast": id == BEFORE, "inputTokens": usage.input, "outputTokens": usage.output,
        "cachedReadTokens": usage.cache_read, "cachedWriteTokens": usage.cache_write, "costUsd": cost,
    });
    peer.tell("_coop/used", &params);
}

fn less(all: &Usage, part: &Usage) -> Usage {
    Usage {
        input: all.input.saturating_sub(part.input),
        output: all.output.saturating_sub(part.output),
        cache_read: all.cache_read.saturating_sub(part.cache_read),
        cache_write: all.cache_write.saturating_sub(part.cache_write),
    }
}

/// Asks the client before what changes something.
pub(super) struct Asker {
    teller: Arc<Teller>,
    allowed: Arc<Allowed>,
}

impl Asker {
    pub(super) fn new(teller: Arc<Teller>, allowed: Arc<Allowed>) -> Self {
        Self { teller, allowed }
    }
}

#[async_trait]
impl Gate for Asker {
    async fn decide(&self, call: &ToolUse, tool: &dyn Tool) -> Decision {
        if self.allowed.allows(tool) {
            return Decision::Allow;
        }
        let option = |id: &str, name: &str, kind: &str| json!({ "optionId": id, "name": name, "kind": kind });
        let always = format!("Always allow {} until this agent ends", visible(&call.name));
        let params = json!({
            "sessionId": self.teller.session,
            "toolCall": merged(json!({ "status": "pending" }), self.teller.described(call)),
            "options": [
                option(ALLOW_ONCE, "Allow", "allow_once"),
                option(ALLOW_ALWAYS, &always, "allow_always"),
                option(REJECT, "Reject", "reject_once"),
            ],
        });
        let answer = self.teller.peer.ask("session/request_permission", params).await.unwrap_or_default();
        let chosen = (answer["outcome"]["outcome"] == "selected").then(|| answer["outcome"]["optionId"].as_str());
        match chosen.flatten() {
            Some(ALLOW_ONCE) => Decision::Allow,
            Some(ALLOW_ALWAYS) => {
                self.allowed.add(tool);
                Decision::Allow
            }
            // Whatever is no clear yes is a no.
            _ => Decision::Deny("the user said no".into()),
        }
    }
}

fn content(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns what the protocol calls such a tool.
fn kind(tool: &str) -> &'static str {
    match tool {
        "read" => "read",
        "list" | "search" => "search",
        "write" | "edit" => "edit",
        "shell" => "execute",
        _ => "other",
    }
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}
