//! What the daemon answers, in words that OpenAPI can describe. What only the engine can say is JSON in its words.

use std::collections::BTreeMap;

use coop_api::{AgentId, Ask, AskId, PermissionMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether the daemon runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FleetHealth {
    /// `running`.
    pub status: String,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How many agents it knows.
    pub agents: usize,
    /// How many sidecars run that it does not know; `coop ls --orphans` lists them.
    pub orphans: usize,
    /// The number of the newest event.
    pub newest: u64,
    /// How its store is.
    pub store: StoreHealth,
    /// How the cluster is that its agents are in, if they are in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterHealth>,
}

/// How the cluster is that the daemon's agents are in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClusterHealth {
    /// Where its API server is.
    pub address: String,
    /// The namespace of the agents.
    pub namespace: String,
    /// `fine`; `lost` while something there is not told: then what is known of agents may be old.
    pub condition: String,
    /// What was seen, if it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How the daemon's store is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StoreHealth {
    /// `sqlite` or `postgres`.
    pub kind: String,
    /// `fine`; `slow` while it is at one thing for more than a second; `lost` while its server cannot be reached.
    pub condition: String,
    /// For how many seconds, if it is not fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secs: Option<u64>,
    /// What was seen, if it is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What people want to know of an agent at a glance.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AgentCard {
    /// Its id.
    pub id: AgentId,
    /// Its name in the definition.
    pub name: Option<String>,
    /// Where it works.
    pub folder: Option<String>,
    /// `starting`, `working`, `idle`, `asking`, `blocked` or `dead`.
    pub phase: String,
    /// What became of it, once that is decided: `outcome` is `done`, `failed` (with `why`) or `dismissed` (with `by`).
    pub outcome: Option<Value>,
    /// Why a person was called, until one came.
    pub needs: Option<String>,
    /// What it asks, oldest first.
    pub asks: Vec<AskId>,
    /// Processes it has had.
    pub run: u32,
    /// Turns it has begun.
    pub turn: u64,
    /// When it was first started, in milliseconds since 1970.
    pub since: u64,
    /// What it has cost, as far as that is known.
    pub cost_usd: f64,
    /// How it decides which tools to use without asking, if that is known: `default`, `accept-edits`, `auto`, `plan`, `dont-ask` or `bypass`.
    pub permission_mode: Option<PermissionMode>,
    /// What it does in this mode without an ask, so that neither people nor rules decide it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_without_ask: Option<String>,
    /// The last thing it said.
    pub last_message: Option<String>,
    /// How its last process ended.
    pub exit: Option<ExitBody>,
    /// When it ended, in milliseconds since 1970; only for one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// The number of the last of its sidecar's events that is written down; only for one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<u64>,
    /// What a person should know about its rules: rules that match nothing, or that it never asks; only for one agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub warnings: Vec<String>,
    /// True if it runs in a sandbox; only for one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<bool>,
    /// True if it asks before it uses any tool; only for one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_first: Option<bool>,
    /// What was to be done for it, in order; only for one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<Value>>,
}

/// A process of an agent that has ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PastRun {
    /// The agent's id.
    pub id: AgentId,
    /// Its name in the definition.
    pub name: Option<String>,
    /// Where it worked.
    pub folder: Option<String>,
    /// Which of its agent's processes it was, from 1; 0 if none could be started.
    pub run: u32,
    /// How many the agent has had.
    pub runs: u32,
    /// Whether it went on with a conversation.
    pub resumed: bool,
    /// What became of the agent, if that is decided and this was its last; of an earlier one, who ended it.
    pub outcome: Option<Value>,
    /// How it ended, if that is known.
    pub exit: Option<ExitBody>,
    /// When it was started, in milliseconds since 1970.
    pub began: u64,
    /// When it ended; of an agent with one process, when it was last heard of.
    pub ended: u64,
    /// Turns it has begun.
    pub turns: u64,
    /// What the conversation had cost by then, as far as that is known.
    pub cost_usd: Option<f64>,
    /// What it was told first.
    pub prompt: Option<String>,
    /// The last thing that the agent said, if this was its last.
    pub last_message: Option<String>,
    /// How large the recording of the agent's terminal is, with all its processes; nothing if there is none of this one.
    pub recorded: Option<u64>,
    /// What it was told or said, where that is what was looked for.
    pub found: Option<String>,
}

