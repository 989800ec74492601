//! Who decides whether a tool runs.

use async_trait::async_trait;

use crate::{Tool, ToolUse};

/// Who decides whether a tool runs: a person, a policy, nobody.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Decides about one call. It may take as long as a person takes: the tool's own time begins afterwards. It is dropped
    /// when the run is cancelled or out of time; that allows nothing.
    async fn decide(&self, call: &ToolUse, tool: &dyn Tool) -> Decision;
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// It does not, and the model is told why.
    Deny(String),
}

/// Lets everything run.
pub struct AllowAll;

#[async_trait]
impl Gate for AllowAll {
    async fn decide(&self, _call: &ToolUse, _tool: &dyn Tool) -> Decision {
        Decision::Allow
    }
}
