//! Who decides: a human, or what the brief has said beforehand. No clock is part of it, so a timeout approves nothing.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use super::shell::{self, Does};
use super::types::{AgentBrief, BlastRadius, ControlMode, EscalationProtocol, Severity};

/// Decides about the uses of tools that the agent asks leave for.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    mode: ControlMode,
    protocol: EscalationProtocol,
    allowed_tools: Vec<String>,
    /// Tools that a human has allowed for the rest of the run.
    always: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// A human is asked.
    Escalated,
}

/// How bad a use of a tool may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Risk {
    pub(crate) severity: Severity,
    pub(crate) radius: BlastRadius,
    does: Does,
}

impl Policy {
    pub(crate) fn of(brief: &AgentBrief) -> Self {
        Self {
            mode: brief.control_mode,
            protocol: brief.escalation_protocol.clone(),
            allowed_tools: brief.allowed_tools.clone(),
            always: BTreeSet::new(),
        }
    }

    /// Takes over a changed brief; what a human has allowed stays allowed.
    pub(crate) fn rebase(&mut self, brief: &AgentBrief) {
        *self = Self { always: std::mem::take(&mut self.always), ..Self::of(brief) };
    }

    /// Allows a tool, by exactly this name, for the rest of the run.
    pub(crate) fn allow_always(&mut self, tool: &str) {
        self.always.insert(tool.to_owned());
    }

    pub(crate) fn judge(&self, tool: &str, input: Option<&Value>) -> Verdict {
        if self.always.contains(tool) {
            return Verdict::Allowed;
        }
        if names::touches(tool, &self.protocol.always_escalate) {
            return Verdict::Escalated;
        }
        if names::is_among(tool, &self.protocol.never_escalate) {
            return Verdict::Allowed;
        }
        // What the brief does not give the agent is not allowed in its name.
        let is_given = self.allowed_tools.is_empty() || names::is_among(tool, &self.allowed_tools);
        let most = match self.mode {
            ControlMode::Orchestrator => None,
            ControlMode::Adaptive => Some(Does::Looks),
            ControlMode::Ecosystem => Some(Does::Changes),
        };
        match most {
            Some(most) if is_given && risk(tool, input).does <= most => Verdict::Allowed,
            _ => Verdict::Escalated,
        }
    }
}

/// Tells how bad a use of a tool may be.
pub(crate) fn risk(tool: &str, input: Option<&Value>) -> Risk {
    let does = match command(input) {
        Some(command) => shell::judge(&command),
        None => by_name(tool),
    };
    let is_shell = command(input).is_some();
    let (severity, radius) = match (does, is_shell) {
        (Does::Looks, _) => (Severity::Low, BlastRadius::Small),
        (Does::Changes, false) => (Severity::Medium, BlastRadius::Medium),
        (Does::Changes, true) | (Does::Destroys, _) => (Severity::High, BlastRadius::Large),
    };
    Risk { severity, radius, does }
}

/// Returns the command line of a tool that runs one.
fn command(input: Option<&Value>) -> Option<String> {
    let input = input?;
    let value = ["command", "cmd"].iter().map(|key| &input[*key]).find(|value| !value.is_null())?;
    match value {
        Value::String(text) => Some(text.clone()),
        // A list of words is not for a shell, but the words may be.
        Value::Array(words) => {
            let words = words.iter().map(|word| word.as_str().unwrap_or("$"));
            Some(words.map(coop_shell::quoted).collect::<Vec<_>>().join(" "))
        }
        _ => Some("$".to_owned()),
    }
}

