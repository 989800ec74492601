//! The adapter-shim protocol: briefs in, typed events and decisions out.
//!
//! A codec like the others: what it knows of an agent comes through the one port. What is not in the port, how an agent
//! is started, is a trait of its own, [`Host`]. docs/SHIM.md has the protocol.

mod begin;
mod body;
mod brief;
mod briefed;
mod decisions;
mod host;
mod live;
mod map;
mod mock;
mod plain;
mod policy;
mod promise;
mod prompt;
mod queue;
mod ring;
mod routes;
mod runner;
mod saved;
#[cfg(test)]
mod tests;
pub mod types;
mod ws;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::{Extension, Router};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use self::decisions::Refused;
use self::live::{NotResolved, lifecycle};
use self::queue::Queue;
use self::ring::{Journal, now};
use self::routes::Failure;
use self::runner::{Runner, What};
use self::types::{
    AgentStatus, ContextInjection, HealthStatus, KillResponse, LifecycleAction, Resolution, ResourceUsage,
    SandboxHealthResponse, SerializedAgentState, SerializedBy,
};
use crate::ancestry::Ancestry;
use crate::app::Config;
use crate::peer::Peer;
use crate::serve::{Connections, Listener};

pub use self::briefed::{Briefed, WrongBrief};
pub use self::host::{Host, Published, Start, Used, Written};
pub use self::mock::Script;

/// Which agent a shim runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A scripted one.
    Mock(Script),
    /// A real one: its name in states, and the name that the backend knows it by.
    Real {
        /// Such as `claude`.
        sdk: &'static str,
        /// Such as `claude-cli`.
        plugin: &'static str,
    },
}

impl Kind {
    fn is_mock(self) -> bool {
        matches!(self, Self::Mock(_))
    }

    fn sdk(self) -> &'static str {
        match self {
            Self::Mock(_) => "mock",
            Self::Real { sdk, .. } => sdk,
        }
    }

    fn plugin(self) -> &'static str {
        match self {
            Self::Mock(script) => script.plugin(),
            Self::Real { plugin, .. } => plugin,
        }
    }
}

/// What a shim needs to know.
#[derive(Clone, Debug)]
pub struct ShimConfig {
    /// Which agent it runs.
    pub agent: Kind,
    /// Whether a decision that nobody waits for is an error.
    pub strict: bool,
    /// Who may ask.
    pub server: Config,
}

/// One agent at a time, by the adapter-shim protocol.
pub struct Shim<H: Host> {
    config: ShimConfig,
    host: Arc<H>,
    journal: Arc<Journal>,
    queue: Arc<Mutex<Queue>>,
    /// The last agent; it stays after its end.
    runner: Mutex<Option<Runner<H>>>,
    /// Held by whoever begins or ends a run.
    change: tokio::sync::Mutex<()>,
    began: Instant,
    shutdown: CancellationToken,
    connections: Connections,
}

impl<H: Host> Shim<H> {
    /// Returns a shim without an agent, which listens nowhere yet.
    pub fn new(host: H, config: ShimConfig) -> Arc<Self> {
        let shutdown = CancellationToken::new();
        Arc::new(Self {
            config,
            host: Arc::new(host),
            journal: Arc::new(Journal::new()),
            queue: Arc::default(),
            runner: Mutex::new(None),
            change: tokio::sync::Mutex::new(()),
            began: Instant::now(),
            connections: Connections::new(shutdown.clone(), Ancestry::of_this_process()),
            shutdown,
        })
    }

    /// Begins to serve on a listener, in the background.
    pub fn listen(self: &Arc<Self>, listener: Listener) {
        self.connections.accept(listener, routes::router(self));
    }

    /// Returns what is served, for callers that bring their own connections and vouch for them.
    pub fn router(self: &Arc<Self>) -> Router {
        routes::router(self).layer(Extension(Arc::new(Peer::vouched())))
    }

