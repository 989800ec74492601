//! What happens when an agent is idle, asks, fails or dies.
//!
//! A pure reducer: [`Agent::step`] takes one [`Input`] and the time, and returns what the agent's record is then and what is
//! to be done, as [`Intent`]s. It sees no clock and does nothing, so replaying the same inputs gives the same record and the
//! same intents with the same ids; counters are part of the record and nothing else keeps any.
//!
//! ```text
//! Idle, after a turn ─► on_idle ─┐
//! Failed ─────────────► on_error ├─► Plan::effective ─► cooldown over? ─► Intent
//! Gone ───────────────► on_dead ─┤                          └─ no ─► due ─► Due ─► Intent
//! Prompt ─► policy ───► on_prompt┘
//! ```
//!
//! A turn gets one dispatch. It begins when an agent that rested works again.

mod act;
mod action;
mod agent;
mod dispatch;
mod gated;
mod input;
mod intent;
mod limits;
mod occasion;
mod plan;
mod plans;
mod take;
mod template;
#[cfg(test)]
mod tests;

pub use self::action::{Act, DeadAction, ErrorAction, IdleAction, PromptAction, StopMode};
pub use self::agent::{Agent, Outcome, Phase};
pub use self::input::{GateVerdict, Input};
pub use self::intent::{By, Effect, Intent, IntentId};
pub use self::limits::Limits;
pub use self::occasion::{Due, Occasion};
pub use self::plan::{Attempts, Effective, Gate, Plan, PlanError, Step};
pub use self::plans::{Actions, ErrorPlans, PromptPlans};
pub use self::template::{Template, TemplateError};

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the moment this much later.
    #[must_use]
    pub fn plus(self, time: std::time::Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the moment this much earlier.
    #[must_use]
    pub fn minus(self, time: std::time::Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// What holds for one agent: who it is, what is done about it, and within which limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What people call it.
    pub name: String,
    /// The first message of a fresh conversation.
    pub prompt: Option<String>,
    /// What is done when it is idle, asks, fails or dies.
    pub actions: Actions,
    /// How far it may go.
    pub limits: Limits,
    /// What it may do without anybody being asked.
    pub policy: coop_policy::Policy,
    /// Where it works; relative paths in its requests and in rules begin here.
    pub folder: String,
    /// Its kind, by the name of its driver; nothing if that is not known.
    pub kind: Option<&'static str>,
}
