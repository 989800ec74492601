//! Agents on this machine, each in a sidecar.
//!
//! ```text
//! STATE/agents/ID/agent-config.json   settings, stop and start
//!                 coop.sock           the sidecar's socket
//!                 coop.log            what it writes; locked by it as long as it lives
//!                 sidecar.json        its process
//! ```
//!
//! A sidecar lives on when we end, and stays when its agent has ended, with the exit code, until [`AgentAdapter::kill`] lets
//! it go. So whatever happens while nobody follows it can still be told.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{AgentId, AgentState, Answer, Error, ErrorCode, Seq, UsageReport};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{AgentAdapter, AgentAdapterError, AgentConfig, AgentHandle, AgentReconnectConfig};
use crate::Fact;
use crate::engine::Input;
use crate::sidecar::{
    Bridge, Client, ClientError, Ending, Identity, LaunchError, Launched, Watch, launch, watch_child, watch_other,
    write_config,
};

/// How long a sidecar may take to end its agent and itself: its own patience with the agent, and some.
const FAREWELL: Duration = Duration::from_secs(20);

/// Agents by their sidecars.
#[derive(Clone, Debug)]
pub struct LocalAdapter {
    coop: PathBuf,
    agents: PathBuf,
    known: Arc<Mutex<BTreeMap<AgentId, Known>>>,
}

/// An agent that is followed, or was to its end.
#[derive(Clone, Debug)]
struct Known {
    client: Client,
    identity: Identity,
    ended: Watch,
    is_gone: bool,
    bridge: Option<AbortHandle>,
}

impl LocalAdapter {
    /// Returns an adapter that runs this `coop`, and keeps what belongs to agents below this folder.
    pub fn new(coop: &Path, state: &Path) -> Self {
        Self { coop: coop.to_owned(), agents: state.join("agents"), known: Arc::default() }
    }

    fn folder(&self, agent: &AgentId) -> PathBuf {
        self.agents.join(&agent.0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Known>> {
        // The map is whole between any two statements that hold the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the way to an agent that runs.
    fn client(&self, agent: &AgentId) -> Result<Client, AgentAdapterError> {
        let known = self.lock().get(agent).filter(|known| !known.is_gone).map(|known| known.client.clone());
        known.ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))
    }

    fn command(&self, config: &AgentConfig, folder: &Path, agent_config: &Path) -> Command {
        let mut command = Command::new(&self.coop);
        // What is set for us is not meant for a sidecar.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name == "COOP" || name.starts_with("COOP_")) {
                command.env_remove(name);
            }
        }
        command.envs(&config.env).current_dir(&config.folder);
        command.args(["--own-session", "--linger", "forever", "--agent", &config.driver]);
        command.arg("--socket").arg(folder.join("coop.sock")).arg("--agent-config").arg(agent_config);
        if let Some(runtime) = &config.runtime {
            command.args(["--runtime", runtime]);
        }
        if config.isolate {
            command.arg("--isolate");
        }
        if let Some(conversation) = &config.resume {
            command.args(["--resume", conversation]);
        }
        command.arg("--").args(&config.command);
        command
    }

    /// Follows a sidecar from a number on, and remembers it.
    async fn follow(
        &self,
        agent: &AgentId,
        identity: Identity,
        ended: Watch,
        cursor: Seq,
        resumed: bool,
        facts: mpsc::Sender<Fact>,
    ) -> AgentHandle {
        let sidecar = identity.name();
        let client = Client::new(&self.folder(agent).join("coop.sock"));
        let told = Some((sidecar.clone(), Fact::SPAWNED));
        let spawned = Fact { agent: agent.clone(), told, input: Some(Input::Spawned { resumed }), event: None };
        // Nobody has to listen.
        let _ = facts.send(spawned).await;
        let bridge = Bridge {
            agent: agent.clone(),
            sidecar: sidecar.clone(),
            client: client.clone(),
            ended: ended.clone(),
            facts,
            cursor,
        };
        let known = Known { client, identity, ended, is_gone: false, bridge: None };
        if let Some(before) = self.lock().insert(agent.clone(), known).and_then(|before| before.bridge) {
            before.abort();
        }
        let (adapter, id, name) = (self.clone(), agent.clone(), sidecar.clone());
        let task = tokio::spawn(async move {
            let facts = bridge.facts.clone();
            if bridge.run().await == Ending::Gone
                && let Some(known) = adapter.lock().get_mut(&id).filter(|known| known.identity.name() == name)
            {
                known.is_gone = true;
            }
            // Whoever sees the end of the channel sees an agent that is gone.
            drop(facts);
        });
        if let Some(known) = self.lock().get_mut(agent) {
            known.bridge = Some(task.abort_handle());
        }
        AgentHandle { agent: agent.clone(), sidecar }
    }

    /// Finds an agent's sidecar by who listens on its socket, or else by what was written down of it.
    async fn find(&self, agent: &AgentId) -> Option<(Identity, bool)> {
        let folder = self.folder(agent);
        let client = Client::new(&folder.join("coop.sock"));
        if let Ok(Some(pid)) = client.listener().await
            && let Some(identity) = Identity::of(pid)
        {
            return Some((identity, true));
        }
        let kept = fs::read_to_string(folder.join("sidecar.json")).ok()?;
        let identity: Identity = serde_json::from_str(&kept).ok()?;
        let is_alive = identity.is_alive();
        Some((identity, is_alive))
    }
}

