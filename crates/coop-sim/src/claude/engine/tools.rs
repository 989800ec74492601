//! A tool call from announcement to result: hooks before, leave, the work, hooks after.

use serde_json::json;

use super::payload::{AGENT_TYPE, tool_fields, tool_fields_with};
use super::{Counter, Effect, Engine, Frame, Hooks, Phase, Task};
use crate::claude::hook::{HookEvent, PreToolWord, Verdict};
use crate::claude::ids::ToolUseId;
use crate::claude::notice::{AgentRef, Notice, TurnOutcome};
use crate::claude::permission::Judgement;
use crate::claude::scenario::Asked;
use crate::claude::step::Step;
use crate::claude::tool::{Success, Tool, ToolCall, ToolOutcome, answered, approved};

impl Engine {
    pub(super) fn before_tool(&mut self, call: ToolCall) {
        if call.tool.is_dialogue() && self.setup.asker == super::Asker::Nobody {
            let name = call.tool.name();
            let message = format!("<tool_use_error>Error: No such tool available: {name}</tool_use_error>");
            return self.tool_over(call, ToolOutcome::refused(message));
        }
        let hooks = self.run_hooks(HookEvent::PreToolUse, call.tool.name(), tool_fields(&call));
        self.phase = Phase::PreTool { hooks, call };
    }

    pub(super) fn judged_by_hooks(&mut self, hooks: &Hooks, mut call: ToolCall) {
        let verdict = Verdict::of(hooks.event, &hooks.results);
        self.context.extend(verdict.context);
        if let Some(input) = verdict.input {
            call.input = input;
        }
        match verdict.word {
            Some(PreToolWord::Deny(reason)) => self.refuse(call, ToolOutcome::refused(reason)),
            Some(PreToolWord::Ask) => self.ask(call),
            // A dialogue cannot be waved through: without an answer there is nothing to go on with.
            Some(PreToolWord::Allow) if !call.tool.is_dialogue() || call.input.get("answers").is_some() => {
                self.run_tool(call);
            }
            Some(PreToolWord::Allow) | None => match self.setup.rules.judge(&call, self.setup.mode, &self.setup.cwd) {
                Judgement::Allow => self.run_tool(call),
                Judgement::Ask => self.ask(call),
                Judgement::Deny => {
                    let message = format!("Permission to use {} has been denied.", call.tool.name());
                    self.refuse(call, ToolOutcome::refused(message));
                }
            },
        }
    }

    /// The model hears why it may not, and goes on.
    pub(super) fn refuse(&mut self, call: ToolCall, outcome: ToolOutcome) {
        self.tally.denials.push(json!({
            "tool_name": call.tool.name(), "tool_use_id": call.id.0, "tool_input": call.input,
        }));
        self.tool_over(call, outcome);
    }

    pub(super) fn run_tool(&mut self, call: ToolCall) {
        self.count(Counter::Tools);
        self.tool_started = self.now;
        match call.tool {
            Tool::AskUserQuestion => {
                let outcome = answered(&call);
                self.after_tool(call, outcome);
            }
            Tool::ExitPlanMode => {
                let outcome = approved(&call);
                self.after_tool(call, outcome);
            }
            Tool::Agent => self.start_agent(call),
            Tool::Bash if call.is_background() => self.start_task(call),
            Tool::Bash | Tool::Read | Tool::Write | Tool::Edit => {
                self.out.push(Effect::RunTool(call.clone()));
                self.phase = Phase::Running(call);
            }
        }
    }

    pub(super) fn tool_done(&mut self, id: &ToolUseId, outcome: ToolOutcome) {
        match std::mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Running(call) if call.id == *id => self.after_tool(call, outcome),
            Phase::Shell(call) if call.id == *id => self.shell_done(&call, outcome),
            other => self.phase = other,
        }
    }

    fn after_tool(&mut self, call: ToolCall, outcome: ToolOutcome) {
        let duration = self.now.0.saturating_sub(self.tool_started.0);
        let (event, more) = match outcome.success {
            Success::Done => {
                (HookEvent::PostToolUse, json!({ "tool_response": outcome.detail, "duration_ms": duration }))
            }
            Success::Failed | Success::Refused | Success::Rejected => {
                (HookEvent::PostToolUseFailure, json!({ "error": outcome.content, "is_interrupt": false }))
            }
        };
        let hooks = self.run_hooks(event, call.tool.name(), tool_fields_with(&call, more));
        self.phase = Phase::PostTool { hooks, call, outcome };
    }

    /// The result is in the model's hands: on with the script.
    pub(super) fn tool_over(&mut self, call: ToolCall, outcome: ToolOutcome) {
        if let Some(frame) = self.frames.last_mut() {
            frame.results += 1;
            frame.last_result.clone_from(&outcome.content);
        }
        self.tally.num_turns += 1;
        let agent = self.agent();
        self.tell(Notice::ToolResult { call, outcome, agent });
        self.next_step();
    }

    fn start_task(&mut self, call: ToolCall) {
        let task = Task { id: self.setup.ids.task(), command: call.field("command").to_owned() };
        self.out.push(Effect::StartTask { id: task.id.clone(), command: task.command.clone() });
        let content = format!("Command running in background with ID: {}.", task.id);
        let detail = json!({ "stdout": "", "stderr": "", "interrupted": false, "backgroundTaskId": task.id });
        self.tasks.push(task);
        self.after_tool(call, ToolOutcome::done(content, detail));
    }

    fn start_agent(&mut self, call: ToolCall) {
        let agent = AgentRef { id: self.setup.ids.agent(), parent: call.id.clone() };
        let prompt = call.field("prompt").to_owned();
        let mut script = self.setup.scenario.script(&prompt, Asked::Aside);
        if script.steps.is_empty() {
            script.steps.push(Step::Bash("echo the sub-agent was here".to_owned()));
        }
        // The frame goes first, so that the payload carries the agent's id.
        self.frames.push(Frame::for_agent(script, agent, call));
        let hooks = self.run_hooks(HookEvent::SubagentStart, AGENT_TYPE, json!({}));
        self.phase = Phase::AgentStarting(hooks);
    }

    pub(super) fn agent_stopped(&mut self, hooks: &Hooks) {
        if let Some(reason) = Verdict::of(hooks.event, &hooks.results).block {
            self.count(Counter::StopBlocks);
            return self.go_on(reason);
        }
        let Some(Frame { agent: Some((agent, call)), answer, .. }) = self.frames.pop() else {
            return self.end_turn(TurnOutcome::Completed);
        };
        let text = answer.unwrap_or_default();
        let detail = json!({ "status": "completed", "prompt": call.field("prompt"), "agentId": agent.id.0,
            "content": [{ "type": "text", "text": text }] });
        self.after_tool(call, ToolOutcome::done(text, detail));
    }
}
