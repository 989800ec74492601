//! What the agent tells while it works: words, tools, plans, and what it has cost.

use agent_client_protocol_schema::{ContentBlock, ContentChunk, Plan, SessionUpdate, ToolCallUpdate};
use coop_api::{Message, Role, ToolPhase, ToolUse};
use serde_json::Value;

use super::opening::Phase;
use super::{Acp, mode_from_name, wire};
use crate::Meaning;

/// A message of the agent's that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Saying {
    id: Option<String>,
    text: String,
}

impl Saying {
    /// Adds a piece. Returns the message before it, if this is one of another.
    fn add(&mut self, chunk: &ContentChunk) -> Option<Meaning> {
        let id = chunk.message_id.as_ref().map(ToString::to_string);
        let before = if id == self.id { None } else { self.take() };
        self.id = id;
        self.text.push_str(&text(&chunk.content));
        before
    }

    /// Returns what was said so far, as a message.
    pub(super) fn take(&mut self) -> Option<Meaning> {
        let Self { id, text } = std::mem::take(self);
        if text.is_empty() {
            return None;
        }
        Some(Meaning::Said(Message { role: Role::Assistant, text, id, subagent: None }))
    }
}

impl Acp {
    /// Takes in an update of the conversation.
    pub(super) fn updated(&mut self, params: &Value, at: u64) -> Vec<Meaning> {
        let is_ours = params["sessionId"].as_str() == self.session.as_deref();
        if self.phase != Phase::Open || self.tells_past || !is_ours {
            return Vec::new();
        }
        let Some(update) = wire::parse::<SessionUpdate>(&params["update"]) else { return Vec::new() };
        let mut meanings = match &update {
            SessionUpdate::AvailableCommandsUpdate(_)
            | SessionUpdate::CurrentModeUpdate(_)
            | SessionUpdate::ConfigOptionUpdate(_)
            | SessionUpdate::SessionInfoUpdate(_) => Vec::new(),
            _ => self.turn_shows(),
        };
        match update {
            SessionUpdate::CurrentModeUpdate(update) => {
                meanings.extend(mode_from_name(&update.current_mode_id.to_string()));
            }
            SessionUpdate::AgentMessageChunk(chunk) => {
                meanings.extend(self.saying.add(&chunk));
                // Between turns nothing says where a message ends.
                if self.turn.is_none() {
                    meanings.extend(self.saying.take());
                }
            }
            SessionUpdate::AgentThoughtChunk(_) => meanings.extend(self.saying.take()),
            SessionUpdate::ToolCall(call) => meanings.extend(self.tool_told(call.into(), at)),
            SessionUpdate::ToolCallUpdate(update) => meanings.extend(self.tool_told(update, at)),
            SessionUpdate::Plan(plan) => {
                meanings.extend(self.saying.take());
                meanings.push(self.planned(&plan));
            }
            SessionUpdate::UsageUpdate(usage) => {
                if let Some(cost) = usage.cost.filter(|cost| cost.currency == "USD") {
                    self.cost = Some(cost.amount);
                    self.tells_cost = true;
                }
            }
            SessionUpdate::ConfigOptionUpdate(update) => self.settings.set_options(update.config_options),
            _ => {}
        }
        meanings
    }

    fn tool_told(&mut self, update: ToolCallUpdate, at: u64) -> Vec<Meaning> {
        let id = update.tool_call_id.to_string();
        let mut meanings: Vec<_> = self.saying.take().into_iter().collect();
        let told = self.tools.told(update, at);
        // Who has used the tool no longer asks for it. That it is in progress says nothing: some say so while they ask.
        if told.is_finished {
            let gone = self.asking.extract_if(|_, asking| asking.tool_call == id);
            meanings.extend(gone.map(|(request, _)| Meaning::RequestGone { request }));
        }
        meanings.extend(told.meanings);
        if self.turn.is_some() {
            meanings.push(Meaning::Working { tool: told.tool });
        }
        meanings
    }

    /// A plan is told as the use of a tool that keeps it.
    fn planned(&mut self, plan: &Plan) -> Meaning {
        self.plans += 1;
        Meaning::Tool(ToolUse {
            id: format!("plan-{}", self.plans),
            tool: "plan".to_owned(),
            phase: ToolPhase::Completed,
            input: Some(wire::value(plan)),
            output: None,
            duration_ms: None,
            subagent: None,
        })
    }
}

/// Returns the text of a piece; of what is no text, what it is.
pub(super) fn text(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::ResourceLink(link) => link.uri.clone(),
        ContentBlock::Image(_) => "[image]".to_owned(),
        ContentBlock::Audio(_) => "[audio]".to_owned(),
        _ => "[resource]".to_owned(),
    }
}