fn said(agent: &AgentId, error: ClientError) -> AgentAdapterError {
    match error {
        ClientError::Refused(error) => AgentAdapterError::Refused(error),
        ClientError::Unreachable(why) => AgentAdapterError::Unreachable { agent: agent.clone(), why },
    }
}

/// A message or an answer that nothing shows to have arrived is not done.
fn delivered(reply: &Value) -> Result<(), AgentAdapterError> {
    if reply["delivered"] == true {
        return Ok(());
    }
    let reason = reply["reason"].as_str().unwrap_or("nothing shows that the agent took it");
    Err(AgentAdapterError::Refused(Error::new(ErrorCode::Unconfirmed, format!("it was not delivered: {reason}"))))
}

impl AgentAdapter for LocalAdapter {
    async fn spawn(&self, config: AgentConfig, facts: mpsc::Sender<Fact>) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent.clone();
        let failed = |why: String| AgentAdapterError::SpawnFailed { agent: agent.clone(), why };
        if self.client(&agent).is_ok() {
            return Err(AgentAdapterError::Exists(agent));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if agent.0.is_empty() || !agent.0.bytes().all(is_plain) {
            return Err(failed(format!("{:?} cannot be the name of a folder", agent.0)));
        }
        let folder = self.folder(&agent);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| failed(format!("cannot make {}: {error}", folder.display())))?;
        let agent_config = write_config(&folder, &config).map_err(failed)?;
        let mut command = self.command(&config, &folder, &agent_config);
        let launched = launch(&mut command, &folder).await;
        let Launched { identity, child } = launched.map_err(|error| match error {
            LaunchError::Exists => AgentAdapterError::Exists(agent.clone()),
            LaunchError::Failed(why) => AgentAdapterError::SpawnFailed { agent: agent.clone(), why },
        })?;
        let ended = watch_child(child);
        Ok(self.follow(&agent, identity, ended, Seq(0), config.resume.is_some(), facts).await)
    }

    async fn send(&self, agent: &AgentId, input: &str) -> Result<(), AgentAdapterError> {
        let reply = self.client(agent)?.post("agent/nudge", &json!({ "message": input })).await;
        delivered(&reply.map_err(|error| said(agent, error))?)
    }

    async fn respond(&self, agent: &AgentId, answer: &Answer) -> Result<(), AgentAdapterError> {
        let client = self.client(agent)?;
        let answer = serde_json::to_value(answer).unwrap_or_default();
        delivered(&client.post("agent/respond", &answer).await.map_err(|error| said(agent, error))?)
    }

    async fn kill(&self, agent: &AgentId) -> Result<(), AgentAdapterError> {
        let known = self.lock().get(agent).cloned();
        let mut known = known.ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))?;
        if known.ended.borrow().is_some() {
            return Ok(());
        }
        let asked = known.client.post("shutdown", &json!({})).await;
        let has_ended = asked.is_ok() && timeout(FAREWELL, known.ended.wait_for(Option::is_some)).await.is_ok();
        if !has_ended {
            tracing::warn!(%agent, "a sidecar does not end; it is killed");
            known.identity.kill();
            let _ = timeout(FAREWELL, known.ended.wait_for(Option::is_some)).await;
        }
        Ok(())
    }

    async fn reconnect(
        &self,
        config: AgentReconnectConfig,
        facts: mpsc::Sender<Fact>,
    ) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent;
        let missing = || AgentAdapterError::NotFound(agent.clone());
        let (identity, is_alive) = self.find(&agent).await.ok_or_else(missing)?;
        let sidecar = identity.name();
        if !is_alive {
            let told = Some((sidecar, Fact::VANISHED));
            let gone = Input::Gone { code: None, signal: None };
            let _ = facts.send(Fact { agent: agent.clone(), told, input: Some(gone), event: None }).await;
            return Err(missing());
        }
        // A child of ours is watched already, and only by who waits for it its end is seen with its status.
        let before =
            self.lock().get(&agent).filter(|known| known.identity == identity).map(|known| known.ended.clone());
        let ended = before.unwrap_or_else(|| watch_other(&identity));
        let cursor = config.known.filter(|(known, _)| *known == sidecar).map_or(Seq(0), |(_, seq)| seq);
        Ok(self.follow(&agent, identity, ended, cursor, config.resumed, facts).await)
    }

    async fn get_state(&self, agent: &AgentId) -> Result<AgentState, AgentAdapterError> {
        let report = self.client(agent)?.get_json("agent").await.map_err(|error| said(agent, error))?;
        let unread = |wrong| said(agent, ClientError::Unreachable(format!("a state that is not known: {wrong}")));
        serde_json::from_value(report["detail"].clone()).map_err(unread)
    }

    async fn last_message(&self, agent: &AgentId) -> Option<String> {
        let report = self.client(agent).ok()?.get_json("agent").await.ok()?;
        report["last_message"].as_str().map(str::to_owned)
    }

    async fn resolve_stop(&self, agent: &AgentId) {
        if let Ok(client) = self.client(agent)
            && let Err(error) = client.post("stop/resolve", &json!({})).await
        {
            tracing::debug!(%agent, %error, "it is not held");
        }
    }

    async fn is_alive(&self, agent: &AgentId) -> bool {
        let known = self.lock().get(agent).filter(|known| !known.is_gone).cloned();
        known.is_some_and(|known| known.ended.borrow().is_none() && known.identity.is_alive())
    }

    async fn capture_output(&self, agent: &AgentId, lines: u32) -> Result<String, AgentAdapterError> {
        let screen = self.client(agent)?.get("screen/text").await.map_err(|error| said(agent, error))?;
        let text = String::from_utf8_lossy(&screen);
        let all: Vec<&str> = text.trim_end().lines().collect();
        Ok(all[all.len().saturating_sub(lines as usize)..].join("\n"))
    }

    async fn fetch_transcript(&self, agent: &AgentId) -> Result<String, AgentAdapterError> {
        let lines = self.client(agent)?.get("transcripts/catchup").await.map_err(|error| said(agent, error))?;
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }

    async fn fetch_usage(&self, agent: &AgentId) -> Option<UsageReport> {
        let usage = self.client(agent).ok()?.get_json("session/usage").await.ok()?;
        serde_json::from_value(usage).ok()
    }
}
