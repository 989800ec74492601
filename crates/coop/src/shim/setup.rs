//! What a brief says, in the words of each agent.

use std::ffi::OsString;

use anyhow::bail;
use coop_drivers::{McpServer, McpWay};
use coop_server::shim::Start;
use coop_server::shim::types::Transport;
use serde_json::{Map, Value, json};

use crate::cli::{RuntimeChoice, ShimAgent};

/// Returns the name of an agent's driver and how a shim runs it; nothing for a script.
pub(super) fn way(agent: ShimAgent) -> Option<(&'static str, RuntimeChoice)> {
    match agent {
        ShimAgent::Claude => Some(("claude", RuntimeChoice::Pipe)),
        ShimAgent::Codex => Some(("codex", RuntimeChoice::Pipe)),
        ShimAgent::Opencode => Some(("opencode", RuntimeChoice::Server)),
        ShimAgent::Gemini => Some(("gemini", RuntimeChoice::Pipe)),
        ShimAgent::Acp => Some(("acp", RuntimeChoice::Pipe)),
        ShimAgent::Api => Some(("api", RuntimeChoice::Inproc)),
        ShimAgent::Mock => None,
    }
}

/// Returns settings by which the agent asks about tools that it would use without asking, and lets others be.
pub(super) fn settings(agent: ShimAgent, start: &Start) -> Option<Value> {
    match agent {
        ShimAgent::Claude => {
            let mut rules = Map::new();
            if !start.ask_about.is_empty() {
                rules.insert("ask".to_owned(), json!(start.ask_about));
            }
            if !start.may_delegate {
                // It has had both names.
                rules.insert("deny".to_owned(), json!(["Task", "Agent"]));
            }
            (!rules.is_empty()).then(|| json!({ "permissions": rules }))
        }
        ShimAgent::Opencode => {
            let asked = start.ask_about.iter().map(|tool| (of_opencode(tool), json!("ask")));
            let denied = (!start.may_delegate).then(|| ("task".to_owned(), json!("deny")));
            let rules: Map<_, _> = asked.chain(denied).collect();
            (!rules.is_empty()).then(|| json!({ "permission": rules }))
        }
        ShimAgent::Codex | ShimAgent::Gemini | ShimAgent::Acp | ShimAgent::Api | ShimAgent::Mock => None,
    }
}

/// Returns what OpenCode calls the leave for a tool: one for all that change files.
fn of_opencode(tool: &str) -> String {
    match tool.to_ascii_lowercase().as_str() {
        "write" | "edit" | "multiedit" | "patch" | "apply_patch" => "edit".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns options for the agent's command line.
pub(super) fn options(agent: ShimAgent, start: &Start) -> Vec<OsString> {
    let most = start.max_turns.map(|most| most.to_string());
    let words: Vec<String> = match (agent, most) {
        (ShimAgent::Claude, Some(most)) => vec!["--max-turns".to_owned(), most],
        // It then asks about every command but those that only look.
        (ShimAgent::Codex, _) if !start.ask_about.is_empty() => vec!["-a".to_owned(), "untrusted".to_owned()],
        // Whatever its configuration says.
        (ShimAgent::Gemini, _) if !start.ask_about.is_empty() => {
            vec!["--approval-mode".to_owned(), "default".to_owned()]
        }
        (ShimAgent::Api, most) => {
            // About all of them: what was not meant is allowed by the brief.
            let ask = (!start.ask_about.is_empty()).then(|| ["--ask".to_owned(), "all".to_owned()]);
            let most = most.map(|most| ["--max-turns".to_owned(), most]);
            ask.into_iter().chain(most).flatten().collect()
        }
        (
            ShimAgent::Claude
            | ShimAgent::Codex
            | ShimAgent::Opencode
            | ShimAgent::Gemini
            | ShimAgent::Acp
            | ShimAgent::Mock,
            _,
        ) => vec![],
    };
    words.into_iter().map(OsString::from).collect()
}

/// Returns the servers of tools. The brief was read before, so each has one way to it.
pub(super) fn mcp(start: &Start) -> anyhow::Result<Vec<McpServer>> {
    let way = |server: &coop_server::shim::types::McpServerConfig| {
        Ok(match (&server.command, &server.url) {
            (Some(command), None) => McpWay::Program {
                command: command.clone(),
                args: server.args.clone().unwrap_or_default(),
                env: server.env.clone().unwrap_or_default(),
            },
            (None, Some(url)) => McpWay::Url {
                url: url.clone(),
                headers: server.headers.clone().unwrap_or_default(),
                is_sse: server.transport == Some(Transport::Sse),
            },
            _ => bail!("the MCP server {} is a program or has an address", server.name),
        })
    };
    start.mcp.iter().map(|server| Ok(McpServer { name: server.name.clone(), way: way(server)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(ask_about: &[&str], may_delegate: bool) -> Start {
        let ask_about = ask_about.iter().map(|&tool| tool.to_owned()).collect();
        Start { resume: None, max_turns: None, ask_about, mcp: vec![], may_delegate }
    }

    #[test]
    fn each_agent_is_told_in_its_own_words_to_ask() {
        let always = start(&["Read", "Write"], true);
        let claude = json!({ "permissions": { "ask": ["Read", "Write"] } });
        assert_eq!(settings(ShimAgent::Claude, &always), Some(claude));
        let opencode = json!({ "permission": { "read": "ask", "edit": "ask" } });
        assert_eq!(settings(ShimAgent::Opencode, &always), Some(opencode));
        assert_eq!(options(ShimAgent::Codex, &always), ["-a", "untrusted"]);
        assert_eq!(options(ShimAgent::Gemini, &always), ["--approval-mode", "default"]);
        assert_eq!(
            options(ShimAgent::Api, &Start { max_turns: Some(3), ..always }),
            ["--ask", "all", "--max-turns", "3"]
        );
        let never = start(&[], true);
        let all = [
            ShimAgent::Claude,
            ShimAgent::Codex,
            ShimAgent::Opencode,
            ShimAgent::Gemini,
            ShimAgent::Acp,
            ShimAgent::Api,
        ];
        for agent in all {
            assert_eq!((settings(agent, &never), options(agent, &never).len()), (None, 0), "{agent:?}");
        }
    }

    #[test]
    fn sub_agents_are_forbidden_where_that_can_be() {
        let alone = start(&[], false);
        let claude = json!({ "permissions": { "deny": ["Task", "Agent"] } });
        assert_eq!(settings(ShimAgent::Claude, &alone), Some(claude));
        assert_eq!(settings(ShimAgent::Opencode, &alone), Some(json!({ "permission": { "task": "deny" } })));
    }
}
