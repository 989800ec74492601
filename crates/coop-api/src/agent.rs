use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Seq;

/// What the agent is doing. Without a driver it is only known to have exited, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// Launched; nothing is known yet.
    Starting,
    /// No driver can classify it.
    Unknown,
    /// The child process has exited.
    Exited {
        /// Its exit code, if it was not killed.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
    },
}

impl AgentState {
    /// Returns the state's name on every wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Unknown => "unknown",
            Self::Exited { .. } => "exited",
        }
    }
}

/// The state with when it began and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentReport {
    /// The agent's type, as given by `--agent`.
    pub agent: String,
    /// The state.
    #[serde(flatten)]
    pub state: AgentState,
    /// The screen's sequence number when the state began.
    pub since_seq: Seq,
    /// The screen's sequence number now.
    pub screen_seq: Seq,
    /// Why coop believes it.
    pub evidence: Evidence,
}

/// What a state rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Which source said so.
    pub source: EvidenceSource,
    /// What it said.
    pub detail: String,
}

/// Where evidence comes from, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// The operating system.
    Process,
    /// Nothing at all.
    None,
}

impl EvidenceSource {
    /// Returns the source's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::None => "none",
        }
    }
}
