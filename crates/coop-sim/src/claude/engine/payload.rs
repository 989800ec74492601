//! Hook payloads, with the fields of the recordings.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{Effect, Engine, Hooks};
use crate::claude::hook::{HookCall, HookEvent};
use crate::claude::message::extend;
use crate::claude::notice::AgentRef;
use crate::claude::tool::ToolCall;

impl Engine {
    /// Runs the hooks of an event; their end comes back as an event of its own.
    pub(super) fn run_hooks(&mut self, event: HookEvent, subject: &str, fields: Value) -> Hooks {
        let run = self.setup.ids.hook_run();
        let payload = self.payload(event, fields);
        self.out.push(Effect::RunHooks(HookCall { run, event, subject: subject.to_owned(), payload }));
        Hooks { run, event, results: Vec::new() }
    }

    pub(super) fn transcript(&self) -> PathBuf {
        self.setup.logs.join(format!("{}.jsonl", self.setup.session))
    }

    pub(super) fn agent_transcript(&self, agent: &AgentRef) -> PathBuf {
        self.setup.logs.join(&self.setup.session.0).join("subagents").join(format!("agent-{}.jsonl", agent.id))
    }

    pub(super) fn agent(&self) -> Option<AgentRef> {
        self.frames.last().and_then(|frame| frame.agent.as_ref()).map(|(agent, _)| agent.clone())
    }

    pub(super) fn background_tasks(&self) -> Vec<Value> {
        let task = |task: &super::Task| {
            json!({ "id": task.id, "type": "shell", "status": "running",
                "description": "run in the background", "command": task.command })
        };
        self.tasks.iter().map(task).collect()
    }

    fn payload(&self, event: HookEvent, fields: Value) -> Value {
        let mut payload = Map::new();
        payload.insert("session_id".into(), json!(self.setup.session.0));
        payload.insert("transcript_path".into(), json!(self.transcript()));
        payload.insert("cwd".into(), json!(self.setup.cwd));
        if let Some(prompt_id) = &self.prompt_id {
            payload.insert("prompt_id".into(), json!(prompt_id));
        }
        if !event.is_without_mode() {
            payload.insert("permission_mode".into(), json!(self.setup.mode.name()));
        }
        if let Some(agent) = self.agent() {
            payload.insert("agent_id".into(), json!(agent.id.0));
            payload.insert("agent_type".into(), json!(AGENT_TYPE));
        }
        payload.insert("hook_event_name".into(), json!(event.name()));
        let mut payload = Value::Object(payload);
        extend(&mut payload, fields);
        payload
    }
}

/// The one kind of sub-agent there is here.
pub(super) const AGENT_TYPE: &str = "general-purpose";

pub(super) fn tool_fields(call: &ToolCall) -> Value {
    json!({ "tool_name": call.tool.name(), "tool_input": call.input, "tool_use_id": call.id.0 })
}

/// The fields of [`tool_fields`] and more.
pub(super) fn tool_fields_with(call: &ToolCall, more: Value) -> Value {
    let mut fields = tool_fields(call);
    extend(&mut fields, more);
    fields
}
