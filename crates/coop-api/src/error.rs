use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of failure a caller met; each transport maps it to its own code in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The child has not been started yet.
    NotReady,
    /// The child has exited.
    Exited,
    /// Another client holds the write lock, or the write queue is full.
    WriterBusy,
    /// The token is missing or wrong.
    Unauthorized,
    /// The request came from an origin or for a host that is not allowed, or from the agent that it would steer.
    Forbidden,
    /// The request is malformed or out of bounds.
    BadRequest,
    /// There is no such route or agent.
    NotFound,
    /// The operation needs an agent driver and none is active.
    NoDriver,
    /// This agent cannot do it, the way it is run.
    Unsupported,
    /// The agent is not idle.
    AgentBusy,
    /// The agent is not asking anything.
    NoPrompt,
    /// The ask was answered already, or the agent has moved on.
    AlreadyAnswered,
    /// What was chosen is not among what the agent offers right now.
    NoSuchOption,
    /// It was sent, and nothing shows that the agent took it.
    Unconfirmed,
    /// The backend failed.
    Internal,
}

impl ErrorCode {
    /// Every code, for tables and tests.
    pub const ALL: [Self; 15] = [
        Self::NotReady,
        Self::Exited,
        Self::WriterBusy,
        Self::Unauthorized,
        Self::Forbidden,
        Self::BadRequest,
        Self::NotFound,
        Self::NoDriver,
        Self::Unsupported,
        Self::AgentBusy,
        Self::NoPrompt,
        Self::AlreadyAnswered,
        Self::NoSuchOption,
        Self::Unconfirmed,
        Self::Internal,
    ];

    /// Returns the code's spelling on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotReady => "NOT_READY",
            Self::Exited => "EXITED",
            Self::WriterBusy => "WRITER_BUSY",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Forbidden => "FORBIDDEN",
            Self::BadRequest => "BAD_REQUEST",
            Self::NotFound => "NOT_FOUND",
            Self::NoDriver => "NO_DRIVER",
            Self::Unsupported => "UNSUPPORTED",
            Self::AgentBusy => "AGENT_BUSY",
            Self::NoPrompt => "NO_PROMPT",
            Self::AlreadyAnswered => "ALREADY_ANSWERED",
            Self::NoSuchOption => "NO_SUCH_OPTION",
            Self::Unconfirmed => "UNCONFIRMED",
            Self::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure told to a caller: a code for programs and one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, JsonSchema)]
#[error("{message}")]
pub struct Error {
    /// The kind of failure.
    pub code: ErrorCode,
    /// What happened and what to do about it.
    pub message: String,
}

impl Error {
    /// Returns an error with this code and message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Returns a [`ErrorCode::BadRequest`] error.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    /// Returns a [`ErrorCode::Internal`] error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// Returns the error every operation on a finished child gives.
    pub fn exited() -> Self {
        Self::new(ErrorCode::Exited, "the child has exited; start it again with POST /api/v1/restart or a new coop")
    }
}
