//! What the shim needs of whoever runs it.

use std::future::Future;

use coop_api::{Agents, Error};

/// Starts agents and knows the backend.
pub trait Host: Send + Sync + 'static {
    /// An agent; it is the only one in its list.
    type Agent: Agents;

    /// Starts an agent. It is told nothing yet.
    fn start(&self, start: Start) -> impl Future<Output = Result<Self::Agent, Error>> + Send;

    /// Looks at a file that an agent wrote, and brings it to the backend if there is one that wants it.
    fn publish(&self, file: Written) -> impl Future<Output = Published> + Send;
}

/// How to start an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The conversation to go on with.
    pub resume: Option<String>,
    /// How many requests to the model there may be, where the agent can count them.
    pub max_turns: Option<u32>,
    /// Tools that the agent is to ask about, also where it would not by itself.
    pub ask_about: Vec<String>,
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
