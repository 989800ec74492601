//! What a brief asks for and no shim of ours can keep. It is refused: an agent without it would not be the one that was asked
//! for.

use serde_json::{Value, json};

use super::body::Invalid;
use super::types::{Ability, AgentBrief, GuardrailPolicy, McpServerConfig, Transport, WorkspaceRequirements};

/// Says what of a brief cannot be kept.
pub(crate) fn check(brief: &AgentBrief) -> Result<(), Invalid> {
    brief.mcp_servers.iter().flatten().enumerate().try_for_each(|(at, server)| mcp(at, server))?;
    brief.workspace_requirements.as_ref().map_or(Ok(()), workspace)?;
    brief.guardrail_policy.as_ref().map_or(Ok(()), guardrails)
}

/// An agent has what this machine has, and is not walled in.
fn workspace(wanted: &WorkspaceRequirements) -> Result<(), Invalid> {
    if let Some(mount) = wanted.mounts.first() {
        let why = "the agent works in the folder that coop was started in, and nothing is mounted; leave them out";
        return Err(Invalid::at(&["workspaceRequirements", "mounts"], why, json!(mount.sandbox_path)));
    }
    let cannot = |ability: &Ability| match ability {
        Ability::Terminal | Ability::Git | Ability::NetworkExternal => false,
        Ability::Browser | Ability::Docker | Ability::NetworkInternalOnly | Ability::Gpu => true,
    };
    match wanted.capabilities.iter().enumerate().find(|(_, ability)| cannot(ability)) {
        Some((at, ability)) => {
            let (at, ability) =
                (vec!["workspaceRequirements".into(), "capabilities".into(), at.into()], json!(ability));
            let why = format!(
                "{} cannot be promised: an agent has no more and no less than the machine it runs on; leave it out",
                ability.as_str().unwrap_or_default()
            );
            Err(Invalid::there(at, &why, ability))
        }
        None => Ok(()),
    }
}

fn guardrails(policy: &GuardrailPolicy) -> Result<(), Invalid> {
    let all = [
        ("inputGuardrails", &policy.input_guardrails),
        ("outputGuardrails", &policy.output_guardrails),
        ("toolGuardrails", &policy.tool_guardrails),
    ];
    match all.into_iter().find_map(|(key, some)| some.first().map(|first| (key, first))) {
        Some((key, guardrail)) => {
            let why = format!(
                "{:?} cannot be kept: a guardrail is words, and nobody here judges by them; leave it out",
                guardrail.name
            );
            Err(Invalid::at(&["guardrailPolicy", key], &why, json!(guardrail.name)))
        }
        None => Ok(()),
    }
}

/// A server of tools has a name that every agent takes, and one way to it.
fn mcp(at: usize, server: &McpServerConfig) -> Result<(), Invalid> {
    let wrong =
        |key: &str, why: &str| Err(Invalid::there(vec!["mcpServers".into(), at.into(), key.into()], why, Value::Null));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if server.name.is_empty() || !server.name.bytes().all(is_plain) {
        return wrong("name", "must have letters, digits, - and _, and nothing else");
    }
    if server.config.as_ref().is_some_and(|config| !config.is_empty()) {
        return wrong("config", "agents have no place for it; leave it out");
    }
    match (server.transport, &server.command, &server.url) {
        (Some(Transport::Ws), ..) => wrong("transport", "no agent speaks MCP over WebSockets; use stdio, http or sse"),
        (None | Some(Transport::Stdio), Some(_), None)
        | (None | Some(Transport::Http | Transport::Sse), None, Some(_)) => Ok(()),
        (_, Some(_), Some(_)) => wrong("url", "a server has a command or a url, not both"),
        (Some(Transport::Stdio) | None, None, _) => wrong("command", "a server that is run needs one"),
        (Some(Transport::Http | Transport::Sse), _, _) => wrong("url", "a server over http or sse needs one"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::brief::Brief;
    use super::*;

    fn read(key: &str, value: Value) -> Result<Brief, Invalid> {
        let mut brief = crate::shim::tests::brief();
        brief[key] = value;
        Brief::read(brief)
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_its_place() {
        let refused = [
            (
                "workspaceRequirements",
                json!({ "mounts": [{ "hostPath": "/a", "sandboxPath": "/b", "readOnly": true }],
                                              "capabilities": [] }),
            ),
            ("workspaceRequirements", json!({ "mounts": [], "capabilities": ["git", "network_internal_only"] })),
            (
                "guardrailPolicy",
                json!({ "inputGuardrails": [], "outputGuardrails": [],
                "toolGuardrails": [{ "name": "g", "description": "d", "action": "block" }] }),
            ),
            ("mcpServers", json!([{ "name": "a b", "command": "x" }])),
            ("mcpServers", json!([{ "name": "a", "transport": "ws", "url": "ws://h" }])),
            ("mcpServers", json!([{ "name": "a" }])),
            ("mcpServers", json!([{ "name": "a", "transport": "http", "command": "x" }])),
            ("mcpServers", json!([{ "name": "a", "command": "x", "url": "http://h" }])),
            ("mcpServers", json!([{ "name": "a", "command": "x", "config": { "k": 1 } }])),
        ];
        for (key, value) in refused {
            assert!(read(key, value.clone()).is_err(), "{key} {value}");
        }
        let taken = [
            ("workspaceRequirements", json!({ "mounts": [], "capabilities": ["git", "terminal", "network_external"] })),
            ("guardrailPolicy", json!({ "inputGuardrails": [], "outputGuardrails": [], "toolGuardrails": [] })),
            (
                "mcpServers",
                json!([{ "name": "a", "command": "x" }, { "name": "b", "url": "http://h" },
                                  { "name": "c", "transport": "sse", "url": "http://h" }]),
            ),
        ];
        for (key, value) in taken {
            assert!(read(key, value.clone()).is_ok(), "{key} {value}");
        }
    }

    #[test]
    fn sub_agents_are_allowed_unless_the_brief_says_no() {
        let may = |can: bool, depth: u32| {
            let policy = json!({ "canSpawnSubagents": can, "allowedHandoffs": [], "maxDepth": depth });
            read("delegationPolicy", policy).expect("a brief").may_delegate()
        };
        assert_eq!((may(true, 1), may(true, 0), may(false, 1)), (true, false, false));
        assert!(Brief::read(crate::shim::tests::brief()).expect("a brief").may_delegate());
    }
}
