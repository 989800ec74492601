//! Who may do what without asking: modes, rules, and what a "yes, always" would change.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tool::{Tool, ToolCall};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PermissionMode {
    #[default]
    Default,
    AcceptEdits,
    Plan,
    BypassPermissions,
}

impl PermissionMode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Default, Self::AcceptEdits, Self::Plan, Self::BypassPermissions]
            .into_iter()
            .find(|mode| mode.name() == name)
    }

    /// The next one under shift+tab.
    pub(crate) const fn cycled(self) -> Self {
        match self {
            Self::Default => Self::AcceptEdits,
            Self::AcceptEdits => Self::Plan,
            Self::Plan | Self::BypassPermissions => Self::Default,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Allow,
    Ask,
    Deny,
}

/// A rule such as `Bash`, `Bash(touch x)` or `Bash(git:*)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    tool: String,
    content: Option<String>,
}

impl Rule {
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((tool, content)) => Self { tool: tool.to_owned(), content: Some(content.to_owned()) },
            None => Self { tool: text.to_owned(), content: None },
        }
    }

    fn covers(&self, call: &ToolCall) -> bool {
        if self.tool != call.tool.name() {
            return false;
        }
        let Some(content) = self.content.as_deref() else { return true };
        let subject = match call.tool {
            Tool::Bash => call.field("command"),
            Tool::Read | Tool::Write | Tool::Edit => call.field("file_path"),
            Tool::AskUserQuestion | Tool::ExitPlanMode | Tool::Agent => return false,
        };
        match content.strip_suffix(":*").or_else(|| content.strip_suffix('*')) {
            Some(prefix) => subject.starts_with(prefix),
            None => subject == content,
        }
    }
}

/// The rules of this session, from flags, settings and "always".
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) allow: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
}

/// Commands that only look.
const LOOKING: [&str; 14] =
    ["ls", "cat", "echo", "pwd", "head", "tail", "wc", "grep", "true", "date", "which", "uname", "sort", "printf"];
/// Commands that change files and nothing else: `acceptEdits` covers them.
const EDITING: [&str; 6] = ["touch", "mkdir", "mv", "cp", "rm", "rmdir"];
/// What lets one command line hold more than one command.
const SHELL_MARKS: [char; 9] = [';', '&', '|', '<', '>', '$', '`', '\n', '('];

impl Rules {
    pub(crate) fn judge(&self, call: &ToolCall, mode: PermissionMode, cwd: &Path) -> Judgement {
        if self.deny.iter().any(|rule| rule.covers(call)) {
            return Judgement::Deny;
        }
        if call.tool.is_dialogue() {
            return Judgement::Ask;
        }
        if mode != PermissionMode::BypassPermissions && self.ask.iter().any(|rule| rule.covers(call)) {
            return Judgement::Ask;
        }
        if mode == PermissionMode::BypassPermissions || self.allow.iter().any(|rule| rule.covers(call)) {
            return Judgement::Allow;
        }
        let allowed = match call.tool {
            Tool::Agent => true,
            Tool::Read => is_inside(call, cwd),
            Tool::Write | Tool::Edit => mode == PermissionMode::AcceptEdits && is_inside(call, cwd),
            Tool::Bash => {
                let command = call.field("command");
                is_only(command, &LOOKING) || mode == PermissionMode::AcceptEdits && is_only(command, &EDITING)
            }
            Tool::AskUserQuestion | Tool::ExitPlanMode => false,
        };
        if allowed { Judgement::Allow } else { Judgement::Ask }
    }

    /// Takes over the rules among `updatedPermissions`; returns the mode it sets, if it does.
    pub(crate) fn update(&mut self, updates: &[Value]) -> Option<PermissionMode> {
        let mut mode = None;
        for update in updates {
            match update.get("type").and_then(Value::as_str) {
                Some("setMode") => {
                    mode = update.get("mode").and_then(Value::as_str).and_then(PermissionMode::parse).or(mode);
                }
                Some("addRules") => {
                    let rules = update.get("rules").and_then(Value::as_array).into_iter().flatten();
                    let rules = rules.filter_map(|rule| {
                        Some(Rule {
                            tool: rule.get("toolName")?.as_str()?.to_owned(),
                            content: rule.get("ruleContent").and_then(Value::as_str).map(str::to_owned),
                        })
                    });
                    match update.get("behavior").and_then(Value::as_str) {
                        Some("allow") => self.allow.extend(rules),
                        Some("deny") => self.deny.extend(rules),
                        Some(_) | None => {}
                    }
                }
                Some(_) | None => {}
            }
        }
        mode
    }
}

