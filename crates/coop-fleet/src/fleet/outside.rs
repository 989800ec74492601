use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use coop_api::AgentId;

use super::gate;
use super::notify::{Notice, Notify};
use crate::bounded::DaemonSandbox;
use crate::definition::Sandbox;
use crate::engine::GateVerdict;

/// A command that is to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRun {
    /// About which agent.
    pub agent: AgentId,
    /// What a shell runs.
    pub run: String,
    /// How long it may take.
    pub limit: Duration,
    /// Where.
    pub folder: PathBuf,
    /// The sandbox of the agent, in which the command runs too.
    pub sandbox: Option<Sandbox>,
}

/// What is done beside agents: commands that decide, and calls for people.
pub trait Outside: Clone + Send + Sync + 'static {
    /// Runs a command and says how it ended.
    fn gate(&self, gate: GateRun) -> impl Future<Output = GateVerdict> + Send;

    /// Calls a person.
    fn notify(&self, notice: Notice) -> impl Future<Output = Result<(), String>> + Send;
}

/// This machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// How people are called.
    pub notify: Notify,
    /// Settings that the sandboxes of all gates share. Without them, gates of agents in a sandbox are refused.
    pub sandbox: Option<DaemonSandbox>,
    /// Why no gate is run here, if none is.
    pub refuses_gates: Option<&'static str>,
}

impl Outside for Machine {
    async fn gate(&self, gate: GateRun) -> GateVerdict {
        match self.refuses_gates {
            Some(why) => GateVerdict::Broken { why: why.to_owned() },
            None => gate::run(&gate, self.sandbox.as_ref()).await,
        }
    }

    async fn notify(&self, notice: Notice) -> Result<(), String> {
        self.notify.send(&notice).await
    }
}
