//! Agents on this machine behind shims, each a process of its own.
//!
//! ```text
//! STATE/agents/ID/shim.log     what the shim writes; locked by it as long as it lives
//!                 shim.out     its standard output, with its port on the first line
//!                 shim.json    its process and its port
//!                 runs.json    its runs, and where their numbers begin
//!                 state.json   from where its agent can go on in another shim
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{AgentId, AgentState, Answer, Ask, Error, ErrorCode, Seq, UsageReport};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::answer::resolution;
use super::client::{Client, ClientError};
use super::follow::{Follower, Heard};
use super::intake::{Intake, Quarantine};
use super::ports::Ports;
use super::process::{LaunchError, Running, end_group, kept, launch};
use super::story::Story;
use crate::Fact;
use crate::adapter::{AgentAdapter, AgentAdapterError, AgentConfig, AgentHandle, AgentReconnectConfig, can_be_id};
use crate::engine::Input;
use crate::sidecar::{Ending, Identity, Watch, watch_child, watch_other};

/// How long a shim may take to end its agent, and to end after that.
const GRACE: Duration = Duration::from_secs(10);

/// Agents by shims that speak the adapter-shim protocol.
///
/// A shim is given its task by a brief and not by messages: the first [`send`](AgentAdapter::send) spawns its agent with the
/// message as the brief's description, and each further one, which it takes once its run is over, resumes it with another.
#[derive(Clone, Debug)]
pub struct LocalHttp {
    agents: PathBuf,
    ports: Ports,
    brief: Arc<Map<String, Value>>,
    known: Arc<Mutex<BTreeMap<AgentId, Known>>>,
}

/// An agent that is followed, or was to its end.
#[derive(Clone, Debug)]
struct Known {
    running: Running,
    client: Client,
    ended: Watch,
    facts: mpsc::Sender<Fact>,
    heard: Arc<Mutex<Heard>>,
    is_gone: bool,
    follower: Option<AbortHandle>,
}

impl LocalHttp {
    /// Returns an adapter that keeps what belongs to agents below this folder. What is in `brief` is in the brief of each;
    /// the agent's id and its task are put in.
    pub fn new(state: &Path, ports: Ports, brief: Map<String, Value>) -> Self {
        Self { agents: state.join("agents"), ports, brief: Arc::new(brief), known: Arc::default() }
    }

    /// Returns what was not let through of what an agent's shim sent.
    pub fn quarantine(&self, agent: &AgentId) -> Option<Quarantine> {
        let heard = Arc::clone(&self.lock().get(agent)?.heard);
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        Some(heard.intake.quarantine().clone())
    }

    /// Tells whether an agent is one of these: it runs, or did.
    pub fn has(&self, agent: &AgentId) -> bool {
        self.lock().contains_key(agent) || self.folder(agent).join("shim.json").exists()
    }

    /// Returns what an agent asks.
    pub(super) fn asks(&self, agent: &AgentId) -> Vec<Ask> {
        self.story(agent, |story| story.asks().iter().cloned().collect()).unwrap_or_default()
    }

    /// Returns when an agent last began something else.
    pub(super) fn since(&self, agent: &AgentId) -> String {
        self.story(agent, |story| story.since().to_owned()).unwrap_or_default()
    }

    fn story<T>(&self, agent: &AgentId, look: impl FnOnce(&Story) -> T) -> Option<T> {
        let heard = Arc::clone(&self.lock().get(agent)?.heard);
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        Some(look(&heard.story))
    }

