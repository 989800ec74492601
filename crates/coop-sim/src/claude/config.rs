//! Where things are: the config folder, the project's logs, `.claude.json`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::ids::SessionId;
use super::status::write_atomically;

/// Looks up an environment variable: the process's own, or a test's.
pub(crate) type Env = dyn Fn(&str) -> Option<OsString> + Send + Sync;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// `$CLAUDE_CONFIG_DIR`, or `~/.claude`.
    pub(crate) folder: PathBuf,
    /// `.claude.json`: in `$CLAUDE_CONFIG_DIR` if that is set, else at home.
    pub(crate) state: PathBuf,
}

impl Config {
    pub(crate) fn find(env: &Env) -> Self {
        let home = PathBuf::from(env("HOME").unwrap_or_else(|| "/".into()));
        match env("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from) {
            Some(folder) => Self { state: folder.join(".claude.json"), folder },
            None => Self { folder: home.join(".claude"), state: home.join(".claude.json") },
        }
    }

    /// The folder of a project's logs: its path, with everything but letters and digits as `-`.
    pub(crate) fn logs(&self, cwd: &Path) -> PathBuf {
        let name = cwd.to_string_lossy();
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join("projects").join(name)
    }

    pub(crate) fn is_trusted(&self, cwd: &Path) -> bool {
        let state = self.read_state();
        let project = state.get("projects").and_then(|projects| projects.get(cwd.to_string_lossy().as_ref()));
        project.and_then(|project| project.get("hasTrustDialogAccepted")) == Some(&json!(true))
    }

    pub(crate) fn trust(&self, cwd: &Path) -> io::Result<()> {
        let mut state = self.read_state();
        let projects = state.entry("projects").or_insert_with(|| json!({}));
        projects[cwd.to_string_lossy().as_ref()]["hasTrustDialogAccepted"] = json!(true);
        write_atomically(&self.state, Value::Object(state).to_string().as_bytes())
    }

    /// Whether the key was accepted before: it is remembered by its last twenty characters.
    pub(crate) fn is_key_approved(&self, key: &str) -> bool {
        let tail: String = key.chars().skip(key.chars().count().saturating_sub(20)).collect();
        let state = self.read_state();
        let approved = state.get("customApiKeyResponses").and_then(|responses| responses.get("approved"));
        approved.and_then(Value::as_array).is_some_and(|keys| keys.contains(&json!(tail)))
    }

    fn read_state(&self) -> Map<String, Value> {
        let text = std::fs::read_to_string(&self.state).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// Whether there is a conversation under this id.
pub(crate) fn has_log(logs: &Path, session: &SessionId) -> bool {
    logs.join(format!("{session}.jsonl")).is_file()
}

/// The session whose log was written last.
pub(crate) fn latest(logs: &Path) -> Option<SessionId> {
    let entries = std::fs::read_dir(logs).ok()?;
    let written = |entry: &std::fs::DirEntry| -> Option<SystemTime> { entry.metadata().ok()?.modified().ok() };
    let paths = entries.flatten().filter_map(|entry| Some((written(&entry)?, entry.path())));
    let logs = paths.filter(|(_, path)| path.extension().is_some_and(|extension| extension == "jsonl"));
    let (_, path) = logs.max_by_key(|(written, _)| *written)?;
    Some(SessionId(path.file_stem()?.to_string_lossy().into_owned()))
}

/// Copies a conversation into a new one, as `--fork-session` does.
pub(crate) fn fork(logs: &Path, from: &SessionId, to: &SessionId) -> io::Result<()> {
    let old = std::fs::read_to_string(logs.join(format!("{from}.jsonl")))?;
    std::fs::write(logs.join(format!("{to}.jsonl")), old.replace(&from.0, &to.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_after_its_path() {
        let config = Config { folder: "/h/.claude".into(), state: "/h/.claude.json".into() };
        assert_eq!(config.logs(Path::new("/home/dev/my_p.x")), Path::new("/h/.claude/projects/-home-dev-my-p-x"));
    }

    #[test]
    fn trust_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { folder: folder.path().into(), state: folder.path().join(".claude.json") };
        assert!(!config.is_trusted(Path::new("/p")));
        config.trust(Path::new("/p")).unwrap();
        assert!(config.is_trusted(Path::new("/p")));
    }
}
