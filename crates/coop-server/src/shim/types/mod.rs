//! What is on the wire: JSON with camelCase keys. Readers ignore what they do not know; writers leave out what is absent.

mod brief;
mod event;
mod request;
mod schemas;
mod state;

pub use brief::{
    Ability, AgentBrief, ControlMode, EscalationProtocol, GuardrailPolicy, KnowledgeSnapshot, McpServerConfig,
    ProjectBrief, Transport, WorkspaceRequirements,
};
pub use event::{
    AdapterEvent, AgentEvent, ArtifactEvent, ArtifactKind, ArtifactStatus, BlastRadius, Body, Category, Decision,
    DecisionOption, Delegation, DelegationAction, LifecycleAction, Outcome, Phase, Provenance, Severity, ToolCall,
};
pub use request::{
    Action, ActionKind, CheckpointRequest, ContextInjection, KillRequest, Priority, Resolution, ResolveRequest,
};
pub use schemas::schemas;
pub use state::{
    AgentHandle, AgentStatus, Bootstrap, HealthStatus, KillResponse, ResourceUsage, SandboxHealthResponse,
    SdkCheckpoint, SerializedAgentState, SerializedBy,
};
