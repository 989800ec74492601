//! What a fleet does about an agent, as its resource says it: the words of a definition that make sense for an agent in a
//! cluster. A gate is not among them: it would run on the fleet's machine, in a folder that is not there, at the wish of
//! whoever may apply an Agent. Nor is `auto`, for which a sidecar would have to be started otherwise, nor `resume`: pods are the
//! operator's.

use std::fmt::{self, Write};

use coop_fleet::definition::{Definition, quoted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a fleet over this cluster does about the agent (`coop up --launcher kubernetes`). Each is a list that is gone through in
/// order; when all of it is used up, and where nothing is said, a person is called. Without a fleet nobody does it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetActions {
    /// When it has ended a turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_idle: Vec<Action<WhenIdle>>,
    /// When it asks something.
    #[serde(default, skip_serializing_if = "PromptActions::is_empty")]
    pub on_prompt: PromptActions,
    /// When it has given up on an error.
    #[serde(default, skip_serializing_if = "ErrorActions::is_empty")]
    pub on_error: ErrorActions,
}

/// By what it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptActions {
    /// May a tool be used?
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permission: Vec<Action<WhenAsked>>,
    /// Is the plan right?
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Action<WhenAsked>>,
    /// Questions, to which there is no yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub question: Vec<Action<WhenAsked>>,
    /// A dialog before it can begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Action<WhenAsked>>,
}

impl PromptActions {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// By what the error is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorActions {
    /// Too many requests, or a quota is used up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_limit: Vec<Action<WhenFailed>>,
    /// The key or login is not accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auth: Vec<Action<WhenFailed>>,
    /// The model's server cannot be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<Action<WhenFailed>>,
    /// The model's server has no room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overload: Vec<Action<WhenFailed>>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<Action<WhenFailed>>,
}

impl ErrorActions {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Action<W> {
    /// What.
    pub action: W,
    /// How often, until the next of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub attempts: Option<u32>,
    /// How long to wait between two attempts, such as 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<String>,
    /// What is said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl<W> Action<W> {
    fn new(action: W) -> Self {
        Self { action, attempts: None, cooldown: None, message: None }
    }
}

/// When an agent has ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenIdle {
    /// It is done: the fleet suspends it.
    Done,
    /// It has failed: the fleet suspends it.
    Fail,
    /// It is told to go on.
    Nudge,
    /// A person is called.
    Escalate,
}

/// When an agent asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenAsked {
    /// A person is called.
    Escalate,
    /// Yes.
    Allow,
    /// No.
    Deny,
}

/// When an agent has given up on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenFailed {
    /// It is told to go on, after a while.
    Retry,
    /// A person is called.
    Escalate,
    /// It has failed: the fleet suspends it.
    Fail,
}

impl fmt::Display for WhenIdle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Fail => "fail",
            Self::Nudge => "nudge",
            Self::Escalate => "escalate",
        })
    }
}

impl fmt::Display for WhenAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Escalate => "escalate",
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for WhenFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retry => "retry",
            Self::Escalate => "escalate",
            Self::Fail => "fail",
        })
    }
}

impl FleetActions {
    /// Writes the lines of a definition that say the same of an agent with this driver. Errors that a fleet would see to by itself
    /// are a person's, where nothing is said.
    pub(crate) fn lines(&self, driver: &str) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                // Writing to a text cannot fail.
                let _ = writeln!(text, "{name} = {value}");
            }
        };
        let PromptActions { permission, plan, question, setup } = &self.on_prompt;
        let ErrorActions { rate_limit, auth, network, overload, other } = &self.on_error;
        line("on_idle", list(&self.on_idle));
        line(
            "on_prompt",
            table([("permission", permission), ("plan", plan), ("question", question), ("setup", setup)]),
        );
        // Nobody can tell whether a program without a driver fails.
        let or_person = |said: &[Action<WhenFailed>]| match said {
            [] if driver != "unknown" => vec![Action::new(WhenFailed::Escalate)],
            said => said.to_vec(),
        };
        let [rate_limit, network, overload] = [rate_limit, network, overload].map(|said| or_person(said));
        let errors = [
            ("rate_limit", &rate_limit),
            ("auth", auth),
            ("network", &network),
            ("overload", &overload),
            ("other", other),
        ];
        line("on_error", table(errors));
        text
    }

    /// Tells in one sentence what makes no sense for an agent with this driver, if something does.
    pub(crate) fn check(&self, driver: &str) -> Result<(), String> {
        let text = format!("[agents.it]\ndriver = {}\ncommand = [\"it\"]\n{}", quoted(driver), self.lines(driver));
        Definition::parse(&text).map(drop).map_err(|wrong| wrong.message)
    }
}