/// Processes of agents that have ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryBody {
    /// The last that ended comes first.
    pub runs: Vec<PastRun>,
    /// How many there are beyond those.
    pub more: usize,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ExitBody {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// All agents.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AgentCards {
    /// In the order of their ids.
    pub agents: Vec<AgentCard>,
}

/// Something that an agent asks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAsk {
    /// Who asks.
    pub agent: AgentId,
    /// What.
    pub ask: Ask,
}

/// What all agents ask.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAsks {
    /// Oldest first.
    pub asks: Vec<OpenAsk>,
}

/// A sidecar that nothing is known of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Orphan {
    /// The agent it was started for.
    pub id: AgentId,
    /// Its process, if it is one of the daemon's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What kind of agent it runs.
    pub driver: String,
    /// The command it runs.
    pub command: Vec<String>,
    /// Where.
    pub folder: String,
}

/// Sidecars that nothing is known of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Orphans {
    /// In no order.
    pub orphans: Vec<Orphan>,
}

/// What was answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AuditBody {
    /// Each answer: which agent and ask, what, by whom and why, and what became of it.
    pub decisions: Vec<Value>,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LogEntry {
    /// Its number among all that happened; it only grows.
    pub id: u64,
    /// To which agent.
    pub agent: AgentId,
    /// When it was heard, in milliseconds since 1970.
    pub at: u64,
    /// What it means to the engine; `what` says what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What the sidecar said, as its own events are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Value>,
}

/// A page of what happened.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct LogEntries(pub Vec<LogEntry>);

/// Everything at one moment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Snapshot {
    /// The number of the newest event that is in it.
    pub newest: u64,
    /// All agents.
    pub agents: Vec<AgentCard>,
    /// What they ask, oldest first.
    pub asks: Vec<OpenAsk>,
}

/// What is new since a number.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct News {
    /// What happened, in order.
    pub entries: Vec<LogEntry>,
    /// Those agents that something happened to, as they are at `newest`.
    pub agents: Vec<AgentCard>,
    /// What these agents ask at `newest`.
    pub asks: Vec<OpenAsk>,
    /// The number of the newest event of all, which may be later than the last entry.
    pub newest: u64,
    /// The last number that is gone with an agent that was forgotten, if that is after the cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_through: Option<u64>,
}

/// Counts of what there is and was.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StatsBody {
    /// How long the daemon runs.
    pub uptime_secs: u64,
    /// How many agents it knows.
    pub agents: usize,
    /// How many of them in each phase.
    pub phases: BTreeMap<String, u64>,
    /// How many of them came to what.
    pub outcomes: BTreeMap<String, u64>,
    /// How many wait for a person.
    pub needing: usize,
    /// How many asks are open.
    pub asks: usize,
    /// Turns that all of them have begun.
    pub turns: u64,
    /// Processes that all of them have had.
    pub runs: u64,
    /// What all of them have cost, as far as that is known.
    pub cost_usd: f64,
    /// How many events are kept.
    pub events: u64,
    /// The number of the newest.
    pub newest: u64,
    /// How many intents are in each state.
    pub intents: BTreeMap<String, u64>,
    /// How large the store's file is.
    pub store_bytes: u64,
}

/// An agent that something was done with.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Named {
    /// Which.
    pub id: AgentId,
}

/// An agent that was started.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Spawned {
    /// Its id.
    pub id: AgentId,
    /// What a person should know about its rules: rules that match nothing, or that it never asks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub warnings: Vec<String>,
}

/// What becomes of the daemon.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ending {
    /// `ending`.
    pub status: String,
}

/// How a daemon is ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DownBody {
    /// Whether agents end too.
    #[serde(default)]
    pub kill: bool,
}

/// How an agent is started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnBody {
    /// The text of a `coop.toml`.
    pub definition: String,
    /// Which agent in it.
    pub name: String,
    /// The folder it works in, or that the definition's own folder is below.
    pub folder: String,
    /// Its id; one is made from the name without it.
    pub id: Option<AgentId>,
    /// Its first message, instead of the one in the definition.
    pub prompt: Option<String>,
}
