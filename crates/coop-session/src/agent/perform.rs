//! Carrying out steps one after another, and waiting for the proof that they took.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use coop_api::{
    AgentState, Answered, Ask, AskId, AskKind, Error, ErrorCode, EvidenceSource, NudgeId, Receipt, Reply, Screen,
};
use coop_drivers::{Expected, Say, Step, View};

use super::nudges::receipt_event;
use super::{Agent, Effect, Now, ReplyTo};

/// Something that is done to the agent, step by step.
pub(super) struct Performance {
    purpose: Purpose,
    steps: VecDeque<Step>,
    waiting: Waiting,
    /// What showed that the last expectation held.
    proof: Option<(String, Option<String>)>,
    attempts: u32,
    state_before: String,
}

/// What it is for, and who wants to know.
pub(super) enum Purpose {
    Nudge { id: NudgeId, text: String, reply: Option<ReplyTo>, began: Instant },
    Answer { ask: Ask, via: Via, answer: String, reply: ReplyTo },
    Interrupt { reply: ReplyTo },
    Configure { reply: ReplyTo },
}

/// How an answer reaches the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Hook,
    Control,
    Keys,
}

impl Via {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Control => "control",
            Self::Keys => "keys",
        }
    }

    pub(super) fn source(self) -> EvidenceSource {
        match self {
            Self::Hook => EvidenceSource::Hook,
            Self::Control => EvidenceSource::Control,
            Self::Keys => EvidenceSource::Screen,
        }
    }
}

enum Waiting {
    Nothing,
    Until(Instant),
    Sight { rows: Vec<String>, below: String, until: Instant },
    Proof { what: Expected, until: Instant, retry: Option<Bytes>, within: std::time::Duration },
}

impl Performance {
    pub(super) fn new(purpose: Purpose, steps: Vec<Step>, state: &AgentState) -> Self {
        Self {
            purpose,
            steps: steps.into(),
            waiting: Waiting::Nothing,
            proof: None,
            attempts: 0,
            state_before: state.as_str().to_owned(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.waiting {
            Waiting::Nothing => None,
            Waiting::Until(at) | Waiting::Sight { until: at, .. } | Waiting::Proof { until: at, .. } => Some(*at),
        }
    }

    pub(super) fn is_answer_to(&self, id: &AskId) -> bool {
        matches!(&self.purpose, Purpose::Answer { ask, .. } if ask.id == *id)
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self.purpose, Purpose::Answer { .. })
    }

    /// Notes what may be the proof that is waited for.
    pub(super) fn prove(&mut self, proof: Expected, detail: &str, prompt: Option<&str>) {
        // A dialog that changes while an answer is typed into it has not taken the answer yet.
        if proof == Expected::AskGone && self.steps.iter().any(|step| matches!(step, Step::Type(_))) {
            return;
        }
        let expected = self.steps.iter().any(|step| matches!(step, Step::Expect { what, .. } if *what == proof))
            || matches!(&self.waiting, Waiting::Proof { what, .. } if *what == proof);
        // It may come before the last key is typed: a proof all the same.
        if expected && self.proof.is_none() {
            self.proof = Some((detail.to_owned(), prompt.map(str::to_owned)));
        }
    }

    pub(super) fn fail(self, error: &Error) {
        let reply = match self.purpose {
            Purpose::Nudge { reply, .. } => reply,
            Purpose::Answer { reply, .. } | Purpose::Interrupt { reply } | Purpose::Configure { reply } => Some(reply),
        };
        reply.map(|reply| reply.send(Err(error.clone())));
    }
}

impl Agent {
    /// Tells whether keys are being typed that nobody's may come between.
    pub(crate) fn is_typing(&self) -> bool {
        self.performance.as_ref().is_some_and(|performance| {
            performance.attempts == 0 && performance.steps.iter().any(|step| matches!(step, Step::Type(_)))
        })
    }

    pub(super) fn perform(&mut self, performance: Performance, screen: &Screen, now: &Now) -> Vec<Effect> {
        self.performance = Some(performance);
        self.go_on(screen, now)
    }

