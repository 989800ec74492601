//! Servers of tools that a client names for a conversation.

use std::collections::BTreeMap;

use coop_llm::{McpAddress, McpConfig, McpProgram, McpServer, Secrets};
use serde_json::Value;

use super::peer::RpcError;

/// Reads the servers of `session/new` and `session/resume`.
pub(super) fn read(params: &Value) -> Result<McpConfig, RpcError> {
    let given = params["mcpServers"].as_array().map_or(&[][..], Vec::as_slice);
    let mut servers = BTreeMap::new();
    for server in given {
        let name = server["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| RpcError::invalid("an MCP server needs a name"))?;
        let way = way(server).ok_or_else(|| {
            RpcError::invalid(&format!("the MCP server {name:?} is neither a program nor an http address"))
        })?;
        if servers.insert(name.to_owned(), way).is_some() {
            return Err(RpcError::invalid(&format!("two MCP servers are called {name:?}")));
        }
    }
    Ok(McpConfig { servers })
}

fn way(server: &Value) -> Option<McpServer> {
    match server["type"].as_str() {
        Some("http") => {
            let url = server["url"].as_str()?.to_owned();
            Some(McpServer::Http(McpAddress { url, headers: pairs(&server["headers"])? }))
        }
        None | Some("stdio") => {
            let args = server["args"].as_array().map_or(&[][..], Vec::as_slice);
            let args: Option<Vec<_>> = args.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            let command = server["command"].as_str()?.to_owned();
            Some(McpServer::Stdio(McpProgram { command, args: args?, env: pairs(&server["env"])?, cwd: None }))
        }
        Some(_) => None,
    }
}

/// Reads a list of names with values.
fn pairs(list: &Value) -> Option<Secrets> {
    let pair = |entry: &Value| Some((entry["name"].as_str()?.to_owned(), entry["value"].as_str()?.to_owned()));
    let pairs: Option<BTreeMap<_, _>> = list.as_array().map_or(&[][..], Vec::as_slice).iter().map(pair).collect();
    pairs.map(Secrets)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_and_addresses_are_read_and_nothing_else() {
        let read = |servers: Value| read(&json!({ "mcpServers": servers })).map(|config| config.servers);
        let both = json!([
            { "name": "a", "command": "x", "args": ["-y"], "env": [{ "name": "K", "value": "v" }] },
            { "type": "http", "name": "b", "url": "http://h", "headers": [] },
        ]);
        let servers = read(both).expect("servers");
        let env = Secrets([("K".to_owned(), "v".to_owned())].into());
        let program = McpProgram { command: "x".into(), args: vec!["-y".into()], env, cwd: None };
        assert_eq!(servers["a"], McpServer::Stdio(program));
        assert_eq!(servers["b"], McpServer::Http(McpAddress { url: "http://h".into(), headers: Secrets::default() }));
        for wrong in [
            json!([{ "command": "x" }]),
            json!([{ "name": "a" }]),
            json!([{ "name": "a", "type": "sse", "url": "http://h" }]),
            json!([{ "name": "a", "command": "x", "env": [{ "name": "K" }] }]),
            json!([{ "name": "a", "command": "x" }, { "name": "a", "command": "y" }]),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(read(Value::Null).expect("none").is_empty());
    }
}
