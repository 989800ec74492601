//! All the plans for one agent.

use coop_api::{AskKind, FaultKind};

use super::action::{Act, DeadAction, ErrorAction, IdleAction, PromptAction, StopMode};
use super::plan::{Plan, PlanError};

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
        if let Some(pair) = on_idle.steps().windows(2).find(|pair| pair[1].action == IdleAction::Auto) {
            return Err(PlanError::LateAuto { first: pair[0].action.name() });
        }
        let yes = on_prompt.question.steps().iter().map(|step| step.action);
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

    /// Tells whether any of them runs a command.
    pub fn has_gate(&self) -> bool {
        let PromptPlans { permission, plan, question, setup } = &self.on_prompt;
        let mut asked = [permission, plan, question, setup].into_iter().flat_map(|plan| plan.steps());
        self.on_idle.steps().iter().any(|step| step.gate.is_some()) || asked.any(|step| step.gate.is_some())
    }

    /// Returns how a sidecar that starts now holds the end of turns, and whether the agent is to ask its user then.
    pub fn stop(&self, used: u32) -> (StopMode, bool) {
        let action = self.on_idle.effective(used).step.action;
        (action.stop_mode(), action == IdleAction::Escalate)
    }
}
