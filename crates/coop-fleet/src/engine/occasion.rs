use coop_api::{AskId, AskKind, Fault};
use serde::{Deserialize, Serialize};

use super::Timestamp;

/// Something that is done later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// When.
    pub at: Timestamp,
    /// What about.
    pub occasion: Occasion,
}

/// What something is done about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A turn has ended.
    Idle,
    /// The process has ended.
    Dead,
    /// An error.
    Error(Fault),
    /// An ask.
    Prompt {
        /// Which.
        ask: AskId,
        /// Of which kind.
        kind: AskKind,
        /// In one line.
        preview: String,
    },
}