    /// Interrupts the agent.
    pub(crate) fn interrupt(&mut self, reply: ReplyTo, screen: &Screen, now: &Now) -> Vec<Effect> {
        if let Some(error) = self.performing() {
            let _ = reply.send(Err(error));
            return Vec::new();
        }
        match self.state() {
            AgentState::Working { .. } => {}
            AgentState::Waiting { kind, .. } if *kind != AskKind::Setup => {}
            AgentState::Idle | AgentState::Blocked { .. } => {
                let _ = reply.send(Ok(Reply::Done));
                return Vec::new();
            }
            state => {
                let why = format!("the agent is {}; there is nothing to interrupt", state.as_str());
                let _ = reply.send(Err(Error::new(ErrorCode::NoPrompt, why)));
                return Vec::new();
            }
        }
        let steps = self.driver.interrupt(&View { runtime: self.runtime, screen });
        self.perform(Performance::new(Purpose::Interrupt { reply }, steps, self.state()), screen, now)
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
                self.perform(Performance::new(purpose, steps, self.state()), screen, now)
            }
            Err(refusal) => {
                let _ = reply.send(Err(super::asks::refused(refusal)));
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
                Waiting::Sight { rows, below, .. } if shows(screen, &rows, &below) => {}
                Waiting::Sight { rows, below, until } if until > now.instant => {
                    performance.waiting = Waiting::Sight { rows, below, until };
                    return Progress::Waits;
                }
                Waiting::Sight { .. } => return Progress::Done(Err(())),
                Waiting::Proof { .. } if performance.proof.is_some() => {}
                Waiting::Proof { what, until, retry, within } if until > now.instant => {
                    performance.waiting = Waiting::Proof { what, until, retry, within };
                    return Progress::Waits;
                }
                Waiting::Proof { what, retry, within, .. } => {
                    // Enter at a dialog would choose something: only at a prompt is it pressed again.
                    match retry.filter(|_| self.takes_messages()) {
                        Some(keys) => {
                            performance.attempts += 1;
                            effects.push(Effect::Type(keys));
                            let until = now.instant + within;
                            performance.waiting = Waiting::Proof { what, until, retry: None, within };
                            return Progress::Waits;
                        }
                        None => return Progress::Done(Err(())),
                    }
                }
            }
            match performance.steps.pop_front() {
                None => return Progress::Done(Ok(())),
                Some(Step::Type(keys)) => effects.push(Effect::Type(keys)),
                Some(Step::Send(message)) => effects.push(Effect::Say(Say::Message(message))),
                Some(Step::Call(call)) => effects.push(Effect::Say(Say::Call(call))),
                Some(Step::Pause(time)) => performance.waiting = Waiting::Until(now.instant + time),
                Some(Step::See { rows, below, within }) => {
                    performance.waiting = Waiting::Sight { rows, below, until: now.instant + within };
                }
                Some(Step::Reply(value)) => {
                    let Purpose::Answer { ask, .. } = &performance.purpose else { continue };
                    if !self.answer_hook(&ask.id, value) {
                        return Progress::Done(Err(()));
                    }
                    performance.proof = Some(("the agent's hook took it".to_owned(), None));
                }
                Some(Step::Expect { what, within, retry }) => {
                    performance.attempts = performance.attempts.max(1);
                    performance.waiting = Waiting::Proof { what, until: now.instant + within, retry, within };
                }
            }
        }
    }

    fn finish(&mut self, performance: Performance, outcome: Result<(), ()>, now: &Now, effects: &mut Vec<Effect>) {
        let Performance { purpose, proof, attempts, state_before, .. } = performance;
        let (confirmed_by, prompt) = proof.map_or((None, None), |(detail, prompt)| (Some(detail), prompt));
        match purpose {
            Purpose::Nudge { id, text, reply, began } => {
                self.nudges.done();
                let receipt = Receipt {
                    id,
                    delivered: outcome.is_ok(),
                    queued: false,
                    confirmed_by,
                    attempts,
                    ms: now.instant.saturating_duration_since(began).as_millis() as u64,
                    state_before,
                    reason: reason(outcome, prompt.as_deref(), &text),
                };
                effects.push(receipt_event(&receipt));
                reply.map(|reply| reply.send(Ok(Reply::Receipt(receipt))));
            }
            Purpose::Answer { ask, via, answer, reply } => {
                let told = match outcome {
                    Ok(()) => {
                        self.settle(&ask.id, &answer, via, now, effects);
                        Ok(Reply::Answered(Answered {
                            delivered: true,
                            ask: ask.id,
                            prompt_type: ask.kind,
                            via: via.as_str().to_owned(),
                            confirmed_by,
                        }))
                    }
                    Err(()) => Err(Error::new(
                        ErrorCode::Unconfirmed,
                        format!("{} was answered, and nothing shows that the agent took it; look at its state", ask.id),
                    )),
                };
                let _ = reply.send(told);
            }
            Purpose::Interrupt { reply } | Purpose::Configure { reply } => {
                let unconfirmed =
                    || Error::new(ErrorCode::Unconfirmed, "it was sent, and nothing shows that the agent took it");
                let _ = reply.send(outcome.map(|()| Reply::Done).map_err(|()| unconfirmed()));
            }
        }
    }
}

enum Progress {
    Waits,
    Done(Result<(), ()>),
}

/// Tells whether a screen shows all of these, at or below the last row that has something.
fn shows(screen: &Screen, wanted: &[String], below: &str) -> bool {
    let lines: Vec<_> = screen.lines.iter().map(|line| single_blanks(line.plain())).collect();
    let Some(from) = lines.iter().rposition(|line| line.contains(below)) else { return false };
    wanted.iter().all(|wanted| lines[from..].iter().any(|line| line.contains(&single_blanks(wanted))))
}

fn single_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says what was wrong with a delivery.
fn reason(outcome: Result<(), ()>, prompt: Option<&str>, text: &str) -> Option<String> {
    match (outcome, prompt) {
        (Err(()), _) => Some("unconfirmed".to_owned()),
        (Ok(()), Some(prompt)) if !same_text(prompt, text) => {
            Some("the agent took it together with what was in its input, or changed".to_owned())
        }
        (Ok(()), _) => None,
    }
}

/// Agents trim what they are given and have one kind of line end, and control characters are not passed on.
fn same_text(prompt: &str, text: &str) -> bool {
    let plain = |text: &str| {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        text.chars().filter(|c| !c.is_control() || *c == '\n').collect::<String>().trim().to_owned()
    };
    plain(prompt) == plain(text)
}
