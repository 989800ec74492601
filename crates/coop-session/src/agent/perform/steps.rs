//! Carrying out steps one after another.

use coop_api::{AgentState, AskKind, Error, ErrorCode, Reply, Screen, WriterId};
use coop_drivers::{Expected, OnScreen, Retry, Say, Step, View};
use serde_json::Value;

use super::{Failure, Performance, Proof, Purpose, Reaction, Waiting, types};
use crate::agent::{Agent, Effect, Now, ReplyTo, asks};

impl Agent {
    /// Tells whether keys are being typed that nobody's may come between.
    pub(crate) fn is_typing(&self) -> bool {
        self.performance.as_ref().is_some_and(|performance| performance.attempts == 0 && types(&performance.steps))
    }

    /// Begins what somebody wants, unless it has to be typed and another has locked the terminal.
    pub(in crate::agent) fn perform(&mut self, performance: Performance, screen: &Screen, now: &Now) -> Vec<Effect> {
        if types(&performance.steps)
            && let Err(error) = now.check_lock(performance.writer)
        {
            let mut effects = Vec::new();
            performance.fail(&error, "locked", now, &mut effects);
            return effects;
        }
        self.performance = Some(performance);
        self.go_on(screen, now)
    }

    /// Interrupts the agent.
    pub(crate) fn interrupt(&mut self, writer: WriterId, reply: ReplyTo, screen: &Screen, now: &Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.give_up_proof(now, &mut effects);
        if let Some(error) = self.performing() {
            let _ = reply.send(Err(error));
            return effects;
        }
        match self.state() {
            AgentState::Working { .. } => {}
            AgentState::Waiting { kind, .. } if *kind != AskKind::Setup => {}
            AgentState::Idle | AgentState::Blocked { .. } => {
                let _ = reply.send(Ok(Reply::Done));
                return effects;
            }
            state => {
                let why = format!("the agent is {}; there is nothing to interrupt", state.as_str());
                let _ = reply.send(Err(Error::new(ErrorCode::NoPrompt, why)));
                return effects;
            }
        }
        let steps = self.driver.interrupt(&View { runtime: self.runtime, screen });
        effects.extend(self.perform(
            Performance::new(Purpose::Interrupt { reply }, writer, steps, self.state()),
            screen,
            now,
        ));
        effects
    }

    /// Waits no longer for the proof of a message that is out, if the agent is known to work on it: its model may take
    /// long for the first word, and whoever wants to interrupt it then must not have to wait.
    fn give_up_proof(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        let is_working = matches!(self.state(), AgentState::Working { .. });
        let is_out = |performance: &mut Performance| {
            let waits = matches!(performance.waiting, Waiting::Proof { .. }) && performance.steps.is_empty();
            waits && matches!(performance.purpose, Purpose::Nudge { .. })
        };
        if is_working && let Some(performance) = self.performance.take_if(is_out) {
            self.finish(performance, Err(Failure::Unconfirmed), now, effects);
        }
    }

    /// The link to the agent's protocol broke, or is another: what was on its way may have arrived or not.
    pub(in crate::agent) fn link_changed(&mut self, now: &Now, effects: &mut Vec<Effect>) {
        if let Some(performance) = self.performance.take_if(|performance| performance.is_over_link()) {
            self.finish(performance, Err(Failure::Unconfirmed), now, effects);
        }
    }

    /// Changes settings of the agent.
    pub(crate) fn configure(
        &mut self,
        settings: &coop_api::Configure,
        reply: ReplyTo,
        screen: &Screen,
        now: &Now,
    ) -> Vec<Effect> {
        if let Some(error) = self.performing() {
            let _ = reply.send(Err(error));
            return Vec::new();
        }
        match self.driver.configure(settings, &View { runtime: self.runtime, screen }) {
            Ok(steps) => {
                let purpose = Purpose::Configure { reply };
                // Settings are nobody's typing: they go over the protocol.
                let performance = Performance::new(purpose, WriterId::default(), steps, self.state());
                self.perform(performance, screen, now)
            }
            Err(refusal) => {
                let _ = reply.send(Err(asks::refused(refusal)));
                Vec::new()
            }
        }
    }

    fn performing(&self) -> Option<Error> {
        let busy = || Error::new(ErrorCode::WriterBusy, "another message or answer is on its way; try again");
        self.performance.as_ref().map(|_| busy())
    }

