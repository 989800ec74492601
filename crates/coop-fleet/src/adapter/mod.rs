//! The way to agents: seed 000's twelve operations.
//!
//! The engine decides, an adapter does. [`SidecarAdapter`] has each agent in a sidecar, which a [`Launcher`](crate::launcher)
//! runs; [`FakeAgentAdapter`] has none. [`conformance`] says what all have to do, and tests hold them to it.

pub mod conformance;
mod fake;
mod machine;
mod sidecar;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;

use coop_api::{AgentId, AgentState, Answer, Error, PermissionMode, Seq, UsageReport};
use tokio::sync::mpsc;

pub use self::fake::{Call, FakeAgentAdapter, Operation};
pub use self::machine::{MachineAdapter, SHIM};
pub use self::sidecar::SidecarAdapter;
use crate::Fact;
use crate::definition::{Sandbox, Start};
use crate::engine::StopMode;
use crate::sidecar::launcher::RunOwner;

/// Tells whether an agent can be called this: the id is the name of its folder, which goes when it is forgotten.
pub fn can_be_id(agent: &AgentId) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !agent.0.is_empty() && agent.0.bytes().all(is_plain)
}

/// How an agent is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Its id, which is also the name of its folder.
    pub agent: AgentId,
    /// What kind of agent it is, as `coop --agent` takes it.
    pub driver: String,
    /// What is run.
    pub command: Vec<String>,
    /// Where it works.
    pub folder: PathBuf,
    /// What is in its environment beside ours.
    pub env: BTreeMap<String, String>,
    /// How it is run, as `coop --runtime` takes it.
    pub runtime: Option<String>,
    /// Whether it has a configuration of its own.
    pub isolate: bool,
    /// The sandbox it runs in, if it runs in one.
    pub sandbox: Option<Sandbox>,
    /// Whether that configuration says that the folder is trusted, so that the agent does not ask.
    pub trust: bool,
    /// How it decides which tools to use without asking; its own default without it.
    pub permission_mode: Option<PermissionMode>,
    /// Whether it asks before it uses any tool, whatever its mode.
    pub ask_first: bool,
    /// Settings in the agent's own words, with `${NAME}` for variables.
    pub settings: Option<serde_json::Value>,
    /// How the end of its turns is held.
    pub stop: StopMode,
    /// Whether it is told to ask its user when it is sent back.
    pub ask_user: bool,
    /// What it is told when it begins.
    pub start: Start,
    /// Which conversation it goes on with.
    pub resume: Option<String>,
    /// How large the recording of its terminal may become, in bytes; without it none is made.
    pub record: Option<u64>,
    /// How many asks its earlier sidecars have opened. The ids of new asks continue after them, so that an answer to an old ask
    /// never settles a new one.
    pub asks_before: u64,
    /// Who decides whether it runs.
    pub run_owner: RunOwner,
}

/// How an agent that runs is found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReconnectConfig {
    /// Its id.
    pub agent: AgentId,
    /// The sidecar that was followed last, by its name, and the last event of it that was read. Another sidecar is read from its
    /// first event. A process with another name counts as the agent's sidecar only if its command line says so.
    pub known: Option<(String, Seq)>,
    /// Whether it went on with a conversation.
    pub resumed: bool,
    /// Who decides whether it runs.
    pub run_owner: RunOwner,
}

/// An agent that runs and is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentHandle {
    /// Its id.
    pub agent: AgentId,
    /// Its sidecar's name, unique for all time.
    pub sidecar: String,
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentAdapterError {
    /// No such agent runs.
    #[error("no agent {0} runs")]
    NotFound(AgentId),
    /// It runs already.
    #[error("the agent {0} runs already")]
    Exists(AgentId),
    /// It did not start.
    #[error("{agent} did not start: {why}")]
    SpawnFailed {
        /// Which.
        agent: AgentId,
        /// What it said.
        why: String,
    },
    /// It may run, and does not answer.
    #[error("{agent} cannot be reached: {why}")]
    Unreachable {
        /// Which.
        agent: AgentId,
        /// What was seen.
        why: String,
    },
    /// It runs, and does not do it.
    #[error("{0}")]
    Refused(Error),
}

/// Starts agents, follows them and tells them things. What happens to them comes by the channel that was given for that; who
/// does not read it holds up that agent's events and nothing else.
pub trait AgentAdapter: Clone + Send + Sync + 'static {
    /// Starts an agent and follows it.
    fn spawn(
        &self,
        config: AgentConfig,
        facts: mpsc::Sender<Fact>,
    ) -> impl Future<Output = Result<AgentHandle, AgentAdapterError>> + Send;

    /// Gives up a start that is under way and may take long: nobody wants it any more.
    fn give_up(&self, _agent: &AgentId) {}

    /// Gives an agent a message, at once or not at all. Nothing is ever typed into a dialog.
    fn send(&self, agent: &AgentId, input: &str) -> impl Future<Output = Result<(), AgentAdapterError>> + Send;

    /// Answers what an agent asks.
    fn respond(&self, agent: &AgentId, answer: &Answer) -> impl Future<Output = Result<(), AgentAdapterError>> + Send;

    /// Ends an agent; one that has ended by itself is let go.
    fn kill(&self, agent: &AgentId) -> impl Future<Output = Result<(), AgentAdapterError>> + Send;

    /// Follows an agent that runs, without starting anything. One that has ended meanwhile is told of as gone.
    fn reconnect(
        &self,
        config: AgentReconnectConfig,
        facts: mpsc::Sender<Fact>,
    ) -> impl Future<Output = Result<AgentHandle, AgentAdapterError>> + Send;

    /// Returns what an agent is doing.
    fn get_state(&self, agent: &AgentId) -> impl Future<Output = Result<AgentState, AgentAdapterError>> + Send;

    /// Returns the last thing an agent said.
    fn last_message(&self, agent: &AgentId) -> impl Future<Output = Option<String>> + Send;

    /// Lets an agent that is held end its turn. One that is not held is left alone.
    fn resolve_stop(&self, agent: &AgentId) -> impl Future<Output = ()> + Send;

    /// Tells whether an agent's sidecar runs.
    fn is_alive(&self, agent: &AgentId) -> impl Future<Output = bool> + Send;

    /// Returns the last lines of an agent's terminal.
    fn capture_output(
        &self,
        agent: &AgentId,
        lines: u32,
    ) -> impl Future<Output = Result<String, AgentAdapterError>> + Send;

    /// Returns an agent's conversation as it keeps it.
    fn fetch_transcript(&self, agent: &AgentId) -> impl Future<Output = Result<String, AgentAdapterError>> + Send;

    /// Returns what an agent has used.
    fn fetch_usage(&self, agent: &AgentId) -> impl Future<Output = Option<UsageReport>> + Send;
}
