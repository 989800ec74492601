//! The stop gate: what happens when the agent wants to end its turn.

use coop_api::{
    Error, ErrorCode, EventBody, EvidenceSource, Reply, StopDecision, StopOutcome, StopVerdict, TurnOutcome,
};
use coop_drivers::{Meaning, Signal, StopReply};

use super::{Agent, Effect, Now, ReplyTo};

/// What an agent is told that does not use its chance to ask.
const ESCALATE: &str = "Use the AskUserQuestion tool before proceeding.";
/// What an agent is told once that decides by itself.
const AUTO: &str =
    "Before you stop: if everything you were asked for is done and checked, say so and stop. Otherwise go on.";
const GATED: &str = "You are not done yet. Go on.";

/// What the gate does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopConfig {
    /// Whether it is open.
    pub mode: StopMode,
    /// What an agent is told that is sent back without a reason.
    pub prompt: Option<String>,
    /// Whether an agent that is sent back is told to ask a human first.
    pub escalate: bool,
}

/// Whether the agent may end its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopMode {
    /// It may.
    #[default]
    Allow,
    /// It waits until somebody decides.
    Gate,
    /// It is asked once whether it is done, and decides.
    Auto,
}

pub(super) struct Gate {
    config: StopConfig,
    /// The hook that waits for a decision.
    held: Option<ReplyTo>,
}

impl Gate {
    pub(super) fn new(config: StopConfig) -> Self {
        Self { config, held: None }
    }

    /// Tells whether a hook waits for a decision; one that has gone away does not.
    pub(super) fn is_holding(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.is_closed())
    }

    fn reason(&self, given: Option<String>) -> String {
        let reason = given.or_else(|| self.config.prompt.clone()).unwrap_or_else(|| GATED.to_owned());
        if self.config.escalate { format!("{reason} {ESCALATE}") } else { reason }
    }
}

impl Agent {
    /// Decides about an agent that wants to end its turn, or holds it.
    pub(super) fn stop_wanted(&mut self, again: bool, unfinished: bool, hook: ReplyTo, now: &Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        match self.gate.config.mode {
            _ if unfinished => self.answer_stop(hook, &StopReply::Allow),
            StopMode::Allow => self.let_stop(hook, now, &mut effects),
            StopMode::Auto if again => self.let_stop(hook, now, &mut effects),
            StopMode::Auto => {
                let reason = self.gate.reason(Some(self.gate.config.prompt.clone().unwrap_or_else(|| AUTO.to_owned())));
                self.send_back(hook, reason, &mut effects);
            }
            StopMode::Gate => {
                self.gate.held = Some(hook);
                effects.push(outcome(StopVerdict::Blocked, None));
            }
        }
        effects
    }

    /// Decides about the agent that is held.
    pub(crate) fn resolve_stop(&mut self, decision: StopDecision, now: &Now) -> Result<Vec<Effect>, Error> {
        let held = self.gate.held.take().filter(|held| !held.is_closed());
        let Some(hook) = held else {
            return Err(Error::new(ErrorCode::NoPrompt, "the agent is not waiting to end its turn"));
        };
        let mut effects = Vec::new();
        match decision {
            StopDecision::Allow => self.let_stop(hook, now, &mut effects),
            StopDecision::Block(reason) => {
                let reason = self.gate.reason(Some(reason).filter(|reason| !reason.is_empty()));
                self.send_back(hook, reason, &mut effects);
            }
        }
        Ok(effects)
    }

    fn let_stop(&mut self, hook: ReplyTo, now: &Now, effects: &mut Vec<Effect>) {
        self.answer_stop(hook, &StopReply::Allow);
        effects.push(outcome(StopVerdict::Allowed, None));
        if !self.driver.ends_on_stop() {
            return;
        }
        // Only now: an agent that is held or sent back is not idle.
        let idle = Signal::new(EvidenceSource::Hook, "Stop, and it may", Meaning::Idle(TurnOutcome::Completed));
        self.hear(&idle, now, effects);
    }

    fn send_back(&mut self, hook: ReplyTo, reason: String, effects: &mut Vec<Effect>) {
        self.answer_stop(hook, &StopReply::Block(reason.clone()));
        effects.push(outcome(StopVerdict::Blocked, Some(reason)));
    }

    fn answer_stop(&mut self, hook: ReplyTo, reply: &StopReply) {
        // A hook that is gone needs no answer.
        let _ = hook.send(Ok(Reply::Hook(self.driver.stop_reply(reply))));
    }
}

fn outcome(outcome: StopVerdict, reason: Option<String>) -> Effect {
    Effect::Record(EventBody::Stop(StopOutcome { outcome, reason }))
}
