//! Agents as Kubernetes resources.
//!
//! [`Agent`] is the resource. [`plan`] says what follows from one and from what is there: it sees no cluster and no clock.
//! [`operate`] watches, asks it, and does what it says. [`ClusterLauncher`] is how a fleet has its sidecars in a cluster.
//!
//! ```text
//! API server ─► watches ─► World ─┐
//! sidecars ─► followers ─► Seen ──┴─► plan ─► steps, status ─► API server, sidecars
//! ```

mod actions;
mod launch;
mod lead;
mod manifest;
mod names;
mod network;
mod operate;
mod own;
mod plan;
mod pod;
mod resource;
mod sidecar;
#[cfg(test)]
mod testing;
mod trouble;
mod way;
mod world;

pub use self::actions::{Action, ErrorActions, FleetActions, PromptActions, WhenAsked, WhenFailed, WhenIdle};
pub use self::launch::{Applied, ClusterLauncher, ClusterOptions, Reach, Template, Usable};
pub use self::manifest::Images;
pub use self::names::{is_namespace, is_object_name, is_quantity};
pub use self::network::check_destination;
pub use self::operate::{OperateError, Options, ReadBrief, operate};
pub use self::own::OwnImageError;
pub use self::plan::{ExistingClaim, NodeFate, Part, Plan, Seen, Step, plan};
pub use self::resource::{
    Agent, AgentSpec, AgentStatus, AskStatus, Budget, Claim, Condition, Dead, Destination, Egress, EvidenceStatus, Git,
    Keep, Manager, PromptStatus, PullSecret, Resources, SecretVariable, UsageStatus, Workspace, definition,
};
pub use self::sidecar::Heard;
pub use self::way::{NoWay, Reached, Way};
