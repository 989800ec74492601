//! From what happened to what is done about it.

use std::time::Duration;

use coop_api::{Ask, AskId, AskKind, Fault};

use super::action::{Act, DeadAction, ErrorAction, IdleAction, PromptAction};
use super::agent::{Agent, Count, Outcome, Phase, RunningGate};
use super::input::GateVerdict;
use super::intent::{By, Effect, Intent, IntentId};
use super::plan::{Attempts, Due, Effective, Occasion};
use super::template::Facts;
use super::{Rules, Timestamp};
use crate::policy::{Request, Verdict};

const GO_ON: &str = "Continue.";
const WHERE_LEFT: &str = "Your process was started again. Continue where you left off.";

/// One step of the reducer under way.
pub(super) struct Dispatch<'a> {
    pub(super) agent: Agent,
    pub(super) rules: &'a Rules,
    now: Timestamp,
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
        self.now_or_later(Occasion::Dead, next.step.cooldown, count, Wait::Between);
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
        let request = Request { agent: &self.rules.name, folder: &self.rules.folder, ask };
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

    fn act(&mut self, occasion: &Occasion) {
        match occasion {
            Occasion::Idle => self.act_idle(),
            Occasion::Dead => self.act_dead(),
            Occasion::Error(fault) => self.act_error(fault),
            Occasion::Prompt { ask, kind, preview } => self.act_prompt(ask, *kind, preview),
        }
    }

    fn act_idle(&mut self) {
        let rules = self.rules;
        let next = rules.actions.on_idle.effective(self.agent.counts.idle.used);
        if next.step.action == IdleAction::Auto {
            return;
        }
        self.agent.counts.idle.count(self.now);
        match next.step.action {
            IdleAction::Done => self.finish(Outcome::Done),
            IdleAction::Fail => self.finish(Outcome::Failed { why: "it ended its turn".to_owned() }),
            IdleAction::Nudge => {
                let message = self.message(&next, &Facts::default()).unwrap_or_else(|| GO_ON.to_owned());
                self.go_on(message);
            }
            IdleAction::Gate => self.run_gate(&next, None),
            IdleAction::Resume => self.resume(&next, &Facts::default()),
            IdleAction::Escalate => {
                let reason = self.message(&next, &Facts::default());
                self.escalate(reason.unwrap_or_else(|| "it is idle".to_owned()), None);
            }
            IdleAction::Auto => {}
        }
    }

    fn act_dead(&mut self) {
        let rules = self.rules;
        let next = rules.actions.on_dead.effective(self.agent.counts.dead.used);
        self.agent.counts.dead.count(self.now);
        let exit = exit_words(self.agent.exit);
        let facts = Facts { exit: exit.clone(), ..Facts::default() };
        match next.step.action {
            DeadAction::Done => self.finish(Outcome::Done),
            DeadAction::Fail => self.finish(Outcome::Failed { why: exit }),
            DeadAction::Resume => self.resume(&next, &facts),
            DeadAction::Restart => {
                let message = self.message(&next, &facts);
                self.replace(Effect::Restart, message);
            }
            DeadAction::Escalate => {
                let reason = self.message(&next, &facts);
                self.escalate(reason.unwrap_or(exit), None);
            }
        }
    }

    fn act_error(&mut self, fault: &Fault) {
        let rules = self.rules;
        let used = self.agent.counts.error(fault.kind).used;
        let next = rules.actions.on_error.get(fault.kind).effective(used);
        self.agent.counts.error(fault.kind).count(self.now);
        let facts = Facts { error: &fault.message, ..Facts::default() };
        let words = format!("it gave up on an error ({}): {}", fault.kind.as_str(), fault.message);
        match next.step.action {
            ErrorAction::Retry => {
                let message = self.message(&next, &facts).unwrap_or_else(|| GO_ON.to_owned());
                self.go_on(message);
            }
            ErrorAction::Resume => self.resume(&next, &facts),
            ErrorAction::Escalate => {
                let reason = self.message(&next, &facts);
                self.escalate(reason.unwrap_or(words), None);
            }
            ErrorAction::Fail => self.finish(Outcome::Failed { why: words }),
        }
    }

    fn act_prompt(&mut self, ask: &AskId, kind: AskKind, preview: &str) {
        let rules = self.rules;
        let next = rules.actions.on_prompt.get(kind).effective(self.agent.counts.prompt(kind).used);
        self.agent.counts.prompt(kind).count(self.now);
        let why = format!("on_prompt for {} says {}", kind.as_str(), next.step.action.name());
        match next.step.action {
            PromptAction::Allow => self.answer(ask, Say::Yes, By::Action, why),
            PromptAction::Deny => {
                let text = self.message(&next, &Facts::default());
                self.answer(ask, Say::No(text), By::Action, why);
            }
            PromptAction::Gate => self.run_gate(&next, Some((ask.clone(), kind))),
            PromptAction::Escalate => {
                let reason = self.message(&next, &Facts::default());
                self.escalate(reason.unwrap_or_else(|| format!("it asks: {preview}")), Some(ask.clone()));
            }
        }
    }

    fn run_gate<A: Act>(&mut self, next: &Effective<'_, A>, ask: Option<(AskId, AskKind)>) {
        // A plan has no gate without a command.
        let Some(gate) = next.step.gate.clone() else { return };
        let about = ask.as_ref().map(|(id, _)| id.clone());
        let intent = self.intend(Effect::Gate { run: gate.run.clone(), limit: gate.limit, ask: about });
        self.agent.gates.push(RunningGate { intent, run: gate.run, ask });
    }

    pub(super) fn gate_ended(&mut self, intent: &IntentId, verdict: &GateVerdict) {
        // Those that nobody waits for any more were dropped when that happened.
        let Some(at) = self.agent.gates.iter().position(|gate| gate.intent == *intent) else { return };
        let gate = self.agent.gates.remove(at);
        match gate.ask {
            Some((ask, _)) => self.ask_gated(&ask, gate.run, verdict),
            None if self.agent.phase == Phase::Idle => self.turn_gated(verdict),
            None => {}
        }
    }

    fn turn_gated(&mut self, verdict: &GateVerdict) {
        let output = match verdict {
            GateVerdict::Passed => return self.finish(Outcome::Done),
            GateVerdict::Broken { why } => return self.escalate(format!("its gate cannot be run: {why}"), None),
            GateVerdict::Failed { output } => output.as_str(),
            GateVerdict::TimedOut => "the check took too long and was ended",
        };
        let rules = self.rules;
        // The attempt that has just failed.
        let tried = rules.actions.on_idle.effective(self.agent.counts.idle.used.saturating_sub(1));
        if tried.step.action == IdleAction::Gate && tried.has_more() {
            let facts = Facts { output, ..Facts::default() };
            let message = self.message(&tried, &facts).unwrap_or_else(|| output.to_owned());
            self.go_on(message);
        } else {
            self.on_idle();
        }
    }

    fn ask_gated(&mut self, ask: &AskId, run: String, verdict: &GateVerdict) {
        let by = By::Gate { run: run.clone() };
        match verdict {
            GateVerdict::Passed => self.answer(ask, Say::Yes, by, "the gate passed".to_owned()),
            GateVerdict::Failed { output } => {
                self.answer(ask, Say::No(Some(output.clone())), by, "the gate did not pass".to_owned());
            }
            GateVerdict::TimedOut => self.escalate(format!("{run:?} took too long to decide"), Some(ask.clone())),
            GateVerdict::Broken { why } => {
                self.escalate(format!("{run:?} cannot decide: {why}"), Some(ask.clone()));
            }
        }
    }

    /// Nothing is lost in silence: what could not be done is a person's. That a call for one failed is not called for again.
    pub(super) fn intent_failed(&mut self, intent: &IntentId, why: &str) {
        self.agent.gates.retain(|gate| gate.intent != *intent);
        self.agent.replacing = false;
        if self.agent.call.as_ref() != Some(intent) {
            self.escalate(format!("something could not be done: {why}"), None);
        }
    }

    pub(super) fn resolve_stop(&mut self) {
        self.intend(Effect::ResolveStop);
    }

    pub(super) fn send(&mut self, message: String) {
        self.intend(Effect::Send { message });
    }

    fn answer(&mut self, ask: &AskId, say: Say, by: By, why: String) {
        let (allow, text) = match say {
            Say::Yes => (true, None),
            Say::No(text) => (false, text),
        };
        self.intend(Effect::Answer { ask: ask.clone(), allow, text, by, why });
    }

    /// Sends the agent on, unless it has reached a limit.
    fn go_on(&mut self, message: String) {
        match self.limit() {
            Some(limit) => self.escalate(limit, None),
            None => {
                // An agent that failed before it could be told its first words is told those.
                let message = self.agent.first_words.take().unwrap_or(message);
                self.send(message);
            }
        }
    }

    fn resume<A: Act>(&mut self, next: &Effective<'_, A>, facts: &Facts<'_>) {
        let message = self.message(next, facts).unwrap_or_else(|| WHERE_LEFT.to_owned());
        self.replace(Effect::Resume, Some(message));
    }

    fn replace(&mut self, effect: Effect, first_words: Option<String>) {
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
        self.rules.limits.reached(agent.turn, agent.since, self.now, agent.cost_usd)
    }

    fn finish(&mut self, outcome: Outcome) {
        self.agent.forget_plans();
        self.agent.outcome = Some(outcome.clone());
        self.intend(Effect::Finish { outcome });
    }

    fn escalate(&mut self, reason: String, ask: Option<AskId>) {
        self.agent.escalated = Some(reason.clone());
        let intent = self.intend(Effect::Escalate { reason, ask });
        self.agent.call = Some(intent);
    }

    fn intend(&mut self, effect: Effect) -> IntentId {
        self.agent.intents += 1;
        let id = IntentId(format!("{}/{}", self.agent.id, self.agent.intents));
        self.intents.push(Intent { id: id.clone(), agent: self.agent.id.clone(), effect });
        id
    }

    fn message<A: Act>(&self, next: &Effective<'_, A>, facts: &Facts<'_>) -> Option<String> {
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

impl Count {
    fn count(&mut self, now: Timestamp) {
        self.used = self.used.saturating_add(1);
        self.last = Some(now);
    }
}

/// What an ask is answered with.
enum Say {
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

fn exit_words(exit: Option<(Option<i32>, Option<i32>)>) -> String {
    match exit {
        Some((Some(code), _)) => format!("its process ended with code {code}"),
        Some((None, Some(signal))) => format!("its process was ended by signal {signal}"),
        Some((None, None)) | None => "its process is gone, and nobody knows how it ended".to_owned(),
    }
}
