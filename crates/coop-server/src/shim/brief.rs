//! A brief as it came, and what it says.

use serde_json::{Map, Value};

use super::body::Invalid;
use super::plain;
use super::promise;
use super::types::AgentBrief;

/// A brief with all its keys, also those that we do not know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Brief {
    raw: Value,
    typed: AgentBrief,
}

impl Brief {
    pub(crate) fn read(raw: Value) -> Result<Self, Invalid> {
        let typed: AgentBrief = Invalid::read(&raw)?;
        if typed.agent_id.is_empty() {
            return Err(Invalid::at(&["agentId"], "must not be empty", Value::from("")));
        }
        promise::check(&typed)?;
        Ok(Self { raw, typed })
    }

    /// Refuses keys that nobody reads. Who speaks the protocol may have more of them than we know; in a file that a person
    /// wrote one is misspelt, and what it should have forbidden would be allowed.
    pub(crate) fn check_keys(&self) -> Result<(), Invalid> {
        let read = serde_json::to_value(&self.typed).unwrap_or(Value::Null);
        match plain::unread(&self.raw, &read) {
            Some((at, why)) => Err(Invalid::there(at, &why, Value::Null)),
            None => Ok(()),
        }
    }

    pub(crate) fn raw(&self) -> &Value {
        &self.raw
    }

    pub(crate) fn typed(&self) -> &AgentBrief {
        &self.typed
    }

    /// Returns the brief with other values for some of its keys. Whose it is does not change.
    pub(crate) fn changed(&self, changes: &Map<String, Value>) -> Result<Self, Invalid> {
        let mut raw = self.raw.clone();
        for (key, value) in changes.iter().filter(|(key, _)| *key != "agentId") {
            raw[key.as_str()] = value.clone();
        }
        Self::read(raw)
    }

    /// Returns how many tokens of context the agent may be told at once.
    pub(crate) fn budget(&self) -> Option<u64> {
        Some(self.typed.session_policy.as_ref()?.context_budget_tokens?.get())
    }

    pub(crate) fn max_turns(&self) -> Option<u32> {
        Some(self.typed.session_policy.as_ref()?.max_turns?.get())
    }

    /// Tells whether the agent may hand parts of its task to others.
    pub(crate) fn may_delegate(&self) -> bool {
        self.typed.delegation_policy.as_ref().is_none_or(|policy| policy.can_spawn_subagents && policy.max_depth > 0)
    }

    /// Returns what tells one assignment from another.
    pub(crate) fn assignment(&self) -> (String, String) {
        (self.typed.workstream.clone(), self.typed.description.clone())
    }
}
