//! What is done about something: now or later, and in which words.

use std::time::Duration;

use coop_api::{Ask, AskId, Fault};
use coop_policy::{Request, Verdict};

use super::action::{Act, DeadAction, ErrorAction};
use super::agent::{Agent, Count, Outcome, Phase};
use super::intent::{By, Effect, Intent, IntentId};
use super::occasion::{Due, Occasion};
use super::plan::{Attempts, Effective};
use super::template::Facts;
use super::{Rules, Timestamp};

const WHERE_LEFT: &str = "Your process was started again. Continue where you left off.";

/// One step of the reducer under way.
pub(super) struct Dispatch<'a> {
    pub(super) agent: Agent,
    pub(super) rules: &'a Rules,
    pub(super) now: Timestamp,
    intents: Vec<Intent>,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(agent: Agent, rules: &'a Rules, now: Timestamp) -> Self {
        Self { agent, rules, now, intents: Vec::new() }
    }

    pub(super) fn done(self) -> (Agent, Vec<Intent>) {
        (self.agent, self.intents)
    }

    pub(super) fn on_idle(&mut self) {
        let count = self.agent.counts.idle;
        let next = self.rules.actions.on_idle.effective(count.used);
        self.now_or_later(Occasion::Idle, next.step.cooldown, count, Wait::Between);
    }

    pub(super) fn on_dead(&mut self) {
        let count = self.agent.counts.dead;
        let next = self.rules.actions.on_dead.effective(count.used);
        let wait = match next.step.action {
            DeadAction::Wait => Wait::First { until: None },
            DeadAction::Done | DeadAction::Fail | DeadAction::Resume | DeadAction::Restart | DeadAction::Escalate => {
                Wait::Between
            }
        };
        self.now_or_later(Occasion::Dead, next.step.cooldown, count, wait);
    }

    pub(super) fn on_error(&mut self, fault: &Fault) {
        let count = *self.agent.counts.error(fault.kind);
        let next = self.rules.actions.on_error.get(fault.kind).effective(count.used);
        let wait = match next.step.action {
            ErrorAction::Retry => Wait::First { until: fault.until.as_deref().and_then(moment) },
            ErrorAction::Resume | ErrorAction::Escalate | ErrorAction::Fail => Wait::Between,
        };
        self.now_or_later(Occasion::Error(fault.clone()), next.step.cooldown, count, wait);
    }

    /// Rules come first. What they leave open the definition decides, by the kind of ask.
    pub(super) fn on_prompt(&mut self, ask: &Ask) {
        let Rules { name, kind, folder, .. } = self.rules;
        let request = Request { agent: name, kind: *kind, folder, ask };
        match self.rules.policy.decide(&request) {
            Some(decision) => match decision.verdict {
                Verdict::Allow => self.answer(&ask.id, Say::Yes, By::Rule { line: decision.line }, decision.why),
                Verdict::Deny => {
                    let text = Some(decision.why.clone());
                    self.answer(&ask.id, Say::No(text), By::Rule { line: decision.line }, decision.why);
                }
                Verdict::Ask => {
                    self.escalate(format!("it asks: {} ({})", ask.preview, decision.why), Some(ask.id.clone()))
                }
            },
            None => {
                let count = *self.agent.counts.prompt(ask.kind);
                let next = self.rules.actions.on_prompt.get(ask.kind).effective(count.used);
                let occasion = Occasion::Prompt { ask: ask.id.clone(), kind: ask.kind, preview: ask.preview.clone() };
                self.now_or_later(occasion, next.step.cooldown, count, Wait::Between);
            }
        }
    }

    /// Does what is due.
    pub(super) fn due(&mut self) {
        let (ready, later) = std::mem::take(&mut self.agent.due).into_iter().partition(|due| due.at <= self.now);
        self.agent.due = later;
        let ready: Vec<Due> = ready;
        for due in ready {
            self.act(&due.occasion);
        }
    }

    fn now_or_later(&mut self, occasion: Occasion, cooldown: Duration, count: Count, wait: Wait) {
        let at = match wait {
            Wait::Between => count.last.map_or(self.now, |last| last.plus(cooldown)),
            Wait::First { until } => self.now.plus(cooldown).max(until.unwrap_or_default()),
        };
        if at > self.now {
            self.agent.due.push(Due { at, occasion });
        } else {
            self.act(&occasion);
        }
    }

    /// Nothing is lost in silence: what could not be done is a person's. That a call for one failed is not called for again.
    pub(super) fn intent_failed(&mut self, intent: &IntentId, why: &str) {
        self.agent.gates.retain(|gate| gate.intent != *intent);
        self.agent.replacing = false;
        if self.agent.call.as_ref() != Some(intent) {
            // Nothing but its first start was tried so far: there is no process, and none comes by itself.
            if self.agent.run == 0 {
                self.agent.phase = Phase::Dead;
                // Whoever has ended it meanwhile wants nothing of it any more.
                if matches!(self.agent.outcome, Some(Outcome::Dismissed { .. })) {
                    return;
                }
            }
            self.escalate(format!("something could not be done: {why}"), None);
        }
    }

    pub(super) fn resolve_stop(&mut self) {
        self.intend(Effect::ResolveStop);
    }

    pub(super) fn send(&mut self, message: String) {
        self.intend(Effect::Send { message });
    }

    pub(super) fn spawn(&mut self) {
        self.intend(Effect::Spawn);
    }

    /// Does what a person wants, whatever limit is reached.
    pub(super) fn revive(&mut self) {
        self.agent.replacing = true;
        self.agent.first_words = None;
        // Agents keep no conversation in which nothing was said, so there would be nothing to go on with.
        self.intend(if self.agent.turn == 0 { Effect::Restart } else { Effect::Resume });
    }

    pub(super) fn answer(&mut self, ask: &AskId, say: Say, by: By, why: String) {
        let (allow, text) = match say {
            Say::Yes => (true, None),
            Say::No(text) => (false, text),
        };
        self.intend(Effect::Answer { ask: ask.clone(), allow, text, by, why });
    }

    /// Sends the agent on, unless it has reached a limit.
    pub(super) fn go_on(&mut self, message: String) {
        match self.limit() {
            Some(limit) => self.escalate(limit, None),
            None => {
                // An agent that failed before it could be told its first words is told those.
                let message = self.agent.first_words.take().unwrap_or(message);
                self.send(message);
            }
        }
    }

    pub(super) fn resume<A: Act>(&mut self, next: &Effective<'_, A>, facts: &Facts<'_>) {
        let message = self.message(next, facts).unwrap_or_else(|| WHERE_LEFT.to_owned());
        self.replace(Effect::Resume, Some(message));
    }

    pub(super) fn replace(&mut self, effect: Effect, first_words: Option<String>) {
        if let Some(limit) = self.limit() {
            return self.escalate(limit, None);
        }
        self.agent.forget_plans();
        self.agent.replacing = true;
        self.agent.first_words = first_words;
        self.intend(effect);
    }

    fn limit(&self) -> Option<String> {
        let agent = &self.agent;
        self.rules.limits.reached(agent.turn, agent.since, self.now, agent.cost_usd + agent.descendants_usd)
    }

    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.agent.forget_plans();
        self.agent.outcome = Some(outcome.clone());
        self.agent.ending = None;
        self.intend(Effect::Finish { outcome });
    }

    pub(super) fn escalate(&mut self, reason: String, ask: Option<AskId>) {
        self.agent.escalated = Some(reason.clone());
        self.agent.called_about = ask.clone();
        let intent = self.intend(Effect::Escalate { reason, ask });
        self.agent.call = Some(intent);
    }

    pub(super) fn intend(&mut self, effect: Effect) -> IntentId {
        self.agent.intents += 1;
        let id = IntentId(format!("{}/{}", self.agent.id, self.agent.intents));
        self.intents.push(Intent { id: id.clone(), agent: self.agent.id.clone(), effect });
        id
    }

    pub(super) fn message<A: Act>(&self, next: &Effective<'_, A>, facts: &Facts<'_>) -> Option<String> {
        let attempts = match next.step.attempts {
            Attempts::Times(times) => times.to_string(),
            Attempts::Forever => "any number of".to_owned(),
        };
        let facts = Facts {
            agent: &self.rules.name,
            attempt: next.attempt,
            attempts,
            last_message: self.agent.last_message.as_deref().unwrap_or_default(),
            ..facts.clone()
        };
        next.step.message.as_ref().map(|message| message.fill(&facts))
    }
}

/// What an ask is answered with.
pub(super) enum Say {
    Yes,
    No(Option<String>),
}

/// What a cooldown is counted from.
enum Wait {
    /// The last attempt.
    Between,
    /// Now; or longer, if it is known until when.
    First { until: Option<Timestamp> },
}

/// Reads when an error is over, if that is a moment and not an agent's own words.
fn moment(text: &str) -> Option<Timestamp> {
    let moment = humantime::parse_rfc3339_weak(text).ok()?;
    let since = moment.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Timestamp)
}
