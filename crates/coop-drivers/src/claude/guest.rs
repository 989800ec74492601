//! A Claude Code that a person runs in a terminal of their own: nothing is known of it but what its hooks report.
//!
//! Where coop runs it there is a better witness, its status file (`super`). Here a rule each makes up for what hooks do not
//! say: that a sub-agent's `Stop` is not the agent's, that a compaction begins a session, that a question is no work.

use serde_json::Value;

/// What an agent does, as far as a workspace's status goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// There is no conversation.
    #[default]
    Nothing,
    /// It waits for a person.
    Waiting,
    /// It works.
    Working,
}

/// One that is followed by its hooks.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    doing: Doing,
    /// It asks a question; what works beside it are sub-agents.
    asks: bool,
    /// A compaction was begun while it worked.
    compacts: bool,
    /// It wanted to end its turn while sub-agents were still at work.
    is_unfinished: bool,
}

impl Guest {
    /// Returns what it does.
    pub fn doing(&self) -> Doing {
        self.doing
    }

    /// Takes in what a hook reports, and returns what it does now.
    pub fn hear(&mut self, event: &str, payload: &Value) -> Doing {
        let tool = payload["tool_name"].as_str();
        match event {
            "SessionStart" if self.compacts => {
                self.compacts = false;
                self.doing = Doing::Working;
            }
            "SessionStart" => self.doing = Doing::Waiting,
            "SessionEnd" => *self = Self::default(),
            "UserPromptSubmit" => {
                (self.asks, self.is_unfinished) = (false, false);
                self.doing = Doing::Working;
            }
            "PreCompact" => {
                self.compacts = self.doing == Doing::Working;
                self.works();
            }
            "PreToolUse" if tool == Some("AskUserQuestion") => {
                self.asks = true;
                self.doing = Doing::Waiting;
            }
            "PostToolUse" | "PostToolUseFailure" if tool == Some("AskUserQuestion") => {
                self.asks = false;
                self.doing = Doing::Working;
            }
            "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => self.works(),
            "PermissionRequest" => self.doing = Doing::Waiting,
            "Stop" | "StopFailure" if payload["agent_id"].is_string() || self.compacts => {}
            "Stop" => {
                self.is_unfinished = has_sub_agents(payload);
                if !self.is_unfinished {
                    self.doing = Doing::Waiting;
                }
            }
            // Somebody has to see to it, whatever else goes on.
            "StopFailure" => self.doing = Doing::Waiting,
            "Notification" => self.notified(payload["notification_type"].as_str().unwrap_or_default()),
            _ => {}
        }
        self.doing
    }

    fn works(&mut self) {
        if !self.asks {
            self.doing = Doing::Working;
        }
    }

    fn notified(&mut self, kind: &str) {
        match kind {
            "idle_prompt" if self.is_unfinished => {}
            "idle_prompt" | "permission_prompt" | "elicitation_dialog" => {
                self.compacts = false;
                self.doing = Doing::Waiting;
            }
            _ => {}
        }
    }
}

/// Tells whether sub-agents go on; a shell command in the background, such as a server, keeps nobody waiting.
fn has_sub_agents(payload: &Value) -> bool {
    let tasks = payload["background_tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    tasks.iter().any(|task| task["type"] == "subagent" && task["status"] == "running")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOTHING: Doing = Doing::Nothing;
    const WAITS: Doing = Doing::Waiting;
    const WORKS: Doing = Doing::Working;

    fn follow(hooks: &[(&str, Value, Doing)]) {
        let mut guest = Guest::default();
        for (at, (event, payload, expected)) in hooks.iter().enumerate() {
            assert_eq!(guest.hear(event, payload), *expected, "{at}: {event} {payload}");
        }
    }

    #[test]
    fn a_turn_with_a_tool_and_a_permission() {
        follow(&[
            ("Unheard", json!({}), NOTHING),
            ("SessionStart", json!({}), WAITS),
            ("UserPromptSubmit", json!({}), WORKS),
            ("PreToolUse", json!({ "tool_name": "Bash" }), WORKS),
            ("PermissionRequest", json!({ "tool_name": "Bash" }), WAITS),
            ("Notification", json!({ "notification_type": "permission_prompt" }), WAITS),
            ("PostToolUse", json!({ "tool_name": "Bash" }), WORKS),
            ("Notification", json!({ "notification_type": "other" }), WORKS),
            ("Stop", json!({}), WAITS),
            ("Notification", json!({ "notification_type": "idle_prompt" }), WAITS),
            ("SessionEnd", json!({}), NOTHING),
        ]);
    }

    #[test]
    fn the_end_of_a_sub_agent_is_not_the_agents() {
        let runs = json!({ "background_tasks": [{ "type": "subagent", "status": "running" }] });
        let serves = json!({ "background_tasks": [{ "type": "shell", "status": "running" }] });
        follow(&[
            ("UserPromptSubmit", json!({}), WORKS),
            ("Stop", json!({ "agent_id": "a" }), WORKS),
            ("StopFailure", json!({ "agent_id": "a" }), WORKS),
            ("Stop", runs, WORKS),
            ("Notification", json!({ "notification_type": "idle_prompt" }), WORKS),
            ("Stop", serves, WAITS),
            ("UserPromptSubmit", json!({}), WORKS),
            ("StopFailure", json!({}), WAITS),
        ]);
    }

    #[test]
    fn who_asks_waits_whatever_sub_agents_do() {
        follow(&[
            ("UserPromptSubmit", json!({}), WORKS),
            ("PreToolUse", json!({ "tool_name": "AskUserQuestion" }), WAITS),
            ("PreToolUse", json!({ "tool_name": "Bash", "agent_id": "a" }), WAITS),
            ("PostToolUse", json!({ "tool_name": "Bash", "agent_id": "a" }), WAITS),
            ("PostToolUse", json!({ "tool_name": "AskUserQuestion" }), WORKS),
        ]);
    }

    #[test]
    fn a_compaction_in_the_middle_of_a_turn_does_not_end_it() {
        follow(&[
            ("UserPromptSubmit", json!({}), WORKS),
            ("PreCompact", json!({}), WORKS),
            ("Stop", json!({}), WORKS),
            ("SessionStart", json!({ "source": "compact" }), WORKS),
            ("Stop", json!({}), WAITS),
            // One that a person asked for begins and ends with waiting.
            ("PreCompact", json!({}), WORKS),
            ("SessionStart", json!({ "source": "compact" }), WAITS),
        ]);
    }
}
