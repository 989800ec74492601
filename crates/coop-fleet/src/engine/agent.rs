//! The record of one agent.

use coop_api::{AgentId, AskId, AskKind, FaultKind, PermissionMode};
use serde::{Deserialize, Serialize};

use super::action::StopMode;
use super::dispatch::Dispatch;
use super::input::Input;
use super::intent::{Intent, IntentId};
use super::occasion::{Due, Occasion};
use super::{Rules, Timestamp};

/// What is known of one agent. It follows from its inputs and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Who it is.
    pub id: AgentId,
    /// What it is doing.
    pub phase: Phase,
    /// What became of it, once that is decided.
    pub outcome: Option<Outcome>,
    /// Why a person was called, until one came.
    pub escalated: Option<String>,
    /// What it asks, if that is why.
    #[serde(default)]
    pub(super) called_about: Option<AskId>,
    /// Processes it has had.
    pub run: u32,
    /// Turns it has begun.
    pub turn: u64,
    /// When it was first started.
    pub since: Timestamp,
    /// What it has cost, as far as that is known.
    pub cost_usd: f64,
    /// What the agents have cost that it started, and those that they started; as far as that is known.
    #[serde(default)]
    pub descendants_usd: f64,
    /// How it decides which tools to use without asking, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The last thing it said.
    pub last_message: Option<String>,
    /// How its last process ended: code and signal.
    pub exit: Option<(Option<i32>, Option<i32>)>,
    /// What it asks, oldest first.
    pub asks: Vec<AskId>,
    /// What is done later.
    pub due: Vec<Due>,
    /// Whether it waits for something to begin a turn with.
    pub(super) resting: bool,
    /// The last turn that was dispatched.
    pub(super) dispatched: Option<u64>,
    /// Whether we end its process to begin another.
    pub(super) replacing: bool,
    /// What the next process is told first.
    pub(super) first_words: Option<String>,
    /// Messages of people's that wait with its sidecar until it is idle.
    #[serde(default)]
    pub(super) messages: u32,
    pub(super) gates: Vec<RunningGate>,
    pub(super) counts: Counts,
    /// Intents it has had.
    pub(super) intents: u64,
    /// The last intent that calls a person.
    pub(super) call: Option<IntentId>,
    /// What is kept while others end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ending: Option<Ending>,
}

/// What counts again if others, who were to end an agent, let it run on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ending {
    /// Why a person was called before, and about which ask.
    pub(super) called: Option<(String, Option<AskId>)>,
    /// What it asks, and what it did last.
    pub(super) unheeded: Vec<Input>,
}

/// What an agent is doing, as far as the engine cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// There is no process yet, or it takes no message yet.
    Starting,
    /// At work.
    Working,
    /// Waits for a message.
    Idle,
    /// Waits for an answer.
    Asking,
    /// Gave up on an error.
    Blocked,
    /// Its process is gone.
    Dead,
}

/// What became of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it was to do.
    Done,
    /// It did not.
    Failed {
        /// Why.
        why: String,
    },
    /// A person ended it.
    Dismissed {
        /// Who.
        by: String,
    },
}

/// How often something was dispatched, and when last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) used: u32,
    pub(super) last: Option<Timestamp>,
}

/// Counts since the agent was started, or since a person told it something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) idle: Count,
    pub(super) dead: Count,
    prompts: [Count; 4],
    pub(super) errors: [Count; 5],
}

impl Counts {
    pub(super) fn prompt(&mut self, kind: AskKind) -> &mut Count {
        &mut self.prompts[match kind {
            AskKind::Permission => 0,
            AskKind::Plan => 1,
            AskKind::Question => 2,
            AskKind::Setup => 3,
        }]
    }

    pub(super) fn error(&mut self, kind: FaultKind) -> &mut Count {
        &mut self.errors[match kind {
            FaultKind::RateLimit => 0,
            FaultKind::Auth => 1,
            FaultKind::Network => 2,
            FaultKind::Overload => 3,
            FaultKind::Request | FaultKind::Other => 4,
        }]
    }
}

/// A gate that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningGate {
    pub(super) intent: IntentId,
    pub(super) run: String,
    /// Which ask it decides about, of which kind; without one it is about the end of the turn.
    pub(super) ask: Option<(AskId, AskKind)>,
}

impl Agent {
    /// Returns the record of an agent that nothing has happened to.
    pub fn new(id: AgentId, now: Timestamp) -> Self {
        Self {
            id,
            phase: Phase::Starting,
            outcome: None,
            escalated: None,
            called_about: None,
            run: 0,
            turn: 0,
            since: now,
            cost_usd: 0.0,
            permission_mode: None,
            descendants_usd: 0.0,
            last_message: None,
            exit: None,
            asks: Vec::new(),
            due: Vec::new(),
            resting: true,
            dispatched: None,
            replacing: false,
            first_words: None,
            messages: 0,
            gates: Vec::new(),
            counts: Counts::default(),
            intents: 0,
            call: None,
            ending: None,
        }
    }

    /// Returns what an input makes of the record, and what is to be done.
    pub fn step(&self, rules: &Rules, input: &Input, now: Timestamp) -> (Self, Vec<Intent>) {
        let mut dispatch = Dispatch::new(self.clone(), rules, now);
        dispatch.take(input);
        dispatch.done()
    }

    /// Tells whether its first start failed, so that nothing of it is there but its name.
    pub fn never_ran(&self) -> bool {
        self.run == 0 && self.phase == Phase::Dead && !self.replacing
    }

    /// Tells whether its process has ended and another is on its way, or will be after a while.
    pub fn comes_back(&self) -> bool {
        self.phase == Phase::Dead && (self.replacing || !self.due.is_empty())
    }

    /// Tells whether it is given something to do as soon as it takes it.
    pub fn has_first_words(&self) -> bool {
        self.first_words.is_some()
    }

    /// Returns when [`Input::Due`] is to come next.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.iter().map(|due| due.at).min()
    }

    /// Returns how a sidecar that starts now holds the end of turns, and whether the agent is to ask its user then.
    pub fn stop(&self, rules: &Rules) -> (StopMode, bool) {
        rules.actions.stop(self.counts.idle.used)
    }
}

impl Agent {
    /// Drops what was to be done later: something else happened meanwhile.
    pub(super) fn forget_plans(&mut self) {
        self.due.retain(|due| matches!(due.occasion, Occasion::Prompt { .. }) && !self.asks.is_empty());
        self.gates.retain(|gate| gate.ask.is_some() && !self.asks.is_empty());
    }
}
