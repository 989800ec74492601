//! All agents of a fleet: by their sidecars, and by shims of others. Which, says an agent's driver.

use coop_api::{AgentId, AgentState, Answer, UsageReport};
use tokio::sync::mpsc;

use super::{AgentAdapter, AgentAdapterError, AgentConfig, AgentHandle, AgentReconnectConfig, SidecarAdapter};
use crate::Fact;
use crate::definition::Sandbox;
use crate::shim::LocalHttp;

/// The driver of agents behind shims.
pub const SHIM: &str = "shim";

/// The two ways to agents.
#[derive(Clone, Debug)]
pub struct MachineAdapter {
    sidecars: SidecarAdapter,
    shims: LocalHttp,
}

/// Does the same by the way that an agent has.
macro_rules! by_its_way {
    ($self:ident, $agent:expr, $way:ident => $what:expr) => {
        match $self.shims.has($agent) {
            true => {
                let $way = &$self.shims;
                $what
            }
            false => {
                let $way = &$self.sidecars;
                $what
            }
        }
    };
}

impl MachineAdapter {
    /// Returns an adapter of both.
    pub fn new(sidecars: SidecarAdapter, shims: LocalHttp) -> Self {
        Self { sidecars, shims }
    }
}

impl AgentAdapter for MachineAdapter {
    async fn spawn(&self, config: AgentConfig, facts: mpsc::Sender<Fact>) -> Result<AgentHandle, AgentAdapterError> {
        let why = match &config.sandbox {
            Some(_) if config.driver == SHIM => Some("an agent behind a shim has no sandbox; leave `sandbox` out"),
            Some(sandbox) if !self.sidecars.makes_sandboxes() && *sandbox != Sandbox::default() => Some(
                "a container or pod cannot apply `write`, `hide` and `network` of `sandbox`; remove them, and leave `sandbox = true`",
            ),
            _ if config.driver == SHIM && (config.ask_first || config.permission_mode.is_some()) => {
                Some("`ask_first` and `permission_mode` do not reach an agent behind a shim; remove them")
            }
            _ => None,
        };
        if let Some(why) = why {
            return Err(AgentAdapterError::SpawnFailed { agent: config.agent, why: why.to_owned() });
        }
        match config.driver.as_str() {
            SHIM => self.shims.spawn(config, facts).await,
            _ => self.sidecars.spawn(config, facts).await,
        }
    }

    async fn send(&self, agent: &AgentId, input: &str) -> Result<(), AgentAdapterError> {
        by_its_way!(self, agent, way => way.send(agent, input).await)
    }

    async fn respond(&self, agent: &AgentId, answer: &Answer) -> Result<(), AgentAdapterError> {
        by_its_way!(self, agent, way => way.respond(agent, answer).await)
    }

    fn give_up(&self, agent: &AgentId) {
        by_its_way!(self, agent, way => way.give_up(agent));
    }

    async fn kill(&self, agent: &AgentId) -> Result<(), AgentAdapterError> {
        by_its_way!(self, agent, way => way.kill(agent).await)
    }

    async fn reconnect(
        &self,
        config: AgentReconnectConfig,
        facts: mpsc::Sender<Fact>,
    ) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent.clone();
        by_its_way!(self, &agent, way => way.reconnect(config, facts).await)
    }

    async fn get_state(&self, agent: &AgentId) -> Result<AgentState, AgentAdapterError> {
        by_its_way!(self, agent, way => way.get_state(agent).await)
    }

    async fn last_message(&self, agent: &AgentId) -> Option<String> {
        by_its_way!(self, agent, way => way.last_message(agent).await)
    }

    async fn resolve_stop(&self, agent: &AgentId) {
        by_its_way!(self, agent, way => way.resolve_stop(agent).await);
    }

    async fn is_alive(&self, agent: &AgentId) -> bool {
        by_its_way!(self, agent, way => way.is_alive(agent).await)
    }

    async fn capture_output(&self, agent: &AgentId, lines: u32) -> Result<String, AgentAdapterError> {
        by_its_way!(self, agent, way => way.capture_output(agent, lines).await)
    }

    async fn fetch_transcript(&self, agent: &AgentId) -> Result<String, AgentAdapterError> {
        by_its_way!(self, agent, way => way.fetch_transcript(agent).await)
    }

    async fn fetch_usage(&self, agent: &AgentId) -> Option<UsageReport> {
        by_its_way!(self, agent, way => way.fetch_usage(agent).await)
    }
}
