//! What is done about agents that others have applied.

use crate::resource::AgentSpec;

/// Returns what a definition says of what is done about an agent that others have applied, as its resource has it. What makes no
/// sense is left out: the resource's own condition says so.
pub(super) fn lines(spec: &AgentSpec) -> String {
    let actions = spec.actions.clone().filter(|actions| actions.check(&spec.driver).is_ok()).unwrap_or_default();
    actions.lines(&spec.driver)
}
