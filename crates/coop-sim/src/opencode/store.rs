//! What is kept from one run to the next: the sessions with their messages, in one file.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) info: Value,
    /// Messages with their parts, as the server gives them.
    pub(super) messages: Vec<Value>,
}

pub(super) type Sessions = BTreeMap<String, Session>;

/// Returns the file, where the real one has its database.
fn path() -> anyhow::Result<PathBuf> {
    let data = match std::env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".local/share"),
    };
    Ok(data.join("opencode/coop-sim.json"))
}

pub(super) fn load() -> anyhow::Result<Sessions> {
    match fs::read(path()?) {
        Ok(bytes) => serde_json::from_slice(&bytes).context("the sessions"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Sessions::new()),
        Err(error) => Err(error).context("the sessions"),
    }
}

pub(super) fn save(sessions: &Sessions) -> anyhow::Result<()> {
    let path = path()?;
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    // A server that is killed must leave a whole file behind.
    let whole = path.with_extension("new");
    fs::write(&whole, serde_json::to_vec(sessions)?)?;
    Ok(fs::rename(whole, path)?)
}
