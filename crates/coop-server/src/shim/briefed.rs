//! What follows from a brief for an agent, whoever runs it: a shim, or a sidecar that is given one.

use serde_json::Value;

use super::body::{Invalid, found};
use super::brief::Brief;
use super::host::Start;
use super::plain;
use super::prompt;
use super::types::{AgentBrief, ControlMode};

/// What a brief is called in sentences about it.
const NAME: &str = "brief";

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
    /// Reads a brief that a person wrote for an agent that a shim would call this. One that does not fit into a prompt is
    /// refused: unlike a shim, who runs it has no event to say so by. So is one with a key that is not known.
    pub fn read(brief: Value, sdk: &str) -> Result<Self, WrongBrief> {
        let checked = |brief: Brief| brief.check_keys().and_then(|()| check_kept(&brief, sdk)).map(|()| brief);
        let read = Brief::read(brief.clone()).and_then(checked);
        let brief = read.map_err(|wrong| WrongBrief(sentence(&wrong, &brief)))?;
        match prompt::lost(brief.typed()) {
            Some(lost) => Err(WrongBrief(format!(
                "{NAME}: it is too long for a prompt: its last {lost} characters would not be told; shorten the description, goals or constraints"
            ))),
            None => Ok(Self { message: prompt::of_brief(brief.typed()), start: start(&brief, None) }),
        }
    }
}

