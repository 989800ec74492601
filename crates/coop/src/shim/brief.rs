//! `--brief`: a sidecar whose agent is run and set up as a shim would for this brief, by the same code. Nothing is told here:
//! who steers the agent gives it its first message, and knows what became of it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use coop_drivers::{Known, merge};
use coop_server::shim::Briefed;
use serde_json::Value;

use super::setup;
use crate::cli::{RuntimeChoice, Serve, ShimAgent};
use crate::config::AgentConfig;

/// The agents that a brief can set up.
const AGENTS: [&str; 6] = ["claude", "codex", "opencode", "gemini", "acp", "api"];

/// Returns the first message of an agent with this driver, or in one sentence why the brief cannot be used.
pub(crate) fn message(brief: &Value, driver: &str) -> Result<String, String> {
    let (_, name, _) = agent(driver).ok_or_else(|| {
        format!("brief: it must be known which agent it sets up: set driver to {}, not {driver}", or("claude"))
    })?;
    Briefed::read(brief.clone(), name).map(|briefed| briefed.message).map_err(|wrong| wrong.to_string())
}

/// Sets an agent up as the brief in a file says.
pub(crate) fn apply(path: &Path, options: &mut Serve, config: &mut AgentConfig) -> anyhow::Result<()> {
    let (agent, sdk, runtime) = agent(&options.agent).with_context(|| unsaid(options))?;
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read --brief {name}"))?;
    let brief: Value = serde_json::from_str(&text).with_context(|| format!("--brief {name} is not JSON"))?;
    let start = Briefed::read(brief, sdk).with_context(|| format!("--brief {name} cannot be used"))?.start;
    if let Some(more) = setup::settings(agent, &start) {
        merge(config.settings.get_or_insert(Value::Null), &more);
    }
    config.mcp.extend(setup::mcp(&start)?);
    options.runtime = Some(runtime);
    options.command.extend(setup::options(agent, &start));
    Ok(())
}

fn agent(driver: &str) -> Option<(ShimAgent, &'static str, RuntimeChoice)> {
    let agent = ShimAgent::from_str(driver, false).ok()?;
    setup::way(agent).map(|(name, runtime)| (agent, name, runtime))
}

/// Returns what to say if it is not said which agent the brief sets up. The one that the command looks like is named first.
fn unsaid(options: &Serve) -> String {
    let words: Vec<_> = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let looks_like = Known::of_command(&words).map(|(known, _)| known.name).filter(|name| AGENTS.contains(name));
    let (said, first) = (&options.agent, looks_like.unwrap_or("claude"));
    format!("--brief must know which agent it sets up: give --agent {}, not {said}", or(first))
}

fn or(first: &str) -> String {
    let others: Vec<_> = AGENTS.into_iter().filter(|&name| name != first).collect();
    let (last, others) = others.split_last().unwrap_or((&"", &[]));
    format!("{first} (or {} or {last})", others.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::cli::Cli;

    fn brief() -> Value {
        json!({
            "agentId": "a1", "role": "coder", "description": "Fix it.", "workstream": "core", "controlMode": "orchestrator",
            "escalationProtocol": { "alwaysEscalate": ["Read"], "neverEscalate": ["Edit"] },
            "projectBrief": { "title": "t", "description": "d", "goals": [], "checkpoints": [] },
            "knowledgeSnapshot": { "version": 0, "generatedAt": "", "workstreams": [], "pendingDecisions": [],
                "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [], "estimatedTokens": 0 },
            "mcpServers": [{ "name": "demo", "command": "demo" }],
            "sessionPolicy": { "historyPolicy": "full", "maxTurns": 3 },
        })
    }

    fn applied(words: &[&str]) -> anyhow::Result<(Serve, AgentConfig)> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("brief.json");
        fs::write(&path, brief().to_string()).expect("written");
        let mut options = Cli::try_parse_from([&["coop"], words].concat()).expect("a command line").serve;
        let mut config = AgentConfig { settings: Some(json!({ "model": "m" })), ..AgentConfig::default() };
        apply(&path, &mut options, &mut config).map(|()| (options, config))
    }

    #[test]
    fn an_agent_is_set_up_as_a_shim_would() {
        let (options, config) = applied(&["--agent", "claude", "--resume", "c-1", "--", "claude"]).expect("it can be");
        assert_eq!(options.runtime, Some(RuntimeChoice::Pipe));
        assert_eq!(
            (options.command, options.resume.as_deref()),
            (["claude", "--max-turns", "3"].map(Into::into).into(), Some("c-1"))
        );
        assert_eq!(config.settings, Some(json!({ "model": "m", "permissions": { "ask": ["Read", "Bash", "Write"] } })));
        assert_eq!(config.mcp.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["demo"]);
        let (options, _) = applied(&["--agent", "codex", "--resume", "c-1", "--", "codex"]).expect("it can be");
        assert_eq!(options.command, ["codex", "-a", "untrusted"]);
        assert_eq!(options.resume.as_deref(), Some("c-1"), "its driver heeds it");
    }

    #[test]
    fn a_brief_is_for_agents_that_a_shim_can_run() {
        for driver in ["unknown", "auto"] {
            let wrong = applied(&["--agent", driver, "--", "x"]).map(|_| ()).expect_err("not said").to_string();
            assert_eq!(
                wrong,
                format!(
                    "--brief must know which agent it sets up: give --agent claude (or codex, opencode, gemini, acp or api), not {driver}"
                )
            );
            assert_eq!(
                message(&brief(), driver),
                Err(format!(
                    "brief: it must be known which agent it sets up: set driver to claude (or codex, opencode, gemini, acp or api), not {driver}"
                ))
            );
        }
        let wrong = applied(&["--", "npx", "codex"]).map(|_| ()).expect_err("not said").to_string();
        assert!(wrong.contains("give --agent codex (or claude, opencode,"), "{wrong}");
        assert!(AGENTS.iter().all(|name| agent(name).is_some_and(|(_, sdk, _)| sdk == *name)));
        assert!(
            ShimAgent::value_variants().iter().filter(|&&agent| setup::way(agent).is_some()).count() == AGENTS.len()
        );
        assert!(message(&brief(), "claude").is_ok_and(|message| message.contains("Fix it.")));
        assert_eq!(message(&json!({}), "claude"), Err("brief.agentId is missing".to_owned()));
    }
}
