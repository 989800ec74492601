//! What a client tells a WebSocket.

use coop_api::{Offset, Size};
use serde::Deserialize;

use super::{NudgeBody, StopBody};

/// What a client tells a WebSocket.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ClientMessage {
    Input {
        text: String,
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
    Resize(Size),
    ScreenRequest {},
    StateRequest {},
    Nudge(NudgeBody),
    Respond(coop_api::Answer),
    Interrupt {},
    StopResolve(StopBody),
    AsksRequest {},
    ExplainRequest {},
    UsageRequest {},
    Replay {
        offset: Offset,
    },
    Lock {
        action: coop_api::LockAction,
    },
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
            Self::Resize(_)
            | Self::ScreenRequest {}
            | Self::StateRequest {}
            | Self::Nudge(_)
            | Self::Respond(_)
            | Self::Interrupt {}
            | Self::StopResolve(_)
            | Self::AsksRequest {}
            | Self::ExplainRequest {}
            | Self::UsageRequest {}
            | Self::Replay { .. }
            | Self::Lock { .. }
            | Self::Auth { .. }
            | Self::Ping {}
            | Self::Pong {} => None,
        }
    }
}
