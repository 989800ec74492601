//! `agent-config.json`: settings, stop and start, as seed 000 has it.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::adapter::AgentConfig;
use crate::definition::substitute;
use crate::engine::StopMode;

/// Where a workspace keeps the settings of Claude Code, which nobody else understands.
const SETTINGS: &str = ".claude/settings.json";

/// The file's name in an agent's folder.
pub(crate) const AGENT_CONFIG: &str = "agent-config.json";

/// Who an agent in a workspace is, to the tools of its fleet.
pub(crate) const IDENTITY: &str = "tools.json";

/// Where a sidecar writes down how others come to its agent's conversation.
const SESSION: &str = "session.json";

/// Writes the file into an agent's folder, whole or not at all.
pub(crate) fn write_config(folder: &Path, config: &AgentConfig) -> Result<(), String> {
    let theirs = if is_for_claude(config) { settings(&config.folder)? } else { None };
    let settings = merged(theirs, own_settings(config)?);
    let path = folder.join(AGENT_CONFIG);
    let new = folder.join("agent-config.json.new");
    let mut told = content(config, settings);
    // Who it is to the tools that it may call.
    let identity = folder.join(IDENTITY);
    if identity.exists() {
        told["tools"] = json!(identity);
    }
    told["session"] = json!(folder.join(SESSION));
    let told = told.to_string();
    let written = fs::write(&new, told).and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Tells whether the agent is Claude Code, as far as that is known before it is started.
fn is_for_claude(config: &AgentConfig) -> bool {
    let named = |word: &String| Path::new(word).file_name().is_some_and(|name| name == "claude");
    match config.driver.as_str() {
        "auto" => config.command.iter().any(named),
        driver => driver == "claude",
    }
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

/// Returns what the definition says, with its variables replaced: by those that the definition sets, else by ours.
fn own_settings(config: &AgentConfig) -> Result<Option<Value>, String> {
    let look = |name: &str| {
        let is_ours = name == "COOP" || name.starts_with("COOP_");
        let folder = || (name == "COOP_WORKSPACE_PATH").then(|| config.folder.to_str().map(str::to_owned)).flatten();
        let inherited = || std::env::var(name).ok().filter(|_| !is_ours);
        config.env.get(name).cloned().or_else(folder).or_else(inherited)
    };
    config.settings.as_ref().map(|settings| substitute(settings, &look)).transpose()
}

/// Returns the settings of a workspace with those of the definition over them, entry by entry.
fn merged(theirs: Option<Value>, ours: Option<Value>) -> Option<Value> {
    match (theirs, ours) {
        (Some(Value::Object(mut theirs)), Some(Value::Object(ours))) => {
            for (name, value) in ours {
                let merged = merged(theirs.remove(&name), Some(value));
                theirs.extend(merged.map(|value| (name, value)));
            }
            Some(Value::Object(theirs))
        }
        (theirs, ours) => ours.or(theirs),
    }
}

fn content(config: &AgentConfig, settings: Option<Value>) -> Value {
    let mode = match config.stop {
        StopMode::Allow => "allow",
        StopMode::Gate => "gate",
        StopMode::Auto => "auto",
    };
    let mut content = json!({ "stop": { "mode": mode }, "start": config.start });
    // Where it cannot be held it is idle sooner, and the same is done then.
    if config.stop == StopMode::Gate {
        content["stop"]["if_possible"] = true.into();
    }
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
            settings: None,
            stop: StopMode::Gate,
            ask_user: true,
            start: Start { always, resume, ..Start::default() },
            resume: None,
            record: None,
        }
    }

    #[test]
    fn the_file_has_settings_stop_and_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || {
            write_config(folder.path(), &config(folder.path())).expect("written");
            let text = fs::read_to_string(folder.path().join(AGENT_CONFIG)).expect("read");
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        let expected = json!({
            "stop": { "mode": "gate", "if_possible": true, "escalate": true },
            "start": { "shell": ["date"], "resume": { "text": "again" } },
            "session": folder.path().join(SESSION)
        });
        assert_eq!(read(), expected);
        fs::create_dir(folder.path().join(".claude")).expect("made");
        fs::write(folder.path().join(SETTINGS), r#"{"model":"opus"}"#).expect("written");
        assert_eq!(read()["settings"], json!({ "model": "opus" }));
        fs::write(folder.path().join(SETTINGS), "{").expect("written");
        let error = write_config(folder.path(), &config(folder.path())).expect_err("no JSON");
        assert!(error.contains("settings.json is not JSON"), "{error}");
    }

    #[test]
    fn settings_of_the_definition_come_over_those_of_the_workspace() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join(".claude")).expect("made");
        // What a workspace says is not a template: variables there are the agent's to read.
        let theirs = r#"{"model":"opus","env":{"A":"${KEY}","B":"b"}}"#;
        fs::write(folder.path().join(SETTINGS), theirs).expect("written");
        let mut given = config(folder.path());
        given.env = BTreeMap::from([("KEY".to_owned(), "s3cret".to_owned())]);
        given.settings = Some(json!({ "env": { "B": "${KEY}", "C": "${COOP_WORKSPACE_PATH}" } }));
        write_config(folder.path(), &given).expect("written");
        let told = fs::read_to_string(folder.path().join(AGENT_CONFIG)).expect("read");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let env = json!({ "A": "${KEY}", "B": "s3cret", "C": folder.path() });
        assert_eq!(told["settings"], json!({ "model": "opus", "env": env }));
        assert_eq!(fs::read_to_string(folder.path().join(SETTINGS)).expect("read"), theirs);
        given.settings = Some(json!({ "x": "${COOP_AUTH_TOKEN}" }));
        assert!(write_config(folder.path(), &given).is_err_and(|why| why.contains("COOP_AUTH_TOKEN")));
    }

    #[test]
    fn the_settings_are_claudes_alone() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        for (driver, command, expected) in [
            ("claude", &["coop", "sim", "claude"][..], true),
            ("auto", &["env", "/opt/bin/claude"], true),
            ("auto", &["codex"], false),
            ("codex", &["codex"], false),
            ("api", &[], false),
        ] {
            let given = AgentConfig { driver: driver.into(), command: words(command), ..config(Path::new("/")) };
            assert_eq!(is_for_claude(&given), expected, "{driver} {command:?}");
        }
    }
}
