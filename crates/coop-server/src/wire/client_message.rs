//! What a client tells a WebSocket.

use coop_api::{Configure, NudgeId, Offset, Size};
use serde::Deserialize;

use super::{NudgeBody, SignalBody, StopBody};

/// What a client tells a WebSocket.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ClientMessage {
    Input {
        text: String,
        #[serde(default)]
        enter: bool,
        #[serde(default)]
        paste: bool,
        #[serde(default)]
        id: Option<u64>,
    },
    InputRaw {
        data: String,
        #[serde(default)]
        id: Option<u64>,
    },
    Keys {
        keys: Vec<String>,
        #[serde(default)]
        id: Option<u64>,
    },
    Lock {
        action: coop_api::LockAction,
    },
    Resize(Size),
    Signal(SignalBody),
    Restart {},
    Shutdown {},
    HealthRequest {},
    StatusRequest {},
    ScreenRequest {
        /// How many lines that scrolled off to give too.
        #[serde(default)]
        scrollback: usize,
    },
    Replay {
        offset: Offset,
    },
    StateRequest {},
    ExplainRequest {},
    Nudge(NudgeBody),
    NudgesRequest {},
    NudgeCancel {
        id: NudgeId,
    },
    AsksRequest {},
    Respond(coop_api::Answer),
    Interrupt {},
    Configure(Configure),
    StopResolve(StopBody),
    TranscriptRequest {},
    UsageRequest {},
    Auth {
        token: String,
    },
    Ping {},
    Pong {},
}

impl ClientMessage {
    /// Returns the number by which the client knows its input.
    pub(crate) fn id(&self) -> Option<u64> {
        match self {
            Self::Input { id, .. } | Self::InputRaw { id, .. } | Self::Keys { id, .. } => *id,
            Self::Lock { .. }
            | Self::Resize(_)
            | Self::Signal(_)
            | Self::Restart {}
            | Self::Shutdown {}
            | Self::HealthRequest {}
            | Self::StatusRequest {}
            | Self::ScreenRequest { .. }
            | Self::Replay { .. }
            | Self::StateRequest {}
            | Self::ExplainRequest {}
            | Self::Nudge(_)
            | Self::NudgesRequest {}
            | Self::NudgeCancel { .. }
            | Self::AsksRequest {}
            | Self::Respond(_)
            | Self::Interrupt {}
            | Self::Configure(_)
            | Self::StopResolve(_)
            | Self::TranscriptRequest {}
            | Self::UsageRequest {}
            | Self::Auth { .. }
            | Self::Ping {}
            | Self::Pong {} => None,
        }
    }

    /// Tells whether it can change nothing.
    pub(crate) fn only_looks(&self) -> bool {
        match self {
            Self::HealthRequest {}
            | Self::StatusRequest {}
            | Self::ScreenRequest { .. }
            | Self::Replay { .. }
            | Self::StateRequest {}
            | Self::ExplainRequest {}
            | Self::NudgesRequest {}
            | Self::AsksRequest {}
            | Self::TranscriptRequest {}
            | Self::UsageRequest {}
            | Self::Auth { .. }
            | Self::Ping {}
            | Self::Pong {} => true,
            Self::Input { .. }
            | Self::InputRaw { .. }
            | Self::Keys { .. }
            | Self::Lock { .. }
            | Self::Resize(_)
            | Self::Signal(_)
            | Self::Restart {}
            | Self::Shutdown {}
            | Self::Nudge(_)
            | Self::NudgeCancel { .. }
            | Self::Respond(_)
            | Self::Interrupt {}
            | Self::Configure(_)
            | Self::StopResolve(_) => false,
        }
    }

    /// Tells whether it is for the child itself, which must run.
    pub(crate) fn needs_child(&self) -> bool {
        matches!(
            self,
            Self::Input { .. } | Self::InputRaw { .. } | Self::Keys { .. } | Self::Resize(_) | Self::Signal(_)
        )
    }
}
