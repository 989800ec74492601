//! What the tests of the shim's parts share.

use serde_json::{Value, json};

/// Returns the smallest brief that is one.
pub(super) fn brief() -> Value {
    json!({
        "agentId": "a1", "role": "coder", "description": "Add a health endpoint", "workstream": "core",
        "readableWorkstreams": [], "constraints": [], "allowedTools": ["Read", "Edit", "Bash"],
        "escalationProtocol": { "alwaysEscalate": [], "escalateWhen": [], "neverEscalate": ["Read"] },
        "controlMode": "orchestrator",
        "projectBrief": { "title": "Demo", "description": "d", "goals": ["ship"], "checkpoints": ["done"] },
        "knowledgeSnapshot": {
            "version": 0, "generatedAt": "2026-01-01T00:00:00Z", "workstreams": [], "pendingDecisions": [],
            "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [], "estimatedTokens": 0,
        },
    })
}
