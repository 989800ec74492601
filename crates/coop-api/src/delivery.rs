use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AskId, AskKind};

/// Names one message to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NudgeId(pub String);

impl fmt::Display for NudgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a message is to be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At once, or not at all.
    #[default]
    Now,
    /// As soon as the agent is idle.
    Idle,
}

/// A message that waits, or is being delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nudge {
    /// Its name.
    pub id: NudgeId,
    /// The beginning of its text.
    pub preview: String,
    /// How long it is, in bytes.
    pub bytes: usize,
    /// When it is to be delivered.
    pub when: When,
    /// When it was handed in, RFC 3339.
    pub since: String,
    /// Whether it is being delivered right now; then it cannot be taken back.
    pub under_way: bool,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The message.
    pub id: NudgeId,
    /// Whether the agent has taken it, whole.
    pub delivered: bool,
    /// Whether it waits for the agent to be idle.
    pub queued: bool,
    /// What proved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// How often Enter was pressed.
    pub attempts: u32,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// What the agent was doing before.
    pub state_before: String,
    /// Why it was not delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    /// Whether it reached the agent.
    pub delivered: bool,
    /// Which ask it was for.
    pub ask: AskId,
    /// Which kind of ask that was.
    pub prompt_type: AskKind,
    /// How it was given: `hook`, `control` or `keys`.
    pub via: String,
    /// What proved that it took; nothing if that is not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
}
