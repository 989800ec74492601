//! What agents may do with other agents by their tools.

use std::path::Path;
use std::time::Duration;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::ClientError;
use coop_fleet::engine::{Agent, Phase};
use coop_fleet::store::Defined;
use coop_server::mcp::{AgentWhat, Awaited, When, args};
use coop_server::workspaces::Caller;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::hub::said;
use super::places::{Places, is_there};

/// How long a wait lasts at most: less than what agents allow a tool to take.
const LONGEST_WAIT: Duration = Duration::from_secs(50);

impl Places {
    /// Returns another agent that the caller may do something with.
    async fn other(&self, caller: &Caller, agent: &str) -> Result<(Agent, Defined), Error> {
        let agent = AgentId(agent.to_owned());
        if agent == caller.agent {
            return Err(Error::bad_request("that is you"));
        }
        self.reachable(caller, &agent).await
    }

    pub(super) async fn agent_list(&self, caller: &Caller) -> Result<Value, Error> {
        let agents = self.fleet.look(|store| store.agents()).await.map_err(said)?;
        let family = self.family().await?;
        let mut told = Vec::new();
        for agent in agents {
            if let Ok((agent, defined)) = self.reachable(caller, &agent.id).await {
                let mut card = told_of(&agent);
                card["name"] = json!(defined.name);
                card["workspacePath"] = json!(self.workspaces.workspace_path(Path::new(&defined.folder)));
                card["isYou"] = json!(agent.id == caller.agent);
                card["depth"] = json!(family.depth(&agent.id));
                told.push(card);
            }
        }
        Ok(json!({ "agents": told }))
    }

    /// Sends a message that says which agent it is from, and records that. An agent is not a person: what is spent stays spent.
    pub(super) async fn agent_send(&self, caller: &Caller, args: args::AgentSend, by: &str) -> Result<Value, Error> {
        let (agent, _) = self.other(caller, &args.agent).await?;
        self.family().await?.check_budget(&agent.id)?;
        let when = match args.when {
            When::Now => "now",
            When::Idle => "idle",
        };
        let body = json!({ "message": from_agent(&caller.agent, &args.message), "when": when });
        // Before it is sent, so that no message is without a sender.
        self.fleet.messaged(&agent.id, by).await.map_err(said)?;
        self.sidecars.post(&agent.id, "agent/nudge", &body).await.map_err(unreached)
    }

    pub(super) async fn agent_read(&self, caller: &Caller, args: args::AgentRead) -> Result<Value, Error> {
        let (agent, _) = self.other(caller, &args.agent).await?;
        match args.what {
            AgentWhat::Message => Ok(told_of(&agent)),
            AgentWhat::Screen => {
                let text = self.sidecars.get(&agent.id, "screen/text").await.map_err(unreached)?;
                Ok(json!({ "id": agent.id, "screen": String::from_utf8_lossy(&text) }))
            }
        }
    }

    pub(super) async fn agent_wait(&self, caller: &Caller, args: args::AgentWait) -> Result<Value, Error> {
        let limit = match args.timeout {
            None => LONGEST_WAIT,
            Some(secs) => Duration::try_from_secs_f64(secs).map_err(|error| Error::bad_request(error.to_string()))?,
        };
        let until = Instant::now() + limit.min(LONGEST_WAIT);
        let mut newest = self.fleet.newest();
        loop {
            newest.borrow_and_update();
            let (agent, defined) = self.other(caller, &args.agent).await?;
            let is_over = !is_there(&agent) || agent.outcome.is_some();
            let is_so = match args.what {
                Awaited::Idle => is_over || self.is_idle(&agent, &defined).await,
                Awaited::Ask => is_over || !agent.asks.is_empty(),
                Awaited::Exit => is_over,
            };
            let is_late = !is_so && !matches!(timeout_at(until, newest.changed()).await, Ok(Ok(())));
            if is_so || is_late {
                let mut told = told_of(&agent);
                told["reached"] = json!(is_so);
                return Ok(told);
            }
        }
    }

    /// Tells whether an agent is idle: we have heard so, its sidecar says so now, we have heard all that it has told by then,
    /// and it has begun with what it was given. One that is idle again has had a turn in between.
    async fn is_idle(&self, agent: &Agent, defined: &Defined) -> bool {
        let has_begun = agent.turn > 0 || defined.rules().is_some_and(|rules| rules.prompt.is_none());
        if agent.phase != Phase::Idle || agent.has_first_words() || !has_begun {
            return false;
        }
        let told = self.sidecars.get(&agent.id, "agent").await.unwrap_or_default();
        let told: Value = serde_json::from_slice(&told).unwrap_or_default();
        let (id, newest) = (agent.id.clone(), told["event_seq"].as_u64());
        let known = self.fleet.look(move |store| Ok((store.agent(&id)?, store.last_told(&id)?))).await;
        let Ok((known, heard)) = known else { return false };
        let is_behind = heard.zip(newest).is_some_and(|((_, heard), newest)| heard.0 < newest);
        told["detail"]["state"] == "idle" && known.as_ref() == Some(agent) && !is_behind
    }
}

/// Returns a message as its reader gets it: it begins with its sender, which no person's message does.
pub(super) fn from_agent(sender: &AgentId, message: &str) -> String {
    format!("[from agent {sender}] {message}")
}

fn told_of(agent: &Agent) -> Value {
    json!({
        "id": agent.id,
        "phase": agent.phase,
        "outcome": agent.outcome,
        "turn": agent.turn,
        "asks": agent.asks,
        "lastMessage": agent.last_message,
    })
}

fn unreached(error: ClientError) -> Error {
    Error::new(ErrorCode::AgentBusy, error.to_string())
}
