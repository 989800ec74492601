//! Carrying out steps one after another, and waiting for the proof that they took.

use std::collections::VecDeque;
use std::time::Instant;

use coop_api::{
    AgentState, Answered, Ask, AskId, AskKind, Error, ErrorCode, EvidenceSource, NudgeId, Receipt, Reply, Screen,
    WriterId,
};
use coop_drivers::{AskDraft, Expected, Meaning, OnScreen, Reach, Retry, Say, Signal, Step, View};

use super::nudges::receipt_event;
use super::{Agent, Effect, Now, ReplyTo};

/// Something that is done to the agent, step by step.
pub(super) struct Performance {
    purpose: Purpose,
    writer: WriterId,
    steps: VecDeque<Step>,
    waiting: Waiting,
    /// What showed that the last expectation held.
    proof: Option<Proof>,
    /// How many expectations held before it.
    proven: usize,
    /// The last call, and what the agent's server said to it.
    called: Option<(String, Reaction)>,
    attempts: u32,
    state_before: String,
}

/// What shows that something took, or that it did not.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) detail: String,
    /// The message that the agent says it took.
    pub(super) prompt: Option<String>,
    /// Why the agent does not do it.
    pub(super) refused: Option<String>,
}

impl Proof {
    /// Returns what a signal shows.
    pub(super) fn of(signal: &Signal) -> Self {
        let (prompt, refused) = match &signal.meaning {
            Meaning::TurnBegan { prompt } => (prompt.clone(), None),
            Meaning::Command { text } => (Some(text.clone()), None),
            Meaning::Replied { error, .. } => (None, error.clone()),
            _ => (None, None),
        };
        Self { detail: signal.detail.clone(), prompt, refused }
    }
}

/// Why it did not take.
enum Failure {
    /// Nothing shows that it took.
    Unconfirmed,
    /// The screen did not show what it has to before the next key.
    NotShown,
    /// The hook that asked has gone, so nothing was sent.
    Gone,
    /// The agent said that it does not do it.
    Refused(String),
    /// The agent's server refused it, with this status; with none it could not be reached.
    Rejected(Option<u16>),
}

/// What a server said to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    None,
    Accepted,
    Refused(Option<u16>),
}

