//! The conversations of a workspace: what a person's own program, or a terminal there, has to know of them.

use std::collections::BTreeMap;
use std::path::Path;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::adapter::AgentAdapter;
use coop_fleet::engine::Agent;
use coop_server::workspaces::{ArriveBody, Caller};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hub::said;
use super::places::{Places, is_there};
use super::{bin_folder, socket};
use crate::record::{self, Record, Server};

/// What is known of the conversations of a folder.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sessions {
    /// The workspace that the folder is in.
    pub(super) workspace_path: Option<String>,
    /// Those that somebody has open first, and of each kind the youngest agent's.
    pub(super) sessions: Vec<Session>,
    /// Agents that people run there themselves.
    pub(super) guests: Value,
    /// What terminals there may want to know.
    pub(super) environment: BTreeMap<String, String>,
}

/// An agent's conversation.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    pub(super) agent_id: AgentId,
    pub(super) driver: String,
    /// It has none until something was said, unless the agent is told its name at the start.
    pub(super) session_id: Option<String>,
    pub(super) is_running: bool,
    /// The port of the agent's server, if it has one on this machine.
    pub(super) port: Option<u16>,
}

impl Places {
    pub(super) async fn sessions(&self, folder: &str) -> Result<Value, Error> {
        if !folder.starts_with('/') {
            return Err(Error::bad_request("the folder is not a whole path"));
        }
        let Some(path) = self.workspaces.workspace_path(Path::new(folder)) else {
            return Ok(json!(Sessions::default()));
        };
        let sessions = self.sessions_in(&path).await?;
        let environment = self.environment(&path, &sessions);
        let workspace_path = path.to_str().map(str::to_owned);
        Ok(json!(Sessions { workspace_path, sessions, guests: self.guests.of(&path), environment }))
    }

    /// Takes in a person's own agent, with the conversation that it goes on with: first it has that, then it is looked whether
    /// an agent of coop's has it, which takes it before it is seen to run. So of two that come at once one is refused.
    pub(super) async fn arrive(&self, body: ArriveBody) -> Result<Value, Error> {
        let missing = || Error::new(ErrorCode::NotFound, format!("{} is in no workspace", body.folder));
        let path = self.workspaces.workspace_path(Path::new(&body.folder)).filter(|path| path.is_dir());
        let path = path.ok_or_else(missing)?;
        let conversation = body.session_id.clone();
        let arriving = self.guests.greet(path.clone(), body)?;
        if let Some(conversation) = conversation
            && let Some(agent) = self.agent_with(&path, &conversation).await?
        {
            let why = format!("the conversation {conversation} is open in the agent {agent}");
            return Err(Error::new(ErrorCode::AgentBusy, why));
        }
        self.guests.arrive(arriving).await
    }

    /// Returns the agent of a workspace that runs and has a conversation.
    async fn agent_with(&self, workspace: &Path, conversation: &str) -> Result<Option<AgentId>, Error> {
        for agent in self.agents_in(workspace).await? {
            // One that has just been started is not written down yet.
            if !is_there(&agent) && !self.sidecars.is_alive(&agent.id).await {
                continue;
            }
            let id = agent.id.clone();
            let known = self.fleet.look(move |store| store.conversation(&id)).await.map_err(said)?;
            if known.as_deref() == Some(conversation) {
                return Ok(Some(agent.id));
            }
        }
        Ok(None)
    }

    async fn sessions_in(&self, workspace: &Path) -> Result<Vec<Session>, Error> {
        let mut agents = self.agents_in(workspace).await?;
        agents.sort_by_key(|agent| (!is_there(agent), std::cmp::Reverse(agent.since)));
        let mut sessions = Vec::new();
        for agent in agents {
            // Without it its sidecar never came so far as to start it.
            if let Some(record) = self.record(&agent.id) {
                sessions.push(self.session(&agent, record).await?);
            }
        }
        Ok(sessions)
    }

    async fn session(&self, agent: &Agent, record: Record) -> Result<Session, Error> {
        let id = agent.id.clone();
        let session_id = self.fleet.look(move |store| store.conversation(&id)).await.map_err(said)?;
        Ok(Session {
            agent_id: agent.id.clone(),
            driver: record.driver,
            session_id,
            is_running: is_there(agent) && agent.run > 0,
            port: record.server.as_ref().and_then(Server::port),
        })
    }

    fn record(&self, agent: &AgentId) -> Option<Record> {
        Record::read(&self.agents.join(&agent.0).join(record::FILE)).ok()
    }

    /// Returns the variables of a terminal in a workspace.
    fn environment(&self, workspace: &Path, sessions: &[Session]) -> BTreeMap<String, String> {
        let state = self.agents.parent().unwrap_or(Path::new("/"));
        let path = |path: &Path| path.display().to_string();
        let mut told = BTreeMap::from([
            ("COOP_STATE".to_owned(), path(state)),
            ("COOP_MCP_SOCKET".to_owned(), path(&socket(state))),
            ("COOP_WORKSPACE_PATH".to_owned(), path(workspace)),
            ("COOP_WRAP_DIR".to_owned(), path(&bin_folder(state))),
        ]);
        for session in sessions.iter().rev() {
            let name = |what: &str| format!("COOP_{}_{what}", session.driver.to_uppercase());
            told.insert(name("AGENT_ID"), session.agent_id.0.clone());
            let facts =
                [("SESSION_ID", session.session_id.clone()), ("PORT", session.port.map(|port| port.to_string()))];
            for (what, value) in facts {
                match value {
                    Some(value) => told.insert(name(what), value),
                    None => told.remove(&name(what)),
                };
            }
        }
        told
    }

    /// Returns the caller's conversation, and where its server is.
    pub(super) async fn own_session(&self, caller: &Caller) -> Result<Value, Error> {
        let id = caller.agent.clone();
        let session = self.fleet.look(move |store| store.conversation(&id)).await.map_err(said)?;
        let record = self.record(&caller.agent);
        let port = record.and_then(|record| record.server).as_ref().and_then(Server::port);
        Ok(session.map_or(Value::Null, |id| json!({ "agentId": caller.agent, "sessionId": id, "port": port })))
    }

    /// Restarts the caller's server, or if it has none those of the agents in its workspace, each with its port and its
    /// conversation. The ports are told before: the caller may end with its server.
    pub(super) async fn restart_servers(&self, caller: &Caller, by: &str) -> Result<Value, Error> {
        let sessions = self.sessions_in(&caller.workspace).await?;
        let running = sessions.into_iter().filter(|session| session.is_running);
        let mut running: Vec<_> = running.filter_map(|session| Some((session.agent_id, session.port?))).collect();
        if running.iter().any(|(agent, _)| *agent == caller.agent) {
            running.retain(|(agent, _)| *agent == caller.agent);
        }
        let Some((_, port)) = running.first() else {
            return Err(Error::new(ErrorCode::Unsupported, "no agent of this workspace has a server"));
        };
        let agents: Vec<_> = running.iter().map(|(agent, port)| json!({ "agentId": agent, "port": port })).collect();
        let told = json!({ "port": port, "agents": agents });
        for (agent, _) in running {
            let (places, by) = (self.clone(), by.to_owned());
            tokio::spawn(async move {
                if let Err(error) = places.revive(&agent, &by).await {
                    tracing::warn!(%agent, %error, "its server is not restarted");
                }
            });
        }
        Ok(told)
    }
}
