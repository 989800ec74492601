//! What a sidecar tells, one WebSocket for each agent, until the agent is gone.
//!
//! ```text
//! connect after the last number ─► facts ─► closed ─► sidecar gone? ─ yes ─► Gone
//!        ▲                                              │ no
//!        └──────────────── back-off ◄───────────────────┘
//! ```
//!
//! A connection that ends says nothing about the agent. It is gone when its sidecar says that it has exited, or when
//! nobody listens and whoever runs the sidecar has seen it end.

use std::time::Duration;

use bytes::Bytes;
use coop_api::{AgentId, Event, EventBody, Lifecycle, Seq};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::client::Client;
use super::launcher::Watch;
use crate::Fact;
use crate::engine::Input;

/// The first pause before a new connection, and the longest.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// After how many failures in a row an agent is told to be out of reach: one may be chance, and an end shows before that.
const PATIENCE: u32 = 3;

/// How often a sidecar elsewhere is asked whether it is there, and when one that says nothing is given up: a machine that is
/// lost closes no connection.
const PING: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(25);

/// Whether a sidecar is asked now and then whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pings {
    /// The kernel tells when the connection ends.
    No,
    /// There is a network between.
    Yes,
}

/// One agent, followed.
pub(crate) struct Bridge {
    pub(crate) agent: AgentId,
    pub(crate) sidecar: String,
    pub(crate) client: Client,
    pub(crate) ended: Watch,
    pub(crate) facts: mpsc::Sender<Fact>,
    pub(crate) cursor: Seq,
    pub(crate) pings: Pings,
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
        let mut heard_at = Instant::now();
        let mut ping_at = heard_at + PING;
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                () = self.facts.closed() => return Closed::Ending(Ending::Unheard),
                () = sleep_until(ping_at), if self.pings == Pings::Yes => {
                    if heard_at.elapsed() > SILENCE || socket.send(Message::Ping(Bytes::new())).await.is_err() {
                        return Closed::Lost;
                    }
                    ping_at = Instant::now() + PING;
                    continue;
                }
            };
            heard_at = Instant::now();
            let text = match message {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return Closed::Lost,
            };
            let heard = match serde_json::from_str(&text) {
                Ok(Told::Log(event)) if event.seq > self.cursor && is_exit(&event) => {
                    // A sidecar that shuts down waits for who follows it.
                    drop(socket);
                    return self.hear_exit(*event).await.unwrap_or(Closed::Ending(Ending::Unheard));
                }
                Ok(Told::Log(event)) => self.hear(*event).await,
                Ok(Told::Lagged { from, to }) => {
                    self.cursor = self.cursor.max(to);
                    self.tell(None, Input::Missed { from, to }).await
                }
                Ok(Told::Else) => Ok(()),
                Err(error) => {
                    tracing::warn!(agent = %self.agent, %error, "a sidecar says what cannot be read");
                    self.unread(&text).await
                }
            };
            if let Err(Unheard) = heard {
                return Closed::Ending(Ending::Unheard);
            }
        }
    }

    /// Tells of an event that is of another version that it was missed, so that nobody takes the rest for the whole.
    async fn unread(&mut self, text: &str) -> Result<(), Unheard> {
        let told: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        match told["seq"].as_u64().map(Seq).filter(|seq| told["type"] == "log" && *seq > self.cursor) {
            Some(seq) => {
                self.cursor = seq;
                self.tell(Some(seq), Input::Missed { from: seq, to: seq }).await
            }
            None => Ok(()),
        }
    }

    /// Passes an event on, once.
    async fn hear(&mut self, event: Event) -> Result<(), Unheard> {
        if event.seq <= self.cursor {
            return Ok(());
        }
        self.cursor = event.seq;
        let fact = Fact::heard(&self.agent, &self.sidecar, event);
        self.facts.send(fact).await.map_err(|_| Unheard)
    }

    /// Passes an exit on. If the agent was started again within its sidecar, that is followed on.
    async fn hear_exit(&mut self, event: Event) -> Result<Closed, Unheard> {
        self.cursor = event.seq;
        let mut fact = Fact::heard(&self.agent, &self.sidecar, event);
        let is_gone = self.has_exited().await?;
        if !is_gone {
            fact.input = None;
        }
        self.facts.send(fact).await.map_err(|_| Unheard)?;
        Ok(if is_gone { Closed::Ending(Ending::Gone) } else { Closed::Lost })
    }

    /// Asks the sidecar whether there is another process already. That it does not answer says nothing: a network may be
    /// between. It is asked until it answers, or has really ended.
    async fn has_exited(&mut self) -> Result<bool, Unheard> {
        let mut pause = SHORTEST;
        let mut failures = 0_u32;
        loop {
            let has_ended = self.ended.borrow().is_some();
            match self.client.get_json("health").await {
                Ok(health) => return Ok(health["status"] == "exited"),
                Err(_) if has_ended => return Ok(true),
                Err(error) => {
                    failures += 1;
                    if failures == PATIENCE {
                        let why = format!("it does not say whether its agent has exited: {error}");
                        self.tell(None, Input::Unreachable { why }).await?;
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
                _ = self.ended.wait_for(Option::is_some), if !has_ended => {}
                () = self.facts.closed() => return Err(Unheard),
            }
        }
    }

    /// Tells of an agent whose sidecar has ended without a word. What it ended with is what its agent ended with, unless
    /// it was killed: then nobody knows.
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
}

fn is_exit(event: &Event) -> bool {
    matches!(event.body, EventBody::Lifecycle(Lifecycle::Exited { .. }))
}

/// Nobody reads what is told.
struct Unheard;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;
    use tokio::sync::watch;

    use super::*;

    async fn answer(listener: &UnixListener, body: &str) {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let _ = stream.read(&mut [0; 4096]).await.expect("asked");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).await.expect("written");
    }

    /// Follows a sidecar that tells of an exit and does not answer what it is asked about it.
    async fn follow(ended: Watch) -> (tempfile::TempDir, UnixListener, mpsc::Receiver<Fact>) {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("coop.sock");
        let listener = UnixListener::bind(&socket).expect("bound");
        let (facts, heard) = mpsc::channel(8);
        let (agent, sidecar) = (AgentId("a".to_owned()), "s1".to_owned());
        let client = Client::new(&socket);
        let bridge = Bridge { agent, sidecar, client, ended, facts, cursor: Seq(0), pings: Pings::Yes };
        tokio::spawn(bridge.run());
        let (stream, _) = listener.accept().await.expect("it follows");
        let mut log = tokio_tungstenite::accept_async(stream).await.expect("a WebSocket");
        let exited = EventBody::Lifecycle(Lifecycle::Exited { code: Some(3), signal: None });
        let mut event = serde_json::json!({ "type": "log", "seq": 1, "id": "s1-1", "ts": "1970-01-01T00:00:00Z",
            "agent": "a", "run": 1, "offset": 0 });
        event["body"] = serde_json::to_value(exited).expect("JSON");
        log.send(Message::Text(event.to_string().into())).await.expect("told");
        // A sidecar that shuts down waited for its follower, and that for an answer: every end took two seconds.
        while let Some(Ok(_)) = log.next().await {}
        drop(listener.accept().await.expect("it asks"));
        (folder, listener, heard)
    }

    /// The bug this keeps away: over a network a question is lost, and an agent that was started again is told to be gone.
    #[tokio::test]
    async fn a_question_that_is_not_answered_is_no_exit() {
        let (_runs, ended) = watch::channel(None);
        let (_folder, listener, mut heard) = follow(ended).await;
        answer(&listener, r#"{"status":"running"}"#).await;
        let fact = heard.recv().await.expect("it is told");
        assert_eq!((fact.input, fact.event.is_some()), (None, true), "there is another process");
    }

    #[tokio::test]
    async fn a_sidecar_that_does_not_answer_is_told_of() {
        let (_runs, ended) = watch::channel(None);
        let (_folder, listener, mut heard) = follow(ended).await;
        for _ in 1..PATIENCE {
            drop(listener.accept().await.expect("it asks again"));
        }
        let fact = heard.recv().await.expect("it is told");
        assert!(matches!(fact.input, Some(Input::Unreachable { .. })), "{fact:?}");
        answer(&listener, r#"{"status":"exited"}"#).await;
        let fact = heard.recv().await.expect("it is told");
        assert_eq!(fact.input, Some(Input::Gone { code: Some(3), signal: None }));
    }

    #[tokio::test]
    async fn a_sidecar_that_has_ended_needs_no_asking() {
        let (runs, ended) = watch::channel(None);
        let (_folder, listener, mut heard) = follow(ended).await;
        drop(listener);
        runs.send_replace(Some(None));
        let fact = heard.recv().await.expect("it is told");
        assert_eq!(fact.input, Some(Input::Gone { code: Some(3), signal: None }));
    }
}
