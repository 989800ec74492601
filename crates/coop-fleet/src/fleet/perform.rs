//! What is done about an intent.

use std::time::Duration;

use coop_api::{AgentId, Answer, AskId, ErrorCode};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::notify::Notice;
use super::outside::{GateRun, Outside};
use crate::Fact;
use crate::adapter::{AgentAdapter, AgentAdapterError, AgentConfig, AgentReconnectConfig};
use crate::engine::GateVerdict;

/// Pauses before what can be tried again is: a sidecar that is busy or just starts is there by then.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(10)];

/// What came of it.
pub(super) enum Performed {
    /// It was done.
    Done,
    /// It was not to be done any more.
    Overtaken(String),
    /// It was refused: not now.
    Busy,
    /// It could not be done.
    Failed(String),
    /// A gate ended.
    Gate(GateVerdict),
    /// The process is ended, or there was none.
    Ended { was_there: bool },
}

/// Something to do, with all that it takes.
pub(super) enum Job {
    Spawn(Box<AgentConfig>),
    Send(String),
    Answer {
        ask: AskId,
        allow: bool,
        text: Option<String>,
    },
    ResolveStop,
    Gate(GateRun),
    /// Ends the process, for another or for good.
    End,
    Notify(Notice),
}

pub(super) async fn perform<A: AgentAdapter, O: Outside>(
    adapter: A,
    outside: O,
    agent: AgentId,
    job: Job,
    facts: mpsc::Sender<Fact>,
) -> Performed {
    match job {
        Job::Spawn(config) => spawn(&adapter, *config, facts).await,
        Job::Send(message) => match adapter.send(&agent, &message).await {
            Ok(()) => Performed::Done,
            Err(AgentAdapterError::Refused(error))
                if matches!(error.code, ErrorCode::AgentBusy | ErrorCode::NotReady | ErrorCode::WriterBusy) =>
            {
                Performed::Busy
            }
            Err(error) => Performed::Failed(error.to_string()),
        },
        Job::Answer { ask, allow, text } => {
            let answer = Answer { ask: Some(ask), accept: Some(allow), text, ..Answer::default() };
            answer_it(&adapter, &agent, &answer).await
        }
        Job::ResolveStop => {
            adapter.resolve_stop(&agent).await;
            Performed::Done
        }
        Job::Gate(gate) => Performed::Gate(outside.gate(gate).await),
        Job::End => match adapter.kill(&agent).await {
            Ok(()) => Performed::Ended { was_there: true },
            Err(AgentAdapterError::NotFound(_)) => Performed::Ended { was_there: false },
            Err(error) => Performed::Failed(error.to_string()),
        },
        Job::Notify(notice) => match outside.notify(notice).await {
            Ok(()) => Performed::Done,
            Err(why) => Performed::Failed(why),
        },
    }
}

/// Starts a process. If we were killed after we had started it, it is there: then it is taken over.
async fn spawn<A: AgentAdapter>(adapter: &A, config: AgentConfig, facts: mpsc::Sender<Fact>) -> Performed {
    let agent = config.agent.clone();
    let (resumed, run_owner) = (config.resume.is_some(), config.run_owner);
    match adapter.spawn(config, facts.clone()).await {
        Ok(_) => return Performed::Done,
        Err(AgentAdapterError::Exists(_)) => {}
        Err(error) => return Performed::Failed(error.to_string()),
    }
    if adapter.is_alive(&agent).await {
        return Performed::Done;
    }
    for pause in PAUSES {
        let config = AgentReconnectConfig { agent: agent.clone(), known: None, resumed, run_owner };
        if adapter.reconnect(config, facts.clone()).await.is_ok() {
            return Performed::Done;
        }
        sleep(pause).await;
    }
    Performed::Failed(format!("a sidecar of {agent} runs, and cannot be found"))
}

/// An ask takes one answer, so it does no harm to give it again when nobody knows whether it came.
async fn answer_it<A: AgentAdapter>(adapter: &A, agent: &AgentId, answer: &Answer) -> Performed {
    let mut pauses = PAUSES.iter();
    loop {
        match (adapter.respond(agent, answer).await, pauses.next()) {
            (Ok(()), _) => return Performed::Done,
            (Err(AgentAdapterError::Refused(error)), _)
                if matches!(error.code, ErrorCode::AlreadyAnswered | ErrorCode::NoPrompt) =>
            {
                return Performed::Overtaken(error.message);
            }
            (Err(AgentAdapterError::Unreachable { .. }), Some(pause)) => sleep(*pause).await,
            // Another answer is on its way, or this one is from before: it will show.
            (Err(AgentAdapterError::Refused(error)), Some(pause)) if error.code == ErrorCode::WriterBusy => {
                sleep(*pause).await;
            }
            (Err(AgentAdapterError::NotFound(_)), _) => return Performed::Overtaken("the agent is gone".to_owned()),
            (Err(error), _) => return Performed::Failed(error.to_string()),
        }
    }
}
