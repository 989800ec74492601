use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::{ArtifactKind, BlastRadius};

/// What an agent is to do. It is kept as it came beside this, so that keys we do not know survive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentBrief {
    /// In every event of the agent.
    #[schemars(length(min = 1))]
    pub agent_id: String,
    pub role: String,
    pub description: String,
    pub workstream: String,
    #[serde(default)]
    pub readable_workstreams: Vec<String>,
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Tools that the policy may allow without a human; all of them if there are none here.
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    pub escalation_protocol: EscalationProtocol,
    pub control_mode: ControlMode,
    pub project_brief: ProjectBrief,
    pub knowledge_snapshot: KnowledgeSnapshot,
    /// The backend's name for the kind of agent, not a model; not used.
    pub model_preference: Option<String>,
    pub mcp_servers: Option<Vec<McpServerConfig>>,
    pub workspace_requirements: Option<WorkspaceRequirements>,
    pub output_schema: Option<Map<String, Value>>,
    pub guardrail_policy: Option<GuardrailPolicy>,
    pub delegation_policy: Option<DelegationPolicy>,
    pub session_policy: Option<SessionPolicy>,
    pub context_injection_policy: Option<Map<String, Value>>,
    pub secret_refs: Option<Vec<SecretRef>>,
    pub provider_config: Option<Map<String, Value>>,
    pub workstream_context: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ControlMode {
    /// A human decides everything the agent asks.
    Orchestrator,
    /// What only looks is allowed, the rest a human decides.
    Adaptive,
    /// Everything but destructive commands is allowed.
    Ecosystem,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EscalationProtocol {
    pub always_escalate: Vec<String>,
    /// For the backend, which knows what they are about.
    #[serde(default)]
    pub escalate_when: Vec<EscalationRule>,
    pub never_escalate: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EscalationRule {
    pub predicate: Predicate,
    pub description: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Predicate {
    Both { r#type: Joint, rules: Vec<Predicate> },
    Trust { field: TrustField, op: Comparison, value: f64 },
    DomainTrust { field: DomainTrustField, op: Comparison, value: f64, domain: ArtifactKind },
    Radius { field: RadiusField, op: RadiusComparison, value: BlastRadius },
    Spread { field: SpreadField, op: Equals, value: bool },
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
            pub enum $name { $(#[serde(rename = $word)] $variant),+ }
        )+
    };
}

words! {
    Joint { And = "and", Or = "or" }
    TrustField { Confidence = "confidence", TrustScore = "trustScore" }
    DomainTrustField { DomainTrustScore = "domainTrustScore" }
    RadiusField { BlastRadius = "blastRadius" }
    SpreadField { AffectsMultipleWorkstreams = "affectsMultipleWorkstreams" }
    Comparison { Below = "lt", Above = "gt", AtMost = "lte", AtLeast = "gte" }
    RadiusComparison { Equal = "eq", AtLeast = "gte" }
    Equals { Equal = "eq" }
    Transport { Stdio = "stdio", Http = "http", Sse = "sse", Ws = "ws" }
    GuardrailAction { Block = "block", Warn = "warn", Log = "log" }
    HistoryPolicy { Full = "full", Summarized = "summarized", RecentN = "recent_n" }
    SecretScope { Agent = "agent", Project = "project" }
    Ability {
        Terminal = "terminal",
        Browser = "browser",
        Git = "git",
        Docker = "docker",
        NetworkExternal = "network_external",
        NetworkInternalOnly = "network_internal_only",
        Gpu = "gpu",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectBrief {
    pub id: Option<String>,
    pub title: String,
    pub description: String,
    pub goals: Vec<String>,
    pub checkpoints: Vec<String>,
    #[serde(default)]
    pub constraints: Vec<String>,
}

/// What is known of the project. Only how much there is of each is told to the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeSnapshot {
    pub version: u64,
    pub generated_at: String,
    pub workstreams: Vec<Map<String, Value>>,
    pub pending_decisions: Vec<Map<String, Value>>,
    pub recent_coherence_issues: Vec<Map<String, Value>>,
    pub artifact_index: Vec<Map<String, Value>>,
    pub active_agents: Vec<Map<String, Value>>,
    pub estimated_tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct McpServerConfig {
    pub name: String,
    pub transport: Option<Transport>,
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    pub env: Option<BTreeMap<String, String>>,
    pub url: Option<String>,
    pub headers: Option<BTreeMap<String, String>>,
    pub config: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRequirements {
    pub mounts: Vec<Mount>,
    pub capabilities: Vec<Ability>,
    pub resource_limits: Option<Map<String, Value>>,
    pub base_image: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    pub host_path: String,
    pub sandbox_path: String,
    pub read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailPolicy {
    pub input_guardrails: Vec<Guardrail>,
    pub output_guardrails: Vec<Guardrail>,
    pub tool_guardrails: Vec<Guardrail>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guardrail {
    pub name: String,
    pub description: String,
    pub action: GuardrailAction,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DelegationPolicy {
    pub can_spawn_subagents: bool,
    pub allowed_handoffs: Vec<String>,
    pub max_depth: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPolicy {
    pub max_turns: Option<std::num::NonZeroU32>,
    pub context_budget_tokens: Option<std::num::NonZeroU64>,
    pub history_policy: HistoryPolicy,
    pub history_n: Option<std::num::NonZeroU32>,
}

/// Where a secret is; never what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    pub name: String,
    pub vault_key: String,
    pub scope: SecretScope,
}
