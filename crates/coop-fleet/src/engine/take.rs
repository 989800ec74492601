//! What each input makes of an agent's record.

use std::time::Duration;

use coop_api::{Ask, AskId, Fault};

use super::agent::{Count, Counts, Ending, Outcome, Phase};
use super::dispatch::Dispatch;
use super::input::Input;
use super::occasion::{Due, Occasion};

/// How long a sidecar may take to hand over a message that waited for its agent to be idle.
const HANDOVER: Duration = Duration::from_secs(30);

impl Dispatch<'_> {
    pub(super) fn take(&mut self, input: &Input) {
        match input {
            Input::Spawned { resumed } => self.spawned(*resumed),
            // What a process does that is being ended changes nothing any more.
            Input::Working
            | Input::Idle { .. }
            | Input::Prompt { .. }
            | Input::Failed { .. }
            | Input::StopBlocked { reason: None }
                if self.agent.replacing || self.agent.outcome.is_some() =>
            {
                self.unheeded(input)
            }
            Input::Due | Input::GateEnded { .. } if self.agent.replacing || self.agent.outcome.is_some() => {}
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
            Input::Missed { .. } | Input::Trimmed { .. } | Input::Unreachable { .. } => {}
            Input::PermissionMode { mode } => self.agent.permission_mode = Some(*mode),
            Input::Cost { usd } => self.agent.cost_usd = *usd,
            Input::DescendantCost { usd } => self.agent.descendants_usd += *usd,
            Input::Due => self.due(),
            Input::GateEnded { intent, verdict } => self.gate_ended(intent, verdict),
            Input::IntentFailed { intent, why } => self.intent_failed(intent, why),
            Input::Steered { waits, .. } => self.told(*waits),
            Input::Ordered { .. } => self.ordered(),
            Input::Dismissed { by, others: false } => self.dismissed(by),
            Input::Dismissed { by, others: true } => self.ended_by_others(by),
            Input::RunsOn { .. } => self.runs_on(),
            Input::Revived { .. } => self.revived(),
            // It is in the log so that everybody can see who it was.
            Input::Decided { .. } | Input::Adopted { .. } | Input::Messaged { .. } => {}
        }
    }

    fn spawned(&mut self, resumed: bool) {
        let agent = &mut self.agent;
        // Somebody has ended it while it was being started: it is only there to be ended.
        let is_unwanted = agent.run == 0 && matches!(agent.outcome, Some(Outcome::Dismissed { .. }));
        agent.run += 1;
        if agent.phase == Phase::Dead {
            // Whoever was called because there was no process is not needed any more.
            agent.escalated = None;
        }
        agent.phase = Phase::Starting;
        if !is_unwanted {
            agent.outcome = None;
        }
        agent.ending = None;
        agent.replacing = false;
        agent.resting = true;
        // What the process before had begun is over; there is nothing to dispatch until this one works.
        agent.dispatched = Some(agent.turn);
        agent.messages = 0;
        agent.asks.clear();
        agent.permission_mode = None;
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
            if agent.messages == 0 {
                return self.on_idle();
            }
            // Its sidecar hands it over now, and that begins another turn. If it cannot, this one was the last.
            agent.messages -= 1;
            agent.due.push(Due { at: self.now.plus(HANDOVER), occasion: Occasion::Idle });
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
        if agent.called_about.as_ref() == Some(ask) {
            // Whoever answered it, nobody is needed for it any more.
            agent.escalated = None;
        }
        if let Some(ending) = &mut agent.ending {
            ending.called.take_if(|(_, about)| about.as_ref() == Some(ask));
            ending.unheeded.retain(|input| !matches!(input, Input::Prompt { ask: about } if about.id == *ask));
        }
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
        agent.ending = None;
        agent.resting = true;
        agent.asks.clear();
        agent.forget_plans();
        agent.exit = Some((code, signal));
        if agent.outcome.is_none() && !agent.replacing {
            self.on_dead();
        }
    }

    fn ordered(&mut self) {
        let agent = &mut self.agent;
        if agent.run == 0 {
            // It may have been tried before, in vain.
            agent.phase = Phase::Starting;
            agent.since = self.now;
            agent.outcome = None;
            agent.escalated = None;
            self.spawn();
        }
    }

    fn dismissed(&mut self, by: &str) {
        if self.agent.outcome.is_none() || self.agent.phase != Phase::Dead {
            self.agent.escalated = None;
            self.finish(Outcome::Dismissed { by: by.to_owned() });
        }
    }

    /// Its process is for others to end. Until that is gone they may think better of it.
    fn ended_by_others(&mut self, by: &str) {
        let agent = &mut self.agent;
        if agent.outcome.is_some() {
            return;
        }
        let dropped = !agent.due.is_empty() || !agent.gates.is_empty();
        let was_called = agent.escalated.take().map(|reason| (reason, agent.called_about.clone()));
        let is_dropped = || ("what was to be done about it was dropped while others ended it".to_owned(), None);
        let called = was_called.or_else(|| dropped.then(is_dropped));
        agent.ending = (agent.phase != Phase::Dead).then(|| Ending { called, unheeded: Vec::new() });
        agent.due.clear();
        agent.gates.clear();
        agent.outcome = Some(Outcome::Dismissed { by: by.to_owned() });
    }

    fn unheeded(&mut self, input: &Input) {
        let Some(ending) = &mut self.agent.ending else { return };
        if matches!(input, Input::Working) {
            // The turns before are over.
            ending.unheeded.retain(|input| matches!(input, Input::Prompt { .. }));
        }
        ending.unheeded.push(input.clone());
    }

    fn runs_on(&mut self) {
        let Some(ending) = self.agent.ending.take() else { return };
        self.agent.outcome = None;
        if let Some((reason, ask)) = ending.called {
            self.escalate(reason, ask);
        }
        ending.unheeded.iter().for_each(|input| self.take(input));
    }

    fn revived(&mut self) {
        self.steered();
        self.agent.outcome = None;
        self.agent.ending = None;
        self.revive();
    }

    /// A message that waits is taken when the agent is idle next; one that does not was taken.
    fn told(&mut self, waits: bool) {
        // It was told to a process that is gone, which may be heard of first. What is done about that stays.
        if self.agent.phase == Phase::Dead {
            return;
        }
        self.steered();
        let agent = &mut self.agent;
        let is_at_something = match agent.phase {
            Phase::Starting | Phase::Working | Phase::Asking => true,
            Phase::Idle | Phase::Blocked | Phase::Dead => false,
        };
        agent.messages = agent.messages.saturating_add(u32::from(waits && is_at_something));
    }

    fn steered(&mut self) {
        let agent = &mut self.agent;
        agent.counts = Counts::default();
        agent.escalated = None;
        agent.forget_plans();
    }
}