/// What it is for, and who wants to know.
pub(super) enum Purpose {
    Nudge { id: NudgeId, text: String, reply: Option<ReplyTo>, began: Instant },
    Answer { ask: Box<Ask>, reach: Reach, answer: String, reply: ReplyTo },
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

impl From<&Reach> for Via {
    fn from(reach: &Reach) -> Self {
        match reach {
            Reach::Hook { .. } => Self::Hook,
            Reach::Control { .. } => Self::Control,
            Reach::Keys => Self::Keys,
        }
    }
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
    Proof { what: Expected, until: Instant, retry: Option<Retry>, within: std::time::Duration },
}

impl Performance {
    pub(super) fn new(purpose: Purpose, writer: WriterId, steps: Vec<Step>, state: &AgentState) -> Self {
        Self {
            purpose,
            writer,
            steps: steps.into(),
            waiting: Waiting::Nothing,
            proof: None,
            proven: 0,
            called: None,
            attempts: 0,
            state_before: state.as_str().to_owned(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.waiting {
            Waiting::Nothing => None,
            Waiting::Until(at) | Waiting::Proof { until: at, .. } => Some(*at),
        }
    }

    pub(super) fn is_answer_to(&self, id: &AskId) -> bool {
        matches!(&self.purpose, Purpose::Answer { ask, .. } if ask.id == *id)
    }

    /// Tells whether this answers a request of the agent's control protocol.
    pub(super) fn answers(&self, request: &str) -> bool {
        let Purpose::Answer { reach: Reach::Control { request: of, .. }, .. } = &self.purpose else { return false };
        of == request
    }

    /// Notes what the agent's server said to a call.
    pub(super) fn replied(&mut self, name: &str, status: Option<u16>) {
        if let Some((called, reaction)) = &mut self.called
            && called == name
        {
            let accepted = status.is_some_and(|status| (200..300).contains(&status));
            *reaction = if accepted { Reaction::Accepted } else { Reaction::Refused(status) };
        }
    }

    fn reaction(&self) -> Reaction {
        self.called.as_ref().map_or(Reaction::None, |(_, reaction)| *reaction)
    }

    /// Tells whether a dialog is the one that is being answered, with one of its options filled in.
    pub(super) fn is_filling(&self, draft: &AskDraft) -> bool {
        let Purpose::Answer { ask, .. } = &self.purpose else { return false };
        let labels = draft.options.iter().zip(&ask.options).filter(|(now, then)| now.label != then.label);
        draft.kind == ask.kind
            && draft.screen_lines == ask.screen_lines
            && draft.options.len() == ask.options.len()
            && labels.count() == 1
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self.purpose, Purpose::Answer { .. })
    }

    /// Notes what may be the proof of what is to be shown next. It may come before the last key is typed: a proof all the
    /// same. But a dialog that changes while an answer is typed into it has not taken the answer yet.
    pub(super) fn prove(&mut self, proves: &[Expected], proof: Proof) {
        let waits = match &self.waiting {
            Waiting::Proof { what, .. } => Some(what),
            Waiting::Nothing | Waiting::Until(_) => None,
        };
        let later = self.steps.iter().filter_map(|step| match step {
            Step::Expect { what, .. } => Some(what),
            _ => None,
        });
        // Those have a proof of their own; what comes after them may show first.
        let has_own = |what: &&Expected| matches!(what, Expected::Screen(_) | Expected::Accepted);
        let next = waits.into_iter().chain(later).find(|what| !has_own(what));
        let is_proof = next.is_some_and(|what| {
            proves.contains(what)
                && !(*what == Expected::AskGone && types(&self.steps))
                && !self.is_of_another(what, proof.prompt.as_deref())
        });
        if is_proof && self.proof.is_none() {
            self.proof = Some(proof);
        }
    }

    /// Tells whether what the agent took is not what was sent. A command may be an older one that is written down late, a
    /// message one that a person sent. With it, the agent may have been told more that was in its input.
    fn is_of_another(&self, what: &Expected, taken: Option<&str>) -> bool {
        match (&self.purpose, what, taken) {
            (Purpose::Nudge { text, .. }, Expected::Command, Some(ran)) => !same_text(ran, text),
            (Purpose::Nudge { text, .. }, Expected::TurnBegan, Some(prompt)) => !plain(prompt).contains(&plain(text)),
            _ => false,
        }
    }

    /// Tells whoever waits that it will never be done, and of a message everybody. Returns the ask that was being answered.
    pub(super) fn fail(self, error: &Error, reason: &str, now: &Now, effects: &mut Vec<Effect>) -> Option<AskId> {
        let (reply, ask) = match self.purpose {
            Purpose::Nudge { id, reply, began, .. } => {
                let receipt = Receipt {
                    id,
                    delivered: false,
                    queued: false,
                    confirmed_by: None,
                    attempts: self.attempts,
                    ms: now.instant.saturating_duration_since(began).as_millis() as u64,
                    state_before: self.state_before,
                    reason: Some(reason.to_owned()),
                };
                effects.push(receipt_event(&receipt));
                (reply, None)
            }
            Purpose::Answer { reply, ask, .. } => (Some(reply), Some(ask.id)),
            Purpose::Interrupt { reply } | Purpose::Configure { reply } => (Some(reply), None),
        };
        reply.map(|reply| reply.send(Err(error.clone())));
        ask
    }
}

impl Agent {
    /// Tells whether keys are being typed that nobody's may come between.
    pub(crate) fn is_typing(&self) -> bool {
        self.performance.as_ref().is_some_and(|performance| performance.attempts == 0 && types(&performance.steps))
    }

    /// Begins what somebody wants, unless it has to be typed and another has locked the terminal.
    pub(super) fn perform(&mut self, performance: Performance, screen: &Screen, now: &Now) -> Vec<Effect> {
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
                Waiting::Proof { what: Expected::Accepted, until, retry, within } => match performance.reaction() {
                    Reaction::Accepted => {}
                    Reaction::Refused(status) => return Progress::Done(Err(Failure::Rejected(status))),
                    Reaction::None if until > now.instant => {
                        performance.waiting = Waiting::Proof { what: Expected::Accepted, until, retry, within };
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
                Waiting::Proof { what, until, retry, within } if until > now.instant => {
                    performance.waiting = Waiting::Proof { what, until, retry, within };
                    return Progress::Waits;
                }
                Waiting::Proof { what: Expected::Screen(_), .. } => return Progress::Done(Err(Failure::NotShown)),
                Waiting::Proof { what: Expected::Command, .. } if self.driver.shows(&OnScreen::InputEmpty, screen) => {
                    let detail = "its input is empty again".to_owned();
                    performance.proof = Some(Proof { detail, prompt: None, refused: None });
                }
                Waiting::Proof { what, retry, within, .. } => {
                    // Enter at a dialog would choose something: it is pressed again only where the message still is, and
                    // not for somebody who has locked the terminal meanwhile.
                    let may_retry = |retry: &Retry| {
                        self.takes_messages()
                            && self.driver.shows(&retry.only_if, screen)
                            && now.check_lock(performance.writer).is_ok()
                    };
                    match retry.filter(may_retry) {
                        Some(Retry { keys, .. }) => {
                            performance.attempts += 1;
                            effects.push(Effect::Type(keys));
                            let until = now.instant + within;
                            performance.waiting = Waiting::Proof { what, until, retry: None, within };
                            return Progress::Waits;
                        }
                        None => return Progress::Done(Err(Failure::Unconfirmed)),
                    }
                }
            }
            match performance.steps.pop_front() {
                None => return Progress::Done(Ok(())),
                Some(Step::Type(keys)) => effects.push(Effect::Type(keys)),
                Some(Step::Send(message)) => effects.push(Effect::Say(Say::Message(message))),
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
                    performance.waiting = Waiting::Proof { what, until: now.instant + within, retry, within };
                }
            }
        }
    }

