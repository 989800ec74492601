//! The record of one agent, and what each input makes of it.

use coop_api::{AgentId, Ask, AskId, AskKind, Fault, FaultKind};
use serde::{Deserialize, Serialize};

use super::action::StopMode;
use super::dispatch::Dispatch;
use super::input::Input;
use super::intent::{Intent, IntentId};
use super::plan::{Due, Occasion};
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
    /// Processes it has had.
    pub run: u32,
    /// Turns it has begun.
    pub turn: u64,
    /// When it was first started.
    pub since: Timestamp,
    /// What it has cost, as far as that is known.
    pub cost_usd: f64,
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
    pub(super) gates: Vec<RunningGate>,
    pub(super) counts: Counts,
    /// Intents it has had.
    pub(super) intents: u64,
    /// The last intent that calls a person.
    pub(super) call: Option<IntentId>,
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
    errors: [Count; 5],
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
            run: 0,
            turn: 0,
            since: now,
            cost_usd: 0.0,
            last_message: None,
            exit: None,
            asks: Vec::new(),
            due: Vec::new(),
            resting: true,
            dispatched: None,
            replacing: false,
            first_words: None,
            gates: Vec::new(),
            counts: Counts::default(),
            intents: 0,
            call: None,
        }
    }

    /// Returns what an input makes of the record, and what is to be done.
    pub fn step(&self, rules: &Rules, input: &Input, now: Timestamp) -> (Self, Vec<Intent>) {
        let mut dispatch = Dispatch::new(self.clone(), rules, now);
        dispatch.take(input);
        dispatch.done()
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

impl Dispatch<'_> {
    fn take(&mut self, input: &Input) {
        match input {
            Input::Spawned { resumed } => self.spawned(*resumed),
            // What a process does that is being ended changes nothing any more.
            Input::Working
            | Input::Idle { .. }
            | Input::Prompt { .. }
            | Input::Failed { .. }
            | Input::StopBlocked { .. }
            | Input::Due
            | Input::GateEnded { .. }
                if self.agent.replacing || self.agent.outcome.is_some() => {}
            Input::Working => self.working(),
            Input::Idle { last_message } => self.idle(last_message.clone()),
            Input::Prompt { ask } => self.asked(ask),
            Input::AskClosed { ask } => self.ask_closed(ask),
            Input::Failed { fault } => self.failed(fault),
            Input::Gone { code, signal } => self.gone(*code, *signal),
            // The turn is not over by that: other hooks may still send the agent back. Its idleness tells.
            Input::StopAllowed => {}
            Input::StopBlocked { reason: None } => self.resolve_stop(),
            Input::StopBlocked { reason: Some(_) } => {}
            Input::Interrupted => self.agent.dispatched = Some(self.agent.turn),
            // Kept for people to see. A silence says nothing about the agent.
            Input::Missed { .. } | Input::Unreachable { .. } => {}
            Input::Cost { usd } => self.agent.cost_usd = *usd,
            Input::Due => self.due(),
            Input::GateEnded { intent, verdict } => self.gate_ended(intent, verdict),
            Input::IntentFailed { intent, why } => self.intent_failed(intent, why),
            Input::Steered { .. } => self.steered(),
        }
    }

    fn spawned(&mut self, resumed: bool) {
        let agent = &mut self.agent;
        agent.run += 1;
        agent.phase = Phase::Starting;
        agent.outcome = None;
        agent.replacing = false;
        agent.resting = true;
        // What the process before had begun is over; there is nothing to dispatch until this one works.
        agent.dispatched = Some(agent.turn);
        agent.asks.clear();
        agent.forget_plans();
        let prompt = if resumed { None } else { self.rules.prompt.clone() };
        let words: Vec<_> = [prompt, self.agent.first_words.take()].into_iter().flatten().collect();
        self.agent.first_words = Some(words.join("\n\n")).filter(|words| !words.is_empty());
    }

    fn working(&mut self) {
        let agent = &mut self.agent;
        agent.phase = Phase::Working;
        if agent.resting {
            agent.resting = false;
            agent.turn += 1;
            agent.escalated = None;
            agent.forget_plans();
        }
    }

    fn idle(&mut self, last_message: Option<String>) {
        let agent = &mut self.agent;
        agent.phase = Phase::Idle;
        agent.last_message = last_message.or(agent.last_message.take());
        let was_resting = std::mem::replace(&mut agent.resting, true);
        if let Some(words) = agent.first_words.take() {
            agent.dispatched = Some(agent.turn);
            agent.forget_plans();
            return self.send(words);
        }
        if was_resting {
            return;
        }
        agent.counts.dead = Count::default();
        agent.counts.errors = <[Count; 5]>::default();
        if agent.dispatched != Some(agent.turn) {
            agent.dispatched = Some(agent.turn);
            self.on_idle();
        }
    }

    fn asked(&mut self, ask: &Ask) {
        self.agent.phase = Phase::Asking;
        if !self.agent.asks.contains(&ask.id) {
            self.agent.asks.push(ask.id.clone());
            self.on_prompt(ask);
        }
    }

    fn ask_closed(&mut self, ask: &AskId) {
        let agent = &mut self.agent;
        agent.asks.retain(|open| open != ask);
        agent.gates.retain(|gate| gate.ask.as_ref().is_none_or(|(about, _)| about != ask));
        agent.due.retain(|due| !matches!(&due.occasion, Occasion::Prompt { ask: about, .. } if about == ask));
    }

    fn failed(&mut self, fault: &Fault) {
        let agent = &mut self.agent;
        if agent.phase == Phase::Blocked {
            return;
        }
        if agent.resting {
            // A turn that failed before it was seen to begin.
            agent.turn += 1;
            agent.forget_plans();
        }
        agent.phase = Phase::Blocked;
        agent.resting = true;
        if agent.dispatched != Some(agent.turn) {
            agent.dispatched = Some(agent.turn);
            self.on_error(fault);
        }
    }

    fn gone(&mut self, code: Option<i32>, signal: Option<i32>) {
        let agent = &mut self.agent;
        if agent.phase == Phase::Dead {
            return;
        }
        agent.phase = Phase::Dead;
        agent.resting = true;
        agent.asks.clear();
        agent.forget_plans();
        agent.exit = Some((code, signal));
        if agent.outcome.is_none() && !agent.replacing {
            self.on_dead();
        }
    }

    fn steered(&mut self) {
        let agent = &mut self.agent;
        agent.counts = Counts::default();
        agent.escalated = None;
        agent.forget_plans();
    }
}

impl Agent {
    /// Drops what was to be done later: something else happened meanwhile.
    pub(super) fn forget_plans(&mut self) {
        self.due.retain(|due| matches!(due.occasion, Occasion::Prompt { .. }) && !self.asks.is_empty());
        self.gates.retain(|gate| gate.ask.is_some() && !self.asks.is_empty());
    }
}
