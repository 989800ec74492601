//! What is typed, and what is done to the child.

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
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysBody {
    /// Key names, such as `Enter`, `Ctrl-C` or `F5`.
    pub(crate) keys: Vec<String>,
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
