//! Which uses of tools were told already. Each source tells them again, and late: so what was told is kept for this turn
//! and the last one. What is older comes from nowhere any more.

use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Told {
    now: Uses,
    before: Uses,
}

#[derive(Debug, Default)]
struct Uses {
    requested: HashMap<String, Use>,
    finished: HashSet<String>,
    /// Sub-agents, by the use of the tool that began them.
    subagents: HashMap<String, String>,
}

/// What the end of a tool's use does not tell, and its beginning did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) tool: String,
    /// The file it is to write.
    pub(super) path: Option<String>,
    pub(super) subagent: Option<String>,
}

impl Told {
    pub(super) fn begin_turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    pub(super) fn began(&mut self, subagent: &str, by: &str) {
        self.now.subagents.insert(by.to_owned(), subagent.to_owned());
    }

    /// Returns the name of the sub-agent that a tool's use began; without one, that of the use has to do.
    pub(super) fn subagent<'a>(&'a self, by: &'a str) -> &'a str {
        let known = self.now.subagents.get(by).or_else(|| self.before.subagents.get(by));
        known.map_or(by, String::as_str)
    }

    /// Notes that a tool is to be used, and tells whether that is new.
    pub(super) fn request(&mut self, id: &str, made: Use) -> bool {
        let is_new = !self.now.requested.contains_key(id) && !self.before.requested.contains_key(id);
        if is_new {
            self.now.requested.insert(id.to_owned(), made);
        }
        is_new
    }

    /// Notes that a tool was used, and returns what is known of its use if that is new.
    pub(super) fn finish(&mut self, id: &str) -> Option<Use> {
        if self.before.finished.contains(id) || !self.now.finished.insert(id.to_owned()) {
            return None;
        }
        let known = self.now.requested.get(id).or_else(|| self.before.requested.get(id));
        Some(known.cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known_for_this_turn_and_the_next_and_then_forgotten() {
        let mut told = Told::default();
        let made = Use { tool: "Bash".into(), ..Use::default() };
        assert!(told.request("a", made.clone()) && !told.request("a", made.clone()));
        told.begin_turn();
        assert!(!told.request("a", made.clone()));
        assert_eq!(told.finish("a"), Some(made));
        assert_eq!(told.finish("a"), None);
        told.begin_turn();
        assert_eq!(told.finish("a"), None);
        for turn in 0..1000 {
            told.begin_turn();
            told.request(&turn.to_string(), Use::default());
            told.finish(&turn.to_string());
        }
        let kept = told.now.requested.len() + told.before.requested.len();
        assert_eq!((kept, told.now.finished.len() + told.before.finished.len()), (2, 2));
    }
}
