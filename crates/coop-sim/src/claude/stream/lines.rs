//! Facts become lines of JSON, spelled as in the recordings A1 to A6.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::claude::VERSION;
use crate::claude::engine::Millis;
use crate::claude::ids::{AgentId, Ids, SessionId};
use crate::claude::log::timestamp;
use crate::claude::message::{self, Moment, extend};
use crate::claude::notice::{
    AgentRef, Answerer, Block, During, Message, Notice, PromptSource, Request, State, StopReason, TurnEnd, TurnOutcome,
};
use crate::claude::permission::PermissionMode;
use crate::claude::tool::Tool;
use crate::claude::usage;

pub(crate) struct Lines {
    pub(crate) ids: Ids,
    pub(crate) session: SessionId,
    pub(crate) cwd: PathBuf,
    pub(crate) model: String,
    pub(crate) mode: PermissionMode,
    pub(crate) mcp_servers: Vec<String>,
    pub(crate) options: LineOptions,
    /// The sub-agents that were told of.
    pub(crate) agents: Vec<AgentId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LineOptions {
    /// `--include-partial-messages`
    pub(crate) partial_messages: bool,
    /// `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1`
    pub(crate) state_events: bool,
    /// `--permission-prompt-tool stdio`
    pub(crate) prompts_on_stdio: bool,
}

impl Lines {
    /// The lines of a notice; most have one.
    pub(crate) fn of(&mut self, now: Millis, notice: &Notice) -> Vec<Value> {
        let agent = match notice {
            Notice::Message(message) => message.agent.as_ref(),
            Notice::ToolResult { agent, .. } => agent.as_ref(),
            _ => None,
        };
        let started = agent.and_then(|agent| self.task_started(agent));
        started.into_iter().chain(self.of_notice(now, notice)).collect()
    }

    /// What tells of a sub-agent first.
    fn task_started(&mut self, agent: &AgentRef) -> Option<Value> {
        if self.agents.contains(&agent.id) {
            return None;
        }
        self.agents.push(agent.id.clone());
        let fields = json!({ "task_id": agent.id.0, "tool_use_id": agent.parent.0, "task_type": "local_agent" });
        Some(self.system("task_started", fields))
    }

    fn of_notice(&mut self, now: Millis, notice: &Notice) -> Vec<Value> {
        match notice {
            Notice::Session { id, .. } => {
                self.session = id.clone();
                Vec::new()
            }
            Notice::State(state) if self.options.state_events => {
                let state = match state {
                    State::Busy => "running",
                    State::Waiting | State::Dialog => "requires_action",
                    State::Idle => "idle",
                };
                vec![self.system("session_state_changed", json!({ "state": state }))]
            }
            Notice::Prompt { source: PromptSource::Typed | PromptSource::Queued, .. }
            | Notice::PromptBlocked { .. } => vec![self.init()],
            Notice::Message(message) => self.message(message),
            Notice::CutShort { message, text } => {
                let block = Block::Text(text.clone());
                vec![self.assistant(message::assistant(message, &self.model, &block, Moment::Streamed), None)]
            }
            Notice::ToolResult { call, outcome, agent } => {
                let parent = agent.as_ref().map(|agent| agent.parent.0.as_str());
                let body = message::tool_result(call, outcome);
                vec![self.line(json!({ "type": "user", "message": body, "parent_tool_use_id": parent,
                    "timestamp": timestamp(now), "tool_use_result": outcome.detail }))]
            }
            Notice::Asked(request) => vec![self.can_use_tool(request)],
            Notice::Settled { request, by: Answerer::Hook | Answerer::Interrupt } => {
                vec![json!({ "type": "control_cancel_request", "request_id": request.0 })]
            }
            Notice::Retry { attempt, max, delay, error } => {
                let fields = json!({ "attempt": attempt, "max_retries": max, "error_status": error.status,
                    "retry_delay_ms": delay.as_secs_f64() * 1000.0, "error": error.retry_word() });
                vec![self.system("api_retry", fields)]
            }
            Notice::ApiError(error) => {
                let id = self.ids.uuid();
                let mut line = self.assistant(message::synthetic(&id, &error.text()), None);
                line["error"] = json!(error.word());
                line["request_id"] = json!("req_mock");
                vec![line]
            }
            Notice::Interrupted(during) => vec![self.line(json!({ "type": "user",
                "message": message::user_text(during.line()), "parent_tool_use_id": null,
                "timestamp": timestamp(now) }))],
            Notice::TurnEnded(end) => vec![self.result(end)],
            Notice::Mode(mode) => {
                self.mode = *mode;
                vec![self.system("status", json!({ "status": null, "permissionMode": mode.name() }))]
            }
            Notice::Model(model) => {
                self.model.clone_from(model);
                Vec::new()
            }
            Notice::Compacted { .. } => {
                let metadata = json!({ "trigger": "manual", "pre_tokens": 6500 });
                vec![self.system("compact_boundary", json!({ "compact_metadata": metadata }))]
            }
            Notice::Flood(bytes) => {
                let id = self.ids.message();
                let block = Block::Text("~".repeat(*bytes));
                vec![self.assistant(message::assistant(&id, &self.model, &block, Moment::Streamed), None)]
            }
            Notice::State(_)
            | Notice::Ready { .. }
            | Notice::Prompt { source: PromptSource::StopHook, .. }
            | Notice::Queued(_)
            | Notice::Dequeued
            | Notice::Unqueued(_)
            | Notice::Streaming(_)
            | Notice::Settled { by: Answerer::Face, .. }
            | Notice::StopHooks { .. }
            | Notice::Shell { .. }
            | Notice::Compacting
            | Notice::Remark(_)
            | Notice::DialogOpened(_)
            | Notice::Ran { .. }
            | Notice::AltScreen => Vec::new(),
        }
    }

