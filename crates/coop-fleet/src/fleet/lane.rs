use std::collections::VecDeque;

use tokio::time::Instant;

use crate::engine::{Agent, Effect, Intent, Phase, Timestamp};

/// Why a message is not told any more.
pub(super) const OTHERWISE: &str = "something else is done with the agent";

/// What is to be done for one agent, and what is being done.
///
/// Messages and processes come one after another. Everything else is done beside them: an answer that waited for a message,
/// which waits for the agent to be idle, would wait for ever.
pub(super) struct Lane {
    pub(super) agent: Agent,
    queue: VecDeque<Intent>,
    pub(super) doing: Doing,
    /// Whether somebody else has started another process, which is looked for as soon as the one before is gone.
    pub(super) has_next: bool,
    /// That there was no way to its sidecar when it was looked for.
    pub(super) lost: Option<Lost>,
}

/// A sidecar to which there is no way, though it runs as far as anybody knows.
pub(super) struct Lost {
    /// What was seen.
    pub(super) why: String,
    /// When it is looked for again; nothing once that moment has come.
    pub(super) again: Option<Timestamp>,
}

/// What is under way for an agent.
pub(super) enum Doing {
    /// Nothing.
    Nothing,
    /// Its sidecar is looked for. Until it is found nothing can be done.
    Adopting { since: Instant },
    /// An intent is being done.
    Something,
    /// A message was refused, and is for when the agent is idle.
    Waiting(Intent),
    /// Its process was ended for this intent, and that is not heard of yet.
    Ending {
        intent: Intent,
        /// When it is taken for gone although nobody tells: its process was seen to end, and only how is not known.
        until: Timestamp,
    },
}

/// What is to be done next.
pub(super) enum Next {
    /// This.
    Begin(Intent),
    /// This, for which the way is free now.
    GoOn(Intent),
    /// It is looked for the process that somebody else has started.
    LookAgain,
    /// It is looked once more for the process that there was no way to.
    TryAgain,
    /// Nothing any more, and why.
    Drop(Intent, &'static str),
    /// It cannot be done any more, and why.
    Fail(Intent, &'static str),
}

impl Lane {
    pub(super) fn new(agent: Agent, doing: Doing) -> Self {
        Self { agent, queue: VecDeque::new(), doing, has_next: false, lost: None }
    }

    pub(super) fn add(&mut self, intent: Intent) {
        self.queue.push_back(intent);
    }

    /// Takes what can be done now.
    pub(super) fn next(&mut self) -> Option<Next> {
        if let Doing::Adopting { .. } = self.doing {
            return None;
        }
        if let Some(at) = self.queue.iter().position(|intent| !is_in_line(&intent.effect)) {
            return self.queue.remove(at).map(Next::Begin);
        }
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => match self.queue.pop_front() {
                Some(intent) => {
                    self.doing = Doing::Something;
                    Some(Next::Begin(intent))
                }
                None if self.has_next && self.agent.phase == Phase::Dead => Some(Next::LookAgain),
                None if self.lost.as_ref().is_some_and(|lost| lost.again.is_none()) => Some(Next::TryAgain),
                None => None,
            },
            busy @ (Doing::Adopting { .. } | Doing::Something) => {
                self.doing = busy;
                None
            }
            Doing::Waiting(intent) => self.waiting(intent),
            Doing::Ending { intent, .. } if self.agent.phase == Phase::Dead => {
                self.doing = Doing::Something;
                Some(Next::GoOn(intent))
            }
            ending @ Doing::Ending { .. } => {
                self.doing = ending;
                None
            }
        }
    }

    /// Returns when it is to be looked at again.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let again = self.lost.as_ref().and_then(|lost| lost.again);
        [self.agent.next_due(), self.given_up_at(), again].into_iter().flatten().min()
    }

    /// Returns when nobody waits any longer to hear that its process has ended.
    pub(super) fn given_up_at(&self) -> Option<Timestamp> {
        match self.doing {
            Doing::Ending { until, .. } if self.agent.phase != Phase::Dead => Some(until),
            Doing::Nothing | Doing::Adopting { .. } | Doing::Something | Doing::Waiting(_) | Doing::Ending { .. } => {
                None
            }
        }
    }

    /// Tells whether a message that was refused is not to be told any more: the agent is over, or gets another process.
    pub(super) fn is_for_nothing(&self) -> bool {
        let is_process = |next: &Intent| is_in_line(&next.effect) && !matches!(next.effect, Effect::Send { .. });
        self.agent.outcome.is_some() || self.queue.iter().any(is_process)
    }

    fn waiting(&mut self, intent: Intent) -> Option<Next> {
        if self.is_for_nothing() {
            return Some(Next::Drop(intent, OTHERWISE));
        }
        match self.agent.phase {
            Phase::Idle | Phase::Blocked => {
                self.doing = Doing::Something;
                Some(Next::Begin(intent))
            }
            Phase::Dead => Some(Next::Fail(intent, "its process ended before it could be told")),
            Phase::Starting | Phase::Working | Phase::Asking => {
                self.doing = Doing::Waiting(intent);
                None
            }
        }
    }
}

/// Tells whether it waits for what was to be done before it.
pub(super) fn is_in_line(effect: &Effect) -> bool {
    match effect {
        Effect::Spawn | Effect::Send { .. } | Effect::Resume | Effect::Restart | Effect::Finish { .. } => true,
        Effect::Answer { .. } | Effect::ResolveStop | Effect::Gate { .. } | Effect::Escalate { .. } => false,
    }
}
