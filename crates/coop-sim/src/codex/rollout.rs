//! A conversation on disk: lines of JSON, as the real one spells the few kinds that are written here.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use std::time::SystemTime;

/// Returns where a conversation is kept.
pub(crate) fn path(home: &Path, thread: &str) -> PathBuf {
    home.join("sessions").join(format!("rollout-{thread}.jsonl"))
}

/// Adds a line.
pub(crate) fn append(path: &Path, kind: &str, payload: &Value) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let line = json!({ "timestamp": now, "type": kind, "payload": payload });
    writeln!(File::options().create(true).append(true).open(path)?, "{line}")
}

/// Returns the newest conversation of a folder.
pub(crate) fn latest(home: &Path, cwd: &str) -> Option<String> {
    let entries = fs::read_dir(home.join("sessions")).ok()?.flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let meta: Value = serde_json::from_str(text.lines().next()?).ok()?;
            let is_here = meta["payload"]["cwd"] == cwd;
            let id = meta["payload"]["id"].as_str()?.to_owned();
            is_here.then_some((entry.metadata().ok()?.modified().ok()?, id))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, id)| id)
}
