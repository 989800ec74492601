//! Messages that wait for the agent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use coop_api::{
    AgentState, Error, ErrorCode, EventBody, Nudge, NudgeId, NudgeRequest, Receipt, Reply, Screen, When, WriterId,
    preview,
};
use coop_drivers::{Refusal, View};

use super::asks::refused;
use super::perform::{Performance, Purpose, types};
use super::{Agent, Effect, Now, ReplyTo};

/// How long a message may be, in bytes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// How many messages may wait.
const MAX_QUEUED: usize = 1000;
/// How long a message waits for the agent to show its input, if it is to be delivered at once.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Nudges {
    waiting: VecDeque<Waiting>,
    /// The one that is being delivered.
    under_way: Option<Nudge>,
    count: u64,
}

struct Waiting {
    writer: WriterId,
    nudge: Nudge,
    text: String,
    began: Instant,
    /// Until when the agent may take to show its input.
    patience: Option<Instant>,
    /// Whoever waits for the receipt.
    reply: Option<ReplyTo>,
}

impl Nudges {
    pub(super) fn count_on(&mut self, before: &Self) {
        self.count = before.count;
    }

    pub(super) fn list(&self) -> Vec<Nudge> {
        self.under_way.iter().chain(self.waiting.iter().map(|waiting| &waiting.nudge)).cloned().collect()
    }

    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns when the patience of the first one ends.
    pub(super) fn patience(&self) -> Option<Instant> {
        self.waiting.front().and_then(|waiting| waiting.patience)
    }

    pub(super) fn done(&mut self) {
        self.under_way = None;
    }
}

impl Agent {
    /// Takes a message: delivers it, queues it or refuses it.
    pub(crate) fn nudge(
        &mut self,
        writer: WriterId,
        request: NudgeRequest,
        reply: ReplyTo,
        screen: &Screen,
        now: &Now,
    ) -> Vec<Effect> {
        if let Err(error) = self.check_nudge(&request) {
            let _ = reply.send(Err(error));
            return Vec::new();
        }
        self.nudges.count += 1;
        let nudge = Nudge {
            id: NudgeId(format!("nudge-{}", self.nudges.count)),
            preview: preview(&request.message, &serde_json::Value::Null),
            bytes: request.message.len(),
            when: request.when,
            since: now.rfc3339(),
            under_way: false,
        };
        let (id, state_before) = (nudge.id.clone(), self.state().as_str().to_owned());
        self.nudges.waiting.push_back(Waiting {
            writer,
            nudge,
            text: request.message,
            began: now.instant,
            patience: None,
            reply: Some(reply),
        });
        let effects = self.go_on(screen, now);
        if request.when == When::Idle && !request.wait {
            self.tell_queued(id, state_before);
        }
        effects
    }

    /// Tells whoever does not want to wait that the message does, if it does.
    fn tell_queued(&mut self, id: NudgeId, state_before: String) {
        let waiting = self.nudges.waiting.iter_mut().find(|waiting| waiting.nudge.id == id);
        if let Some(reply) = waiting.and_then(|waiting| waiting.reply.take()) {
            let receipt = Receipt {
                id,
                delivered: false,
                queued: true,
                confirmed_by: None,
                attempts: 0,
                ms: 0,
                state_before,
                reason: None,
            };
            let _ = reply.send(Ok(Reply::Receipt(receipt)));
        }
    }

    fn check_nudge(&self, request: &NudgeRequest) -> Result<(), Error> {
        if request.message.is_empty() {
            return Err(Error::bad_request("the message is empty"));
        }
        if request.message.len() > MAX_MESSAGE {
            return Err(Error::bad_request(format!(
                "the message has {} bytes; an agent takes {MAX_MESSAGE} at most",
                request.message.len()
            )));
        }
        if self.nudges.waiting.len() >= MAX_QUEUED {
            return Err(Error::new(ErrorCode::AgentBusy, format!("{MAX_QUEUED} messages wait already")));
        }
        match self.state() {
            AgentState::Exited { .. } => Err(Error::exited()),
            state if request.when == When::Now && self.performance.is_none() && !self.takes_messages() => {
                Err(busy(state))
            }
            _ => Ok(()),
        }
    }

    /// Tells whether the agent waits for a message: also after an error, for then another may go better.
    pub(super) fn takes_messages(&self) -> bool {
        matches!(self.state(), AgentState::Idle | AgentState::Blocked { .. })
    }

    /// Takes back a message that waits.
    pub(crate) fn cancel_nudge(&mut self, id: &NudgeId, now: &Now) -> Result<Vec<Effect>, Error> {
        let Some(at) = self.nudges.waiting.iter().position(|waiting| waiting.nudge.id == *id) else {
            let known = self.nudges.under_way.as_ref().is_some_and(|nudge| nudge.id == *id);
            let message = if known { "is on its way already" } else { "is not waiting" };
            return Err(Error::new(ErrorCode::NotFound, format!("{id} {message}; see GET /api/v1/agent/nudges")));
        };
        let mut effects = Vec::new();
        if let Some(waiting) = self.nudges.waiting.remove(at) {
            let error = Error::new(ErrorCode::AgentBusy, format!("{id} was taken back before the agent was idle"));
            effects.push(self.undelivered(waiting, "cancelled", error, now));
        }
        Ok(effects)
    }

