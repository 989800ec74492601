//! The adapter-shim protocol: briefs in, typed events and decisions out.
//!
//! A codec like the others: what it knows of an agent comes through the one port. What is not in the port, how an agent
//! is started, is a trait of its own, [`Host`]. docs/SHIM.md has the protocol.

mod body;
mod brief;
mod decisions;
mod host;
mod live;
mod map;
mod mock;
mod names;
mod policy;
mod prompt;
mod queue;
mod ring;
mod routes;
mod shell;
#[cfg(test)]
mod tests;
pub mod types;
mod ws;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::{Extension, Router};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::body::Invalid;
use self::brief::Brief;
use self::decisions::Refused;
use self::live::{Live, NotResolved, lifecycle, opening};
use self::map::failure;
use self::mock::Mock;
use self::queue::Queue;
use self::ring::{Journal, RunId, now};
use self::routes::Failure;
use self::types::{
    AgentHandle, AgentStatus, Body, ContextInjection, HealthStatus, KillResponse, LifecycleAction, Outcome, Resolution,
    ResourceUsage, SandboxHealthResponse, SdkCheckpoint, SerializedAgentState, SerializedBy, Severity,
};
use crate::app::Config;
use crate::peer::Peer;
use crate::serve::{Connections, Listener};

pub use self::host::{Host, Published, Start, Written};
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

/// A run, scripted or real.
struct Runner<H: Host> {
    run: RunId,
    /// Its name until the agent has said its own.
    session_id: String,
    brief: Brief,
    what: What<H>,
}

enum What<H: Host> {
    Mock(Arc<Mock>),
    Live(Arc<Live<H>>),
    /// It could not be started.
    Failed,
}

impl<H: Host> Clone for Runner<H> {
    fn clone(&self) -> Self {
        let what = match &self.what {
            What::Mock(mock) => What::Mock(Arc::clone(mock)),
            What::Live(live) => What::Live(Arc::clone(live)),
            What::Failed => What::Failed,
        };
        Self { run: self.run.clone(), session_id: self.session_id.clone(), brief: self.brief.clone(), what }
    }
}

impl<H: Host> Runner<H> {
    fn status(&self) -> AgentStatus {
        match &self.what {
            What::Mock(mock) => mock.status(),
            What::Live(live) => live.status(),
            What::Failed => AgentStatus::Error,
        }
    }

    fn is_running(&self) -> bool {
        match self.status() {
            AgentStatus::Running | AgentStatus::WaitingOnHuman | AgentStatus::Idle => true,
            AgentStatus::Paused | AgentStatus::Completed | AgentStatus::Error => false,
        }
    }

    fn brief(&self) -> Brief {
        match &self.what {
            What::Live(live) => live.brief(),
            What::Mock(_) | What::Failed => self.brief.clone(),
        }
    }

    fn pending(&self) -> Vec<String> {
        match &self.what {
            What::Mock(mock) => mock.pending(),
            What::Live(live) => live.pending(),
            What::Failed => vec![],
        }
    }

