//! Hooks as values: the events, what a hook said, and what that means. Running them is `io::hooks`' business.

use std::time::Duration;

use serde_json::Value;

use super::ids::HookRun;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HookEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
    Notification,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    PreCompact,
    PostCompact,
    SessionEnd,
}

impl HookEvent {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::Notification => "Notification",
            Self::Stop => "Stop",
            Self::StopFailure => "StopFailure",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::SessionEnd => "SessionEnd",
        }
    }

    /// The events whose payload carries no `permission_mode`, as recorded.
    pub(crate) const fn is_without_mode(self) -> bool {
        matches!(
            self,
            Self::SessionStart | Self::SessionEnd | Self::Notification | Self::PreCompact | Self::PostCompact
        )
    }

    /// The events whose plain (not JSON) output is context for the model.
    const fn adds_plain_output(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }
}

/// A round of hooks to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HookCall {
    pub(crate) run: HookRun,
    pub(crate) event: HookEvent,
    /// What the groups' matchers are held against: the tool, the source, the trigger.
    pub(crate) subject: String,
    pub(crate) payload: Value,
}

/// What one hook process did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookResult {
    pub(crate) command: String,
    pub(crate) exit: HookExit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) duration: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookExit {
    Code(i32),
    /// It did not start, was killed, or ran out of time: ignored, as the real one does.
    None,
}

/// An answer to a permission request, whoever gave it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    Allow { input: Option<Value>, updates: Vec<Value> },
    Deny { message: String, then: AfterDeny },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterDeny {
    /// The model hears the message and goes on.
    Continue,
    /// The turn ends, as after Esc.
    Interrupt,
}

impl Decision {
    pub(crate) const ALLOW: Self = Self::Allow { input: None, updates: Vec::new() };

    pub(crate) fn interrupt() -> Self {
        Self::Deny { message: String::new(), then: AfterDeny::Interrupt }
    }

    /// Reads `{behavior, message, interrupt, updatedInput, updatedPermissions}`: hooks and the control channel agree on it.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        match text("behavior")? {
            "allow" => Some(Self::Allow {
                input: value.get("updatedInput").filter(|input| input.is_object()).cloned(),
                updates: value.get("updatedPermissions").and_then(Value::as_array).cloned().unwrap_or_default(),
            }),
            "deny" => Some(Self::Deny {
                message: text("message").unwrap_or("Permission denied").to_owned(),
                then: match value.get("interrupt").and_then(Value::as_bool) {
                    Some(true) => AfterDeny::Interrupt,
                    Some(false) | None => AfterDeny::Continue,
                },
            }),
            _ => None,
        }
    }
}

/// A `PreToolUse` hook's word on the permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PreToolWord {
    Allow,
    Deny(String),
    Ask,
}

/// What a round of hooks adds up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Verdict {
    /// Exit code 2, or `"decision": "block"`.
    pub(crate) block: Option<String>,
    pub(crate) word: Option<PreToolWord>,
    pub(crate) decision: Option<Decision>,
    pub(crate) input: Option<Value>,
    pub(crate) context: Vec<String>,
}

/// The exit code that blocks, with stderr as the reason.
const BLOCKS: i32 = 2;

impl Verdict {
    /// The first hook to say something is the one that is heard.
    pub(crate) fn of(event: HookEvent, results: &[HookResult]) -> Self {
        let mut verdict = Self::default();
        for result in results {
            match result.exit {
                HookExit::Code(BLOCKS) => {
                    verdict.block.get_or_insert_with(|| result.stderr.trim().to_owned());
                }
                HookExit::Code(0) => verdict.take(event, result.stdout.trim()),
                HookExit::Code(_) | HookExit::None => {}
            }
        }
        if event == HookEvent::PreToolUse
            && let Some(reason) = verdict.block.clone()
        {
            verdict.word.get_or_insert(PreToolWord::Deny(reason));
        }
        verdict
    }

    fn take(&mut self, event: HookEvent, stdout: &str) {
        let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(stdout) else {
            if event.adds_plain_output() && !stdout.is_empty() {
                self.context.push(stdout.to_owned());
            }
            return;
        };
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if text(&value, "decision").as_deref() == Some("block") {
            self.block.get_or_insert_with(|| text(&value, "reason").unwrap_or_default());
        }
        let Some(specific) = value.get("hookSpecificOutput") else { return };
        self.context.extend(text(specific, "additionalContext"));
        if let Some(decision) = specific.get("decision").and_then(Decision::from_json) {
            self.decision.get_or_insert(decision);
        }
        if let Some(input) = specific.get("updatedInput").filter(|input| input.is_object()) {
            self.input.get_or_insert_with(|| input.clone());
        }
        let word = match text(specific, "permissionDecision").as_deref() {
            Some("allow") => Some(PreToolWord::Allow),
            Some("ask") => Some(PreToolWord::Ask),
            Some("deny") => {
                Some(PreToolWord::Deny(text(specific, "permissionDecisionReason").unwrap_or_else(|| "Denied".into())))
            }
            Some(_) | None => None,
        };
        self.word = self.word.take().or(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(code: i32, stdout: &str, stderr: &str) -> HookResult {
        HookResult {
            command: "c".into(),
            exit: HookExit::Code(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn exit_code_two_blocks_with_the_words_of_stderr() {
        let verdict = Verdict::of(HookEvent::Stop, &[result(1, "", "ignored"), result(2, "", "not yet\n")]);
        assert_eq!(verdict, Verdict { block: Some("not yet".into()), ..Verdict::default() });
    }

    #[test]
    fn a_stop_decision_blocks() {
        let verdict = Verdict::of(HookEvent::Stop, &[result(0, r#"{"decision":"block","reason":"more"}"#, "")]);
        assert_eq!(verdict.block.as_deref(), Some("more"));
    }

    #[test]
    fn a_permission_decision_is_read_whole() {
        let stdout = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":
            {"behavior":"allow","updatedInput":{"command":"ls"},"updatedPermissions":[{"type":"setMode"}]}}}"#;
        let verdict = Verdict::of(HookEvent::PermissionRequest, &[result(0, stdout, "")]);
        let updates = vec![serde_json::json!({ "type": "setMode" })];
        let input = Some(serde_json::json!({ "command": "ls" }));
        assert_eq!(verdict.decision, Some(Decision::Allow { input, updates }));
    }

    #[test]
    fn plain_output_is_context_only_where_the_real_one_takes_it() {
        let said = [result(0, "remember the milk", "")];
        assert_eq!(Verdict::of(HookEvent::SessionStart, &said).context, ["remember the milk"]);
        assert!(Verdict::of(HookEvent::PreToolUse, &said).context.is_empty());
    }

    #[test]
    fn a_pre_tool_block_is_a_denial() {
        let verdict = Verdict::of(HookEvent::PreToolUse, &[result(2, "", "no")]);
        assert_eq!(verdict.word, Some(PreToolWord::Deny("no".into())));
    }
}
