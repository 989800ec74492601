use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::brief::AgentBrief;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandle {
    /// The agent's id, from its brief.
    pub id: String,
    pub plugin_name: String,
    pub status: AgentStatus,
    /// The conversation's name; one of ours until the agent has said its own.
    pub session_id: String,
    /// Changes of the brief that the agent has not been told of yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_brief_changes: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Running,
    Paused,
    WaitingOnHuman,
    Completed,
    Idle,
    Error,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SerializedAgentState>,
    /// How many of the agent's files the backend has.
    pub artifacts_extracted: u64,
    /// Whether the agent ended by itself, within its time.
    pub clean_shutdown: bool,
}

/// All that is needed to go on with an agent, also in another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SerializedAgentState {
    #[schemars(length(min = 1))]
    pub agent_id: String,
    pub plugin_name: String,
    pub session_id: String,
    pub checkpoint: SdkCheckpoint,
    /// As it came, with keys that we do not know.
    #[schemars(with = "AgentBrief")]
    pub brief_snapshot: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_summary: Option<String>,
    pub pending_decision_ids: Vec<String>,
    /// The number of the last event.
    pub last_sequence: u64,
    pub serialized_at: String,
    pub serialized_by: SerializedBy,
    pub estimated_size_bytes: u64,
}

/// What an agent can go on from. All forms are read; which parts are written depends on the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SdkCheckpoint {
    pub sdk: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_state_json: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_snapshot: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_position: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SerializedBy {
    Pause,
    KillGrace,
    CrashRecovery,
    DecisionCheckpoint,
    IdleCompletion,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxHealthResponse {
    pub status: HealthStatus,
    pub agent_status: AgentStatus,
    pub uptime_ms: u64,
    pub resource_usage: ResourceUsage,
    /// Events that no client has been sent yet.
    pub pending_event_buffer_size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    pub cpu_percent: f64,
    pub memory_mb: f64,
    pub disk_mb: f64,
    pub collected_at: String,
}

/// Where the backend is, in the variable `AGENT_BOOTSTRAP`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    pub backend_url: String,
    pub backend_token: String,
    pub token_expires_at: String,
    pub agent_id: String,
    pub artifact_upload_endpoint: String,
}
