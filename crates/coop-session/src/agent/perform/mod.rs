//! What is done to the agent, and what proves that it took: `steps` carries it out, `finish` tells how it went.

mod finish;
mod steps;

use std::collections::VecDeque;
use std::time::Instant;

use coop_api::{AgentState, Ask, AskId, Error, EvidenceSource, NudgeId, Receipt, WriterId};
use coop_drivers::{AskDraft, Expected, Meaning, Reach, Retry, Signal, Step, comparable};
use serde_json::Value;

use super::asks::GivenAnswer;
use super::nudges::receipt_event;
use super::{Effect, Now, ReplyTo};

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
    /// The names of the requests it has sent.
    sent: Vec<String>,
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
    Answer { ask: Box<Ask>, reach: Reach, answer: GivenAnswer, reply: ReplyTo },
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
    /// And when the keys are typed again, if nothing has shown by then.
    Proof {
        what: Expected,
        until: Instant,
        retry: Option<(Instant, Retry)>,
    },
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
            sent: Vec::new(),
            called: None,
            attempts: 0,
            state_before: state.as_str().to_owned(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.waiting {
            Waiting::Nothing => None,
            Waiting::Proof { retry: Some((at, _)), .. } | Waiting::Proof { until: at, .. } | Waiting::Until(at) => {
                Some(*at)
            }
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

    /// Tells whether it ends the ask that is answered when those about a tool and its input do, or all of them. Of a
    /// dialog that was read off the screen no tool is known; there is one at a time.
    pub(super) fn is_about(&self, about: Option<&(String, Value)>, source: EvidenceSource) -> bool {
        let Purpose::Answer { ask, reach, .. } = &self.purpose else { return false };
        match (about, &ask.tool) {
            (Some((tool, input)), Some(of)) => tool == of && ask.input.as_ref() == Some(input),
            (Some(_), None) => true,
            // What the screen no longer shows is settled only if the screen is all there is.
            (None, _) => source != EvidenceSource::Screen || *reach == Reach::Keys,
        }
    }

    /// Tells whether nothing will show any more that it took, now that the link it went over broke: the agent's protocol
    /// is silent about what it was told before. A call has an answer of its own, and what the agent asks is read again.
    fn is_over_link(&self) -> bool {
        match &self.purpose {
            _ if self.called.is_some() => false,
            Purpose::Answer { reach, .. } => matches!(reach, Reach::Control { .. }),
            Purpose::Configure { .. } => true,
            // The turn and its end show also later.
            Purpose::Nudge { .. } | Purpose::Interrupt { .. } => false,
        }
    }

    pub(super) fn has_sent(&self, request: &str) -> bool {
        self.sent.iter().any(|sent| sent == request)
    }

    /// Notes that the agent does not do what it was told, whatever else is waited for.
    pub(super) fn refuse(&mut self, refusal: Proof) {
        self.proof.get_or_insert(refusal);
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
            (Purpose::Nudge { text, .. }, Expected::TurnBegan, Some(prompt)) => !is_within(text, prompt),
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

/// Tells whether anything is typed in these steps.
pub(super) fn types<'a>(steps: impl IntoIterator<Item = &'a Step>) -> bool {
    steps.into_iter().any(|step| matches!(step, Step::Type(_)))
}

fn same_text(prompt: &str, text: &str) -> bool {
    comparable(prompt) == comparable(text)
}

/// Tells whether a prompt that an agent took holds a message, with more before or after it or without.
fn is_within(text: &str, prompt: &str) -> bool {
    match comparable(text) {
        // Nothing but blanks and backslashes.
        sent if sent.is_empty() => prompt.trim() == text.trim(),
        sent => comparable(prompt).contains(&sent),
    }
}
