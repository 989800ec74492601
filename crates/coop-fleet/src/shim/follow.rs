//! What a shim tells, one WebSocket for each, until its agent is gone.
//!
//! A connection that ends says nothing about the agent: it is opened again, each time after a longer pause. The agent is
//! gone when the shim says so, or when the shim's process has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coop_api::{AgentId, Seq};
use futures_util::StreamExt;
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::client::Client;
use super::intake::{Intake, Taken};
use super::process::{end_group, keep};
use super::story::Story;
use crate::Fact;
use crate::engine::Input;
use crate::sidecar::{Ending, Identity, Watch};

/// The first pause before a new connection, and the longest.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// How long a shim may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// After how many failures in a row a shim is told to be out of reach: one may be chance.
const PATIENCE: u32 = 3;

/// What is known of an agent, for who follows it and who steers it.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) intake: Intake,
    pub(crate) story: Story,
}

/// One shim, followed.
pub(crate) struct Follower {
    pub(crate) agent: AgentId,
    pub(crate) sidecar: String,
    pub(crate) folder: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) client: Client,
    pub(crate) ended: Watch,
    pub(crate) facts: mpsc::Sender<Fact>,
    pub(crate) heard: Arc<Mutex<Heard>>,
}

/// Nobody reads what is told.
struct Unheard;

impl Follower {
    /// Follows the agent to its end.
    pub(crate) async fn run(mut self) -> Ending {
        let mut failures = 0_u32;
        loop {
            let has_ended = self.ended.borrow().is_some();
            match self.client.follow().await {
                Ok(socket) => {
                    failures = 0;
                    match self.read(socket).await {
                        Ok(Some(ending)) => return ending,
                        Ok(None) => {}
                        Err(Unheard) => return Ending::Unheard,
                    }
                }
                // The process was seen to have ended before nobody listened, so nobody ever will.
                Err(_) if has_ended => return self.vanished().await,
                Err(error) => {
                    let why = error.to_string();
                    if failures + 1 == PATIENCE && self.tell(None, Input::Unreachable { why }).await.is_err() {
                        return Ending::Unheard;
                    }
                }
            }
            failures = failures.saturating_add(1);
            tokio::select! {
                () = tokio::time::sleep(pause(failures, fastrand::f64())) => {}
                _ = self.ended.wait_for(Option::is_some), if !has_ended => {}
                () = self.facts.closed() => return Ending::Unheard,
            }
        }
    }

    async fn read(&mut self, mut socket: WebSocketStream<TcpStream>) -> Result<Option<Ending>, Unheard> {
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                () = self.facts.closed() => return Err(Unheard),
            };
            let taken = match message {
                Some(Ok(Message::Text(text))) => self.lock().intake.take(&text),
                Some(Ok(Message::Binary(bytes))) => self.lock().intake.take(&String::from_utf8_lossy(&bytes)),
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return Ok(None),
            };
            // It was told before we were there; what it left open is still open.
            if let Taken::Known { frame, seq, run } = &taken {
                let mut heard = self.lock();
                heard.story.hear(&self.agent, &self.sidecar, frame, *seq, *run);
                heard.story.close_used(frame);
            }
            if let Taken::New { frame, seq, run, missed } = taken {
                if let Some((from, to)) = missed {
                    self.tell(None, Input::Missed { from, to }).await?;
                }
                self.keep_runs();
                let facts = self.lock().story.hear(&self.agent, &self.sidecar, &frame, seq, run);
                let is_gone = facts.iter().any(|fact| matches!(fact.input, Some(Input::Gone { .. })));
                if is_gone {
                    self.end().await;
                }
                for fact in facts {
                    self.facts.send(fact).await.map_err(|_| Unheard)?;
                }
                if is_gone {
                    return Ok(Some(Ending::Gone));
                }
                if matches!(frame.text("type"), "decision" | "completion") {
                    tokio::spawn(checkpoint(
                        self.client.clone(),
                        self.folder.clone(),
                        frame.text("decisionId").to_owned(),
                    ));
                }
            }
        }
    }

    /// Ends the shim of an agent that is gone, before anybody hears of that: the next one takes its place.
    async fn end(&mut self) {
        for signal in [Signal::TERM, Signal::KILL] {
            end_group(&self.identity, signal);
            if timeout(GRACE, self.ended.wait_for(Option::is_some)).await.is_ok() {
                return;
            }
        }
        tracing::warn!(agent = %self.agent, "the shim of an agent that is gone does not end");
    }

    /// Writes the runs down before anything of a new one is told: its numbers mean nothing without.
    fn keep_runs(&self) {
        let mut heard = self.lock();
        if heard.intake.has_new_run() {
            let runs = heard.intake.runs().to_vec();
            drop(heard);
            if let Err(error) = keep(&self.folder, "runs.json", &runs) {
                tracing::warn!(agent = %self.agent, %error, "the runs of a shim cannot be written down");
            }
        }
    }

    /// Tells of an agent whose shim has ended without a word.
    async fn vanished(&mut self) -> Ending {
        let gone = Input::Gone { code: (*self.ended.borrow()).flatten(), signal: None };
        match self.tell(Some(Fact::VANISHED), gone).await {
            Ok(()) => Ending::Gone,
            Err(Unheard) => Ending::Unheard,
        }
    }

    async fn tell(&self, number: Option<Seq>, input: Input) -> Result<(), Unheard> {
        let told = number.map(|number| (self.sidecar.clone(), number));
        let fact = Fact { agent: self.agent.clone(), told, input: Some(input), event: None };
        self.facts.send(fact).await.map_err(|_| Unheard)
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the state from which the agent can go on if its shim dies.
async fn checkpoint(client: Client, folder: PathBuf, decision: String) {
    let decision = if decision.is_empty() { "completion".to_owned() } else { decision };
    // One that does not give its state can still be followed.
    if let Ok(state) = client.post("checkpoint", &json!({ "decisionId": decision })).await
        && let Err(error) = keep(&folder, "state.json", &state)
    {
        tracing::warn!(%error, "the state of a shim cannot be written down");
    }
}

/// Returns how long to wait after so many failures, given a random number from 0 to 1. Half of it is chance, so that many do
/// not come back at once.
fn pause(failures: u32, random: f64) -> Duration {
    let whole = SHORTEST.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST);
    whole.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_differ() {
        let whole = |failures| pause(failures, 1.0).as_millis();
        assert_eq!([1, 2, 3, 7, 8, 1000].map(whole), [500, 1000, 2000, 30_000, 30_000, 30_000]);
        assert_eq!(pause(3, 0.0), Duration::from_secs(1));
        assert_eq!(pause(3, 0.5), Duration::from_millis(1500));
    }
}