fn by_name(tool: &str) -> Does {
    const LOOKING: [&str; 10] =
        ["read", "glob", "grep", "ls", "list", "think", "notebookread", "todoread", "todowrite", "list_directory"];
    const CHANGING: [&str; 7] = ["edit", "write", "notebookedit", "webfetch", "websearch", "google_web_search", "task"];
    let means = names::means(tool);
    let all = |known: &[&str]| means.iter().all(|name| known.contains(&name.as_str()));
    match () {
        () if all(&LOOKING) => Does::Looks,
        () if all(&[&LOOKING[..], &CHANGING].concat()) => Does::Changes,
        // A shell without its command, a wider sandbox, somebody's own tools: nobody can tell.
        () => Does::Destroys,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Verdict::{Allowed, Escalated};
    use super::*;

    fn policy(mode: &str, change: impl FnOnce(&mut Value)) -> Policy {
        let mut brief = crate::shim::tests::brief();
        brief["controlMode"] = json!(mode);
        brief["allowedTools"] = json!([]);
        brief["escalationProtocol"] = json!({ "alwaysEscalate": [], "neverEscalate": [] });
        change(&mut brief);
        Policy::of(&serde_json::from_value(brief).expect("a brief"))
    }

    #[test]
    fn the_mode_says_how_much_is_allowed_without_a_human() {
        let cases = [
            ("Read", json!({ "file_path": "a" }), [Escalated, Allowed, Allowed]),
            ("Bash", json!({ "command": "ls" }), [Escalated, Allowed, Allowed]),
            ("Edit", json!({ "file_path": "a" }), [Escalated, Escalated, Allowed]),
            ("Bash", json!({ "command": "make" }), [Escalated, Escalated, Allowed]),
            ("Bash", json!({ "command": "ls; rm -rf x" }), [Escalated, Escalated, Escalated]),
            ("exec_command", json!({ "cmd": "ls && rm x" }), [Escalated, Escalated, Escalated]),
            ("shell", json!({ "command": ["bash", "-lc", "rm x"] }), [Escalated, Escalated, Escalated]),
            ("request_permissions", json!({}), [Escalated, Escalated, Escalated]),
            ("mcp__prod__drop_table", json!({}), [Escalated, Escalated, Escalated]),
            ("local_shell", json!({}), [Escalated, Escalated, Escalated]),
            ("", json!({}), [Escalated, Escalated, Escalated]),
            ("write_file", json!({}), [Escalated, Escalated, Allowed]),
            ("Bash", json!({}), [Escalated, Escalated, Escalated]),
        ];
        for (tool, input, expected) in cases {
            let told =
                ["orchestrator", "adaptive", "ecosystem"].map(|mode| policy(mode, |_| {}).judge(tool, Some(&input)));
            assert_eq!(told, expected, "{tool} {input}");
        }
    }

    #[test]
    fn what_the_brief_says_of_a_tool_comes_before_the_mode() {
        let ls = json!({ "command": "ls" });
        let always = policy("ecosystem", |brief| brief["escalationProtocol"]["alwaysEscalate"] = json!(["bash"]));
        // Each agent has a name of its own for it.
        for tool in ["Bash", "command_execution", "execute", "run_shell_command"] {
            assert_eq!(always.judge(tool, Some(&ls)), Escalated, "{tool}");
        }
        let never = policy("orchestrator", |brief| brief["escalationProtocol"]["neverEscalate"] = json!(["Bash"]));
        assert_eq!(never.judge("Bash", Some(&ls)), Allowed);
        let both = policy("ecosystem", |brief| {
            brief["escalationProtocol"] = json!({ "alwaysEscalate": ["Bash"], "neverEscalate": ["Bash"] });
        });
        assert_eq!(both.judge("Bash", Some(&ls)), Escalated);
        let given = policy("ecosystem", |brief| brief["allowedTools"] = json!(["Read"]));
        assert_eq!(given.judge("Bash", Some(&ls)), Escalated);
    }

    #[test]
    fn always_is_for_this_tool_alone() {
        let mut policy = policy("orchestrator", |_| {});
        policy.allow_always("Bash");
        assert_eq!(policy.judge("Bash", Some(&json!({ "command": "make" }))), Allowed);
        assert_eq!(policy.judge("Write", None), Escalated);
    }

    #[test]
    fn risks_are_told_as_the_backend_tells_them() {
        let told = |tool: &str, input: Value| {
            let risk = risk(tool, Some(&input));
            (risk.severity, risk.radius)
        };
        assert_eq!(told("Bash", json!({ "command": "make" })), (Severity::High, BlastRadius::Large));
        assert_eq!(told("Write", json!({})), (Severity::Medium, BlastRadius::Medium));
        assert_eq!(told("Read", json!({})), (Severity::Low, BlastRadius::Small));
    }
}
