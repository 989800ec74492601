//! What a sidecar tells, one WebSocket for each agent, until the agent is gone.
//!
//! ```text
//! connect after the last number ─► facts ─► closed ─► process gone? ─ yes ─► Gone
//!        ▲                                              │ no
//!        └──────────────── back-off ◄───────────────────┘
//! ```
//!
//! A connection that ends says nothing about the agent. It is gone when its sidecar says that it has exited, or when
//! nobody listens and the sidecar's process has ended.

use std::process::ExitStatus;
use std::time::Duration;

use coop_api::{AgentId, Event, EventBody, Lifecycle, Seq};
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::client::Client;
use super::process::Watch;
use crate::Fact;
use crate::engine::Input;

/// The first pause before a new connection, and the longest.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// After how many failures in a row an agent is told to be out of reach: one may be chance, and an end shows before that.
const PATIENCE: u32 = 3;

/// One agent, followed.
pub(crate) struct Bridge {
    pub(crate) agent: AgentId,
    pub(crate) sidecar: String,
    pub(crate) client: Client,
    pub(crate) ended: Watch,
    pub(crate) facts: mpsc::Sender<Fact>,
    pub(crate) cursor: Seq,
}

/// Why following has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The agent is gone, and that was told.
    Gone,
    /// Nobody listens to us any more.
    Unheard,
}

/// What stands in a message of the log.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Told {
    Log(Box<Event>),
    Lagged {
        from: Seq,
        to: Seq,
    },
    #[serde(other)]
    Else,
}

/// How a connection ended.
enum Closed {
    Ending(Ending),
    Lost,
}

impl Bridge {
    /// Follows the agent to its end.
    pub(crate) async fn run(mut self) -> Ending {
        let mut pause = SHORTEST;
        let mut failures = 0_u32;
        loop {
            let has_ended = self.ended.borrow().is_some();
            match self.client.follow(self.cursor).await {
                Ok(socket) => {
                    pause = SHORTEST;
                    failures = 0;
                    if let Closed::Ending(ending) = self.read(socket).await {
                        return ending;
                    }
                }
                // The process was seen to have ended before nobody listened, so nobody ever will.
                Err(_) if has_ended => return self.vanished().await,
                Err(error) => {
                    failures += 1;
                    let why = error.to_string();
                    if failures == PATIENCE && self.tell(None, Input::Unreachable { why }).await.is_err() {
                        return Ending::Unheard;
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
                _ = self.ended.wait_for(Option::is_some), if !has_ended => {}
                () = self.facts.closed() => return Ending::Unheard,
            }
        }
    }

    async fn read(&mut self, mut socket: WebSocketStream<UnixStream>) -> Closed {
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                () = self.facts.closed() => return Closed::Ending(Ending::Unheard),
            };
            let text = match message {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return Closed::Lost,
            };
            let heard = match serde_json::from_str(&text) {
                Ok(Told::Log(event)) => self.hear(*event).await,
                Ok(Told::Lagged { from, to }) => {
                    self.cursor = self.cursor.max(to);
                    self.tell(None, Input::Missed { from, to }).await.map(|()| None)
                }
                Ok(Told::Else) => Ok(None),
                Err(error) => {
                    tracing::warn!(agent = %self.agent, %error, "a sidecar says what cannot be read");
                    Ok(None)
                }
            };
            match heard {
                Ok(None) => {}
                Ok(Some(ending)) => return Closed::Ending(ending),
                Err(Unheard) => return Closed::Ending(Ending::Unheard),
            }
        }
    }

    /// Passes an event on, once.
    async fn hear(&mut self, event: Event) -> Result<Option<Ending>, Unheard> {
        if event.seq <= self.cursor {
            return Ok(None);
        }
        self.cursor = event.seq;
        let is_exit = matches!(event.body, EventBody::Lifecycle(Lifecycle::Exited { .. }));
        let mut fact = Fact::heard(&self.agent, &self.sidecar, event);
        let is_gone = is_exit && self.has_exited().await;
        if is_exit && !is_gone {
            // It was started again within its sidecar: not the end.
            fact.input = None;
        }
        self.facts.send(fact).await.map_err(|_| Unheard)?;
        Ok(is_gone.then_some(Ending::Gone))
    }

    /// Asks the sidecar whether there is another process already. One that does not answer any more is going too.
    async fn has_exited(&self) -> bool {
        match self.client.get_json("health").await {
            Ok(health) => health["status"] == "exited",
            Err(_) => true,
        }
    }

    /// Tells of an agent whose sidecar has ended without a word. What it ended with is what its agent ended with, unless
    /// it was killed: then nobody knows.
    async fn vanished(&mut self) -> Ending {
        let status = (*self.ended.borrow()).flatten();
        let gone = Input::Gone { code: status.as_ref().and_then(ExitStatus::code), signal: None };
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
}

/// Nobody reads what is told.
struct Unheard;