/// What "yes, always" would change, as the real one suggests it.
pub(crate) fn suggestions(call: &ToolCall, cwd: &Path) -> Vec<Value> {
    let accept_edits = json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
    match call.tool {
        Tool::Bash => {
            let command = call.field("command");
            let rule = json!({ "type": "addRules", "rules": [{ "toolName": "Bash", "ruleContent": command }],
                "behavior": "allow", "destination": "localSettings" });
            if is_only(command, &EDITING) {
                let folder = json!({ "type": "addDirectories", "directories": [cwd], "destination": "session" });
                vec![rule, folder, accept_edits]
            } else {
                vec![rule]
            }
        }
        Tool::Write | Tool::Edit => vec![accept_edits],
        Tool::Read => vec![json!({ "type": "addRules", "rules": [{ "toolName": "Read" }],
            "behavior": "allow", "destination": "session" })],
        Tool::AskUserQuestion | Tool::ExitPlanMode | Tool::Agent => Vec::new(),
    }
}

/// The path the tool would touch, absolute.
pub(crate) fn target(call: &ToolCall, cwd: &Path) -> PathBuf {
    cwd.join(call.field("file_path"))
}

fn is_inside(call: &ToolCall, cwd: &Path) -> bool {
    let path = target(call, cwd);
    path.starts_with(cwd) && !path.components().any(|part| part == std::path::Component::ParentDir)
}

fn is_only(command: &str, names: &[&str]) -> bool {
    !command.contains(SHELL_MARKS) && command.split_whitespace().next().is_some_and(|name| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::ids::ToolUseId;

    fn call(tool: Tool, input: Value) -> ToolCall {
        ToolCall { id: ToolUseId("t".into()), tool, input }
    }

    fn bash(command: &str) -> ToolCall {
        call(Tool::Bash, json!({ "command": command }))
    }

    #[test]
    fn looking_needs_no_leave_and_touching_does() {
        let rules = Rules::default();
        let judge = |command: &str, mode| rules.judge(&bash(command), mode, Path::new("/p"));
        assert_eq!(judge("ls -l", PermissionMode::Default), Judgement::Allow);
        assert_eq!(judge("ls; rm -rf x", PermissionMode::Default), Judgement::Ask);
        assert_eq!(judge("touch x", PermissionMode::Default), Judgement::Ask);
        assert_eq!(judge("touch x", PermissionMode::AcceptEdits), Judgement::Allow);
        assert_eq!(judge("python3 x", PermissionMode::AcceptEdits), Judgement::Ask);
        assert_eq!(judge("python3 x", PermissionMode::BypassPermissions), Judgement::Allow);
    }

    #[test]
    fn a_dialogue_is_asked_even_when_everything_is_bypassed() {
        let ask = call(Tool::AskUserQuestion, json!({}));
        let judged = Rules::default().judge(&ask, PermissionMode::BypassPermissions, Path::new("/p"));
        assert_eq!(judged, Judgement::Ask);
    }

    #[test]
    fn rules_match_by_name_prefix_or_exactly() {
        let allow = ["Bash(git:*)", "Write"].map(Rule::parse).to_vec();
        let rules = Rules { allow, deny: vec![Rule::parse("Bash(git push)")], ask: vec![Rule::parse("Bash(ls)")] };
        let judge = |call: &ToolCall| rules.judge(call, PermissionMode::Default, Path::new("/p"));
        assert_eq!(judge(&bash("git status")), Judgement::Allow);
        assert_eq!(judge(&bash("git push")), Judgement::Deny);
        assert_eq!(judge(&bash("make")), Judgement::Ask);
        assert_eq!(judge(&bash("ls")), Judgement::Ask);
        assert_eq!(judge(&bash("ls -l")), Judgement::Allow);
        assert_eq!(judge(&call(Tool::Write, json!({ "file_path": "/etc/x" }))), Judgement::Allow);
    }

    #[test]
    fn always_takes_effect() {
        let mut rules = Rules::default();
        let make = bash("make");
        assert_eq!(rules.update(&suggestions(&make, Path::new("/p"))), None);
        assert_eq!(rules.judge(&make, PermissionMode::Default, Path::new("/p")), Judgement::Allow);
        let touch = bash("touch x");
        assert_eq!(rules.update(&suggestions(&touch, Path::new("/p"))), Some(PermissionMode::AcceptEdits));
    }
}
