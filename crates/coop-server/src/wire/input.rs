//! What is typed, and what is done to the child.

use coop_api::{Input, LockAction, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBody {
    /// What to type.
    pub(crate) text: String,
    /// Whether to press Enter after it.
    #[serde(default)]
    pub(crate) enter: bool,
    /// Whether to send it as a paste: in brackets if the child asked for that, and without control characters.
    #[serde(default)]
    pub(crate) paste: bool,
    /// Who types, as `/api/v1/lock` named them.
    pub(crate) writer: Option<u64>,
}

/// Returns text as something typed: as it is, or as a paste.
pub(crate) fn typed(mut text: String, enter: bool, paste: bool) -> Input {
    if paste {
        return Input::Paste { text, enter };
    }
    if enter {
        text.push('\r');
    }
    Input::Bytes(text.into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysBody {
    /// Key names, such as `Enter`, `Ctrl-C` or `F5`.
    pub(crate) keys: Vec<String>,
    /// Who types, as `/api/v1/lock` named them.
    pub(crate) writer: Option<u64>,
}

/// What else is in it is ignored.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ResizeBody {
    #[serde(flatten)]
    pub(crate) size: Size,
    /// Who asks, as `/api/v1/lock` named them.
    pub(crate) writer: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockBody {
    /// `acquire` or `release`.
    pub(crate) action: LockAction,
    /// Who asks; a new writer is named without it.
    pub(crate) writer: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct LockedBody {
    /// Whether this writer holds it now.
    pub(crate) held: bool,
    /// To be given with what is typed, and to release it.
    pub(crate) writer: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBody {
    /// A signal's name, such as `SIGINT`.
    pub(crate) signal: String,
}

/// The body of what takes none. It is read all the same: what is left unread would break the connection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Delivered {
    pub(crate) delivered: bool,
}
