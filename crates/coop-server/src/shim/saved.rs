//! What is handed out of a run, and taken back: its handle, and its state.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::Shim;
use super::brief::Brief;
use super::host::Host;
use super::queue::Queue;
use super::ring::now;
use super::runner::{Runner, What};
use super::types::{AgentHandle, SdkCheckpoint, SerializedAgentState, SerializedBy};

impl<H: Host> Shim<H> {
    pub(super) fn state_of(&self, runner: &Runner<H>, by: SerializedBy) -> SerializedAgentState {
        let brief = runner.brief();
        let pending = runner.pending();
        let conversation = runner.conversation();
        let (script_position, state_snapshot) = match &runner.what {
            What::Mock(mock) => (Some(mock.position()), None),
            What::Live(_) | What::Failed => (None, Some(Saved::snapshot(&brief, &self.queue))),
        };
        let mut state = SerializedAgentState {
            agent_id: brief.typed().agent_id.clone(),
            plugin_name: self.config.agent.plugin().to_owned(),
            session_id: conversation.clone().unwrap_or_else(|| runner.session_id.clone()),
            checkpoint: SdkCheckpoint {
                sdk: self.config.agent.sdk().to_owned(),
                session_id: conversation,
                script_position,
                state_snapshot,
                ..SdkCheckpoint::default()
            },
            brief_snapshot: brief.raw().clone(),
            conversation_summary: (!pending.is_empty()).then(|| "Agent blocked on decision".to_owned()),
            pending_decision_ids: pending,
            last_sequence: self.journal.sequence(&runner.run),
            serialized_at: now(),
            serialized_by: by,
            estimated_size_bytes: 0,
        };
        state.estimated_size_bytes = json!(state).to_string().len() as u64;
        state
    }

    pub(super) fn handle(&self, runner: &Runner<H>) -> AgentHandle {
        let changes = self.queue.lock().unwrap_or_else(PoisonError::into_inner).changes.clone();
        AgentHandle {
            id: runner.brief().typed().agent_id.clone(),
            plugin_name: self.config.agent.plugin().to_owned(),
            status: runner.status(),
            session_id: runner.conversation().unwrap_or_else(|| runner.session_id.clone()),
            pending_brief_changes: (!changes.is_empty()).then_some(changes),
        }
    }
}

/// What a state of ours holds beside the conversation's name.
pub(super) struct Saved {
    pub(super) session_id: Option<String>,
    /// What the agent was last told to do.
    pub(super) assignment: Option<(String, String)>,
    pub(super) queue: Option<Queue>,
}

impl Saved {
    fn snapshot(brief: &Brief, queue: &Mutex<Queue>) -> Map<String, Value> {
        let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = [("assignment", json!(brief.assignment())), ("queue", json!(*queue))];
        parts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    pub(super) fn of(state: &SerializedAgentState) -> Self {
        let part = |key: &str| state.checkpoint.state_snapshot.as_ref().and_then(|parts| parts.get(key)).cloned();
        // A state of another's may have the conversation's name in one place only; in ours, none means that there is none.
        let elsewhere = || part("assignment").is_none().then(|| state.session_id.clone());
        Self {
            session_id: state.checkpoint.session_id.clone().or_else(elsewhere).filter(|id| !id.is_empty()),
            assignment: part("assignment").and_then(|value| serde_json::from_value(value).ok()),
            queue: part("queue").and_then(|value| serde_json::from_value(value).ok()),
        }
    }
}