    /// Ends the agent, then the connections.
    pub async fn shut_down(&self, limit: Duration) {
        // If there is none, there is nothing to end.
        let _ = self.kill(Some(limit)).await;
        self.shutdown.cancel();
        self.connections.wait(limit).await;
    }

    fn current(&self) -> Option<Runner<H>> {
        self.lock().clone()
    }

    fn runner(&self) -> Result<Runner<H>, Failure> {
        self.current().ok_or(Failure::Nobody)
    }

    fn health(&self) -> SandboxHealthResponse {
        let status = self.current().map_or(AgentStatus::Completed, |runner| runner.status());
        SandboxHealthResponse {
            status: if status == AgentStatus::Error { HealthStatus::Degraded } else { HealthStatus::Healthy },
            agent_status: status,
            uptime_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            resource_usage: self.usage(),
            pending_event_buffer_size: self.journal.unsent(),
        }
    }

    /// Returns what is used of the machine. How much of the disk is the agent's nobody can tell.
    fn usage(&self) -> ResourceUsage {
        let Used { cpu_percent, memory_mb } = self.host.usage();
        ResourceUsage { cpu_percent, memory_mb, disk_mb: 0.0, collected_at: now() }
    }

    async fn kill(&self, grace: Option<Duration>) -> Result<KillResponse, Failure> {
        let _change = self.change.lock().await;
        let runner = self.runner()?;
        // A state taken after the end would know of no open decision.
        let state = grace.is_some().then(|| self.state_of(&runner, SerializedBy::KillGrace));
        let (clean_shutdown, artifacts_extracted) = match &runner.what {
            What::Mock(mock) => {
                let how = if grace.is_some() { "graceful" } else { "force" };
                let reason = Some(format!("kill requested ({how})"));
                mock.stop(AgentStatus::Completed, lifecycle(LifecycleAction::Killed, reason));
                (grace.is_some(), 0)
            }
            What::Live(live) => (live.kill(grace).await, live.published()),
            What::Failed => (true, 0),
        };
        let state = state.filter(|state| runner.conversation().is_some() && !state.session_id.is_empty());
        Ok(KillResponse { state, artifacts_extracted, clean_shutdown })
    }

    async fn pause(&self) -> Result<SerializedAgentState, Failure> {
        let _change = self.change.lock().await;
        let runner = self.runner()?;
        let mut pending = runner.pending();
        match &runner.what {
            What::Mock(mock) => mock.stop(AgentStatus::Paused, lifecycle(LifecycleAction::Paused, None)),
            What::Live(live) => pending = live.pause().await,
            What::Failed => {}
        }
        let state = self.state_of(&runner, SerializedBy::Pause);
        Ok(SerializedAgentState { pending_decision_ids: pending, ..state })
    }

    fn state(&self, by: SerializedBy) -> Result<SerializedAgentState, Failure> {
        Ok(self.state_of(&self.runner()?, by))
    }

    async fn resolve(&self, id: &str, resolution: &Resolution) -> Result<Result<(), NotResolved>, Failure> {
        let runner = self.runner()?;
        let not_pending = || NotResolved::Refused(Refused::NotPending(id.to_owned()));
        Ok(match &runner.what {
            What::Mock(mock) if mock.resolve(id) => Ok(()),
            What::Mock(_) | What::Failed => Err(not_pending()),
            What::Live(live) => live.resolve(id, resolution).await,
        })
    }

    /// Keeps something for the agent to know. Without one it waits for the next.
    fn inject(&self, context: ContextInjection) -> Result<(), Failure> {
        Ok(self.queue.lock().unwrap_or_else(PoisonError::into_inner).inject(context)?)
    }

    fn update_brief(&self, changes: &Map<String, Value>) -> Result<(), Failure> {
        // Before the queue is locked: whoever has the agent may want the queue.
        let runner = self.runner()?;
        let brief = runner.brief();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = queue.changes.clone();
        all.extend(changes.clone());
        let next = brief.changed(&all)?;
        queue.changes = all;
        drop(queue);
        if let What::Live(live) = &runner.what {
            live.expect(&next);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Runner<H>>> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