    fn finish(&mut self, performance: Performance, outcome: Result<(), Failure>, now: &Now, effects: &mut Vec<Effect>) {
        let Performance { purpose, proof, proven, attempts, state_before, .. } = performance;
        let (confirmed_by, prompt) = proof.map_or((None, None), |proof| (Some(proof.detail), proof.prompt));
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
                    reason: reason(&outcome, prompt.as_deref(), &text),
                };
                effects.push(receipt_event(&receipt));
                reply.map(|reply| reply.send(Ok(Reply::Receipt(receipt))));
            }
            Purpose::Answer { ask, reach, answer, reply } => {
                let via = Via::from(&reach);
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
                    Err(Failure::Gone) => {
                        let why = format!("the agent no longer waits for an answer to {}; nothing was sent", ask.id);
                        Err(Error::new(ErrorCode::NoPrompt, why))
                    }
                    Err(Failure::Rejected(Some(404))) => {
                        self.unsettled(&ask.id, "it was answered elsewhere", now, effects);
                        let why = format!("{} was answered already, or the agent moved on", ask.id);
                        Err(Error::new(ErrorCode::AlreadyAnswered, why))
                    }
                    Err(failure) => {
                        let why = match failure {
                            Failure::Unconfirmed | Failure::Gone => {
                                "was answered, and nothing shows that the agent took it".to_owned()
                            }
                            Failure::NotShown => {
                                "was not answered: the screen does not show what it should, so nothing more was typed"
                                    .to_owned()
                            }
                            Failure::Refused(why) => format!("was answered, and the agent refuses: {why}"),
                            Failure::Rejected(_) => "was answered, and the agent's server does not take it".to_owned(),
                        };
                        self.unsettled(&ask.id, "it is not to be seen any more, and was not answered", now, effects);
                        Err(Error::new(ErrorCode::Unconfirmed, format!("{} {why}; look at its state", ask.id)))
                    }
                };
                let _ = reply.send(told);
            }
            Purpose::Interrupt { reply } | Purpose::Configure { reply } => {
                let before = if proven > 0 { "; what was sent before it is done" } else { "" };
                let failed = |failure| match failure {
                    Failure::Unconfirmed | Failure::NotShown | Failure::Gone | Failure::Rejected(_) => {
                        let why = format!("it was sent, and nothing shows that the agent took it{before}");
                        Error::new(ErrorCode::Unconfirmed, why)
                    }
                    Failure::Refused(why) => Error::bad_request(format!("the agent refuses: {why}{before}")),
                };
                let _ = reply.send(outcome.map(|()| Reply::Done).map_err(failed));
            }
        }
    }
}

/// Tells whether anything is typed in these steps.
pub(super) fn types<'a>(steps: impl IntoIterator<Item = &'a Step>) -> bool {
    steps.into_iter().any(|step| matches!(step, Step::Type(_)))
}

enum Progress {
    Waits,
    Done(Result<(), Failure>),
}

/// Says what was wrong with a delivery.
fn reason(outcome: &Result<(), Failure>, prompt: Option<&str>, text: &str) -> Option<String> {
    match (outcome, prompt) {
        (Err(Failure::Unconfirmed | Failure::Gone), _) => Some("unconfirmed".to_owned()),
        (Err(Failure::NotShown), _) => Some("not_shown".to_owned()),
        (Err(Failure::Rejected(_)), _) => Some("refused".to_owned()),
        (Err(Failure::Refused(_)), _) => Some("refused".to_owned()),
        (Ok(()), Some(prompt)) if !same_text(prompt, text) => {
            Some("the agent took it together with what was in its input, or changed".to_owned())
        }
        (Ok(()), _) => None,
    }
}

fn same_text(prompt: &str, text: &str) -> bool {
    plain(prompt) == plain(text)
}

/// Returns a text as agents take it: trimmed, with one kind of line end and without control characters.
fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !c.is_control() || *c == '\n').collect::<String>().trim().to_owned()
}
