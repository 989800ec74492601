use super::read::Node;
use super::{DefinitionError, GATE_LIMIT};
use crate::engine::{
    Act, Actions, Attempts, DeadAction, ErrorAction, ErrorPlans, Gate, IdleAction, Plan, PromptAction, PromptPlans,
    Step, Template,
};

/// What a definition may say beside its names for actions.
pub(super) struct Given<'a> {
    pub(super) idle: Option<Node<'a>>,
    pub(super) dead: Option<Node<'a>>,
    pub(super) prompt: Option<Node<'a>>,
    pub(super) error: Option<Node<'a>>,
}

/// Reads what is done about an agent; what is not said is as it is for an agent with this `on_idle`.
pub(super) fn read(given: &Given<'_>, default: IdleAction, at: &Node<'_>) -> Result<Actions, DefinitionError> {
    let base = Actions::with_idle(default);
    let idle = plan_or(given.idle.as_ref(), base.on_idle, IDLE)?;
    let dead = plan_or(given.dead.as_ref(), base.on_dead, DEAD)?;
    let prompts = prompts(given.prompt.as_ref(), base.on_prompt)?;
    let errors = errors(given.error.as_ref(), base.on_error)?;
    Actions::new(idle, dead, prompts, errors).map_err(|wrong| {
        let node = given.prompt.as_ref().filter(|_| wrong.to_string().contains("question")).or(given.idle.as_ref());
        node.unwrap_or(at).error(wrong.to_string())
    })
}

const IDLE: &[IdleAction] = &[
    IdleAction::Done,
    IdleAction::Fail,
    IdleAction::Nudge,
    IdleAction::Gate,
    IdleAction::Resume,
    IdleAction::Escalate,
    IdleAction::Auto,
];
const DEAD: &[DeadAction] = &[
    DeadAction::Done,
    DeadAction::Fail,
    DeadAction::Resume,
    DeadAction::Restart,
    DeadAction::Wait,
    DeadAction::Escalate,
];
const PROMPT: &[PromptAction] = &[PromptAction::Escalate, PromptAction::Allow, PromptAction::Deny, PromptAction::Gate];
const ERROR: &[ErrorAction] = &[ErrorAction::Retry, ErrorAction::Resume, ErrorAction::Escalate, ErrorAction::Fail];

fn prompts(node: Option<&Node<'_>>, base: PromptPlans) -> Result<PromptPlans, DefinitionError> {
    let Some(node) = node else { return Ok(base) };
    let table = node.table(&["permission", "plan", "question", "setup"])?;
    let get = |name: &str, plan| plan_or(table.get(name).as_ref(), plan, PROMPT);
    Ok(PromptPlans {
        permission: get("permission", base.permission)?,
        plan: get("plan", base.plan)?,
        question: get("question", base.question)?,
        setup: get("setup", base.setup)?,
    })
}

fn errors(node: Option<&Node<'_>>, base: ErrorPlans) -> Result<ErrorPlans, DefinitionError> {
    let Some(node) = node else { return Ok(base) };
    let table = node.table(&["rate_limit", "auth", "network", "overload", "other"])?;
    let get = |name: &str, plan| plan_or(table.get(name).as_ref(), plan, ERROR);
    Ok(ErrorPlans {
        rate_limit: get("rate_limit", base.rate_limit)?,
        auth: get("auth", base.auth)?,
        network: get("network", base.network)?,
        overload: get("overload", base.overload)?,
        other: get("other", base.other)?,
    })
}

/// Reads an action, one with more to say, or several to be tried in order.
fn plan_or<A: Act>(node: Option<&Node<'_>>, default: Plan<A>, known: &[A]) -> Result<Plan<A>, DefinitionError> {
    let Some(node) = node else { return Ok(default) };
    let nodes = if node.is_list() { node.list()? } else { vec![node.clone()] };
    let steps: Vec<_> = nodes.iter().map(|node| step(node, known)).collect::<Result<_, _>>()?;
    Plan::new(steps).map_err(|wrong| node.error(wrong.to_string()))
}

fn step<A: Act>(node: &Node<'_>, known: &[A]) -> Result<Step<A>, DefinitionError> {
    if node.is_text() {
        return Ok(Step::new(action(node, known)?));
    }
    let table = node.table(&["action", "attempts", "cooldown", "message", "run", "limit"])?;
    let name = table.get("action").ok_or_else(|| node.error(format!("\"action\" is missing: {}", names(known))))?;
    let mut step = Step::new(action(&name, known)?);
    if let Some(node) = table.get("attempts") {
        step.attempts = attempts(&node)?;
    }
    if let Some(node) = table.get("cooldown") {
        step.cooldown = node.time()?;
    }
    if let Some(node) = table.get("message") {
        let template = Template::parse(node.text()?).map_err(|wrong| node.error(wrong.to_string()))?;
        step.message = Some(template);
    }
    let limit = table.get("limit").map(|node| node.time()).transpose()?;
    match (table.text("run")?, limit) {
        (Some(run), limit) => step.gate = Some(Gate { run, limit: limit.unwrap_or(GATE_LIMIT) }),
        (None, Some(_)) => return Err(node.error("\"limit\" is for \"run\", which is missing")),
        (None, None) => {}
    }
    Ok(step)
}

fn action<A: Act>(node: &Node<'_>, known: &[A]) -> Result<A, DefinitionError> {
    let name = node.text()?;
    let found = known.iter().find(|action| action.name() == name);
    found.copied().ok_or_else(|| node.error(format!("{name:?} cannot be done here; use one of {}", names(known))))
}

fn names<A: Act>(known: &[A]) -> String {
    known.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ")
}

fn attempts(node: &Node<'_>) -> Result<Attempts, DefinitionError> {
    let wrong = || node.error("\"attempts\" has to be a whole number, or \"forever\"");
    if node.is_text() {
        return if node.text()? == "forever" { Ok(Attempts::Forever) } else { Err(wrong()) };
    }
    let times = node.whole().map_err(|_| wrong())?;
    u32::try_from(times).map(Attempts::Times).map_err(|_| wrong())
}
