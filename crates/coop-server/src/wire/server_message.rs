//! What a WebSocket tells its client.

use std::sync::Arc;

use coop_api::{
    AgentState, Cursor, Error, ErrorCode, Event, EventBody, Evidence, Lifecycle, Line, Offset, Receipt, Screen, Seq,
};
use serde::Serialize;

use super::{AgentBody, AsksBody, DumpBody, HealthBody, NudgesBody, PromptBody, StatusBody, text_lines, to_base64};

/// What a WebSocket tells its client.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage {
    Output {
        data: String,
        offset: Offset,
    },
    /// Bytes that are gone: they came faster than this client took them.
    Gap {
        from: Offset,
        to: Offset,
    },
    /// The whole terminal as control sequences; output goes on at `offset`.
    Resync(DumpBody),
    Screen {
        lines: Vec<String>,
        cols: u16,
        rows: u16,
        alt_screen: bool,
        cursor: Cursor,
        seq: Seq,
        title: Arc<str>,
        /// The lines above it, oldest first, to those who asked for some.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        scrollback: Vec<String>,
    },
    Health(HealthBody),
    Status(StatusBody),
    StateChange(Transition),
    /// The same in the shorter words.
    Transition(Transition),
    #[serde(rename = "stop:outcome")]
    StopOutcome {
        event: Seq,
        #[serde(flatten)]
        outcome: coop_api::StopOutcome,
    },
    /// What became of a nudge sent over this connection.
    Receipt(Receipt),
    /// What became of an answer sent over this connection.
    Answered(coop_api::Answered),
    /// The agent's state, to those who asked.
    State(Box<AgentBody>),
    Asks(AsksBody),
    Nudges(NudgesBody),
    /// The conversation so far, in the agent's own lines.
    Transcript {
        lines: String,
    },
    Explanation(coop_api::Explanation),
    Usage(coop_api::UsageReport),
    /// What was asked is done.
    Done,
    /// Events that are no longer kept.
    Lagged {
        from: Seq,
        to: Seq,
    },
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The sidecar has begun to stop the child.
    Stopping,
    /// A child was started, the first or after a restart.
    Started {
        pid: u32,
    },
    Error {
        message: String,
        code: ErrorCode,
        /// The input that failed, if it had one.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
    },
    Resize {
        cols: u16,
        rows: u16,
    },
    /// How far an input came, to those who asked with an `id`.
    Written {
        id: u64,
        bytes_written: u64,
        queued: u64,
    },
    Lock {
        held: bool,
    },
    Auth {
        ok: bool,
    },
    Pong,
}

/// A change of the agent's state.
#[derive(Serialize)]
pub(crate) struct Transition {
    prev: &'static str,
    next: &'static str,
    /// The tool it now works with.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The screen's sequence number.
    seq: Seq,
    /// The event's number.
    event: Seq,
    prompt: Option<PromptBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_message: Option<String>,
    /// What failed, if it is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<coop_api::Fault>,
    evidence: Evidence,
}

/// Which words a client wants states in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// `state_change` with the sidecar's names.
    #[default]
    Long,
    /// `transition` with `idle` and `prompt`.
    Short,
}

impl Transition {
    fn new(event: Seq, change: &coop_api::StateChange, spelling: Spelling) -> Self {
        let name = |state: &AgentState| match spelling {
            Spelling::Long => state.as_str(),
            Spelling::Short => state.short_name(),
        };
        Self {
            prev: name(&change.prev),
            next: name(&change.next),
            tool: tool(&change.next),
            seq: change.screen_seq,
            event,
            prompt: change.ask.as_ref().map(PromptBody::from),
            last_message: change.last_message.clone(),
            fault: match &change.next {
                AgentState::Blocked { fault } => Some(fault.clone()),
                _ => None,
            },
            evidence: change.evidence.clone(),
        }
    }
}

/// Returns the tool that an agent works with.
pub(crate) fn tool(state: &AgentState) -> Option<String> {
    match state {
        AgentState::Working { tool } => tool.clone(),
        _ => None,
    }
}

impl From<Error> for ServerMessage {
    fn from(error: Error) -> Self {
        Self::Error { message: error.message, code: error.code, id: None }
    }
}

impl ServerMessage {
    pub(crate) fn failed(error: Error, id: Option<u64>) -> Self {
        Self::Error { message: error.message, code: error.code, id }
    }

    pub(crate) fn output(offset: Offset, data: &[u8]) -> Self {
        Self::Output { data: to_base64(data), offset }
    }

    pub(crate) fn screen(screen: &Screen, scrollback: &[Line]) -> Self {
        Self::Screen {
            lines: text_lines(screen),
            cols: screen.size.cols(),
            rows: screen.size.rows(),
            alt_screen: screen.modes.alt_screen,
            cursor: screen.cursor,
            seq: screen.seq,
            title: Arc::clone(&screen.title),
            scrollback: scrollback.iter().map(|line| line.plain().to_owned()).collect(),
        }
    }

    /// Returns what has a message of its own; the rest goes as it is.
    pub(crate) fn event(event: &Event, spelling: Spelling) -> Option<Self> {
        Some(match &event.body {
            EventBody::State(change) => match spelling {
                Spelling::Long => Self::StateChange(Transition::new(event.seq, change, spelling)),
                Spelling::Short => Self::Transition(Transition::new(event.seq, change, spelling)),
            },
            EventBody::Stop(outcome) => Self::StopOutcome { event: event.seq, outcome: outcome.clone() },
            EventBody::Lifecycle(Lifecycle::Exited { code, signal }) => Self::Exit { code: *code, signal: *signal },
            EventBody::Lifecycle(Lifecycle::Resized { size }) => Self::Resize { cols: size.cols(), rows: size.rows() },
            EventBody::Lifecycle(Lifecycle::Started { pid }) => Self::Started { pid: *pid },
            EventBody::Lifecycle(Lifecycle::Stopping) => Self::Stopping,
            EventBody::Lifecycle(
                Lifecycle::Session { .. } | Lifecycle::PermissionMode { .. } | Lifecycle::Unrecorded { .. },
            )
            | EventBody::Turn(_)
            | EventBody::Message(_)
            | EventBody::Tool(_)
            | EventBody::Ask(_)
            | EventBody::Artifact(_)
            | EventBody::Usage(_)
            | EventBody::Fault(_)
            | EventBody::Delivery(_) => return None,
        })
    }
}

/// Returns an event as a message: its kind as `type`, its number as `event`, and all that is in it.
pub(crate) fn event_message(event: &Event) -> serde_json::Value {
    let mut message = serde_json::to_value(&event.body).unwrap_or_default();
    if let Some(fields) = message.as_object_mut() {
        fields.remove("kind");
        fields.insert("type".into(), event.body.kind().into());
        fields.insert("event".into(), event.seq.0.into());
    }
    message
}

/// Returns an event as it is kept, as a message: with the envelope, so that a reader can go on after it whatever it is.
pub(crate) fn log_message(event: &Event) -> serde_json::Value {
    let mut message = serde_json::to_value(event).unwrap_or_default();
    if let Some(fields) = message.as_object_mut() {
        fields.insert("type".into(), "log".into());
    }
    message
}