    /// Goes on with what is being done, as far as it goes, and begins what is next.
    pub(crate) fn go_on(&mut self, screen: &Screen, now: &Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let Some(mut performance) = self.performance.take().or_else(|| self.next_nudge(screen, now, &mut effects))
            else {
                return effects;
            };
            match self.step(&mut performance, screen, now, &mut effects) {
                Progress::Waits => {
                    self.performance = Some(performance);
                    return effects;
                }
                Progress::Done(outcome) => self.finish(performance, outcome, now, &mut effects),
            }
        }
    }

    /// Enter at a dialog would choose something: it is pressed again only where the message or the answer still is, and
    /// not for somebody who has locked the terminal meanwhile.
    fn may_retry(&self, performance: &Performance, retry: &Retry, screen: &Screen, now: &Now) -> bool {
        let is_wanted = match &performance.purpose {
            Purpose::Answer { ask, .. } => self.asks.is_open(&ask.id),
            _ => self.takes_messages(),
        };
        is_wanted && self.driver.shows(&retry.only_if, screen) && now.check_lock(performance.writer).is_ok()
    }

    fn step(
        &mut self,
        performance: &mut Performance,
        screen: &Screen,
        now: &Now,
        effects: &mut Vec<Effect>,
    ) -> Progress {
        loop {
            match std::mem::replace(&mut performance.waiting, Waiting::Nothing) {
                Waiting::Nothing => {}
                Waiting::Until(at) if at > now.instant => {
                    performance.waiting = Waiting::Until(at);
                    return Progress::Waits;
                }
                Waiting::Until(_) => {}
                Waiting::Proof { what: Expected::Accepted, until, retry } => match performance.reaction() {
                    Reaction::Accepted => {}
                    Reaction::Refused(status) => return Progress::Done(Err(Failure::Rejected(status))),
                    Reaction::None if until > now.instant => {
                        performance.waiting = Waiting::Proof { what: Expected::Accepted, until, retry };
                        return Progress::Waits;
                    }
                    Reaction::None => return Progress::Done(Err(Failure::Unconfirmed)),
                },
                // What the screen showed before says nothing about what it shows now.
                Waiting::Proof { what: Expected::Screen(what), .. } if self.driver.shows(&what, screen) => {}
                Waiting::Proof { what, .. } if performance.proof.is_some() && !matches!(what, Expected::Screen(_)) => {
                    if let Some(why) = performance.proof.as_ref().and_then(|proof| proof.refused.clone()) {
                        return Progress::Done(Err(Failure::Refused(why)));
                    }
                    // What is next needs a proof of its own.
                    if performance.steps.iter().any(|step| matches!(step, Step::Expect { .. })) {
                        performance.proof = None;
                        performance.proven += 1;
                    }
                }
                Waiting::Proof { what: Expected::Command, until, retry }
                    if until.min(retry.as_ref().map_or(until, |(at, _)| *at)) <= now.instant
                        && self.driver.shows(&OnScreen::InputEmpty, screen) =>
                {
                    let detail = "its input is empty again".to_owned();
                    performance.proof = Some(Proof { detail, prompt: None, refused: None });
                }
                Waiting::Proof { what, until, retry: Some((at, retry)) } if at <= now.instant => {
                    if self.may_retry(performance, &retry, screen, now) {
                        performance.attempts += 1;
                        effects.push(Effect::Type(retry.keys));
                    }
                    // That a command left the input is all that some of them show.
                    let until = if what == Expected::Command { now.instant + retry.after } else { until };
                    performance.waiting = Waiting::Proof { what, until, retry: None };
                    return Progress::Waits;
                }
                Waiting::Proof { what, until, retry } if until > now.instant => {
                    performance.waiting = Waiting::Proof { what, until, retry };
                    return Progress::Waits;
                }
                Waiting::Proof { what: Expected::Screen(_), .. } => return Progress::Done(Err(Failure::NotShown)),
                Waiting::Proof { .. } => return Progress::Done(Err(Failure::Unconfirmed)),
            }
            match performance.steps.pop_front() {
                None => return Progress::Done(Ok(())),
                Some(Step::Type(keys)) => effects.push(Effect::Type(keys)),
                Some(Step::Send(message)) => {
                    performance.sent.extend(request_name(&message));
                    effects.push(Effect::Say(Say::Message(message)));
                }
                Some(Step::Call(call)) => {
                    performance.called = Some((call.name.clone(), Reaction::None));
                    effects.push(Effect::Say(Say::Call(call)));
                }
                Some(Step::Pause(time)) => performance.waiting = Waiting::Until(now.instant + time),
                Some(Step::Reply(value)) => {
                    let Purpose::Answer { ask, .. } = &performance.purpose else { continue };
                    if !self.answer_hook(&ask.id, value) {
                        return Progress::Done(Err(Failure::Gone));
                    }
                    let detail = "the agent's hook was given it".to_owned();
                    performance.proof = Some(Proof { detail, prompt: None, refused: None });
                }
                Some(Step::Expect { what, within, retry }) => {
                    if !matches!(what, Expected::Screen(_)) {
                        performance.attempts = performance.attempts.max(1);
                    }
                    let retry = retry.map(|retry| (now.instant + retry.after, retry));
                    performance.waiting = Waiting::Proof { what, until: now.instant + within, retry };
                }
            }
        }
    }
}

/// Returns the name of a request, as its reply will have it.
fn request_name(message: &Value) -> Option<String> {
    match message.get("id").or_else(|| message.get("request_id"))? {
        Value::String(name) => Some(name.clone()),
        id => Some(id.to_string()),
    }
}

enum Progress {
    Waits,
    Done(Result<(), Failure>),
}
