//! The permission mode that Codex's approval policy and sandbox amount to.

use coop_api::PermissionMode;
use serde_json::Value;

use super::Codex;
use crate::Meaning;

impl Codex {
    /// Returns the permission mode that a message of the server tells of, if it is news.
    pub(super) fn mode_in(&mut self, message: &Value) -> Option<Meaning> {
        let settings = [&message["params"]["threadSettings"], &message["result"]];
        let mode = settings.into_iter().find_map(mode)?;
        (self.permission_mode.replace(mode) != Some(mode)).then_some(Meaning::PermissionMode(mode))
    }
}

fn mode(settings: &Value) -> Option<PermissionMode> {
    let policy = settings["approvalPolicy"].as_str()?;
    let sandbox = [&settings["sandboxPolicy"], &settings["sandbox"]].into_iter().find_map(sandbox)?;
    Some(match (policy, sandbox.as_str()) {
        _ if settings["approvalsReviewer"].as_str().is_some_and(|reviewer| reviewer != "user") => PermissionMode::Auto,
        // What only looks is not asked about.
        ("untrusted", _) | ("on-request" | "on-failure", "readonly") => PermissionMode::Default,
        (_, "dangerfullaccess") => PermissionMode::Bypass,
        ("never", _) => PermissionMode::DontAsk,
        _ => PermissionMode::AcceptEdits,
    })
}

/// Returns the kind of a sandbox, which is spelled in two ways: `workspaceWrite` and `workspace-write`.
fn sandbox(told: &Value) -> Option<String> {
    let kind = told.as_str().or_else(|| told["type"].as_str())?;
    Some(kind.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_and_a_sandbox_are_a_mode() {
        for (policy, sandbox, expected) in [
            ("on-request", json!("read-only"), PermissionMode::Default),
            ("untrusted", json!({ "type": "workspaceWrite" }), PermissionMode::Default),
            ("on-request", json!({ "type": "workspaceWrite" }), PermissionMode::AcceptEdits),
            ("never", json!({ "type": "readOnly" }), PermissionMode::DontAsk),
            ("never", json!("danger-full-access"), PermissionMode::Bypass),
        ] {
            let settings = json!({ "approvalPolicy": policy, "sandbox": sandbox, "approvalsReviewer": "user" });
            assert_eq!(mode(&settings), Some(expected), "{settings}");
        }
        let reviewed =
            json!({ "approvalPolicy": "on-request", "sandbox": "workspace-write", "approvalsReviewer": "auto" });
        assert_eq!(mode(&reviewed), Some(PermissionMode::Auto));
        assert_eq!(mode(&json!({ "approvalPolicy": "never" })), None);
    }
}
