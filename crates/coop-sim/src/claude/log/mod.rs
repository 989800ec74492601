//! The session log: one JSON line per fact, in `<config>/projects/<cwd>/<session>.jsonl`.
//!
//! As with the real one the file comes to be with the first prompt, and a pending permission leaves no trace in it.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::claude::VERSION;
use crate::claude::engine::Millis;
use crate::claude::ids::{AgentId, Ids, MessageId, SessionId};
use crate::claude::message::{self, Moment, extend};
use crate::claude::notice::{Message, Notice, PromptSource, StartSource, TurnEnd, TurnOutcome};
use crate::claude::permission::PermissionMode;
use crate::claude::tool::Success;

/// A line, and the file it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogLine {
    pub(crate) path: PathBuf,
    pub(crate) value: Value,
}

pub(crate) struct LogBook {
    logs: PathBuf,
    cwd: PathBuf,
    entrypoint: &'static str,
    model: String,
    mode: PermissionMode,
    ids: Ids,
    session: SessionId,
    opened: Opened,
    /// Context of the SessionStart hooks, kept until the file is there.
    context: Vec<String>,
    parent: Option<String>,
    prompt_id: Option<String>,
    last_call: Option<String>,
    /// The answer that was cut short, until the interrupt is written down.
    cut_short: Option<MessageId>,
    lines: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The file is from an earlier run.
    Yes,
    No,
}

pub(crate) struct LogSetup {
    pub(crate) logs: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) entrypoint: &'static str,
    pub(crate) model: String,
    pub(crate) mode: PermissionMode,
    pub(crate) session: SessionId,
    pub(crate) opened: Opened,
    pub(crate) ids: Ids,
}

impl LogBook {
    pub(crate) fn new(setup: LogSetup) -> Self {
        let LogSetup { logs, cwd, entrypoint, model, mode, session, opened, ids } = setup;
        Self {
            logs,
            cwd,
            entrypoint,
            model,
            mode,
            ids,
            session,
            opened,
            context: Vec::new(),
            parent: None,
            prompt_id: None,
            last_call: None,
            cut_short: None,
            lines: 0,
        }
    }

    /// What a notice adds to the log.
    pub(crate) fn write(&mut self, now: Millis, notice: &Notice) -> Vec<LogLine> {
        let mut page = Page { book: self, now: timestamp(now), lines: Vec::new() };
        page.notice(notice);
        page.lines
    }

    fn path(&self, agent: Option<&AgentId>) -> PathBuf {
        match agent {
            None => self.logs.join(format!("{}.jsonl", self.session)),
            Some(agent) => self.logs.join(&self.session.0).join("subagents").join(format!("agent-{agent}.jsonl")),
        }
    }
}

struct Page<'a> {
    book: &'a mut LogBook,
    now: String,
    lines: Vec<LogLine>,
}

