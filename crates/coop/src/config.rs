//! The file behind `--agent-config`. Its keys tell what it is: JSON with `settings`, `stop` and `start` says how the agent
//! is to be run, TOML with a `version` says what its screen looks like.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use coop_drivers::{Rules, StartSource};
use coop_session::{Prime, StartConfig, StopConfig, StopMode};
use serde::Deserialize;
use serde_json::Value;

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct AgentConfig {
    pub(crate) settings: Option<Value>,
    pub(crate) stop: StopConfig,
    pub(crate) start: StartConfig,
    pub(crate) rules: Option<Rules>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    settings: Option<Value>,
    #[serde(default)]
    stop: Stop,
    #[serde(default)]
    start: Start,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stop {
    mode: Mode,
    prompt: Option<String>,
    escalate: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Allow,
    Gate,
    Auto,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Start {
    text: Option<String>,
    shell: Vec<String>,
    startup: Option<Told>,
    resume: Option<Told>,
    clear: Option<Told>,
    compact: Option<Told>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Told {
    text: Option<String>,
    shell: Vec<String>,
}

impl AgentConfig {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read --agent-config {name}"))?;
        Self::parse(&text).with_context(|| format!("--agent-config {name} cannot be used"))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        if !text.trim_start().starts_with('{') {
            return Ok(Self { rules: Some(Rules::parse(text)?), ..Self::default() });
        }
        let value: Value = serde_json::from_str(text).context("it is not JSON")?;
        let known = ["settings", "stop", "start"];
        if !known.iter().any(|key| value.get(key).is_some()) {
            bail!("it has none of the keys {}", known.join(", "));
        }
        let file: File = serde_json::from_value(value)?;
        Ok(Self { settings: file.settings, stop: file.stop.into(), start: file.start.into(), rules: None })
    }
}

impl From<Stop> for StopConfig {
    fn from(stop: Stop) -> Self {
        let mode = match stop.mode {
            Mode::Allow => StopMode::Allow,
            Mode::Gate => StopMode::Gate,
            Mode::Auto => StopMode::Auto,
        };
        Self { mode, prompt: stop.prompt, escalate: stop.escalate }
    }
}

impl From<Start> for StartConfig {
    fn from(start: Start) -> Self {
        let always = Prime { text: start.text, shell: start.shell };
        let sources = [
            (StartSource::Startup, start.startup),
            (StartSource::Resume, start.resume),
            (StartSource::Clear, start.clear),
            (StartSource::Compact, start.compact),
        ];
        let prime = |told: Told| Prime { text: told.text, shell: told.shell };
        Self {
            always: Some(always).filter(|always| *always != Prime::default()),
            by_source: sources.into_iter().filter_map(|(source, told)| Some((source, prime(told?)))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_tell_what_a_file_is() {
        let config = AgentConfig::parse(
            r#"{"settings":{"model":"x"},"stop":{"mode":"gate","escalate":true},"start":{"shell":["a"],"resume":{"text":"b"}}}"#,
        )
        .expect("a configuration");
        assert_eq!(config.stop, StopConfig { mode: StopMode::Gate, prompt: None, escalate: true });
        assert_eq!(config.start.always, Some(Prime { text: None, shell: vec!["a".into()] }));
        assert_eq!(config.start.by_source.len(), 1);
        assert!(AgentConfig::parse("version = 2\nagent = \"x\"").is_err());
        assert!(AgentConfig::parse(r#"{"else":1}"#).is_err());
        assert!(AgentConfig::parse(r#"{"stop":{"mode":"never"}}"#).is_err());
    }
}