fn list<W: fmt::Display>(actions: &[Action<W>]) -> Option<String> {
    let one = |action: &Action<W>| {
        let mut words = vec![format!("action = {}", quoted(&action.action.to_string()))];
        words.extend(action.attempts.map(|attempts| format!("attempts = {attempts}")));
        words.extend(action.cooldown.as_ref().map(|cooldown| format!("cooldown = {}", quoted(cooldown))));
        words.extend(action.message.as_ref().map(|message| format!("message = {}", quoted(message))));
        format!("{{ {} }}", words.join(", "))
    };
    (!actions.is_empty()).then(|| format!("[{}]", actions.iter().map(one).collect::<Vec<_>>().join(", ")))
}

fn table<W: fmt::Display, const N: usize>(kinds: [(&str, &Vec<Action<W>>); N]) -> Option<String> {
    let kinds = kinds.into_iter().filter_map(|(name, actions)| Some(format!("{name} = {}", list(actions)?)));
    let kinds: Vec<_> = kinds.collect();
    (!kinds.is_empty()).then(|| format!("{{ {} }}", kinds.join(", ")))
}

#[cfg(test)]
mod tests {
    use coop_fleet::engine::{DeadAction, ErrorAction, IdleAction, PromptAction};
    use serde_json::{Value, json};

    use super::*;

    fn actions(from: Value) -> FleetActions {
        serde_json::from_value(from).expect("actions")
    }

    #[test]
    fn what_a_resource_says_is_what_a_definition_says() {
        let actions = actions(json!({
            "onIdle": [{ "action": "Nudge", "attempts": 2, "cooldown": "30s", "message": "Go \"on\"\u{7f}\n" }, { "action": "Done" }],
            "onPrompt": { "permission": [{ "action": "Allow" }], "plan": [{ "action": "Deny", "message": "no" }] },
            "onError": { "rateLimit": [{ "action": "Retry", "attempts": 5, "cooldown": "1m" }] },
        }));
        let text = format!("[agents.it]\ndriver = \"claude\"\nkind = \"crew\"\n{}", actions.lines("claude"));
        let read = Definition::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}")).agents.remove("it");
        let read = read.expect("it").actions;
        let steps: Vec<_> = read.on_idle.steps().iter().map(|step| (step.action, step.cooldown.as_secs())).collect();
        assert_eq!(steps, [(IdleAction::Nudge, 30), (IdleAction::Done, 0)]);
        let first = |plan: &coop_fleet::engine::Plan<PromptAction>| plan.steps()[0].action;
        assert_eq!(first(&read.on_prompt.permission), PromptAction::Allow);
        assert_eq!(first(&read.on_prompt.plan), PromptAction::Deny);
        assert_eq!(first(&read.on_prompt.question), PromptAction::Escalate, "nothing is said");
        assert_eq!(read.on_error.rate_limit.steps()[0].action, ErrorAction::Retry);
        assert_eq!(read.on_error.network.steps()[0].action, ErrorAction::Escalate, "nothing is said");
        assert_eq!(read.on_dead.steps()[0].action, DeadAction::Escalate, "that is the operator's");
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_sentence() {
        let wrong = |driver: &str, from: Value| actions(from).check(driver).expect_err("it is wrong");
        let never = json!({ "onIdle": [{ "action": "Done" }, { "action": "Nudge" }] });
        assert_eq!(wrong("claude", never), "\"nudge\" is never reached: \"done\" before it has no end");
        let time = json!({ "onError": { "other": [{ "action": "Retry", "cooldown": "soon" }] } });
        assert!(wrong("claude", time).contains("has to be a time"));
        let question = json!({ "onPrompt": { "question": [{ "action": "Allow" }] } });
        assert!(wrong("claude", question).contains("question"));
        assert!(wrong("unknown", json!({ "onIdle": [{ "action": "Nudge" }] })).contains("never comes to pass"));
        assert_eq!(FleetActions::default().check("unknown"), Ok(()));
        assert_eq!(FleetActions::default().lines("unknown"), "");
        assert_eq!(FleetActions::default().check("claude"), Ok(()));
    }

    /// A resource is no way to run a command where the fleet is.
    #[test]
    fn there_is_no_gate() {
        assert!(
            serde_json::from_value::<FleetActions>(json!({ "onIdle": [{ "action": "Gate", "run": "x" }] })).is_err()
        );
        let run = json!({ "onIdle": [{ "action": "Nudge", "run": "x" }] });
        assert!(!actions(run).lines("claude").contains("run"));
    }
}