impl Page<'_> {
    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Session { id, source } => {
                self.book.session = id.clone();
                if *source == StartSource::Clear {
                    self.book.opened = Opened::No;
                    self.book.parent = None;
                }
            }
            Notice::Ready { context } => {
                self.book.context.extend(context.iter().cloned());
                if self.book.opened == Opened::Yes {
                    self.session_context();
                }
            }
            Notice::Prompt { text, prompt_id, source, mode, context } => {
                self.book.prompt_id = Some(prompt_id.clone());
                self.book.mode = *mode;
                self.open();
                self.prompt(text, *source);
                self.added_context("UserPromptSubmit", context);
            }
            Notice::Queued(text) => self.queue_operation(json!({ "operation": "enqueue", "content": text })),
            Notice::Dequeued => self.queue_operation(json!({ "operation": "dequeue" })),
            Notice::Unqueued(_) => self.queue_operation(json!({ "operation": "popAll" })),
            Notice::Message(message) => self.message(message),
            Notice::CutShort { message, text } => {
                let id = self.book.ids.uuid();
                let line = json!({ "type": "assistant", "message": message::synthetic(&id, text),
                    "isApiErrorMessage": false });
                self.threaded(None, line);
                self.book.cut_short = Some(message.clone());
            }
            Notice::ToolResult { call, outcome, agent } => {
                let line = json!({ "type": "user", "promptId": self.book.prompt_id,
                    "message": message::tool_result(call, outcome), "toolUseResult": outcome.detail,
                    "sourceToolAssistantUUID": self.book.last_call });
                self.threaded(agent.as_ref().map(|agent| &agent.id), line);
            }
            Notice::ApiError(error) => {
                let id = self.book.ids.uuid();
                let message = message::synthetic(&id, &error.text());
                let mut line = json!({ "type": "assistant", "message": message, "requestId": "req_mock" });
                extend(&mut line, message::error_fields(*error));
                self.threaded(None, line);
            }
            Notice::Interrupted(during) => {
                let mut line = json!({ "type": "user", "promptId": self.book.prompt_id,
                    "message": message::user_text(during.line()) });
                if let Some(message) = self.book.cut_short.take() {
                    line["interruptedMessageId"] = json!(message.0);
                }
                self.threaded(None, line);
            }
            Notice::StopHooks { results, block } => {
                let infos: Vec<Value> = results
                    .iter()
                    .map(|result| json!({ "command": result.command, "durationMs": millis(result.duration) }))
                    .collect();
                let line = json!({ "type": "system", "subtype": "stop_hook_summary", "hookCount": results.len(),
                    "hookInfos": infos, "hookErrors": block.iter().collect::<Vec<_>>(), "hookAdditionalContext": [],
                    "preventedContinuation": false, "stopReason": "", "hasOutput": block.is_some(),
                    "level": "suggestion", "toolUseID": self.book.ids.uuid() });
                self.threaded(None, line);
            }
            Notice::TurnEnded(end) => self.turn_ended(end),
            Notice::Mode(mode) => {
                self.book.mode = *mode;
                if self.book.opened == Opened::Yes {
                    self.permission_mode();
                }
            }
            Notice::Model(model) => self.book.model.clone_from(model),
            Notice::Shell { command, outcome } => {
                self.open();
                let (out, err) = match outcome.success {
                    Success::Done => (outcome.content.as_str(), ""),
                    Success::Failed | Success::Refused | Success::Rejected => ("", outcome.content.as_str()),
                };
                let input = format!("<bash-input>{command}</bash-input>");
                let output = format!("<bash-stdout>{out}</bash-stdout><bash-stderr>{err}</bash-stderr>");
                for content in [input, output] {
                    let line = json!({ "type": "user", "message": { "role": "user", "content": content } });
                    self.threaded(None, line);
                }
            }
            Notice::Ran { command, outcome } => {
                self.open();
                let (name, args) = command.split_once(' ').unwrap_or((command, ""));
                let word = name.trim_start_matches('/');
                let told = format!(
                    "<command-name>{name}</command-name>\n            <command-message>{word}</command-message>\n            <command-args>{args}</command-args>"
                );
                for content in [told, format!("<local-command-stdout>{outcome}</local-command-stdout>")] {
                    let line = json!({ "type": "system", "subtype": "local_command", "content": content,
                        "level": "info", "isMeta": false });
                    self.threaded(None, line);
                }
            }
            Notice::Compacted { summary } => {
                self.open();
                self.threaded(
                    None,
                    json!({ "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted",
                        "compactMetadata": { "trigger": "manual", "preTokens": 6500 }, "level": "info" }),
                );
                let line = json!({ "type": "user", "isCompactSummary": true, "isVisibleInTranscriptOnly": true,
                    "message": { "role": "user", "content": summary } });
                self.threaded(None, line);
            }
            Notice::State(_)
            | Notice::PromptBlocked { .. }
            | Notice::Streaming(_)
            | Notice::Asked(_)
            | Notice::Settled { .. }
            | Notice::Retry { .. }
            | Notice::Compacting
            | Notice::Remark(_)
            | Notice::DialogOpened(_)
            | Notice::Flood(_)
            | Notice::AltScreen => {}
        }
    }

    fn open(&mut self) {
        if self.book.opened == Opened::No {
            self.book.opened = Opened::Yes;
            self.plain(json!({ "type": "mode", "mode": "normal" }));
            self.permission_mode();
            self.session_context();
        }
    }

    fn session_context(&mut self) {
        let context = std::mem::take(&mut self.book.context);
        self.added_context("SessionStart", &context);
    }

    fn added_context(&mut self, event: &str, context: &[String]) {
        if !context.is_empty() {
            let attachment = json!({ "type": "hook_additional_context", "content": context, "hookName": event,
                "hookEvent": event, "toolUseID": event });
            self.threaded(None, json!({ "type": "attachment", "attachment": attachment }));
        }
    }

    fn prompt(&mut self, text: &str, source: PromptSource) {
        let mut line = json!({ "type": "user", "promptId": self.book.prompt_id,
            "message": { "role": "user", "content": text }, "permissionMode": self.book.mode.name() });
        let more = match source {
            PromptSource::Typed => json!({ "origin": { "kind": "human" }, "promptSource": "typed" }),
            PromptSource::Queued => json!({ "origin": { "kind": "human" }, "promptSource": "queued" }),
            PromptSource::StopHook => json!({ "isMeta": true }),
        };
        extend(&mut line, more);
        self.threaded(None, line);
    }

    fn message(&mut self, message: &Message) {
        for block in &message.blocks {
            let moment = Moment::Complete(message.stop);
            let body = message::assistant(&message.id, &self.book.model, block, moment);
            let agent = message.agent.as_ref().map(|agent| &agent.id);
            let uuid = self.threaded(agent, json!({ "type": "assistant", "message": body }));
            self.book.last_call = Some(uuid);
        }
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        if self.book.opened == Opened::Yes && matches!(end.outcome, TurnOutcome::Completed) {
            let line = json!({ "type": "system", "subtype": "turn_duration", "durationMs": millis(end.duration),
                "messageCount": self.book.lines, "isMeta": false });
            self.threaded(None, line);
        }
    }

    fn queue_operation(&mut self, operation: Value) {
        if self.book.opened == Opened::Yes {
            let mut line = json!({ "type": "queue-operation", "timestamp": self.now });
            extend(&mut line, operation);
            self.plain(line);
        }
    }

    fn permission_mode(&mut self) {
        self.plain(json!({ "type": "permission-mode", "permissionMode": self.book.mode.name() }));
    }

    /// A line outside the thread of the conversation.
    fn plain(&mut self, mut value: Value) {
        extend(&mut value, json!({ "sessionId": self.book.session.0 }));
        self.lines.push(LogLine { path: self.book.path(None), value });
    }

    /// A line of the conversation: it names its predecessor and becomes the next one's.
    fn threaded(&mut self, agent: Option<&AgentId>, mut value: Value) -> String {
        let uuid = self.book.ids.uuid();
        extend(
            &mut value,
            json!({
                "parentUuid": self.book.parent, "isSidechain": agent.is_some(), "uuid": uuid, "timestamp": self.now,
                "userType": "external", "entrypoint": self.book.entrypoint, "cwd": self.book.cwd,
                "sessionId": self.book.session.0, "version": VERSION, "gitBranch": "HEAD",
            }),
        );
        if let Some(agent) = agent {
            extend(&mut value, json!({ "agentId": agent.0 }));
        } else {
            self.book.parent = Some(uuid.clone());
        }
        self.book.lines += 1;
        self.lines.push(LogLine { path: self.book.path(agent), value });
        uuid
    }
}

pub(crate) fn timestamp(now: Millis) -> String {
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_millis(now.0)).to_string()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
