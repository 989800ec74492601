use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An event with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdapterEvent {
    /// Unique for all time; by it readers know what they have seen.
    #[schemars(length(min = 1))]
    pub source_event_id: String,
    /// From 1 on, without gaps, in each run.
    #[schemars(range(min = 1))]
    pub source_sequence: u64,
    /// RFC 3339 with a literal `Z`.
    #[schemars(regex(pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$"))]
    pub source_occurred_at: String,
    pub run_id: String,
    pub event: AgentEvent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    #[schemars(length(min = 1))]
    pub agent_id: String,
    #[serde(flatten)]
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Body {
    Status {
        message: String,
    },
    ToolCall(ToolCall),
    Decision(Box<Decision>),
    Artifact(Box<ArtifactEvent>),
    Completion {
        summary: String,
        artifacts_produced: Vec<String>,
        decisions_needed: Vec<String>,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Error {
        severity: Severity,
        message: String,
        recoverable: bool,
        category: Category,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_code: Option<String>,
    },
    Lifecycle {
        action: LifecycleAction,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Progress {
        operation_id: String,
        description: String,
        /// The one field that is there also when there is nothing to say.
        #[schemars(range(min = 0, max = 100))]
        progress_pct: Option<f64>,
    },
    Delegation(Delegation),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub tool_call_id: String,
    pub tool_name: String,
    pub phase: Phase,
    /// False once somebody said no to it.
    pub approved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Requested,
    Running,
    Completed,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "subtype", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Decision {
    ToolApproval {
        decision_id: String,
        tool_name: String,
        tool_args: Map<String, Value>,
        severity: Severity,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 1))]
        confidence: Option<f64>,
        blast_radius: BlastRadius,
        affected_artifact_ids: Vec<String>,
    },
    Option {
        decision_id: String,
        title: String,
        summary: String,
        severity: Severity,
        #[schemars(range(min = 0, max = 1))]
        confidence: f64,
        blast_radius: BlastRadius,
        options: Vec<DecisionOption>,
        #[serde(skip_serializing_if = "Option::is_none")]
        recommended_option_id: Option<String>,
        affected_artifact_ids: Vec<String>,
        requires_rationale: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionOption {
    #[schemars(length(min = 1))]
    pub id: String,
    pub label: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tradeoffs: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactEvent {
    pub artifact_id: String,
    pub name: String,
    pub kind: ArtifactKind,
    pub workstream: String,
    pub status: ArtifactStatus,
    pub quality_score: f64,
    pub provenance: Provenance,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    pub created_by: String,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    pub action: DelegationAction,
    pub child_agent_id: String,
    pub child_role: String,
    pub reason: String,
    pub delegation_depth: u32,
    pub root_agent_id: String,
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident),+ $(,)? })+) => {
        $(
            $(#[$doc])*
            #[derive(
                Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
            )]
            #[serde(rename_all = "snake_case")]
            pub enum $name { $($variant),+ }
        )+
    };
}

names! {
    /// How bad it is, from the least on.
    Severity { Warning, Low, Medium, High, Critical }
    /// How much it touches.
    BlastRadius { Trivial, Small, Medium, Large, Unknown }
    ArtifactKind { Code, Document, Design, Config, Test, Other }
    ArtifactStatus { Draft, InReview, Approved, Rejected }
    Outcome { Success, Partial, Abandoned, MaxTurns }
    Category { Provider, Tool, Model, Timeout, Internal }
    LifecycleAction { Started, Paused, Resumed, Killed, Crashed, Idle, SessionStart, SessionEnd }
    DelegationAction { Spawned, Handoff, Returned }
}
