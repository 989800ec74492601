//! A conversation as the server shows it.

use std::path::PathBuf;

use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

use super::VERSION;

/// A conversation.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: String,
    pub(crate) cwd: String,
    pub(crate) model: String,
    /// `plan` or `default`.
    pub(crate) mode: String,
    /// Whether it asks about commands that its sandbox would hold.
    pub(crate) is_wary: bool,
    pub(crate) status: Value,
    pub(crate) path: PathBuf,
    /// Whether it has had a turn.
    pub(crate) is_written: bool,
    /// All tokens so far.
    pub(crate) total: Tokens,
    /// What was told of them last.
    pub(crate) last_usage: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

impl Tokens {
    pub(crate) fn add(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }

    pub(crate) fn shown(self) -> Value {
        json!({
            "totalTokens": self.input + self.output, "inputTokens": self.input, "cachedInputTokens": self.cached,
            "cacheWriteInputTokens": 0, "outputTokens": self.output, "reasoningOutputTokens": 0,
        })
    }
}

impl Thread {
    pub(crate) fn shown(&self) -> Value {
        json!({
            "id": self.id, "sessionId": self.id, "forkedFromId": null, "parentThreadId": null,
            "preview": if self.is_written { "written" } else { "" }, "ephemeral": false,
            "modelProvider": "mock", "model": self.model, "status": self.status,
            "path": self.path, "cwd": self.cwd, "cliVersion": VERSION, "source": "vscode", "threadSource": "user",
            "canAcceptDirectInput": true, "turns": [],
        })
    }
}

/// Returns the conversation in which the real one makes up a title.
pub(crate) fn title(id: &str) -> Value {
    json!({ "id": id, "sessionId": id, "parentThreadId": null, "ephemeral": true, "status": { "type": "idle" },
            "path": null, "turns": [] })
}

/// Returns a turn as the server shows it.
pub(crate) fn turn(id: &str, status: &str, error: &Value) -> Value {
    json!({ "id": id, "rootTurnId": id, "items": [], "itemsView": "notLoaded", "status": status, "error": error })
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
