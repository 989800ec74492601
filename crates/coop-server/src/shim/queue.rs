//! What waits to be told to the agent until its turn ends. It outlives a run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::prompt;
use super::types::ContextInjection;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Queue {
    /// Changes of the brief.
    pub(crate) changes: Map<String, Value>,
    /// Why humans said no, for agents whose protocol has no place for it.
    pub(crate) words: Vec<String>,
    context: Vec<ContextInjection>,
    /// The versions that were told, or will be.
    versions: BTreeSet<i64>,
}

impl Queue {
    /// Adds something the agent is to know, unless it has been told that version.
    pub(crate) fn inject(&mut self, context: ContextInjection) {
        if self.versions.insert(context.snapshot_version) {
            self.context.push(context);
        }
    }

    /// Takes out what waits, of the context as much as there is room for.
    pub(crate) fn take(&mut self, budget: Option<u64>) -> Self {
        Self {
            changes: std::mem::take(&mut self.changes),
            words: std::mem::take(&mut self.words),
            context: prompt::fitting(std::mem::take(&mut self.context), budget),
            versions: BTreeSet::new(),
        }
    }

    /// Returns all of it as one message.
    pub(crate) fn message(&self) -> Option<String> {
        let changes = (!self.changes.is_empty()).then(|| prompt::of_changes(&self.changes));
        let words = self.words.iter().cloned();
        let parts: Vec<_> = words.chain(changes).chain(self.context.iter().map(prompt::of_context)).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}
