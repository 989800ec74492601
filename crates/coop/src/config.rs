//! The files behind `--agent-config`. Their keys tell what they are: JSON with `settings`, `stop` and `start` says how the agent
//! is to be run, TOML with a `version` says what its screen looks like.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use coop_drivers::{McpServer, Rules, StartSource};
use coop_session::{Prime, StartConfig, StopConfig, StopMode};
use serde::Deserialize;
use serde_json::Value;

/// What the files say.
#[derive(Debug, Default)]
pub(crate) struct AgentConfig {
    pub(crate) settings: Option<Value>,
    pub(crate) stop: StopConfig,
    /// Whether a gate may be left out for an agent that cannot be held.
    pub(crate) gate_is_optional: bool,
    pub(crate) start: StartConfig,
    pub(crate) rules: Option<Rules>,
    /// Servers of tools that the agent is to use; no file has any.
    pub(crate) mcp: Vec<McpServer>,
    /// Who the agent is to the tools of its fleet.
    pub(crate) tools: Option<PathBuf>,
    /// Where to write down how others come to its conversation.
    pub(crate) session: Option<PathBuf>,
    /// How many asks the agent's earlier sidecars have opened.
    pub(crate) asks_before: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    settings: Option<Value>,
    #[serde(default)]
    stop: Stop,
    #[serde(default)]
    start: Start,
    tools: Option<PathBuf>,
    session: Option<PathBuf>,
    #[serde(default)]
    asks_before: u64,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Stop {
    mode: Mode,
    prompt: Option<String>,
    escalate: bool,
    /// Whether an agent that cannot be held may be run all the same.
    if_possible: bool,
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

/// What one file says.
enum Part {
    Rules(Rules),
    Run(File),
}

impl AgentConfig {
    /// Tells whether anything is said of how the agent is to be run.
    pub(crate) fn says_how(&self) -> bool {
        self.settings.is_some() || self.stop != StopConfig::default() || self.start != StartConfig::default()
    }

    /// Leaves out a gate that need not be.
    pub(crate) fn without_optional_gate(&mut self) {
        if self.gate_is_optional && self.stop.mode == StopMode::Gate {
            self.stop = StopConfig::default();
        }
    }

    /// Reads the files, at most one of each kind.
    pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        let mut has_run = false;
        for path in paths {
            let name = path.display();
            let text = fs::read_to_string(path).with_context(|| format!("cannot read --agent-config {name}"))?;
            let part = Part::parse(&text).with_context(|| format!("--agent-config {name} cannot be used"))?;
            match part {
                Part::Rules(_) if all.rules.is_some() => bail!("--agent-config {name}: one has screen rules already"),
                Part::Run(_) if has_run => bail!("--agent-config {name}: one says already how the agent is run"),
                Part::Rules(rules) => all.rules = Some(rules),
                Part::Run(file) => {
                    has_run = true;
                    all.tools = file.tools;
                    all.session = file.session;
                    all.asks_before = file.asks_before;
                    all.gate_is_optional = file.stop.if_possible;
                    (all.settings, all.stop, all.start) = (file.settings, file.stop.into(), file.start.into());
                }
            }
        }
        Ok(all)
    }
}

impl Part {
    fn parse(text: &str) -> anyhow::Result<Self> {
        if !text.trim_start().starts_with('{') {
            return Ok(Self::Rules(Rules::parse(text)?));
        }
        let value: Value = serde_json::from_str(text).context("it is not JSON")?;
        let known = ["settings", "stop", "start", "tools", "session"];
        if !known.iter().any(|key| value.get(key).is_some()) {
            bail!("it has none of the keys {}", known.join(", "));
        }
        Ok(Self::Run(serde_json::from_value(value)?))
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

    fn read(contents: &[&str]) -> anyhow::Result<AgentConfig> {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |(at, content): (usize, &&str)| {
            let path = folder.path().join(at.to_string());
            fs::write(&path, content).expect("written");
            path
        };
        AgentConfig::read(&contents.iter().enumerate().map(write).collect::<Vec<_>>())
    }

    const RUN: &str = r#"{"settings":{"model":"x"},"stop":{"mode":"gate","escalate":true},"start":{"shell":["a"],"resume":{"text":"b"}}}"#;
    const RULES: &str = "version = 1\nagent = \"x\"";

    #[test]
    fn the_keys_tell_what_a_file_is() {
        let config = read(&[RUN]).expect("a configuration");
        assert_eq!(config.stop, StopConfig { mode: StopMode::Gate, prompt: None, escalate: true });
        assert_eq!(config.start.always, Some(Prime { text: None, shell: vec!["a".into()] }));
        assert_eq!(config.start.by_source.len(), 1);
        assert!(read(&["version = 2\nagent = \"x\""]).is_err());
        assert!(read(&[r#"{"else":1}"#]).is_err());
        assert!(read(&[r#"{"stop":{"mode":"never"}}"#]).is_err());
    }

    #[test]
    fn one_file_of_each_kind_may_be_given() {
        for both in [[RUN, RULES], [RULES, RUN]] {
            let config = read(&both).expect("a configuration");
            assert!(config.rules.is_some() && config.settings.is_some() && config.stop.mode == StopMode::Gate);
        }
        assert!(read(&[RUN, RULES, RUN]).is_err() && read(&[RULES, RULES]).is_err());
    }
}
