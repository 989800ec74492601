//! What is tried, in order, and which of it is next.

use std::time::Duration;

use super::action::Act;
use super::template::Template;

/// How often something is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// So many times, at least once.
    Times(u32),
    /// Without end.
    Forever,
}

/// A command that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// What a shell runs.
    pub run: String,
    /// How long it may take.
    pub limit: Duration,
}

/// One thing to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<A> {
    /// What.
    pub action: A,
    /// How often, before the next is tried.
    pub attempts: Attempts,
    /// How long after the last attempt; for a retry also before the first, and for a wait how long that is.
    pub cooldown: Duration,
    /// What is said.
    pub message: Option<Template>,
    /// What is run.
    pub gate: Option<Gate>,
}

impl<A: Act> Step<A> {
    /// Returns a step as it is when only its action is named.
    pub fn new(action: A) -> Self {
        Self { action, attempts: action.attempts(), cooldown: action.cooldown(), message: None, gate: None }
    }
}

/// Things to try, one after another. The last is never used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<A> {
    steps: Vec<Step<A>>,
}

/// Why steps make no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is none.
    #[error("there is nothing to do; name at least one action")]
    Empty,
    /// It can never come to this.
    #[error("{second:?} is never reached: {first:?} before it has no end")]
    Unreachable {
        /// What is always done.
        first: &'static str,
        /// What is not.
        second: &'static str,
    },
    /// The sidecar decides, and is told only at the start.
    #[error("\"auto\" cannot follow {first:?}: the agent decides for itself from its start, or not at all")]
    LateAuto {
        /// What stands before it.
        first: &'static str,
    },
    /// It is done once, or not at all.
    #[error("{action:?} takes no \"attempts\": nothing comes after it")]
    AttemptsOfLast {
        /// Which.
        action: &'static str,
    },
    /// Nothing can be tried no times.
    #[error("\"attempts\" is 0; leave {action:?} out instead")]
    NoAttempts {
        /// Which.
        action: &'static str,
    },
    /// There is nobody to say it to.
    #[error("{action:?} takes no \"message\"")]
    Message {
        /// Which.
        action: &'static str,
    },
    /// A gate has to be a command.
    #[error("\"gate\" needs \"run\", the command that decides")]
    NoRun,
    /// Only a gate is.
    #[error("{action:?} takes no \"run\" and no \"limit\"; only \"gate\" does")]
    Run {
        /// Which.
        action: &'static str,
    },
    /// There is no yes to a question.
    #[error(
        "a question cannot be answered with \"{action}\": it wants an answer, not a yes; use \"escalate\" or \"deny\""
    )]
    Question {
        /// Which.
        action: &'static str,
    },
}

/// Which step is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective<'a, A> {
    /// The step.
    pub step: &'a Step<A>,
    /// Which attempt of this step it is, from 1.
    pub attempt: u32,
}

impl<A: Act> Effective<'_, A> {
    /// Tells whether the same may be tried once more after this.
    pub fn has_more(&self) -> bool {
        match self.step.attempts {
            Attempts::Times(times) => self.attempt < times,
            Attempts::Forever => true,
        }
    }
}

impl<A: Act> Plan<A> {
    /// Makes a plan. When all of it is used up a person is called.
    pub fn new(mut steps: Vec<Step<A>>) -> Result<Self, PlanError> {
        for step in &steps {
            check(step)?;
        }
        let last = steps.last().ok_or(PlanError::Empty)?;
        if last.attempts != Attempts::Forever {
            steps.push(Step::new(A::LAST));
        }
        for pair in steps.windows(2) {
            let (first, second) = (pair[0].action.name(), pair[1].action.name());
            if pair[0].attempts == Attempts::Forever {
                return Err(PlanError::Unreachable { first, second });
            }
        }
        Ok(Self { steps })
    }

    /// Returns a plan of one action.
    pub fn only(action: A) -> Self {
        let mut steps = vec![Step::new(action)];
        if steps[0].attempts != Attempts::Forever {
            steps.push(Step::new(A::LAST));
        }
        Self { steps }
    }

    /// Decides what is done next, after so many dispatches. Everything that has to know asks here: the stop mode that a
    /// sidecar is started with, and every dispatch. So they cannot disagree.
    pub fn effective(&self, used: u32) -> Effective<'_, A> {
        let mut left = used;
        for step in &self.steps[..self.steps.len() - 1] {
            match step.attempts {
                Attempts::Times(times) if left >= times => left -= times,
                Attempts::Times(_) | Attempts::Forever => return Effective { step, attempt: left.saturating_add(1) },
            }
        }
        Effective { step: &self.steps[self.steps.len() - 1], attempt: left.saturating_add(1) }
    }

    /// Returns what is tried, in order.
    pub fn steps(&self) -> &[Step<A>] {
        &self.steps
    }
}

fn check<A: Act>(step: &Step<A>) -> Result<(), PlanError> {
    let action = step.action.name();
    if step.attempts == Attempts::Times(0) {
        return Err(PlanError::NoAttempts { action });
    }
    if step.action.is_last() && step.attempts != Attempts::Forever {
        return Err(PlanError::AttemptsOfLast { action });
    }
    if step.message.is_some() && !step.action.takes_message() {
        return Err(PlanError::Message { action });
    }
    match (step.action.runs(), &step.gate) {
        (true, None) => Err(PlanError::NoRun),
        (false, Some(_)) => Err(PlanError::Run { action }),
        (true, Some(_)) | (false, None) => Ok(()),
    }
}
