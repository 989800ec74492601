use std::fmt;
use std::time::Duration;

use coop_api::{AgentId, AskId};
use serde::{Deserialize, Serialize};

use super::agent::Outcome;

/// Names one intent: the agent and a number. The same inputs give the same names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntentId(pub String);

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Something to be done, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Its name.
    pub id: IntentId,
    /// For which agent.
    pub agent: AgentId,
    /// What.
    pub effect: Effect,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Start its first process.
    Spawn,
    /// Give the agent a message as soon as it is idle.
    Send {
        /// The message.
        message: String,
    },
    /// Answer what it asks.
    Answer {
        /// Which ask.
        ask: AskId,
        /// Yes or no.
        allow: bool,
        /// What a no is explained with.
        text: Option<String>,
        /// Who decides.
        by: By,
        /// Why.
        why: String,
    },
    /// Let an agent that is held end its turn.
    ResolveStop,
    /// Run a command that decides.
    Gate {
        /// What a shell runs, in the agent's folder.
        run: String,
        /// How long it may take.
        limit: Duration,
        /// Which ask it decides about; without one, whether the agent is done.
        ask: Option<AskId>,
    },
    /// End the process, if there is one, and go on with its conversation in a new one.
    Resume,
    /// Begin anew in a new process.
    Restart,
    /// Call a person.
    Escalate {
        /// What for.
        reason: String,
        /// What it asks, if that is the reason.
        ask: Option<AskId>,
    },
    /// End the process and keep what became of the agent.
    Finish {
        /// What became of it.
        outcome: Outcome,
    },
}

impl Effect {
    /// Tells whether doing it again does no harm when nobody knows whether it was done. An ask has an id and takes one
    /// answer, an agent's first process is there or not; but a message told twice is told twice.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Spawn | Self::Answer { .. } | Self::ResolveStop | Self::Gate { .. } | Self::Finish { .. } => true,
            Self::Send { .. } | Self::Resume | Self::Restart | Self::Escalate { .. } => false,
        }
    }
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum By {
    /// A rule of the policy.
    Rule {
        /// Where it stands in its file.
        line: usize,
    },
    /// What the definition says for asks of this kind.
    Action,
    /// A command.
    Gate {
        /// Which.
        run: String,
    },
    /// A person.
    Person {
        /// Who.
        name: String,
    },
    /// A client of the sidecar's own API, which does not say who it is.
    Sidecar,
}