    fn folder(&self, agent: &AgentId) -> PathBuf {
        self.agents.join(&agent.0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Known>> {
        // The map is whole between any two statements that hold the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an agent that runs.
    fn known(&self, agent: &AgentId) -> Result<Known, AgentAdapterError> {
        let known = self.lock().get(agent).filter(|known| !known.is_gone).cloned();
        known.ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))
    }

    /// Returns the first brief of an agent. What the protocol wants and nobody has said is left empty.
    fn brief(&self, agent: &AgentId, task: &str) -> Value {
        let mut brief = json!({
            "role": "agent", "workstream": agent.0, "readableWorkstreams": [], "constraints": [], "allowedTools": [],
            "escalationProtocol": { "alwaysEscalate": [], "escalateWhen": [], "neverEscalate": [] },
            "controlMode": "orchestrator",
            "projectBrief": { "title": "", "description": "", "goals": [], "checkpoints": [] },
            "knowledgeSnapshot": { "version": 0, "generatedAt": "1970-01-01T00:00:00Z", "workstreams": [],
                "pendingDecisions": [], "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [],
                "estimatedTokens": 0 },
        });
        for (key, value) in self.brief.iter() {
            brief[key] = value.clone();
        }
        brief["agentId"] = json!(agent.0);
        brief["description"] = json!(task);
        brief
    }

    /// Follows a shim from a number on, and remembers it.
    async fn follow(
        &self,
        agent: &AgentId,
        running: Running,
        ended: Watch,
        cursor: Seq,
        resumed: bool,
        facts: mpsc::Sender<Fact>,
    ) -> AgentHandle {
        let (sidecar, folder) = (running.identity.name(), self.folder(agent));
        let client = Client::new(running.port);
        let runs = if cursor == Seq(0) { Vec::new() } else { kept(&folder, "runs.json").unwrap_or_default() };
        let intake = Intake::new(&agent.0, runs, cursor);
        let heard = Arc::new(Mutex::new(Heard { intake, story: Story::default() }));
        let told = Some((sidecar.clone(), Fact::SPAWNED));
        let spawned = Fact { agent: agent.clone(), told, input: Some(Input::Spawned { resumed }), event: None };
        // Nobody has to listen.
        let _ = facts.send(spawned).await;
        let follower = Follower {
            agent: agent.clone(),
            sidecar: sidecar.clone(),
            folder,
            identity: running.identity.clone(),
            client: client.clone(),
            ended: ended.clone(),
            facts: facts.clone(),
            heard: Arc::clone(&heard),
        };
        let identity = running.identity.clone();
        let known = Known { running, client, ended, facts: facts.clone(), heard, is_gone: false, follower: None };
        if let Some(before) = self.lock().insert(agent.clone(), known).and_then(|before| before.follower) {
            before.abort();
        }
        let (adapter, id) = (self.clone(), agent.clone());
        let task = tokio::spawn(async move {
            let is_gone = follower.run().await == Ending::Gone;
            if let Some(known) = adapter.lock().get_mut(&id).filter(|known| known.running.identity == identity) {
                known.is_gone |= is_gone;
                // Whoever sees the end of the channel sees an agent that is gone.
                known.facts = mpsc::channel(1).0;
            }
            drop(facts);
        });
        if let Some(known) = self.lock().get_mut(agent) {
            known.follower = Some(task.abort_handle());
        }
        AgentHandle { agent: agent.clone(), sidecar }
    }
}

fn said(agent: &AgentId, error: ClientError) -> AgentAdapterError {
    match error {
        ClientError::Refused(error) => AgentAdapterError::Refused(error),
        ClientError::Unreachable(why) => AgentAdapterError::Unreachable { agent: agent.clone(), why },
    }
}

fn refused(code: ErrorCode, why: &str) -> AgentAdapterError {
    AgentAdapterError::Refused(Error::new(code, why))
}

/// What the protocol has no word for.
fn unsupported(what: &str) -> AgentAdapterError {
    refused(ErrorCode::Unsupported, &format!("a shim does not show {what}"))
}

/// Returns a state of a shim with another task for its agent. By the task agents tell that it is another.
fn with_task(mut state: Value, task: &str) -> Value {
    let is_same = state["briefSnapshot"]["description"] == task;
    state["briefSnapshot"]["description"] = json!(if is_same { format!("{task}\n") } else { task.to_owned() });
    state
}

impl AgentAdapter for LocalHttp {
    async fn spawn(&self, config: AgentConfig, facts: mpsc::Sender<Fact>) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent.clone();
        let failed = |why: String| AgentAdapterError::SpawnFailed { agent: agent.clone(), why };
        if self.known(&agent).is_ok() {
            return Err(AgentAdapterError::Exists(agent));
        }
        if !can_be_id(&agent) {
            return Err(failed(format!("{:?} cannot be the name of a folder", agent.0)));
        }
        let folder = self.folder(&agent);
        let state: Option<Value> = match config.resume {
            Some(_) => {
                Some(kept(&folder, "state.json").ok_or_else(|| failed("nothing is kept to go on from".to_owned()))?)
            }
            None => None,
        };
        let taken: Vec<u16> = self.lock().values().map(|known| known.running.port).collect();
        let port = self
            .ports
            .choose(&taken)
            .ok_or_else(|| failed("no port from 9100 to 9199 is free; end an agent, or take port 0".to_owned()))?;
        let launched = launch(&config, &folder, port).await;
        let (running, child) = launched.map_err(|error| match error {
            LaunchError::Exists => AgentAdapterError::Exists(agent.clone()),
            LaunchError::Io { .. } | LaunchError::Failed(_) => failed(error.to_string()),
        })?;
        let ended = watch_child(child);
        if let Some(state) = &state
            && let Err(error) = Client::new(running.port).post("resume", state).await
        {
            end_group(&running.identity, Signal::KILL);
            return Err(failed(format!("it does not go on: {error}")));
        }
        let handle = self.follow(&agent, running, ended, Seq(0), state.is_some(), facts.clone()).await;
        if state.is_none() {
            let idle = Input::Idle { last_message: None };
            let _ = facts.send(Fact { agent: agent.clone(), told: None, input: Some(idle), event: None }).await;
        }
        Ok(handle)
    }

