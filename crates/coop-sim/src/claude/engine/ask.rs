//! Asking for leave: the hook and the face are asked at the same time, and the first answer counts.

use serde_json::{Value, json};

use super::payload::tool_fields;
use super::{Asker, Counter, Effect, Engine, Hooks, Phase, Wait};
use crate::claude::hook::{AfterDeny, Decision, HookEvent, Verdict};
use crate::claude::ids::RequestId;
use crate::claude::notice::{Answerer, During, Notice, Request, State};
use crate::claude::permission::{PermissionMode, suggestions};
use crate::claude::tool::{Tool, ToolCall, ToolOutcome};

impl Engine {
    pub(super) fn ask(&mut self, call: ToolCall) {
        if self.setup.asker == Asker::Nobody {
            let message =
                format!("Claude requested permissions to use {}, but you haven't granted it yet.", call.tool.name());
            return self.refuse(call, ToolOutcome::refused(message));
        }
        let suggestions = suggestions(&call, &self.setup.cwd);
        let hooks = self.ask_hooks(&call, &suggestions);
        let request = self.setup.ids.request();
        let notify = match self.setup.asker {
            Asker::Screen { notify_after } => {
                let id = self.setup.ids.wait();
                self.out.push(Effect::Wait { id, wait: Wait::Time(notify_after) });
                Some(id)
            }
            Asker::Channel | Asker::Nobody => None,
        };
        self.tell(Notice::Asked(Request { id: request.clone(), call: call.clone(), suggestions }));
        self.tell(Notice::State(State::Waiting));
        self.phase = Phase::Asking { hooks, request, call, notify };
    }

    fn ask_hooks(&mut self, call: &ToolCall, suggestions: &[Value]) -> Hooks {
        let mut fields = tool_fields(call);
        if let Value::Object(fields) = &mut fields {
            fields.remove("tool_use_id");
            // As recorded: hooks are not offered the rule for the one command where there is something broader.
            let is_rule = |update: &&Value| update.get("type") == Some(&json!("addRules"));
            let broader: Vec<&Value> = suggestions.iter().filter(|update| !is_rule(update)).collect();
            if !broader.is_empty() {
                fields.insert("permission_suggestions".into(), json!(broader));
            } else if !suggestions.is_empty() {
                fields.insert("permission_suggestions".into(), json!(suggestions));
            }
        }
        self.run_hooks(HookEvent::PermissionRequest, call.tool.name(), fields)
    }

    /// The dialog has been up for a while.
    pub(super) fn notify(&mut self, call: &ToolCall) {
        let message = match call.tool {
            Tool::ExitPlanMode => "Claude Code needs your approval for the plan",
            Tool::AskUserQuestion => "Claude Code needs your attention",
            Tool::Bash | Tool::Read | Tool::Write | Tool::Edit | Tool::Agent => "Claude needs your permission",
        };
        let fields = json!({ "message": message, "notification_type": "permission_prompt" });
        // Nobody waits for these hooks.
        self.run_hooks(HookEvent::Notification, "permission_prompt", fields);
    }

    pub(super) fn decide(&mut self, request: &RequestId, decision: Decision) {
        if matches!(&self.phase, Phase::Asking { request: asked, .. } if asked == request) {
            self.settle(decision, Answerer::Face);
        }
    }

    /// A PermissionRequest hook has ended: does what it decided, if it decided anything.
    pub(super) fn hook_answered(&mut self) {
        let Some(hooks) = self.phase.hooks() else { return };
        let verdict = Verdict::of(hooks.event, &hooks.results);
        let blocked = verdict.block.map(|message| Decision::Deny { message, then: AfterDeny::Continue });
        if let Some(decision) = verdict.decision.or(blocked) {
            self.settle(decision, Answerer::Hook);
        }
    }

    fn settle(&mut self, decision: Decision, by: Answerer) {
        let Some((call, decision)) = self.take_question(by).map(|call| (call, decision)) else { return };
        match decision {
            Decision::Allow { input, updates } => {
                self.count(Counter::Allowed);
                self.tell(Notice::State(State::Busy));
                let call = ToolCall { input: input.unwrap_or(call.input), ..call };
                self.update_permissions(&updates);
                self.run_tool(call);
            }
            Decision::Deny { message, then } => {
                self.count(Counter::Denied);
                match then {
                    AfterDeny::Interrupt => {
                        self.tally.denials.push(json!({
                            "tool_name": call.tool.name(), "tool_use_id": call.id.0, "tool_input": call.input,
                        }));
                        self.reject(call);
                        self.interrupted(During::ToolUse);
                    }
                    AfterDeny::Continue => {
                        self.tell(Notice::State(State::Busy));
                        self.refuse(call, ToolOutcome::refused(message));
                    }
                }
            }
        }
    }

    /// Takes the question off the table and stops everything that waited on it.
    pub(super) fn take_question(&mut self, by: Answerer) -> Option<ToolCall> {
        match std::mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Asking { hooks, request, call, notify } => {
                self.out.push(Effect::KillHooks(hooks.run));
                self.out.extend(notify.map(Effect::CancelWait));
                self.tell(Notice::Settled { request, by });
                Some(call)
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    fn update_permissions(&mut self, updates: &[Value]) {
        if let Some(mode) = self.setup.rules.update(updates) {
            self.set_mode(mode);
        }
    }

    pub(super) fn set_mode(&mut self, mode: PermissionMode) {
        if mode == PermissionMode::BypassPermissions && self.setup.bypass == super::Bypass::Refused {
            return;
        }
        if self.setup.mode != mode {
            self.setup.mode = mode;
            self.tell(Notice::Mode(mode));
        }
    }
}
