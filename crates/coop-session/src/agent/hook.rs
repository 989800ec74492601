//! What the agent's hooks report, and what they are told.

use coop_api::{AgentState, HookCall, Reply};
use coop_drivers::{Meaning, Observation, Signal};

use super::{Agent, Effect, Now, ReplyTo};

impl Agent {
    /// Takes in a hook. It goes on at once unless what it reports is an ask, a stop that is held, or a beginning.
    pub(crate) fn hook(&mut self, call: &HookCall, reply: ReplyTo, now: &Now) -> Vec<Effect> {
        if matches!(self.state(), AgentState::Exited { .. }) {
            // One that is late: there is nobody any more whom an answer could reach.
            let _ = reply.send(Ok(Reply::Hook(None)));
            return Vec::new();
        }
        self.hooked = true;
        let seen = Observation::Hook { event: &call.event, payload: &call.payload };
        let signals = self.driver.observe(&seen, now.millis());
        let mut effects = Vec::new();
        let mut waits = Waits::Nothing;
        for signal in &signals {
            match &signal.meaning {
                Meaning::Ask(_) => waits = Waits::Answer,
                Meaning::Started(source) => waits = Waits::Prime(*source),
                Meaning::StopWanted { again, unfinished, .. } => {
                    waits = Waits::Stop { again: *again, unfinished: *unfinished };
                    self.begin_untold(signal, now, &mut effects);
                }
                _ => {}
            }
            self.hear(signal, now, &mut effects);
        }
        self.close_turn(now, &mut effects);
        match waits {
            Waits::Nothing => drop(reply.send(Ok(Reply::Hook(None)))),
            Waits::Answer => self.hold(reply),
            Waits::Prime(source) => effects.push(Effect::Prime(source, reply)),
            Waits::Stop { again, unfinished } => effects.extend(self.stop_wanted(again, unfinished, reply, now)),
        }
        effects
    }

    /// Begins a turn of which nobody told, such as that of a shell command at the agent's prompt. It ends like any other.
    fn begin_untold(&mut self, signal: &Signal, now: &Now, effects: &mut Vec<Effect>) {
        if !self.in_turn {
            self.begin_turn(None, effects);
            let working = Meaning::Working { tool: None };
            let verdict = self.arbiter.hear(&Signal { meaning: working, ..signal.clone() }, now.instant);
            self.follow(verdict, now, effects);
        }
    }

    /// Returns what an agent that begins is told, in its own form.
    pub(crate) fn primed(&self, source: coop_drivers::StartSource, context: &str) -> Option<serde_json::Value> {
        if context.is_empty() { None } else { self.driver.start_reply(source, context) }
    }
}

enum Waits {
    Nothing,
    Answer,
    Prime(coop_drivers::StartSource),
    Stop { again: bool, unfinished: bool },
}
