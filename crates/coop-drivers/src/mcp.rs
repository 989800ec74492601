//! Servers of tools that an agent is to use, whatever agent it is.

use std::collections::BTreeMap;

/// A server of tools by the Model Context Protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct McpServer {
    /// What the agent calls it: letters, digits, `-` and `_`.
    pub name: String,
    /// How it is reached.
    pub way: McpWay,
}

/// How a server of tools is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpWay {
    /// It is a program that the agent starts.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// What it has in its environment; there may be secrets among it.
        env: BTreeMap<String, String>,
    },
    /// It listens somewhere.
    Url {
        /// Where.
        url: String,
        /// What it is sent with every request; there may be secrets among it.
        headers: BTreeMap<String, String>,
        /// Whether it speaks the older form, with an event stream of its own.
        is_sse: bool,
    },
}

/// Says no secret.
impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "McpServer({})", self.name)
    }
}
