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
        let found = definition.and_then(|found| Some(found.agents.get(&self.name)?.warnings(&found.policy)));
        found.unwrap_or_default()
    }

    /// Returns what a person should know about an agent in this permission mode: what is not asked is not judged by rules.
    pub fn mode_warning(&self, mode: PermissionMode) -> Option<String> {
        let definition = Definition::parse(&self.text).ok()?;
        let agent = definition.agents.get(&self.name)?;
        let unasked = mode.unasked().filter(|_| !agent.ask_first)?;
        Some(format!(
            "in its permission mode, {}, {unasked}: rules and people decide nothing that is not asked. ask_first = true makes it ask",
            mode.as_str()
        ))
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
