//! Which MCP servers there are, in the form that other agents use too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// MCP servers by name: `{"mcpServers": {"NAME": …}}`.
///
/// ```
/// let text = r#"{"mcpServers": {
///     "files": {"command": "mcp-files", "args": ["--all"], "env": {"LEVEL": "1"}},
///     "tickets": {"type": "http", "url": "https://tickets.example/mcp", "headers": {"Authorization": "Bearer x"}}
/// }}"#;
/// let config: coop_llm::McpConfig = serde_json::from_str(text).unwrap();
/// assert_eq!(config.servers.len(), 2);
/// assert!(!format!("{config:?}").contains("Bearer"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct McpConfig {
    /// The servers.
    #[serde(rename = "mcpServers", default)]
    pub servers: BTreeMap<String, McpServer>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum McpServer {
    /// A program that speaks over its standard streams.
    Stdio(McpProgram),
    /// A server that speaks over HTTP.
    Http(McpAddress),
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct McpProgram {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables that it gets besides those of this program.
    #[serde(default)]
    pub env: Secrets,
    /// Where it runs.
    pub cwd: Option<PathBuf>,
}

/// A server to reach.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct McpAddress {
    /// Where it is.
    pub url: String,
    /// Headers that it gets.
    #[serde(default)]
    pub headers: Secrets,
}

/// Names with values that are not shown, since there are keys among them.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
