//! An agent behind a shim as the one port shows agents, as far as the protocol carries it.

use coop_api::{
    AgentId, AgentReport, AgentState, Agents, Answered, Capability, Error, ErrorCode, Evidence, EvidenceSource, Feed,
    NudgeId, Receipt, Reply, Request, Seq,
};
use tokio::time::Instant;

use super::LocalHttp;
use crate::adapter::{AgentAdapter, AgentAdapterError};

/// One agent of [`LocalHttp`].
#[derive(Clone, Debug)]
pub struct ShimAgent {
    shims: LocalHttp,
    agent: AgentId,
}

impl ShimAgent {
    /// Returns an agent, if it is one of these.
    pub fn of(shims: &LocalHttp, agent: &AgentId) -> Option<Self> {
        shims.has(agent).then(|| Self { shims: shims.clone(), agent: agent.clone() })
    }

    async fn report(&self) -> Result<AgentReport, Error> {
        let state = self.shims.get_state(&self.agent).await.map_err(said)?;
        let asks = self.shims.asks(&self.agent);
        let since = self.shims.since(&self.agent);
        Ok(AgentReport {
            agent: "shim".to_owned(),
            ask: matches!(state, AgentState::Waiting { .. }).then(|| asks.into_iter().next()).flatten(),
            state,
            since_seq: Seq(0),
            since,
            screen_seq: Seq(0),
            evidence: Evidence { source: EvidenceSource::Control, detail: "the shim says so".to_owned() },
            idle_grace_remaining: None,
            session_id: None,
            last_message: self.shims.last_message(&self.agent).await,
            queue: vec![],
            stop_held: false,
            runtime: "shim",
            permission_mode: None,
            capabilities: vec![Capability::Nudge, Capability::Permission, Capability::Question],
            quiet_for: std::time::Duration::ZERO,
        })
    }

    async fn nudge(&self, message: &str) -> Result<Receipt, Error> {
        let began = Instant::now();
        let before = self.shims.get_state(&self.agent).await.map_err(said)?;
        self.shims.send(&self.agent, message).await.map_err(said)?;
        Ok(Receipt {
            id: NudgeId("shim".to_owned()),
            delivered: true,
            queued: false,
            confirmed_by: Some("shim".to_owned()),
            attempts: 1,
            ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            state_before: before.as_str().to_owned(),
            reason: None,
        })
    }
}

impl Agents for ShimAgent {
    fn list(&self) -> Vec<AgentId> {
        vec![self.agent.clone()]
    }

    async fn call(&self, _: &AgentId, request: Request) -> Result<Reply, Error> {
        match request {
            Request::AgentState => Ok(Reply::AgentState(Box::new(self.report().await?))),
            Request::Asks => Ok(Reply::Asks(self.shims.asks(&self.agent))),
            Request::Nudge { nudge, .. } => Ok(Reply::Receipt(self.nudge(&nudge.message).await?)),
            Request::Respond { answer, .. } => {
                let asks = self.shims.asks(&self.agent);
                let ask = match &answer.ask {
                    Some(id) => asks.into_iter().find(|ask| ask.id == *id),
                    None => asks.into_iter().next(),
                };
                self.shims.respond(&self.agent, &answer).await.map_err(said)?;
                let ask = ask.ok_or_else(|| Error::internal("it was answered, and is not known"))?;
                let (delivered, via, confirmed_by) = (true, "control".to_owned(), Some("shim".to_owned()));
                Ok(Reply::Answered(Answered { delivered, ask: ask.id, prompt_type: ask.kind, via, confirmed_by }))
            }
            _ => Err(unsupported()),
        }
    }

    fn feed(&self, _: &AgentId) -> Result<Feed, Error> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    let why =
        "this agent is behind a shim: it takes messages and answers; see what happens to it in the fleet's events";
    Error::new(ErrorCode::Unsupported, why)
}

fn said(error: AgentAdapterError) -> Error {
    match error {
        AgentAdapterError::Refused(error) => error,
        AgentAdapterError::NotFound(_) => Error::new(ErrorCode::Exited, error.to_string()),
        AgentAdapterError::Exists(_)
        | AgentAdapterError::SpawnFailed { .. }
        | AgentAdapterError::Unreachable { .. } => Error::new(ErrorCode::NotReady, error.to_string()),
    }
}
