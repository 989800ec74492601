//! What waits to be told to an agent until its turn ends. It outlives a run, but is nobody else's.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::prompt;
use super::types::ContextInjection;

/// How much may wait, in bytes: more no model would read.
const MOST: usize = 1 << 20;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Queue {
    /// The agent that it is for; without one it is for the next.
    owner: Option<String>,
    /// Changes of the brief.
    pub(crate) changes: Map<String, Value>,
    /// Why humans said no, for agents whose protocol has no place for it.
    pub(crate) words: Vec<String>,
    context: Vec<ContextInjection>,
    /// The versions that were told, or will be.
    versions: BTreeSet<i64>,
}

/// More waits than can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than 1 MiB waits to be told to the agent; tell it less, or when its turn has ended")]
pub(crate) struct Full;

impl Queue {
    /// Leaves what waits to this agent. What waited for another one is forgotten.
    pub(crate) fn belong_to(&mut self, agent: &str) {
        if self.owner.as_deref().is_some_and(|owner| owner != agent) {
            *self = Self::default();
        }
        self.owner = Some(agent.to_owned());
    }

    /// Begins a conversation that was told nothing yet, but what waits.
    pub(crate) fn begin(&mut self, agent: &str) {
        self.belong_to(agent);
        self.versions = self.context.iter().map(|context| context.snapshot_version).collect();
    }

    /// Goes on with a conversation: what it had waiting comes before what has come since.
    pub(crate) fn resume(&mut self, agent: &str, saved: Option<Self>) -> Result<(), Full> {
        self.belong_to(agent);
        let since = std::mem::replace(self, Self { owner: self.owner.clone(), ..saved.unwrap_or_default() });
        self.changes.extend(since.changes);
        self.words.extend(since.words);
        since.context.into_iter().try_for_each(|context| self.inject(context))
    }

    /// Adds something the agent is to know, unless it has been told that version.
    pub(crate) fn inject(&mut self, context: ContextInjection) -> Result<(), Full> {
        let size = |context: &ContextInjection| context.content.len();
        if self.context.iter().map(size).sum::<usize>() + size(&context) > MOST {
            return Err(Full);
        }
        if self.versions.insert(context.snapshot_version) {
            self.context.push(context);
        }
        Ok(())
    }

    /// Takes out what waits, of the context as much as there is room for.
    pub(crate) fn take(&mut self, budget: Option<u64>) -> Self {
        Self {
            owner: self.owner.clone(),
            changes: std::mem::take(&mut self.changes),
            words: std::mem::take(&mut self.words),
            context: prompt::fitting(std::mem::take(&mut self.context), budget),
            versions: BTreeSet::new(),
        }
    }

    /// Returns all of it as one message.
    pub(crate) fn message(&self) -> Option<String> {
        let words = self.words.iter().cloned();
        let changes = prompt::of_changes(&self.changes);
        let parts: Vec<_> = words.chain(changes).chain(self.context.iter().map(prompt::of_context)).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context(version: i64, content: &str) -> ContextInjection {
        let body = json!({ "content": content, "format": "plain", "snapshotVersion": version, "estimatedTokens": 1,
                           "priority": "required" });
        serde_json::from_value(body).expect("a context")
    }

    fn told(queue: &mut Queue) -> Vec<String> {
        queue.take(None).context.into_iter().map(|context| context.content).collect()
    }

    #[test]
    fn what_came_while_it_was_paused_is_told_too() {
        let mut before = Queue::default();
        before.begin("a");
        assert_eq!(before.inject(context(1, "before")), Ok(()));
        let saved = serde_json::from_value(json!(before)).expect("a queue");
        for mut queue in [before, Queue::default()] {
            assert_eq!(queue.inject(context(2, "while")), Ok(()));
            queue.changes.insert("description".to_owned(), json!("other"));
            assert_eq!(queue.resume("a", Some(Clone::clone(&saved))), Ok(()));
            assert_eq!(queue.changes["description"], "other");
            assert_eq!(told(&mut queue), ["before", "while"]);
        }
    }

    #[test]
    fn nobody_is_told_what_was_for_another() {
        let mut queue = Queue::default();
        // For whoever comes first.
        assert_eq!(queue.inject(context(1, "first")), Ok(()));
        queue.begin("a");
        assert_eq!(told(&mut queue), ["first"]);
        assert_eq!(queue.inject(context(2, "for a")), Ok(()));
        queue.words.push("no".to_owned());
        queue.begin("b");
        assert!(queue.message().is_none());
        // It was told to another; this one does not know it.
        assert_eq!(queue.inject(context(1, "again")), Ok(()));
        assert_eq!(told(&mut queue), ["again"]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut queue = Queue::default();
        let half = "x".repeat(MOST / 2);
        assert_eq!(queue.inject(context(1, &half)), Ok(()));
        assert_eq!(queue.inject(context(2, &half)), Ok(()));
        assert_eq!(queue.inject(context(3, "x")), Err(Full));
        assert_eq!(told(&mut queue).len(), 2);
        assert_eq!(queue.inject(context(3, "x")), Ok(()));
    }
}
