use std::path::PathBuf;

use coop_api::{AgentId, PermissionMode};
use serde::{Deserialize, Serialize};

use crate::adapter::AgentConfig;
use crate::definition::{Definition, Sandbox};
use crate::engine::{Agent, Rules};
use crate::sidecar::launcher::RunOwner;

/// Where an agent's rules come from: the text of a definition, and the name in it. It is kept as text, so that what was
/// decided can be decided again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defined {
    /// The whole file.
    pub text: String,
    /// Which agent in it.
    pub name: String,
    /// Where it works.
    pub folder: String,
    /// Its first message, instead of the one in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The agent that started it, if it was no person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// Who decides whether it runs.
    #[serde(default, skip_serializing_if = "RunOwner::is_fleet")]
    pub run_owner: RunOwner,
}

impl Defined {
    /// Returns what holds for the agent.
    pub fn rules(&self) -> Option<Rules> {
        let definition = Definition::parse(&self.text).ok()?;
        let mut rules = definition.agents.get(&self.name)?.rules(&definition.policy, &self.folder);
        rules.prompt = self.prompt.clone().or(rules.prompt);
        Some(rules)
    }

    /// Returns what a person should know about the agent's rules.
    pub fn warnings(&self) -> Vec<String> {
        let definition = Definition::parse(&self.text).ok();
        let agent = definition.as_ref().and_then(|found| found.agents.get(&self.name));
        let rules = agent.zip(definition.as_ref()).map(|(agent, found)| agent.warnings(&found.policy));
        let mode = agent.and_then(|agent| self.mode_warning(agent.permission_mode?));
        rules.into_iter().flatten().chain(mode).collect()
    }

    /// Returns what a person should know about an agent in this permission mode: what is not asked is not judged by rules.
    pub fn mode_warning(&self, mode: PermissionMode) -> Option<String> {
        let (name, used) = (&self.name, self.use_without_ask(mode)?);
        Some(format!(
            "{name} runs in the permission mode {}: {used}. Rules and people decide only what is asked; set ask_first = true",
            mode.as_str()
        ))
    }

    /// Returns what the agent does in this permission mode without an ask.
    pub fn use_without_ask(&self, mode: PermissionMode) -> Option<&'static str> {
        mode.use_without_ask().filter(|_| !self.asks_first())
    }

    /// Tells whether the agent asks before it uses any tool.
    pub fn asks_first(&self) -> bool {
        let agent = Definition::parse(&self.text).ok().and_then(|mut definition| definition.agents.remove(&self.name));
        agent.is_some_and(|agent| agent.ask_first)
    }

    /// Returns the driver that the definition names.
    pub fn driver(&self) -> Option<String> {
        Some(Definition::parse(&self.text).ok()?.agents.remove(&self.name)?.driver)
    }

    /// Returns the sandbox that this agent runs in, if it runs in one. A definition that cannot be read has the default one.
    pub fn sandbox(&self) -> Option<Sandbox> {
        match Definition::parse(&self.text).map(|mut definition| definition.agents.remove(&self.name)) {
            Ok(Some(agent)) => agent.sandbox,
            Ok(None) | Err(_) => Some(Sandbox::default()),
        }
    }

    /// Tells whether this agent has a configuration of its own.
    pub fn is_isolated(&self) -> bool {
        let agent = Definition::parse(&self.text).ok().and_then(|mut definition| definition.agents.remove(&self.name));
        agent.is_some_and(|agent| agent.isolate)
    }

    /// Returns how a process of this agent is started now, to go on with a conversation or not.
    pub(crate) fn config(&self, agent: &Agent, resume: Option<String>, asks_before: u64) -> Option<AgentConfig> {
        let (stop, ask_user) = agent.stop(&self.rules()?);
        let definition = Definition::parse(&self.text).ok()?.agents.remove(&self.name)?;
        Some(AgentConfig {
            agent: agent.id.clone(),
            driver: definition.driver,
            command: definition.command,
            folder: PathBuf::from(&self.folder),
            env: definition.env,
            runtime: definition.runtime,
            settings: definition.settings,
            isolate: definition.isolate,
            sandbox: definition.sandbox,
            trust: definition.trust,
            permission_mode: definition.permission_mode,
            ask_first: definition.ask_first,
            stop,
            ask_user,
            start: definition.start,
            resume,
            record: definition.record,
            asks_before,
            run_owner: self.run_owner,
        })
    }
}
