use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct KillRequest {
    /// Whether the agent may end by itself first.
    pub grace: bool,
    /// How long that may take.
    pub grace_timeout_ms: Option<std::num::NonZeroU64>,
}

impl Default for KillRequest {
    fn default() -> Self {
        Self { grace: true, grace_timeout_ms: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRequest {
    pub decision_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolveRequest {
    pub decision_id: String,
    pub resolution: Resolution,
}

/// What a human decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Resolution {
    Option {
        #[schemars(length(min = 1))]
        chosen_option_id: String,
        #[serde(default)]
        rationale: String,
        #[serde(default)]
        action_kind: Option<ActionKind>,
    },
    ToolApproval {
        action: Action,
        /// With `modify`: what the tool is to be called with instead.
        #[serde(default)]
        modified_args: Option<Map<String, Value>>,
        /// Allows this tool for the rest of the run.
        #[serde(default)]
        always_approve: bool,
        #[serde(default)]
        rationale: Option<String>,
        #[serde(default)]
        action_kind: Option<ActionKind>,
        #[serde(default)]
        auto_resolved: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Approve,
    Reject,
    Modify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    Create,
    Update,
    Delete,
    Review,
    Deploy,
}

/// Something the agent is to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextInjection {
    pub content: String,
    pub format: ContextFormat,
    /// The same version a second time is told only once.
    pub snapshot_version: i64,
    pub estimated_tokens: u64,
    pub priority: Priority,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextFormat {
    Markdown,
    Json,
    Plain,
}

/// How much it matters; what matters most is told first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Required,
    Recommended,
    Supplementary,
}
