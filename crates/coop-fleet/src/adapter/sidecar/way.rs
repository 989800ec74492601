//! The twelve operations by a sidecar.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use coop_api::{AgentId, AgentState, Answer, Error, ErrorCode, Seq, UsageReport};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::{AgentAdapter, AgentAdapterError, AgentConfig, AgentHandle, AgentReconnectConfig, can_be_id};
use super::{Known, SidecarAdapter, stranger};
use crate::Fact;
use crate::claims::Holder;
use crate::engine::Input;
use crate::sidecar::launcher::{Found, LastSidecar, LaunchError, RunOwner, Sidecar};
use crate::sidecar::{Client, ClientError, write_config};

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

impl SidecarAdapter {
    /// Ends a sidecar that runs and that nobody could see; returns why, and what is left of it.
    async fn undo(&self, agent: &AgentId, run_owner: RunOwner, sidecar: Sidecar, error: io::Error) -> String {
        let why = format!("nobody can listen on its socket: {error}");
        // One that others have started is theirs to see.
        if run_owner == RunOwner::Others {
            return why;
        }
        match self.end(agent, &Client::new(&self.socket(agent)), sidecar).await {
            Ok(()) => why,
            Err(left) => format!("{why}; it runs, and could not be ended: {left}"),
        }
    }
}

impl AgentAdapter for SidecarAdapter {
    async fn spawn(&self, config: AgentConfig, facts: mpsc::Sender<Fact>) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent.clone();
        let failed = |why: String| AgentAdapterError::SpawnFailed { agent: agent.clone(), why };
        if self.client(&agent).is_ok() {
            return Err(AgentAdapterError::Exists(agent));
        }
        if !can_be_id(&agent) {
            return Err(failed(format!("{:?} cannot be the name of a folder", agent.0)));
        }
        // It is held until whoever asks can see that this agent runs.
        let _claim = match &config.resume {
            Some(conversation) => {
                let taken = self.claims.take(conversation, Holder::Agent(agent.clone()));
                Some(taken.map_err(|held| failed(held.to_string()))?)
            }
            None => None,
        };
        let folder = self.folder(&agent);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| failed(format!("cannot make {}: {error}", folder.display())))?;
        write_config(&folder, &config).map_err(failed)?;
        let sidecar = self.launcher.start(&config, &folder).await.map_err(|error| match error {
            LaunchError::Exists => AgentAdapterError::Exists(agent.clone()),
            LaunchError::Failed(why) => failed(why),
        })?;
        let followed = match self.reach(&agent, sidecar.clone()) {
            Ok(followed) => followed,
            Err(error) => return Err(failed(self.undo(&agent, config.run_owner, sidecar, error).await)),
        };
        Ok(self.follow(&agent, followed, Seq(0), config.resume.is_some(), facts).await)
    }

    fn give_up(&self, agent: &AgentId) {
        self.launcher.give_up(agent);
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
        match known {
            Some(Known::Followed(one)) if one.sidecar.ended.borrow().is_none() => {
                self.end(agent, &one.client, one.sidecar).await
            }
            ended => {
                let buried = self.launcher.bury(agent).await;
                buried.map_err(|why| AgentAdapterError::Unreachable { agent: agent.clone(), why })?;
                ended.map(drop).ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))
            }
        }
    }

    async fn reconnect(
        &self,
        config: AgentReconnectConfig,
        facts: mpsc::Sender<Fact>,
    ) -> Result<AgentHandle, AgentAdapterError> {
        let agent = config.agent;
        let missing = || AgentAdapterError::NotFound(agent.clone());
        let last =
            LastSidecar { name: config.known.as_ref().map(|(name, _)| name.clone()), run_owner: config.run_owner };
        let sidecar = match self.launcher.find(&agent, &self.folder(&agent), &last).await {
            Found::Running(sidecar) => sidecar,
            Found::Nobody => return Err(missing()),
            Found::Unreachable(why) => return Err(AgentAdapterError::Unreachable { agent, why }),
            Found::Ended { name, code } => {
                let told = Some((name, Fact::VANISHED));
                let gone = Input::Gone { code, signal: None };
                let _ = facts.send(Fact { agent: agent.clone(), told, input: Some(gone), event: None }).await;
                return Err(missing());
            }
        };
        // A child of ours is watched already, and only by who waits for it its end is seen with its status.
        let before = self.followed(&agent).filter(|before| before.sidecar.name == sidecar.name);
        let sidecar = before.map_or(sidecar, |before| before.sidecar);
        let name = sidecar.name.clone();
        let followed = self.reach(&agent, sidecar);
        let mut followed = followed.map_err(|error| AgentAdapterError::Unreachable {
            agent: agent.clone(),
            why: format!("nobody can listen on its socket: {error}"),
        })?;
        if let Some(why) = stranger(&followed.client).await {
            followed.stranger = Some(why.clone());
            self.lock().insert(agent.clone(), Known::Followed(Box::new(followed)));
            return Err(AgentAdapterError::Unreachable { agent, why });
        }
        let cursor = config.known.filter(|(known, _)| *known == name).map_or(Seq(0), |(_, seq)| seq);
        Ok(self.follow(&agent, followed, cursor, config.resumed, facts).await)
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
        let followed = self.followed(agent).filter(|followed| !followed.is_gone);
        followed.is_some_and(|followed| followed.sidecar.ended.borrow().is_none())
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
