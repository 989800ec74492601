//! How a turn ends: Stop hooks that may send it back to work, an interrupt, or an error.

use std::time::Duration;

use serde_json::json;

use super::payload::AGENT_TYPE;
use super::{Counter, Effect, Engine, Hooks, Phase, Work};
use crate::claude::hook::{HookEvent, Verdict};
use crate::claude::notice::{Answerer, ApiError, During, Notice, PromptSource, TurnEnd, TurnOutcome};
use crate::claude::tool::{ToolCall, ToolOutcome};

impl Engine {
    /// The answer is given: asks the Stop hooks whether that was all.
    pub(super) fn stop(&mut self) {
        let Some(frame) = self.frames.last() else { return };
        let mut fields = json!({
            "stop_hook_active": frame.blocked_before,
            "last_assistant_message": frame.answer,
            "background_tasks": self.background_tasks(),
            "session_crons": [],
        });
        if let Some(agent) = self.agent() {
            fields["agent_transcript_path"] = json!(self.agent_transcript(&agent));
            let hooks = self.run_hooks(HookEvent::SubagentStop, AGENT_TYPE, fields);
            self.phase = Phase::AgentStopping(hooks);
        } else {
            let hooks = self.run_hooks(HookEvent::Stop, "", fields);
            self.phase = Phase::Stopping(hooks);
        }
    }

    pub(super) fn stopped(&mut self, hooks: Hooks) {
        let verdict = Verdict::of(hooks.event, &hooks.results);
        if !hooks.results.is_empty() {
            self.tell(Notice::StopHooks { results: hooks.results, block: verdict.block.clone() });
        }
        match verdict.block {
            Some(reason) => {
                self.count(Counter::StopBlocks);
                self.tell(Notice::Prompt {
                    text: format!("Stop hook feedback:\n{reason}"),
                    prompt_id: self.prompt_id.clone().unwrap_or_default(),
                    source: PromptSource::StopHook,
                    mode: self.setup.mode,
                    context: Vec::new(),
                });
                self.go_on(reason);
            }
            None => self.end_turn(TurnOutcome::Completed),
        }
    }

    pub(super) fn end_turn(&mut self, outcome: TurnOutcome) {
        let answer = self.frames.first().and_then(|frame| frame.answer.clone()).unwrap_or_default();
        let text = match outcome {
            TurnOutcome::ApiError(error) => ApiError::text(error),
            TurnOutcome::Completed | TurnOutcome::Aborted(_) => answer,
        };
        self.frames.clear();
        self.tell(Notice::TurnEnded(TurnEnd {
            outcome,
            text,
            duration: Duration::from_millis(self.now.0.saturating_sub(self.tally.started.0)),
            requests: self.tally.requests,
            num_turns: self.tally.num_turns,
            denials: self.tally.denials.clone(),
        }));
        self.rest();
    }

    /// Esc, or an interrupt over the control channel: no Stop hook follows.
    pub(super) fn interrupt(&mut self) {
        // The session's own beginning and end are not for the user to stop.
        if matches!(self.phase, Phase::Starting(_) | Phase::Clearing(_) | Phase::Ending { .. }) {
            return;
        }
        if let Some(call) = self.take_question(Answerer::Interrupt) {
            self.count(Counter::Denied);
            self.reject(call);
            return self.interrupted(During::ToolUse);
        }
        if let Some(hooks) = self.phase.hooks() {
            let run = hooks.run;
            self.out.push(Effect::KillHooks(run));
        }
        match std::mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Waiting { wait, work } => {
                self.out.push(Effect::CancelWait(wait));
                if let Work::Ticks { message, said, .. } = work
                    && !said.is_empty()
                {
                    self.tell(Notice::CutShort { message, text: said });
                }
                self.interrupted(During::Streaming);
            }
            Phase::Running(call) => {
                self.out.push(Effect::KillTool(call.id.clone()));
                self.reject(call);
                self.interrupted(During::ToolUse);
            }
            Phase::PreTool { call, .. } | Phase::PostTool { call, .. } => {
                self.reject(call);
                self.interrupted(During::ToolUse);
            }
            Phase::Submitting { .. }
            | Phase::AgentStarting(_)
            | Phase::AgentStopping(_)
            | Phase::Stopping(_)
            | Phase::Failing { .. } => self.interrupted(During::Streaming),
            Phase::Shell(call) => {
                self.out.push(Effect::KillTool(call.id.clone()));
                self.shell_done(&call, ToolOutcome::failed("[Request interrupted by user]"));
            }
            Phase::ShellStopping(_) => self.rest(),
            Phase::Compacting { .. } => {
                self.tell(Notice::Remark("Compaction canceled.".to_owned()));
                self.rest();
            }
            other @ (Phase::Dormant
            | Phase::Starting(_)
            | Phase::Idle
            | Phase::Asking { .. }
            | Phase::Clearing(_)
            | Phase::Dialog(_)
            | Phase::Ending { .. }
            | Phase::Gone) => self.phase = other,
        }
    }

    pub(super) fn reject(&mut self, call: ToolCall) {
        let agent = self.agent();
        self.tell(Notice::ToolResult { call, outcome: ToolOutcome::rejected(), agent });
    }

    pub(super) fn interrupted(&mut self, during: During) {
        while let Some(frame) = self.frames.pop() {
            // What started a sub-agent gets its result too, or the log would hold a call without one.
            if let Some((_, call)) = frame.agent {
                self.reject(call);
            }
        }
        self.tell(Notice::Interrupted(during));
        self.end_turn(TurnOutcome::Aborted(during));
    }
}