    /// Returns the agent's own name for its conversation.
    fn conversation(&self) -> Option<String> {
        match &self.what {
            What::Live(live) => live.session_id(),
            What::Mock(_) | What::Failed => None,
        }
    }
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
            connections: Connections::new(shutdown.clone()),
            shutdown,
        })
    }

    /// Begins to serve on a listener, in the background.
    pub fn listen(self: &Arc<Self>, listener: Listener) {
        self.connections.accept(listener, routes::router(self));
    }

    /// Returns what is served, for callers that bring their own connections and vouch for them.
    pub fn router(self: &Arc<Self>) -> Router {
        routes::router(self).layer(Extension(Arc::new(Peer::brought())))
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

    async fn health(&self) -> SandboxHealthResponse {
        let status = self.current().map_or(AgentStatus::Completed, |runner| runner.status());
        SandboxHealthResponse {
            status: if status == AgentStatus::Error { HealthStatus::Degraded } else { HealthStatus::Healthy },
            agent_status: status,
            uptime_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            resource_usage: ResourceUsage { cpu_percent: 0.0, memory_mb: 0.0, disk_mb: 0.0, collected_at: now() },
            pending_event_buffer_size: self.journal.unsent(),
        }
    }

    async fn spawn(&self, brief: Brief) -> Result<AgentHandle, Failure> {
        let _change = self.change.lock().await;
        self.check_free()?;
        let run = self.journal.begin();
        let runner = match self.config.agent {
            Kind::Mock(script) => {
                let typed = brief.typed();
                let journal = Arc::clone(&self.journal);
                let mock = Mock::start(journal, run.clone(), script, &typed.agent_id, &typed.workstream, None);
                self.remember(run, brief, What::Mock(mock))
            }
            Kind::Real { .. } => {
                let message = opening(&brief, None, false);
                self.start(run, brief, message, None, LifecycleAction::Started).await
            }
        };
        Ok(self.handle(&runner))
    }

    async fn resume(&self, state: SerializedAgentState, brief: Brief) -> Result<AgentHandle, Failure> {
        let _change = self.change.lock().await;
        self.check_free()?;
        let sdk = &state.checkpoint.sdk;
        let is_ours = *sdk == self.config.agent.sdk() || self.config.agent.is_mock() && sdk.ends_with("mock");
        if !is_ours {
            let message = format!("this shim runs {}", self.config.agent.sdk());
            return Err(Invalid::at(&["checkpoint", "sdk"], &message, sdk.clone().into()).into());
        }
        let run = self.journal.begin();
        let runner = match self.config.agent {
            Kind::Mock(script) => {
                let at = usize::try_from(state.checkpoint.script_position.unwrap_or(1)).unwrap_or(usize::MAX);
                let from = Some((at, !state.pending_decision_ids.is_empty()));
                let typed = brief.typed();
                let journal = Arc::clone(&self.journal);
                let mock = Mock::start(journal, run.clone(), script, &typed.agent_id, &typed.workstream, from);
                self.remember(run, brief, What::Mock(mock))
            }
            Kind::Real { .. } => {
                let saved = Saved::of(&state);
                if let Some(queue) = saved.queue {
                    *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = queue;
                }
                let message = opening(&brief, saved.assignment.as_ref(), saved.session_id.is_some());
                self.start(run, brief, message, saved.session_id, LifecycleAction::Resumed).await
            }
        };
        Ok(self.handle(&runner))
    }

    /// Starts an agent and hands it its task. One that cannot be started has a run all the same, which says why.
    async fn start(
        &self,
        run: RunId,
        brief: Brief,
        message: String,
        session_id: Option<String>,
        action: LifecycleAction,
    ) -> Runner<H> {
        let agent_id = brief.typed().agent_id.clone();
        let waiting = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take(brief.budget());
        let brief = brief.changed(&waiting.changes).unwrap_or(brief);
        let message = [Some(message), waiting.message()].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        let start = Start {
            resume: session_id.clone(),
            max_turns: brief.max_turns(),
            ask_about: brief.typed().escalation_protocol.always_escalate.clone(),
        };
        self.journal.tell(&run, &agent_id, lifecycle(action, None));
        let live = match self.host.start(start).await {
            Ok(agent) => Live::new(
                Arc::clone(&self.host),
                agent,
                Arc::clone(&self.journal),
                run.clone(),
                brief.clone(),
                Arc::clone(&self.queue),
                session_id,
            ),
            Err(error) => Err(error),
        };
        match live {
            Ok(live) => {
                live.begin(message);
                self.remember(run, brief, What::Live(live))
            }
            Err(error) => {
                self.journal.tell(&run, &agent_id, failure(Severity::Critical, &error.message));
                let done = Body::Completion {
                    summary: "The agent could not be started.".to_owned(),
                    artifacts_produced: vec![],
                    decisions_needed: vec![],
                    outcome: Outcome::Abandoned,
                    reason: Some(error.message),
                };
                self.journal.tell(&run, &agent_id, done);
                self.remember(run, brief, What::Failed)
            }
        }
    }

    fn check_free(&self) -> Result<(), Failure> {
        match self.current() {
            Some(runner) if runner.is_running() => Err(Failure::Running),
            _ => Ok(()),
        }
    }

    fn remember(&self, run: RunId, brief: Brief, what: What<H>) -> Runner<H> {
        let runner = Runner { run, session_id: Uuid::new_v4().to_string(), brief, what };
        *self.lock() = Some(runner.clone());
        runner
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

    fn state_of(&self, runner: &Runner<H>, by: SerializedBy) -> SerializedAgentState {
        let brief = runner.brief();
        let pending = runner.pending();
        let conversation = runner.conversation();
        let (script_position, state_snapshot) = match &runner.what {
            What::Mock(mock) => (Some(mock.position()), None),
            What::Live(_) | What::Failed => (None, Some(Saved::snapshot(&brief, &self.queue))),
        };
        let mut state = SerializedAgentState {
            agent_id: brief.typed().agent_id.clone(),
            plugin_name: self.config.agent.plugin().to_owned(),
            session_id: conversation.clone().unwrap_or_else(|| runner.session_id.clone()),
            checkpoint: SdkCheckpoint {
                sdk: self.config.agent.sdk().to_owned(),
                session_id: conversation,
                script_position,
                state_snapshot,
                ..SdkCheckpoint::default()
            },
            brief_snapshot: brief.raw().clone(),
            conversation_summary: (!pending.is_empty()).then(|| "Agent blocked on decision".to_owned()),
            pending_decision_ids: pending,
            last_sequence: self.journal.sequence(&runner.run),
            serialized_at: now(),
            serialized_by: by,
            estimated_size_bytes: 0,
        };
        state.estimated_size_bytes = json!(state).to_string().len() as u64;
        state
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
    fn inject(&self, context: ContextInjection) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).inject(context);
    }

    fn update_brief(&self, changes: &Map<String, Value>) -> Result<(), Failure> {
        let runner = self.runner()?;
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = queue.changes.clone();
        all.extend(changes.clone());
        runner.brief().changed(&all)?;
        queue.changes = all;
        Ok(())
    }

    fn handle(&self, runner: &Runner<H>) -> AgentHandle {
        let changes = self.queue.lock().unwrap_or_else(PoisonError::into_inner).changes.clone();
        AgentHandle {
            id: runner.brief().typed().agent_id.clone(),
            plugin_name: self.config.agent.plugin().to_owned(),
            status: runner.status(),
            session_id: runner.conversation().unwrap_or_else(|| runner.session_id.clone()),
            pending_brief_changes: (!changes.is_empty()).then_some(changes),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Runner<H>>> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a state of ours holds beside the conversation's name.
struct Saved {
    session_id: Option<String>,
    /// What the agent was last told to do.
    assignment: Option<(String, String)>,
    queue: Option<Queue>,
}

impl Saved {
    fn snapshot(brief: &Brief, queue: &Mutex<Queue>) -> Map<String, Value> {
        let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = [("assignment", json!(brief.assignment())), ("queue", json!(*queue))];
        parts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn of(state: &SerializedAgentState) -> Self {
        let part = |key: &str| state.checkpoint.state_snapshot.as_ref().and_then(|parts| parts.get(key)).cloned();
        // A state of another's may have the conversation's name in one place only; in ours, none means that there is none.
        let elsewhere = || part("assignment").is_none().then(|| state.session_id.clone());
        Self {
            session_id: state.checkpoint.session_id.clone().or_else(elsewhere).filter(|id| !id.is_empty()),
            assignment: part("assignment").and_then(|value| serde_json::from_value(value).ok()),
            queue: part("queue").and_then(|value| serde_json::from_value(value).ok()),
        }
    }
}
