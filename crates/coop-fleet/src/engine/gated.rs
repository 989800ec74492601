//! Commands that decide: begun, and what follows from how they ended.

use coop_api::{AskId, AskKind};

use super::action::{Act, IdleAction};
use super::agent::{Outcome, Phase, RunningGate};
use super::dispatch::{Dispatch, Say};
use super::input::GateVerdict;
use super::intent::{By, Effect, IntentId};
use super::plan::Effective;
use super::template::Facts;

impl Dispatch<'_> {
    pub(super) fn run_gate<A: Act>(&mut self, next: &Effective<'_, A>, ask: Option<(AskId, AskKind)>) {
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
}
