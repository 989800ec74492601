//! What is done about each occasion.

use coop_api::{AskId, AskKind, Fault};

use super::Timestamp;
use super::action::{Act, DeadAction, ErrorAction, IdleAction, PromptAction};
use super::agent::{Count, Outcome};
use super::dispatch::{Dispatch, Say};
use super::intent::{By, Effect};
use super::occasion::Occasion;
use super::template::Facts;

const GO_ON: &str = "Continue.";

impl Dispatch<'_> {
    pub(super) fn act(&mut self, occasion: &Occasion) {
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
            DeadAction::Wait => {
                let reason = self.message(&next, &facts);
                self.escalate(reason.unwrap_or_else(|| format!("{exit}, and nobody has started another")), None);
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
}

impl Count {
    fn count(&mut self, now: Timestamp) {
        self.used = self.used.saturating_add(1);
        self.last = Some(now);
    }
}

fn exit_words(exit: Option<(Option<i32>, Option<i32>)>) -> String {
    match exit {
        Some((Some(code), _)) => format!("its process ended with code {code}"),
        Some((None, Some(signal))) => format!("its process was ended by signal {signal}"),
        Some((None, None)) | None => "its process is gone, and nobody knows how it ended".to_owned(),
    }
}