    async fn send(&self, agent: &AgentId, input: &str) -> Result<(), AgentAdapterError> {
        let client = self.known(agent)?.client;
        let health = client.get("health").await.map_err(|error| said(agent, error))?;
        if matches!(health["agentStatus"].as_str(), Some("running" | "waiting_on_human")) {
            return Err(refused(ErrorCode::AgentBusy, "a shim takes its next task when it is done with this one"));
        }
        let state = client.post("checkpoint", &json!({ "decisionId": "next" })).await;
        let told = match state {
            Ok(state) => client.post("resume", &with_task(state, input)).await,
            Err(ClientError::Refused(error)) if error.code == ErrorCode::NotFound => {
                client.post("spawn", &self.brief(agent, input)).await
            }
            Err(error) => Err(error),
        };
        let handle = told.map_err(|error| said(agent, error))?;
        match handle["status"].as_str() {
            Some("error") => Err(refused(ErrorCode::Unconfirmed, "the shim could not start its agent")),
            _ => Ok(()),
        }
    }

    async fn respond(&self, agent: &AgentId, answer: &Answer) -> Result<(), AgentAdapterError> {
        let known = self.known(agent)?;
        let ask = {
            let heard = known.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let asks = heard.story.asks();
            match &answer.ask {
                Some(id) => asks.iter().find(|ask| ask.id == *id).cloned(),
                None => asks.front().cloned(),
            }
        };
        let ask =
            ask.ok_or_else(|| refused(ErrorCode::NoPrompt, "it does not ask that, or not any more; see what it asks"))?;
        let resolution = resolution(&ask, answer).map_err(AgentAdapterError::Refused)?;
        let body = json!({ "decisionId": ask.id, "resolution": resolution });
        let told = known.client.post("resolve", &body).await;
        let was_there = match &told {
            Ok(told) => told["status"] == "resolved",
            Err(ClientError::Refused(error)) if error.code == ErrorCode::NotFound => false,
            Err(_) => return Err(said(agent, told.err().unwrap_or_else(|| ClientError::Unreachable(String::new())))),
        };
        // Answered by us or by another: it is open no more.
        let was_open = known.heard.lock().unwrap_or_else(PoisonError::into_inner).story.close(&ask.id);
        if was_open {
            let closed = Input::AskClosed { ask: ask.id };
            let _ = known.facts.send(Fact { agent: agent.clone(), told: None, input: Some(closed), event: None }).await;
        }
        if was_there { Ok(()) } else { Err(refused(ErrorCode::AlreadyAnswered, "somebody was faster")) }
    }

