//! `coop.toml`: which agents a project has, what is done about them, and what they may do.
//!
//! ```toml
//! [agents.fixer]
//! driver = "claude"
//! prompt = "Make the tests pass."
//! on_idle = [{ action = "gate", run = "make check", attempts = 3 }, "escalate"]
//! on_error = { rate_limit = { action = "retry", cooldown = "5m" } }
//!
//! [[policy]]
//! tool = "shell"
//! command = "cargo test"
//! decide = "allow"
//! why = "it may run its own code"
//!
//! [commands]
//! format = ["cargo", "fmt"]
//! test = { run = ["make", "test"], limit = "10m" }
//! ```
//!
//! Every mistake is told with its line, and nothing is used of a file that has one.

mod actions;
mod agent;
mod read;
mod rules;
mod substitute;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use coop_api::PermissionMode;
use coop_policy::{Policy, Warned, kind_of};
use serde::Serialize;
use serde_json::Value;

use self::read::Node;
pub(crate) use self::substitute::substitute;
use crate::engine::{Actions, Limits, Rules};
use crate::workspace::{COMMAND_LIMIT, NamedCommand};

/// The driver of coop's own agent, `coop run`: its command is options of that.
pub const OWN_AGENT: &str = "api";

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// The agents, by name.
    pub agents: BTreeMap<String, AgentDefinition>,
    /// What they may do without anybody being asked.
    pub policy: Policy,
    /// What they may run by a name.
    pub commands: BTreeMap<String, NamedCommand>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentDefinition {
    /// What people call it.
    pub name: String,
    /// What kind of agent it is, as `coop --agent` takes it.
    pub driver: String,
    /// What is run.
    pub command: Vec<String>,
    /// Its first message.
    pub prompt: Option<String>,
    /// Where it works; below the file's folder, unless it is a whole path.
    pub folder: Option<String>,
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
    pub settings: Option<Value>,
    /// How large the recording of its terminal may become, in bytes; none is made without it.
    pub record: Option<u64>,
    /// What it is told when it begins.
    pub start: Start,
    /// How far it may go.
    pub limits: Limits,
    /// What is done about it.
    pub actions: Actions,
}

/// What an agent in a sandbox may do beyond its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// What else it may write to; `~/` is the user's home.
    pub write: Vec<String>,
    /// What else it must not see.
    pub hide: Vec<String>,
    /// Whether it has no network.
    pub no_network: bool,
}

/// What an agent is told when it begins: always, or by why it begins. This is also how `agent-config.json` spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Start {
    /// For every beginning that has none of its own.
    #[serde(flatten)]
    pub always: Prime,
    /// When it is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup: Option<Prime>,
    /// When it goes on with a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Prime>,
    /// When its conversation was cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clear: Option<Prime>,
    /// When its conversation was made shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact: Option<Prime>,
}

/// Text, and scripts whose output is text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prime {
    /// Told as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Run by a shell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shell: Vec<String>,
}

/// A mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DefinitionError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl Definition {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let parsed = toml::de::DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            read::error(text, at, error.message())
        })?;
        let file = Node::table_of(text, &parsed);
        let table = file.table(&["agents", "policy", "commands"])?;
        let mut agents = BTreeMap::new();
        if let Some(node) = table.get("agents") {
            for (name, node) in node.entries()? {
                agents.insert(name.text().to_owned(), agent::read(&name, &node)?);
            }
        }
        let rules = table.get("policy").map(|node| node.list()).transpose()?.unwrap_or_default();
        let rules = rules.iter().map(rules::read).collect::<Result<_, _>>()?;
        let mut commands = BTreeMap::new();
        if let Some(node) = table.get("commands") {
            for (name, node) in node.entries()? {
                commands.insert(name.text().to_owned(), command(&node)?);
            }
        }
        Ok(Self { agents, policy: Policy { rules }, commands })
    }
}

/// Reads a command: its words, or a table with them and how long it may take.
fn command(node: &Node<'_>) -> Result<NamedCommand, DefinitionError> {
    let (words, limit) = if node.is_list() {
        (node.clone(), COMMAND_LIMIT)
    } else {
        let table = node.table(&["run", "limit"])?;
        let words = table.get("run").ok_or_else(|| node.error("\"run\" is missing: the command's words"))?;
        (words, table.get("limit").map(|node| node.time()).transpose()?.unwrap_or(COMMAND_LIMIT))
    };
    let run = words.texts()?;
    if run.first().is_none_or(String::is_empty) {
        return Err(words.error("there is nothing to run"));
    }
    Ok(NamedCommand { run, limit })
}

impl AgentDefinition {
    /// Returns what the engine goes by, for an agent that works in this folder.
    pub fn rules(&self, policy: &Policy, folder: &str) -> Rules {
        Rules {
            name: self.name.clone(),
            prompt: self.prompt.clone(),
            actions: self.actions.clone(),
            limits: self.limits.clone(),
            policy: policy.clone(),
            folder: folder.to_owned(),
            kind: kind_of(&self.driver, &self.command).map(|known| known.name),
        }
    }

    /// Returns what a person should know about the rules for this agent.
    pub fn warnings(&self, policy: &Policy) -> Vec<String> {
        let kind = kind_of(&self.driver, &self.command);
        policy.warnings(Warned { name: &self.name, kind, command: &self.command, settings: self.settings.as_ref() })
    }
}

/// Writes a text as a definition has it: a JSON string is a TOML string, but for one character that TOML wants escaped too.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// How long a gate may take if nobody says.
const GATE_LIMIT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