    fn init(&mut self) -> Value {
        let mut tools = vec!["Task", "Bash", "Edit", "Read", "Write"];
        if self.options.prompts_on_stdio {
            tools.extend(["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"]);
        }
        let servers: Vec<Value> =
            self.mcp_servers.iter().map(|name| json!({ "name": name, "status": "pending" })).collect();
        let fields = json!({
            "cwd": self.cwd, "tools": tools, "mcp_servers": servers, "model": self.model,
            "permissionMode": self.mode.name(), "slash_commands": ["compact", "clear"], "apiKeySource": "none",
            "claude_code_version": VERSION, "output_style": "default", "agents": ["general-purpose"],
            "skills": [], "plugins": [],
        });
        self.system("init", fields)
    }

    fn message(&mut self, message: &Message) -> Vec<Value> {
        let parent = message.agent.as_ref().map(|agent| agent.parent.0.clone());
        let mut lines = Vec::new();
        let partial = self.options.partial_messages && message.agent.is_none();
        if partial {
            lines.push(self.system("status", json!({ "status": "requesting" })));
            lines.push(self.event(json!({ "type": "message_start", "message": {
                "id": message.id.0, "type": "message", "role": "assistant", "model": usage::plain_model(&self.model),
                "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage::at_start() } })));
        }
        for (index, block) in message.blocks.iter().enumerate() {
            if partial {
                lines.extend(deltas(index, block).into_iter().map(|event| self.event(event)));
            }
            let body = message::assistant(&message.id, &self.model, block, Moment::Streamed);
            lines.push(self.assistant(body, parent.as_deref()));
            if partial {
                lines.push(self.event(json!({ "type": "content_block_stop", "index": index })));
            }
        }
        if partial {
            let delta = json!({ "stop_reason": message.stop.name(), "stop_sequence": null });
            let usage = usage::of_request();
            lines.push(self.event(json!({ "type": "message_delta", "delta": delta, "usage": usage })));
            lines.push(self.event(json!({ "type": "message_stop" })));
        }
        lines
    }

    fn can_use_tool(&self, request: &Request) -> Value {
        let call = &request.call;
        let mut body = json!({ "subtype": "can_use_tool", "tool_name": call.tool.name(),
            "display_name": call.tool.name(), "input": call.input, "tool_use_id": call.id.0 });
        if !request.suggestions.is_empty() {
            body["permission_suggestions"] = json!(request.suggestions);
        }
        if call.tool == Tool::Bash {
            body["description"] = json!(call.field("description"));
        }
        json!({ "type": "control_request", "request_id": request.id.0, "request": body })
    }

    pub(crate) fn result(&mut self, end: &TurnEnd) -> Value {
        let millis = u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX);
        let mut result = json!({
            "type": "result", "duration_ms": millis, "duration_api_ms": millis, "num_turns": end.num_turns,
            "total_cost_usd": usage::cost(end.requests), "usage": usage::of_requests(end.requests.turn),
            "modelUsage": usage::by_model(&self.model, end.requests), "permission_denials": end.denials,
            "fast_mode_state": "off",
        });
        let fields = match end.outcome {
            TurnOutcome::Completed => json!({ "subtype": "success", "is_error": false, "api_error_status": null,
                "result": end.text, "stop_reason": StopReason::EndTurn.name(), "terminal_reason": "completed" }),
            TurnOutcome::ApiError(error) => json!({ "subtype": "success", "is_error": true,
                "api_error_status": error.status, "result": end.text, "stop_reason": "stop_sequence",
                "terminal_reason": "completed" }),
            TurnOutcome::Aborted(during) => {
                let (reason, stop) = match during {
                    During::Streaming => ("aborted_streaming", None),
                    During::ToolUse => ("aborted_tools", Some(StopReason::ToolUse.name())),
                };
                json!({ "subtype": "error_during_execution", "is_error": true, "stop_reason": stop,
                    "terminal_reason": reason, "errors": [during.line()] })
            }
        };
        extend(&mut result, fields);
        self.line(result)
    }

    /// The result of a run that could not begin, as in recording A4b.
    pub(crate) fn failure(&mut self, error: &str) -> Value {
        self.line(json!({ "type": "result", "subtype": "error_during_execution", "duration_ms": 0,
            "duration_api_ms": 0, "is_error": true, "num_turns": 0, "stop_reason": null, "total_cost_usd": 0,
            "usage": usage::of_requests(0), "modelUsage": {}, "permission_denials": [], "errors": [error] }))
    }

    /// The echo of a command that has no turn, such as a change of model.
    pub(crate) fn local_output(&mut self, text: &str) -> Value {
        let content = format!("<local-command-stdout>{text}</local-command-stdout>");
        self.line(json!({ "type": "user", "message": { "role": "user", "content": content },
            "parent_tool_use_id": null, "isReplay": true }))
    }

    fn assistant(&mut self, body: Value, parent: Option<&str>) -> Value {
        self.line(json!({ "type": "assistant", "message": body, "parent_tool_use_id": parent }))
    }

    fn event(&mut self, event: Value) -> Value {
        self.line(json!({ "type": "stream_event", "event": event, "parent_tool_use_id": null }))
    }

    fn system(&mut self, subtype: &str, fields: Value) -> Value {
        let mut line = json!({ "type": "system", "subtype": subtype });
        extend(&mut line, fields);
        self.line(line)
    }

    fn line(&mut self, mut line: Value) -> Value {
        extend(&mut line, json!({ "session_id": self.session.0, "uuid": self.ids.uuid() }));
        line
    }
}

/// The start of a block, and its content word by word.
fn deltas(index: usize, block: &Block) -> Vec<Value> {
    let (start, deltas) = match block {
        Block::Text(text) => (
            json!({ "type": "text", "text": "" }),
            text.split_inclusive(' ').map(|word| json!({ "type": "text_delta", "text": word })).collect(),
        ),
        Block::Thinking(text) => {
            (json!({ "type": "thinking", "thinking": "" }), vec![json!({ "type": "thinking_delta", "thinking": text })])
        }
        Block::ToolUse(call) => (
            json!({ "type": "tool_use", "id": call.id.0, "name": call.tool.name(), "input": {} }),
            vec![json!({ "type": "input_json_delta", "partial_json": call.input.to_string() })],
        ),
    };
    let start = json!({ "type": "content_block_start", "index": index, "content_block": start });
    let deltas =
        deltas.into_iter().map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta }));
    std::iter::once(start).chain(deltas).collect()
}