    /// Tells whoever waits, and everybody else, that a message was not delivered.
    fn undelivered(&self, waiting: Waiting, reason: &str, error: Error, now: &Now) -> Effect {
        let receipt = Receipt {
            id: waiting.nudge.id,
            delivered: false,
            queued: false,
            confirmed_by: None,
            attempts: 0,
            ms: now.instant.saturating_duration_since(waiting.began).as_millis() as u64,
            state_before: self.state().as_str().to_owned(),
            reason: Some(reason.to_owned()),
        };
        waiting.reply.map(|reply| reply.send(Err(error)));
        receipt_event(&receipt)
    }

    /// Begins to deliver the next message, if the agent waits for one and nothing else is on its way.
    pub(super) fn next_nudge(&mut self, screen: &Screen, now: &Now, effects: &mut Vec<Effect>) -> Option<Performance> {
        if self.settles_at.is_some_and(|at| at > now.instant) {
            return None;
        }
        self.settles_at = None;
        loop {
            if !self.takes_messages() {
                self.refuse_impatient(busy(self.state()), now, effects);
                return None;
            }
            let mut waiting = self.nudges.waiting.pop_front()?;
            let view = View { runtime: self.runtime, screen };
            match self.driver.deliver(&waiting.text, &view) {
                Ok(steps) => {
                    if types(&steps)
                        && let Err(error) = now.check_lock(waiting.writer)
                    {
                        // Whoever has locked the terminal is typing: what can wait waits for them.
                        if waiting.nudge.when == When::Idle {
                            return self.put_back(waiting, now, effects);
                        }
                        effects.push(self.undelivered(waiting, "writer_busy", error, now));
                        continue;
                    }
                    waiting.nudge.under_way = true;
                    self.nudges.under_way = Some(waiting.nudge.clone());
                    let purpose = Purpose::Nudge {
                        id: waiting.nudge.id,
                        text: waiting.text,
                        reply: waiting.reply,
                        began: waiting.began,
                    };
                    return Some(Performance::new(purpose, waiting.writer, steps, self.state()));
                }
                // Somebody is typing: what can wait waits for them.
                Err(Refusal::Occupied(_) | Refusal::NotYet(_)) if waiting.nudge.when == When::Idle => {
                    return self.put_back(waiting, now, effects);
                }
                Err(Refusal::NotYet(_)) if waiting.patience.is_none_or(|until| until > now.instant) => {
                    waiting.patience.get_or_insert(now.instant + PATIENCE);
                    self.nudges.waiting.push_front(waiting);
                    return None;
                }
                Err(refusal) => effects.push(self.undelivered(waiting, "refused", refused(refusal), now)),
            }
        }
    }

    /// Lets a message wait on, and refuses what cannot wait behind it.
    fn put_back(&mut self, waiting: Waiting, now: &Now, effects: &mut Vec<Effect>) -> Option<Performance> {
        let why =
            format!("{} waits for the agent's input and is first; send with \"when\": \"idle\"", waiting.nudge.id);
        self.refuse_impatient(Error::new(ErrorCode::AgentBusy, why), now, effects);
        self.nudges.waiting.push_front(waiting);
        None
    }

    /// Refuses the messages that were to be delivered at once.
    fn refuse_impatient(&mut self, error: Error, now: &Now, effects: &mut Vec<Effect>) {
        let waiting = std::mem::take(&mut self.nudges.waiting);
        let (impatient, patient) = waiting.into_iter().partition(|waiting| waiting.nudge.when == When::Now);
        self.nudges.waiting = patient;
        let impatient: VecDeque<Waiting> = impatient;
        for waiting in impatient {
            effects.push(self.undelivered(waiting, "agent_busy", error.clone(), now));
        }
    }

    /// Fails everybody who waits.
    pub(super) fn fail_all(&mut self, error: &Error, now: &Now, effects: &mut Vec<Effect>) {
        self.nudges.under_way = None;
        if let Some(performance) = self.performance.take() {
            let answered = performance.fail(error, "exited", now, effects);
            answered.into_iter().for_each(|ask| self.unsettled(&ask, &error.message, now, effects));
        }
        for waiting in std::mem::take(&mut self.nudges.waiting) {
            effects.push(self.undelivered(waiting, "exited", error.clone(), now));
        }
    }
}

pub(super) fn receipt_event(receipt: &Receipt) -> Effect {
    Effect::Record(EventBody::Delivery(receipt.clone()))
}

fn busy(state: &AgentState) -> Error {
    let why = match state {
        AgentState::Waiting { kind, .. } => {
            format!("the agent asks for a {}; answer it first with /agent/respond", kind.as_str())
        }
        AgentState::Starting => "the agent is starting; try again, or send with \"when\": \"idle\"".to_owned(),
        _ => format!("the agent is {}; send with \"when\": \"idle\" to queue it", state.as_str()),
    };
    Error::new(ErrorCode::AgentBusy, why)
}
