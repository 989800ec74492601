//! `agent-config.json`: settings, stop and start, as seed 000 has it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::adapter::AgentConfig;
use crate::engine::StopMode;

/// Where a workspace keeps the settings of its agents.
const SETTINGS: &str = ".claude/settings.json";

/// Writes the file into an agent's folder, whole or not at all, and returns where it is.
pub(crate) fn write_config(folder: &Path, config: &AgentConfig) -> Result<PathBuf, String> {
    let settings = settings(&config.folder)?;
    let path = folder.join("agent-config.json");
    let new = folder.join("agent-config.json.new");
    let told = content(config, settings).to_string();
    let written = fs::write(&new, told).and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

fn settings(workspace: &Path) -> Result<Option<Value>, String> {
    let path = workspace.join(SETTINGS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    match serde_json::from_str(&text) {
        Ok(settings @ Value::Object(_)) => Ok(Some(settings)),
        Ok(_) => Err(format!("{} is not a JSON object", path.display())),
        Err(wrong) => Err(format!("{} is not JSON: {wrong}", path.display())),
    }
}

fn content(config: &AgentConfig, settings: Option<Value>) -> Value {
    let mode = match config.stop {
        StopMode::Allow => "allow",
        StopMode::Gate => "gate",
        StopMode::Auto => "auto",
    };
    let mut content = json!({ "stop": { "mode": mode }, "start": config.start });
    if config.ask_user {
        content["stop"]["escalate"] = true.into();
    }
    if let Some(settings) = settings {
        content["settings"] = settings;
    }
    content
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use coop_api::AgentId;

    use super::*;
    use crate::definition::{Prime, Start};

    fn config(folder: &Path) -> AgentConfig {
        let resume = Some(Prime { text: Some("again".to_owned()), shell: Vec::new() });
        let always = Prime { text: None, shell: vec!["date".to_owned()] };
        AgentConfig {
            agent: AgentId("a".to_owned()),
            driver: "claude".to_owned(),
            command: vec!["claude".to_owned()],
            folder: folder.to_owned(),
            env: BTreeMap::new(),
            runtime: None,
            isolate: false,
            stop: StopMode::Gate,
            ask_user: true,
            start: Start { always, resume, ..Start::default() },
            resume: None,
        }
    }

    #[test]
    fn the_file_has_settings_stop_and_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || {
            let path = write_config(folder.path(), &config(folder.path())).expect("written");
            let text = fs::read_to_string(path).expect("read");
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        let expected = json!({
            "stop": { "mode": "gate", "escalate": true },
            "start": { "shell": ["date"], "resume": { "text": "again" } }
        });
        assert_eq!(read(), expected);
        fs::create_dir(folder.path().join(".claude")).expect("made");
        fs::write(folder.path().join(SETTINGS), r#"{"model":"opus"}"#).expect("written");
        assert_eq!(read()["settings"], json!({ "model": "opus" }));
        fs::write(folder.path().join(SETTINGS), "{").expect("written");
        let error = write_config(folder.path(), &config(folder.path())).expect_err("no JSON");
        assert!(error.contains("settings.json is not JSON"), "{error}");
    }
}
