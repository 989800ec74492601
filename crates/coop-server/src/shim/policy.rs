//! Who decides: a human, or what the brief has said beforehand. No clock is part of it, so a timeout approves nothing.

use std::collections::BTreeSet;

use coop_policy::{Does, command_line, judge, judge_tool, leaves_sandbox};
use serde_json::Value;

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
        if coop_policy::touches(tool, &self.protocol.always_escalate) {
            return Verdict::Escalated;
        }
        if coop_policy::is_among(tool, &self.protocol.never_escalate) {
            return Verdict::Allowed;
        }
        // What the brief does not give the agent is not allowed in its name.
        let is_given = self.allowed_tools.is_empty() || coop_policy::is_among(tool, &self.allowed_tools);
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
    let command = input.and_then(command_line);
    let does = match &command {
        _ if input.is_some_and(leaves_sandbox) => Does::Destroys,
        Some(command) => judge(command),
        None => judge_tool(tool),
    };
    let (severity, radius) = match (does, command) {
        (Does::Looks, _) => (Severity::Low, BlastRadius::Small),
        (Does::Changes, None) => (Severity::Medium, BlastRadius::Medium),
        (Does::Changes, Some(_)) | (Does::Destroys, _) => (Severity::High, BlastRadius::Large),
    };
    Risk { severity, radius, does }
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
            ("Bash", json!({ "command": "ls", "dangerouslyDisableSandbox": true }), [Escalated; 3]),
            ("Bash", json!({ "command": "/bin/bash -lc 'ls'" }), [Escalated, Allowed, Allowed]),
            ("Bash", json!({ "command": "./bash -lc 'ls'" }), [Escalated; 3]),
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
