//! What the shim needs of whoever runs it.

use std::future::Future;

use coop_api::{Agents, Error};

use super::types::McpServerConfig;

/// Starts agents and knows the backend.
pub trait Host: Send + Sync + 'static {
    /// An agent; it is the only one in its list.
    type Agent: Agents;

    /// Starts an agent. It is told nothing yet.
    fn start(&self, start: Start) -> impl Future<Output = Result<Self::Agent, Error>> + Send;

    /// Returns what the agent and all that it started use of the machine now.
    fn usage(&self) -> Used;

    /// Looks at a file that an agent wrote, and brings it to the backend if there is one that wants it.
    fn publish(&self, file: Written) -> impl Future<Output = Published> + Send;
}

/// How to start an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The conversation to go on with.
    pub resume: Option<String>,
    /// How many requests to the model there may be, where the agent can count them.
    pub max_turns: Option<u32>,
    /// Tools that the agent is to ask about, also where it would not by itself.
    pub ask_about: Vec<String>,
    /// Servers of tools that it is to use; each is whole.
    pub mcp: Vec<McpServerConfig>,
    /// Whether it may hand parts of its task to sub-agents.
    pub may_delegate: bool,
}

/// What is used of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Of one processor, since it was last asked.
    pub cpu_percent: f64,
    /// Memory that is not swapped out.
    pub memory_mb: f64,
}

/// A file that an agent wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whose it is.
    pub agent_id: String,
    /// Its name in the protocol.
    pub artifact_id: String,
    /// Where it is.
    pub path: String,
    /// What it is.
    pub mime_type: String,
}

/// What became of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// How large it is.
    pub size: Option<u64>,
    /// Where the backend has it.
    pub uri: Option<String>,
}
