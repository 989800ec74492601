use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentId, AgentState, Epoch, Offset, Seq, Size};

/// Something that happened, numbered without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventBody {
    /// The agent's state changed.
    State {
        /// The state before.
        prev: AgentState,
        /// The state now.
        next: AgentState,
        /// The screen's sequence number at the change.
        screen_seq: Seq,
    },
    /// The process or its terminal changed.
    Lifecycle(Lifecycle),
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
    /// The terminal has another size.
    Resized {
        /// The size now.
        size: Size,
    },
    /// The child is being stopped, for a shutdown or a restart.
    Stopping,
    /// The child has exited and all its output is in.
    Exited {
        /// Its exit code, if it was not killed.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
    },
}

/// Events from a cursor on, and what could not be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// Events that are no longer kept: first and last number.
    pub lagged: Option<(Seq, Seq)>,
    /// The events after the cursor, in order.
    pub events: Vec<Event>,
}
