use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentId, AgentState, Ask, AskId, Epoch, Evidence, Fault, Offset, PermissionMode, Receipt, Seq, Size, UsageReport,
};

/// Something that happened, numbered without gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its place in the agent's log; the first is 1.
    pub seq: Seq,
    /// Unique for all time: the agent's id and the number.
    pub id: String,
    /// When it happened, RFC 3339 in UTC.
    pub ts: String,
    /// Whose event it is.
    pub agent: AgentId,
    /// Which of the agent's runs it belongs to.
    pub run: Epoch,
    /// Where the output ended when it happened.
    pub offset: Offset,
    /// What happened.
    pub body: EventBody,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventBody {
    /// The agent's state changed.
    State(Box<StateChange>),
    /// A turn began or ended.
    Turn(Turn),
    /// Somebody said something.
    Message(Message),
    /// A tool was used.
    Tool(ToolUse),
    /// The agent asked something, or no longer does.
    Ask(AskChange),
    /// The agent wrote a file.
    Artifact(Artifact),
    /// Tokens were used.
    Usage(UsageReport),
    /// Something failed.
    Fault(FaultReport),
    /// The agent wanted to end its turn.
    Stop(StopOutcome),
    /// A message was delivered, or not.
    Delivery(Receipt),
    /// The process or its terminal changed.
    Lifecycle(Lifecycle),
}

impl EventBody {
    /// Returns the kind's name on every wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::Turn(_) => "turn",
            Self::Message(_) => "message",
            Self::Tool(_) => "tool",
            Self::Ask(_) => "ask",
            Self::Artifact(_) => "artifact",
            Self::Usage(_) => "usage",
            Self::Fault(_) => "fault",
            Self::Stop(_) => "stop",
            Self::Delivery(_) => "delivery",
            Self::Lifecycle(_) => "lifecycle",
        }
    }
}

/// A change of the agent's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    /// The state before.
    pub prev: AgentState,
    /// The state now.
    pub next: AgentState,
    /// The screen's sequence number at the change.
    pub screen_seq: Seq,
    /// What it rests on.
    pub evidence: Evidence,
    /// What the agent asks, if it now waits for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// The last thing the agent said, once it is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
}

/// The beginning or end of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Turn {
    /// A message reached the agent.
    Began {
        /// The message, if it is known.
        prompt: Option<String>,
    },
    /// The agent waits again.
    Ended {
        /// How it ended.
        outcome: TurnOutcome,
    },
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The agent was done.
    Completed,
    /// Somebody stopped it.
    Interrupted,
    /// An error stopped it.
    Failed,
}

/// Something said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// The agent's own name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Which sub-agent said it, if not the agent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever steers the agent.
    User,
    /// The agent.
    Assistant,
}

/// A step of a tool's use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUse {
    /// The agent's own name for this use.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// How far it is.
    pub phase: ToolPhase,
    /// What it is called with; in the first step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What came of it; in the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How long it ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Which sub-agent uses it, if not the agent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
}

/// How far the use of a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPhase {
    /// The agent wants to use it.
    Requested,
    /// It runs.
    Running,
    /// It is done.
    Completed,
    /// It failed or was not allowed.
    Failed,
}

/// A change of an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum AskChange {
    /// The agent asks.
    Opened {
        /// The whole of it.
        ask: Box<Ask>,
    },
    /// It was answered through coop.
    Answered {
        /// Which ask.
        ask: AskId,
        /// In a few words.
        answer: String,
        /// How: `hook`, `control` or `keys`.
        via: String,
    },
    /// The agent moved on without an answer through coop.
    Withdrawn {
        /// Which ask.
        ask: AskId,
        /// What showed it.
        why: String,
    },
}

/// A file the agent wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Where it is.
    pub path: String,
    /// What it is: `code`, `document`, `design`, `config`, `test` or `other`.
    pub artifact_kind: String,
    /// Which tool wrote it.
    pub tool: String,
}

/// Something that failed, and whether the agent tries again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultReport {
    /// What failed.
    pub fault: Fault,
    /// Set while the agent tries again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// One more attempt that the agent makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// Which attempt.
    pub attempt: u32,
    /// How many it makes.
    pub max: Option<u32>,
    /// How long it waits, in milliseconds.
    pub delay_ms: Option<u64>,
}

/// What the stop gate made of an agent that wanted to end its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopOutcome {
    /// Whether the turn may end.
    pub outcome: StopVerdict,
    /// What the agent is told, if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether a turn may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopVerdict {
    /// Held until somebody decides, or sent back to work.
    Blocked,
    /// It may.
    Allowed,
}

/// A change of the process or its terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Lifecycle {
    /// A child was started.
    Started {
        /// Its process id.
        pid: u32,
    },
    /// The agent has a conversation, which it can be resumed with.
    Session {
        /// The agent's own name for it.
        id: String,
    },
    /// The agent's permission mode became known, or changed.
    PermissionMode {
        /// The mode now.
        mode: PermissionMode,
    },
    /// The terminal has another size.
    Resized {
        /// The size now.
        size: Size,
    },
    /// The child is being stopped, for a shutdown or a restart.
    Stopping,
    /// The terminal is no longer recorded, or not at all, though it should be. The child goes on.
    Unrecorded {
        /// Why.
        why: String,
    },
    /// The child has exited and all its output is in.
    Exited {
        /// Its exit code, if it was not killed.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
    },
}

/// Events from a cursor on, and what could not be given.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// Events that are no longer kept: first and last number.
    pub lagged: Option<(Seq, Seq)>,
    /// The events after the cursor, in order.
    pub events: Vec<Event>,
}
