//! Which agents were started by which, and what holds for all of them together.
//!
//! It is read from the store: what an agent's own files say of it the agent could have written.

use std::collections::BTreeMap;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::engine::Agent;
use coop_fleet::store::{Store, StoreError};

use super::places::is_there;

/// All agents, with those that started them.
#[derive(Debug, Default)]
pub(super) struct Family {
    members: BTreeMap<AgentId, Member>,
}

#[derive(Debug)]
struct Member {
    parent: Option<AgentId>,
    lives: bool,
    /// What it and its descendants have cost, in US dollars.
    cost: f64,
    /// What they may cost.
    budget: Option<f64>,
}

impl Family {
    pub(super) fn read(store: &Store) -> Result<Self, StoreError> {
        let mut members = BTreeMap::new();
        for agent in store.agents()? {
            let defined = store.defined(&agent.id)?;
            let budget = defined.as_ref().and_then(|defined| defined.rules()?.limits.cost_usd);
            let parent = defined.and_then(|defined| defined.parent);
            let lives = is_there(&agent) && agent.outcome.is_none();
            let Agent { id, cost_usd, descendants_usd, .. } = agent;
            members.insert(id, Member { parent, lives, cost: cost_usd + descendants_usd, budget });
        }
        Ok(Self { members })
    }

    /// Returns an agent and those above it, nearest first.
    fn line<'a>(&'a self, agent: &'a AgentId) -> impl Iterator<Item = (&'a AgentId, &'a Member)> {
        let mut next = Some(agent);
        // No line is longer than there are members, also if they were to form a ring.
        (0..self.members.len()).map_while(move |_| {
            let id = next?;
            let member = self.members.get(id)?;
            next = member.parent.as_ref();
            Some((id, member))
        })
    }

    /// Returns how many agents above this one were started by agents.
    pub(super) fn depth(&self, agent: &AgentId) -> u32 {
        u32::try_from(self.line(agent).skip(1).count()).unwrap_or(u32::MAX)
    }

    /// Tells whether an agent was started by another, or below it.
    pub(super) fn is_below(&self, agent: &AgentId, ancestor: &AgentId) -> bool {
        self.line(agent).skip(1).any(|(above, _)| above == ancestor)
    }

    /// Refuses another agent below this one, if there are too many below it or below one above it.
    pub(super) fn check_width(&self, agent: &AgentId, most: u32) -> Result<(), Error> {
        for (ancestor, _) in self.line(agent) {
            let living = self.members.iter().filter(|(id, member)| member.lives && self.is_below(id, ancestor)).count();
            if living >= most as usize {
                let why = format!(
                    "{living} agents run that {ancestor} or agents below it started, of {most} at most; wait until one \
                     has ended, or ask a person for a larger `coop up --spawn-width`"
                );
                return Err(Error::new(ErrorCode::Forbidden, why));
            }
        }
        Ok(())
    }

    /// Refuses what would cost more, if the budget of this agent or of one above it is spent.
    pub(super) fn check_budget(&self, agent: &AgentId) -> Result<(), Error> {
        for (ancestor, member) in self.line(agent) {
            if let Some(most) = member.budget.filter(|most| member.cost >= *most) {
                let why = format!(
                    "{ancestor} and the agents below it have cost ${:.2}, of ${most:.2} at most; a person can go on with \
                     them, or raise limits.cost_usd",
                    member.cost
                );
                return Err(Error::new(ErrorCode::Forbidden, why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> AgentId {
        AgentId(name.to_owned())
    }

    /// boss ─ a ─ b, boss ─ c (dead); other.
    fn family() -> Family {
        let member = |parent: Option<&str>, lives, cost| Member { parent: parent.map(id), lives, cost, budget: None };
        let members = [
            ("boss", member(None, true, 3.0)),
            ("a", member(Some("boss"), true, 2.0)),
            ("b", member(Some("a"), true, 1.0)),
            ("c", member(Some("boss"), false, 0.0)),
            ("other", member(None, true, 0.0)),
        ];
        Family { members: members.into_iter().map(|(name, member)| (id(name), member)).collect() }
    }

    #[test]
    fn width_counts_the_living_of_the_whole_subtree() {
        let family = family();
        assert_eq!(["boss", "a", "b", "other"].map(|name| family.depth(&id(name))), [0, 1, 2, 0]);
        assert!(family.is_below(&id("b"), &id("boss")) && !family.is_below(&id("b"), &id("c")));
        for name in ["boss", "a", "b"] {
            assert!(family.check_width(&id(name), 3).is_ok(), "{name}");
            let refused = family.check_width(&id(name), 2).expect_err("boss has two").message;
            assert!(refused.starts_with("2 agents run that boss"), "{name}: {refused}");
        }
        assert!(family.check_width(&id("other"), 1).is_ok());
    }

    #[test]
    fn a_budget_holds_for_all_that_are_below() {
        let mut family = family();
        family.members.get_mut(&id("boss")).expect("there").budget = Some(3.0);
        for name in ["boss", "a", "b"] {
            assert!(family.check_budget(&id(name)).is_err_and(|why| why.message.contains("boss")), "{name}");
        }
        assert!(family.check_budget(&id("other")).is_ok());
    }

    #[test]
    fn a_ring_of_parents_has_an_end() {
        let mut family = family();
        family.members.get_mut(&id("boss")).expect("there").parent = Some(id("b"));
        assert!(family.depth(&id("boss")) > 0);
        assert!(family.check_width(&id("a"), 1).is_err());
    }
}
