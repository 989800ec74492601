//! What the engine has to say: facts that the screen, the stream, the log and the status file each put in their own words.

use std::time::Duration;

use serde_json::Value;

use super::hook::HookResult;
use super::ids::{AgentId, MessageId, RequestId, SessionId, ToolUseId};
use super::permission::PermissionMode;
use super::tool::{ToolCall, ToolOutcome};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Notice {
    /// A session began under this id.
    Session {
        id: SessionId,
        source: StartSource,
    },
    /// The session's SessionStart hooks are done.
    Ready {
        context: Vec<String>,
    },
    State(State),
    Prompt {
        text: String,
        prompt_id: String,
        source: PromptSource,
        mode: PermissionMode,
        context: Vec<String>,
    },
    PromptBlocked {
        text: String,
        reason: String,
    },
    Queued(String),
    Dequeued,
    /// The queue went back into the hands of the user.
    Unqueued(Vec<String>),
    Message(Message),
    /// What a streaming answer has come to so far.
    Streaming(String),
    /// What a streaming answer had come to when it was interrupted.
    CutShort {
        message: MessageId,
        text: String,
    },
    ToolResult {
        call: ToolCall,
        outcome: ToolOutcome,
        agent: Option<AgentRef>,
    },
    Asked(Request),
    /// The question is off the table, whoever answered it.
    Settled {
        request: RequestId,
        by: Answerer,
    },
    Retry {
        attempt: u32,
        max: u32,
        delay: Duration,
        error: ApiError,
    },
    ApiError(ApiError),
    Interrupted(During),
    StopHooks {
        results: Vec<HookResult>,
        block: Option<String>,
    },
    TurnEnded(TurnEnd),
    Mode(PermissionMode),
    Model(String),
    Shell {
        command: String,
        outcome: ToolOutcome,
    },
    Compacting,
    Compacted {
        summary: String,
    },
    /// A local remark that is not part of the conversation.
    Remark(String),
    /// A command has opened a dialog.
    DialogOpened(Local),
    /// A command of its own ran, and what it had to say.
    Ran {
        command: String,
        outcome: String,
    },
    Flood(usize),
    AltScreen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Busy,
    Waiting,
    /// A command of its own has opened a dialog.
    Dialog,
    Idle,
}

/// A command that opens a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Local {
    Help,
    /// Which model.
    Models,
    /// This model, really.
    Switch(String),
}

impl Local {
    /// The command as it is typed.
    pub(crate) fn command(&self) -> String {
        match self {
            Self::Help => "/help".to_owned(),
            Self::Models => "/model".to_owned(),
            Self::Switch(model) => format!("/model {model}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartSource {
    Startup,
    Resume,
    Clear,
    Compact,
}

impl StartSource {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Clear => "clear",
            Self::Compact => "compact",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptSource {
    Typed,
    Queued,
    /// A Stop hook said to go on.
    StopHook,
}

/// One answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) id: MessageId,
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: StopReason,
    pub(crate) agent: Option<AgentRef>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Thinking(String),
    Text(String),
    ToolUse(ToolCall),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    EndTurn,
    ToolUse,
}

impl StopReason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
        }
    }
}

/// The sub-agent something belongs to, and the tool call that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentRef {
    pub(crate) id: AgentId,
    pub(crate) parent: ToolUseId,
}

/// A question to the user: a permission, a set of questions, or a plan, by the tool that asks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) call: ToolCall,
    pub(crate) suggestions: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answerer {
    Face,
    Hook,
    /// Nobody: the turn was interrupted first.
    Interrupt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    Streaming,
    ToolUse,
}

impl During {
    /// The line the log and the model see.
    pub(crate) const fn line(self) -> &'static str {
        match self {
            Self::Streaming => "[Request interrupted by user]",
            Self::ToolUse => "[Request interrupted by user for tool use]",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
}

impl ApiError {
    /// The word used while retrying.
    pub(crate) const fn retry_word(self) -> &'static str {
        match self.status {
            529 => "overloaded",
            _ => self.word(),
        }
    }

    /// The word used when giving up.
    pub(crate) const fn word(self) -> &'static str {
        match self.status {
            400 => "invalid_request",
            401 | 403 => "authentication_failed",
            402 => "billing_error",
            429 => "rate_limit",
            500..=599 => "server_error",
            _ => "unknown",
        }
    }

    pub(crate) fn text(self) -> String {
        match self.status {
            400 => "API Error: 400 mock invalid_request_error".to_owned(),
            401 => "Failed to authenticate. API Error: 401 mock authentication_error".to_owned(),
            429 => "API Error: 429 mock rate_limit_error".to_owned(),
            529 => "API Error: 529 mock overloaded_error. This is a server-side issue, usually temporary — try again in a moment.".to_owned(),
            status => format!("API Error: {status} mock api_error"),
        }
    }

    /// Whether the real one would try again.
    pub(crate) const fn is_retried(self) -> bool {
        self.status != 400
    }
}

/// The sums of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnEnd {
    pub(crate) outcome: TurnOutcome,
    pub(crate) text: String,
    pub(crate) duration: Duration,
    pub(crate) requests: Requests,
    pub(crate) num_turns: u32,
    pub(crate) denials: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    Completed,
    ApiError(ApiError),
    Aborted(During),
}

/// How often the model was asked; every request costs the same here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests {
    pub(crate) turn: u64,
    pub(crate) process: u64,
}
