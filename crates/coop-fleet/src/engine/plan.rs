//! What is tried, in order, and which of it is next.

use std::time::Duration;

use coop_api::{AskId, AskKind, Fault, FaultKind};
use serde::{Deserialize, Serialize};

use super::Timestamp;
use super::action::{Act, DeadAction, ErrorAction, IdleAction, PromptAction, StopMode};
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
    /// How long after the last attempt; for a retry also before the first.
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

/// Plans for each kind of ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPlans {
    /// May a tool be used?
    pub permission: Plan<PromptAction>,
    /// Is the plan right?
    pub plan: Plan<PromptAction>,
    /// Questions.
    pub question: Plan<PromptAction>,
    /// A dialog before the agent can begin.
    pub setup: Plan<PromptAction>,
}

impl PromptPlans {
    /// Returns the plan for a kind.
    pub fn get(&self, kind: AskKind) -> &Plan<PromptAction> {
        match kind {
            AskKind::Permission => &self.permission,
            AskKind::Plan => &self.plan,
            AskKind::Question => &self.question,
            AskKind::Setup => &self.setup,
        }
    }
}

/// Plans for each kind of error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPlans {
    /// Too many requests, or a quota is used up.
    pub rate_limit: Plan<ErrorAction>,
    /// The key or login is not accepted.
    pub auth: Plan<ErrorAction>,
    /// The model's server cannot be reached.
    pub network: Plan<ErrorAction>,
    /// The model's server has no room.
    pub overload: Plan<ErrorAction>,
    /// Anything else.
    pub other: Plan<ErrorAction>,
}

impl ErrorPlans {
    /// Returns the plan for a kind. A refused request is nothing that has a plan of its own.
    pub fn get(&self, kind: FaultKind) -> &Plan<ErrorAction> {
        match kind {
            FaultKind::RateLimit => &self.rate_limit,
            FaultKind::Auth => &self.auth,
            FaultKind::Network => &self.network,
            FaultKind::Overload => &self.overload,
            FaultKind::Request | FaultKind::Other => &self.other,
        }
    }
}

/// What is done about one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actions {
    /// When it has ended a turn.
    pub on_idle: Plan<IdleAction>,
    /// When its process has ended by itself.
    pub on_dead: Plan<DeadAction>,
    /// When it asks something.
    pub on_prompt: PromptPlans,
    /// When it has given up on an error.
    pub on_error: ErrorPlans,
}

impl Actions {
    /// Checks what no plan can see by itself.
    pub fn new(
        on_idle: Plan<IdleAction>,
        on_dead: Plan<DeadAction>,
        on_prompt: PromptPlans,
        on_error: ErrorPlans,
    ) -> Result<Self, PlanError> {
        if let Some(pair) = on_idle.steps.windows(2).find(|pair| pair[1].action == IdleAction::Auto) {
            return Err(PlanError::LateAuto { first: pair[0].action.name() });
        }
        let yes = on_prompt.question.steps.iter().map(|step| step.action);
        if let Some(action) = yes.into_iter().find(|action| matches!(action, PromptAction::Allow | PromptAction::Gate))
        {
            return Err(PlanError::Question { action: action.name() });
        }
        Ok(Self { on_idle, on_dead, on_prompt, on_error })
    }

    /// Returns what is done if nobody says: nothing is answered, and a person is called for what does not pass.
    pub fn with_idle(action: IdleAction) -> Self {
        let prompt = || Plan::only(PromptAction::Escalate);
        let error = Plan::only;
        Self {
            on_idle: Plan::only(action),
            on_dead: Plan::only(DeadAction::Escalate),
            on_prompt: PromptPlans { permission: prompt(), plan: prompt(), question: prompt(), setup: prompt() },
            on_error: ErrorPlans {
                rate_limit: error(ErrorAction::Retry),
                auth: error(ErrorAction::Escalate),
                network: error(ErrorAction::Retry),
                overload: error(ErrorAction::Retry),
                other: error(ErrorAction::Escalate),
            },
        }
    }

    /// Returns how a sidecar that starts now holds the end of turns, and whether the agent is to ask its user then.
    pub fn stop(&self, used: u32) -> (StopMode, bool) {
        let action = self.on_idle.effective(used).step.action;
        (action.stop_mode(), action == IdleAction::Escalate)
    }
}

/// Something that is done later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// When.
    pub at: Timestamp,
    /// What about.
    pub occasion: Occasion,
}

/// What something is done about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A turn has ended.
    Idle,
    /// The process has ended.
    Dead,
    /// An error.
    Error(Fault),
    /// An ask.
    Prompt {
        /// Which.
        ask: AskId,
        /// Of which kind.
        kind: AskKind,
        /// In one line.
        preview: String,
    },
}
