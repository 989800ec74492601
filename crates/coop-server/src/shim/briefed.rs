//! What follows from a brief for an agent, whoever runs it: a shim, or a sidecar that is given one.

use serde_json::Value;

use super::body::Invalid;
use super::brief::Brief;
use super::host::Start;
use super::names;
use super::prompt;
use super::types::{AgentBrief, ControlMode};

/// A brief that was read for an agent of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Briefed {
    /// The agent's first message.
    pub message: String,
    /// How it is started, with a conversation of its own.
    pub start: Start,
}

/// Why a brief cannot be used, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongBrief(String);

impl Briefed {
    /// Reads a brief for an agent that a shim would call this. One that does not fit into a prompt is refused: unlike a shim,
    /// who runs it has no event to say so by.
    pub fn read(brief: Value, sdk: &str) -> Result<Self, WrongBrief> {
        let read = Brief::read(brief).and_then(|brief| check_kept(&brief, sdk).map(|()| brief));
        let brief = read.map_err(|wrong| WrongBrief(wrong.sentence()))?;
        match prompt::lost(brief.typed()) {
            Some(lost) => {
                Err(WrongBrief(format!("it is too long for a prompt: its last {lost} characters would not be told")))
            }
            None => Ok(Self { message: prompt::of_brief(brief.typed()), start: start(&brief, None) }),
        }
    }
}

/// Returns how an agent with this brief is started.
pub(super) fn start(brief: &Brief, resume: Option<String>) -> Start {
    Start {
        resume,
        max_turns: brief.max_turns(),
        ask_about: ask_about(brief.typed()),
        mcp: brief.typed().mcp_servers.clone().unwrap_or_default(),
        may_delegate: brief.may_delegate(),
    }
}

/// Refuses what an agent of this kind cannot be kept to.
pub(super) fn check_kept(brief: &Brief, sdk: &str) -> Result<(), Invalid> {
    if matches!(sdk, "claude" | "opencode" | "api" | "mock") || brief.may_delegate() {
        return Ok(());
    }
    let why = format!("{sdk} cannot be kept from using sub-agents");
    Err(Invalid::at(&["delegationPolicy"], &why, Value::Null))
}

/// Returns what the agent has to ask about, also where it would not by itself: whoever decides can decide only what is asked.
fn ask_about(brief: &AgentBrief) -> Vec<String> {
    let protocol = &brief.escalation_protocol;
    let by_mode: &[&str] = match brief.control_mode {
        ControlMode::Orchestrator | ControlMode::Adaptive => &["Bash", "Write", "Edit"],
        ControlMode::Ecosystem => &[],
    };
    let is_new = |tool: &&&str| {
        !names::is_among(tool, &protocol.always_escalate) && !names::is_among(tool, &protocol.never_escalate)
    };
    let by_mode = by_mode.iter().filter(is_new).map(|&tool| tool.to_owned());
    protocol.always_escalate.iter().cloned().chain(by_mode).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sdk: &str, change: impl FnOnce(&mut Value)) -> Result<Briefed, String> {
        let mut brief = crate::shim::tests::brief();
        change(&mut brief);
        Briefed::read(brief, sdk).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_brief_says_what_is_told_and_how_it_is_started() {
        let briefed = read("claude", |brief| {
            brief["escalationProtocol"]["alwaysEscalate"] = json!(["WebFetch"]);
            brief["sessionPolicy"] = json!({ "historyPolicy": "full", "maxTurns": 7 });
        });
        let briefed = briefed.expect("a brief");
        assert!(
            briefed.message.starts_with("You are a coder working on the \"core\" workstream.\nAdd a health endpoint")
        );
        assert_eq!(briefed.start.ask_about, ["WebFetch", "Bash", "Write", "Edit"]);
        assert_eq!((briefed.start.max_turns, briefed.start.resume), (Some(7), None));
    }

    #[test]
    fn what_is_wrong_is_one_sentence_with_its_place() {
        let wrong = |sdk: &str, change: fn(&mut Value)| read(sdk, change).expect_err("it is wrong");
        assert_eq!(
            wrong("claude", |brief| drop(brief["projectBrief"].as_object_mut().expect("one").remove("goals"))),
            "projectBrief.goals is missing"
        );
        assert_eq!(wrong("claude", |brief| brief["agentId"] = json!("")), "agentId: must not be empty");
        assert_eq!(
            wrong("claude", |brief| brief["description"] = json!("x".repeat(8000))),
            "it is too long for a prompt: its last 90 characters would not be told"
        );
        let alone = |brief: &mut Value| {
            brief["delegationPolicy"] = json!({ "canSpawnSubagents": false, "allowedHandoffs": [], "maxDepth": 1 });
        };
        assert_eq!(wrong("codex", alone), "delegationPolicy: codex cannot be kept from using sub-agents");
        assert!(!read("claude", alone).expect("it can").start.may_delegate);
    }
}