    async fn kill(&self, agent: &AgentId) -> Result<(), AgentAdapterError> {
        let known = self.lock().get(agent).cloned();
        let mut known = known.ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))?;
        if known.ended.borrow().is_some() {
            return Ok(());
        }
        // One that has no agent, or does not answer, is ended all the same.
        let grace = json!({ "grace": true, "graceTimeoutMs": GRACE.as_millis() as u64 });
        let _ = timeout(GRACE * 2, known.client.post("kill", &grace)).await;
        for signal in [Signal::TERM, Signal::KILL] {
            end_group(&known.running.identity, signal);
            if timeout(GRACE * 2, known.ended.wait_for(Option::is_some)).await.is_ok() {
                return Ok(());
            }
        }
        Err(AgentAdapterError::Unreachable { agent: agent.clone(), why: "its process does not end".to_owned() })
    }

    async fn reconnect(
        &self,
        config: AgentReconnectConfig,
        facts: mpsc::Sender<Fact>,
    ) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent;
        let missing = || AgentAdapterError::NotFound(agent.clone());
        let running: Running = kept(&self.folder(&agent), "shim.json").ok_or_else(missing)?;
        let sidecar = running.identity.name();
        if !running.identity.is_alive() {
            let told = Some((sidecar, Fact::VANISHED));
            let gone = Input::Gone { code: None, signal: None };
            let _ = facts.send(Fact { agent: agent.clone(), told, input: Some(gone), event: None }).await;
            return Err(missing());
        }
        let is_it = |identity: &Identity| *identity == running.identity;
        let before =
            self.lock().get(&agent).filter(|known| is_it(&known.running.identity)).map(|known| known.ended.clone());
        let ended = before.unwrap_or_else(|| watch_other(&running.identity));
        let cursor = config.known.filter(|(known, _)| *known == sidecar).map_or(Seq(0), |(_, seq)| seq);
        Ok(self.follow(&agent, running, ended, cursor, config.resumed, facts).await)
    }

    async fn get_state(&self, agent: &AgentId) -> Result<AgentState, AgentAdapterError> {
        let known = self.known(agent)?;
        let health = known.client.get("health").await.map_err(|error| said(agent, error))?;
        let heard = known.heard.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(heard.story.state(health["agentStatus"].as_str().unwrap_or_default()))
    }

    async fn last_message(&self, agent: &AgentId) -> Option<String> {
        let known = self.known(agent).ok()?;
        let heard = known.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.story.last_message()
    }

    /// A shim holds no turn's end.
    async fn resolve_stop(&self, _agent: &AgentId) {}

    async fn is_alive(&self, agent: &AgentId) -> bool {
        self.known(agent).is_ok_and(|known| known.ended.borrow().is_none() && known.running.identity.is_alive())
    }

    async fn capture_output(&self, agent: &AgentId, _lines: u32) -> Result<String, AgentAdapterError> {
        self.known(agent)?;
        Err(unsupported("a terminal"))
    }

    async fn fetch_transcript(&self, agent: &AgentId) -> Result<String, AgentAdapterError> {
        self.known(agent)?;
        Err(unsupported("its conversation"))
    }

    /// A shim tells what was used in words only.
    async fn fetch_usage(&self, _agent: &AgentId) -> Option<UsageReport> {
        None
    }
}