/// Returns what is wrong with a brief, and for something that is missing what is there in another spelling.
fn sentence(wrong: &Invalid, brief: &Value) -> String {
    let said = wrong.sentence(NAME);
    let Some([above @ .., key]) = wrong.missing() else { return said };
    let around = found(brief, above);
    let there = around.as_object().zip(key.as_str()).and_then(|(keys, key)| plain::like(key, keys.keys()));
    there.map_or_else(|| said.clone(), |there| format!("{said}; {there} is not the same"))
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
        !coop_policy::is_among(tool, &protocol.always_escalate)
            && !coop_policy::is_among(tool, &protocol.never_escalate)
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
            "brief.projectBrief.goals is missing"
        );
        assert_eq!(wrong("claude", |brief| brief["agentId"] = json!("")), "brief.agentId: must not be empty");
        assert_eq!(
            wrong("claude", |brief| brief["description"] = json!("x".repeat(8000))),
            "brief: it is too long for a prompt: its last 90 characters would not be told; shorten the description, goals or constraints"
        );
        let alone = |brief: &mut Value| {
            brief["delegationPolicy"] = json!({ "canSpawnSubagents": false, "allowedHandoffs": [], "maxDepth": 1 });
        };
        assert_eq!(wrong("codex", alone), "brief.delegationPolicy: codex cannot be kept from using sub-agents");
        assert!(!read("claude", alone).expect("it can").start.may_delegate);
        let needs = |ability: &str| json!({ "mounts": [], "capabilities": ["git", ability] });
        let gpu = read("claude", |brief| brief["workspaceRequirements"] = needs("gpu")).expect_err("it cannot be kept");
        assert_eq!(
            gpu,
            "brief.workspaceRequirements.capabilities[1]: gpu cannot be promised: an agent has no more and no less than the machine it runs on; leave it out"
        );
        let odd = read("claude", |brief| brief["workspaceRequirements"] = needs("magic")).expect_err("there is none");
        assert_eq!(
            odd,
            "brief.workspaceRequirements.capabilities[1]: must be one of terminal, browser, git, docker, network_external, network_internal_only, gpu, not the text \"magic\""
        );
        assert_eq!(Briefed::read(json!([]), "claude"), Err(WrongBrief("brief: must be an object, not a list".into())));
    }

    /// The bug this keeps away: a misspelt `allowedTools` was no list of tools, so that all of them were allowed.
    #[test]
    fn a_key_that_is_not_known_is_refused_with_the_one_that_is_meant() {
        let wrong = |change: fn(&mut Value)| read("claude", change).expect_err("it is wrong");
        assert_eq!(
            wrong(|brief| brief["allowed_tools"] = json!(["Read"])),
            "brief.allowed_tools: coop knows no such key here; did you mean allowedTools?"
        );
        assert_eq!(
            wrong(|brief| brief["mcpServers"] = json!([{ "name": "a", "command": "x", "cwd": "/" }])),
            "brief.mcpServers[0].cwd: coop knows no such key here; leave it out"
        );
        assert_eq!(
            wrong(|brief| {
                let rule = json!({ "field": "confidence", "op": "lt", "value": 0.5, "vale": 1 });
                brief["escalationProtocol"]["escalateWhen"] = json!([{ "predicate": rule, "description": "d" }]);
            }),
            "brief.escalationProtocol.escalateWhen[0].predicate.vale: coop knows no such key here; did you mean value?"
        );
        assert_eq!(
            wrong(|brief| brief["projectBrief"] = json!([null, "t", "d", [], [], []])),
            "brief.projectBrief: must be an object, not a list"
        );
        assert_eq!(
            wrong(|brief| {
                let brief = brief.as_object_mut().expect("an object");
                let id = brief.remove("agentId").expect("it has one");
                brief.insert("agent_id".to_owned(), id);
            }),
            "brief.agentId is missing; agent_id is not the same"
        );
        let free = read("claude", |brief| {
            brief["providerConfig"] = json!({ "any": { "thing": 1 } });
            brief["mcpServers"] = json!([{ "name": "a", "command": "x", "env": { "ANY": "1" } }]);
        });
        assert!(free.is_ok(), "{free:?}");
        let mut of_a_backend = crate::shim::tests::brief();
        of_a_backend["handle"] = json!({});
        assert!(Brief::read(of_a_backend).is_ok(), "the protocol has readers ignore what they do not know");
    }

    /// Whatever is wrong in whichever place: it is named, and in nobody's words but JSON's.
    #[test]
    fn nothing_that_is_wrong_is_told_in_the_words_of_a_program() {
        let whole = json!({
            "modelPreference": "m", "secretRefs": [{ "name": "n", "vaultKey": "k", "scope": "agent" }],
            "mcpServers": [{ "name": "a", "transport": "stdio", "command": "x", "args": ["y"], "env": { "A": "b" } }],
            "workspaceRequirements": { "mounts": [], "capabilities": ["git"], "resourceLimits": {}, "baseImage": "i" },
            "outputSchema": {}, "guardrailPolicy": { "inputGuardrails": [], "outputGuardrails": [], "toolGuardrails": [] },
            "delegationPolicy": { "canSpawnSubagents": true, "allowedHandoffs": [], "maxDepth": 1 },
            "sessionPolicy": { "maxTurns": 1, "contextBudgetTokens": 1, "historyPolicy": "full", "historyN": 1 },
        });
        let mut brief = crate::shim::tests::brief();
        brief.as_object_mut().expect("one").extend(whole.as_object().expect("one").clone());
        let rule = json!({ "field": "confidence", "op": "lt", "value": 0.5 });
        brief["escalationProtocol"]["escalateWhen"] = json!([{ "predicate": rule, "description": "d" }]);
        Briefed::read(brief.clone(), "claude").expect("it is a brief");
        let mut places = vec![String::new()];
        let mut at = 0;
        while let Some(place) = places.get(at).cloned() {
            let below = match brief.pointer(&place).expect("it is there") {
                Value::Object(keys) => keys.keys().cloned().collect(),
                Value::Array(list) => (0..list.len()).map(|at| at.to_string()).collect(),
                _ => Vec::new(),
            };
            places.extend(below.iter().map(|key| format!("{place}/{key}")));
            at += 1;
        }
        let mut told = 0;
        for place in &places {
            for other in
                [json!(null), json!(true), json!(-1), json!(0.5), json!("odd"), json!([1]), json!({ "odd": 1 })]
            {
                let mut brief = brief.clone();
                *brief.pointer_mut(place).expect("it is there") = other.clone();
                let Err(WrongBrief(said)) = Briefed::read(brief, "claude") else { continue };
                told += 1;
                let at = said.split([' ', ':']).next().expect("words").replace('[', ".").replace([']', '?'], "");
                let at = at.strip_prefix("brief").expect("it begins so").replace('.', "/");
                assert!(at.starts_with(place) || place.contains("predicate"), "{place} {other}: {said}");
                for word in
                    ["struct", "sequence", "map", "enum", "variant", "u32", "u64", "f64", "invalid", "cannot be ", "`"]
                {
                    assert!(!said.contains(word), "{place} {other}: {said}");
                }
            }
        }
        assert!(told > 200, "{told} of {} places", places.len());
    }
}
