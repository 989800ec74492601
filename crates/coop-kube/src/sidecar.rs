//! What a sidecar in a pod says, and what it is told.

use std::time::Duration;

use coop_api::{Event, EventBody, Seq, Turn, UsageReport, visible_line};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::resource::{AskStatus, EvidenceStatus, UsageStatus};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);
/// The same where something is done to the agent: a message waits for its server, and until something shows that it took.
const DONE: Duration = Duration::from_secs(300);
const CONNECT: Duration = Duration::from_secs(5);
/// A sidecar that says nothing for so long, though it is asked, is gone.
const PING: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(25);
/// What happens within this time is told together.
const TOGETHER: Duration = Duration::from_millis(200);
/// The pauses before a new connection, and after how many failures it is told that there is none.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);
const PATIENCE: u32 = 4;
const NO_CONNECTION: &str = "it takes no connection";
const NO_ANSWER: &str = "it does not answer";

/// What is known of an agent from its sidecar.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// The pod whose sidecar said it.
    pub pod: String,
    /// The state's short name.
    pub state: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// What it rests on.
    pub evidence: EvidenceStatus,
    /// What is asked.
    pub ask: Option<AskStatus>,
    /// The agent's conversation.
    pub session: Option<String>,
    /// What it has used.
    pub usage: Option<UsageStatus>,
    /// What the first turn was about that has begun since this sidecar was started; nothing is said of one that is not known.
    pub first_turn: Option<String>,
    /// Why the sidecar is not heard any more, if it is not; the rest is what it said last.
    pub unreachable: Option<String>,
}

/// The way to one sidecar.
#[derive(Clone)]
pub(crate) struct Sidecar {
    /// The pod's uid.
    pub(crate) pod: String,
    /// Address and port.
    pub(crate) address: String,
    pub(crate) token: String,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SidecarError {
    /// The sidecar says no, and nothing was done.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows.
    #[error("{0}")]
    Unsure(String),
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Done,
    /// The agent does something else right now.
    Busy,
}

#[derive(Deserialize)]
struct AgentReply {
    name: String,
    since: String,
    evidence: EvidenceStatus,
    session_id: Option<String>,
}

#[derive(Deserialize)]
struct AsksReply {
    asks: Vec<AskReply>,
}

#[derive(Deserialize)]
struct AskReply {
    id: String,
    kind: String,
    tool: Option<String>,
    preview: Option<String>,
}

/// What stands in a message of the log.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Told {
    Log(Box<Event>),
    #[serde(other)]
    Else,
}

impl Sidecar {
    /// Follows the sidecar until nobody wants to know any more, and tells what has changed.
    pub(crate) async fn follow(self, agent: String, heard: mpsc::Sender<(String, Heard)>) {
        let mut follower =
            Follower { sidecar: self, agent, heard, cursor: Seq(0), first_turn: None, was_heard: false, last: None };
        let (mut failures, mut pause) = (0, SHORTEST);
        loop {
            let why = match follower.sidecar.connect(follower.cursor).await {
                Ok(socket) => follower.read(socket).await,
                Err(error) => error.to_string(),
            };
            // A connection is not enough: a sidecar is heard when it says how its agent is.
            if std::mem::take(&mut follower.was_heard) {
                (failures, pause) = (0, SHORTEST);
            }
            failures += 1;
            if failures == PATIENCE {
                follower.lost(why).await;
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(LONGEST),
                () = follower.heard.closed() => return,
            }
            if follower.heard.is_closed() {
                return;
            }
        }
    }

    /// Gives the agent a message, at once or not at all.
    pub(crate) async fn tell(&self, message: &str) -> Result<Delivery, SidecarError> {
        let body = json!({ "message": message, "when": "now" });
        let (status, reply) = self.request(Method::POST, "agent/nudge", body.to_string().into()).await?;
        match (status, reply["delivered"].as_bool(), reply["error"]["code"].as_str()) {
            (200, Some(true), _) => Ok(Delivery::Done),
            (_, _, Some("AGENT_BUSY" | "WRITER_BUSY")) => Ok(Delivery::Busy),
            (400..=499, _, Some(code)) => Err(SidecarError::Refused(code.to_owned())),
            _ => Err(SidecarError::Unsure(format!("the message was answered with {status} {reply}"))),
        }
    }

    async fn look(&self, first_turn: Option<String>) -> Result<Heard, SidecarError> {
        let agent: AgentReply = self.get("agent").await?;
        let ask = match agent.name.as_str() {
            "prompt" => self.get::<AsksReply>("agent/asks").await?.asks.into_iter().next(),
            _ => None,
        };
        // An agent may not tell what it uses.
        let usage = self.get::<UsageReport>("session/usage").await.ok().map(|report| UsageStatus {
            input_tokens: report.total.input_tokens,
            output_tokens: report.total.output_tokens,
            cost_usd: report.total.cost_usd,
        });
        let mut evidence = agent.evidence;
        // kubectl prints it as it is, and a sidecar may be of an earlier version.
        evidence.detail = visible_line(&evidence.detail);
        if evidence.detail.is_empty() {
            // The API server of 1.20 takes no empty text.
            "nothing was said".clone_into(&mut evidence.detail);
        }
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Heard {
            pod: self.pod.clone(),
            state: agent.name,
            since: agent.since,
            evidence,
            ask: ask.map(|ask| AskStatus {
                id: ask.id,
                kind: ask.kind,
                tool: some(ask.tool.as_deref().map(visible_line)),
                preview: some(ask.preview.as_deref().map(visible_line)),
            }),
            session: some(agent.session_id),
            usage,
            first_turn,
            unreachable: None,
        })
    }

    async fn connect(&self, after: Seq) -> Result<WebSocketStream<TcpStream>, SidecarError> {
        let connect = async {
            let url = format!("ws://{}/ws?subscribe=log&after={after}", self.address);
            let mut request = url.into_client_request().map_err(unsure)?;
            request.headers_mut().insert(AUTHORIZATION, self.bearer()?);
            let stream = TcpStream::connect(&self.address).await.map_err(unsure)?;
            let (socket, _) = tokio_tungstenite::client_async(request, stream).await.map_err(unsure)?;
            Ok(socket)
        };
        timeout(CONNECT, connect).await.map_err(|_| unsure(NO_CONNECTION))?
    }

    async fn get<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, SidecarError> {
        let (status, reply) = self.request(Method::GET, path, Bytes::new()).await?;
        if status != 200 {
            return Err(SidecarError::Refused(format!("{path} was answered with {status}")));
        }
        serde_json::from_value(reply).map_err(unsure)
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<(u16, Value), SidecarError> {
        let limit = if method == Method::POST { DONE } else { LIMIT };
        let exchange = async {
            let connect = timeout(CONNECT, TcpStream::connect(&self.address)).await;
            // Nothing was sent, so nothing was done.
            let stream = connect.map_err(|_| refused(NO_CONNECTION))?.map_err(refused)?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = handshake.map_err(unsure)?;
            tokio::spawn(connection);
            let request = Request::builder().method(method).uri(format!("/api/v1/{path}")).header(HOST, &self.address);
            let request = request.header(AUTHORIZATION, self.bearer()?).header("x-coop-by", "operator");
            let request = request.body(Full::new(body)).map_err(refused)?;
            let response = sender.send_request(request).await.map_err(unsure)?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(unsure)?.to_bytes();
            Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
        };
        timeout(limit, exchange).await.map_err(|_| unsure(NO_ANSWER))?
    }

    fn bearer(&self) -> Result<HeaderValue, SidecarError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.token)).map_err(refused)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// One sidecar, followed.
struct Follower {
    sidecar: Sidecar,
    agent: String,
    heard: mpsc::Sender<(String, Heard)>,
    cursor: Seq,
    first_turn: Option<String>,
    /// Whether it said how its agent is since it was last lost.
    was_heard: bool,
    last: Option<Heard>,
}

impl Follower {
    /// Reads until the connection ends, and returns why it did.
    async fn read(&mut self, mut socket: WebSocketStream<TcpStream>) -> String {
        let mut look_at = Some(Instant::now());
        let mut ping_at = Instant::now() + PING;
        let mut silent_at = Instant::now() + SILENCE;
        loop {
            tokio::select! {
                message = socket.next() => match message {
                    Some(Ok(message)) => {
                        silent_at = Instant::now() + SILENCE;
                        if self.note(&message) {
                            look_at.get_or_insert_with(|| Instant::now() + TOGETHER);
                        }
                    }
                    Some(Err(error)) => return error.to_string(),
                    None => return "it has closed the connection".to_owned(),
                },
                () = sleep_until(look_at.unwrap_or(ping_at)), if look_at.is_some() => {
                    look_at = None;
                    match self.sidecar.look(self.first_turn.clone()).await {
                        Ok(heard) => {
                            self.was_heard = true;
                            self.tell(heard).await;
                        }
                        Err(error) => return error.to_string(),
                    }
                }
                () = sleep_until(ping_at) => {
                    ping_at = Instant::now() + PING;
                    if let Err(error) = socket.send(Message::Ping(Bytes::new())).await {
                        return error.to_string();
                    }
                }
                () = sleep_until(silent_at) => return NO_ANSWER.to_owned(),
                () = self.heard.closed() => return "nobody listens".to_owned(),
            }
        }
    }

    /// Tells whether something has happened.
    fn note(&mut self, message: &Message) -> bool {
        let Message::Text(text) = message else { return false };
        match serde_json::from_str(text) {
            Ok(Told::Log(event)) => {
                self.cursor = self.cursor.max(event.seq);
                if let EventBody::Turn(Turn::Began { prompt }) = event.body {
                    self.first_turn.get_or_insert(prompt.unwrap_or_default());
                }
                true
            }
            Ok(Told::Else) => false,
            // Of another version: what it means is asked.
            Err(_) => true,
        }
    }

    async fn tell(&mut self, heard: Heard) {
        if self.last.as_ref() != Some(&heard) {
            self.last = Some(heard.clone());
            // If nobody listens, the follower ends soon.
            let _ = self.heard.send((self.agent.clone(), heard)).await;
        }
    }

    async fn lost(&mut self, why: String) {
        let nothing = || Heard {
            pod: self.sidecar.pod.clone(),
            state: "unknown".to_owned(),
            since: String::new(),
            evidence: EvidenceStatus { source: "none".to_owned(), detail: String::new() },
            ask: None,
            session: None,
            usage: None,
            first_turn: self.first_turn.clone(),
            unreachable: None,
        };
        let last = self.last.clone().unwrap_or_else(nothing);
        self.tell(Heard { unreachable: Some(why), ..last }).await;
    }
}

fn unsure(error: impl std::fmt::Display) -> SidecarError {
    SidecarError::Unsure(error.to_string())
}

fn refused(error: impl std::fmt::Display) -> SidecarError {
    SidecarError::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::ws::WebSocketUpgrade;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::net::TcpListener;

    use super::*;

    /// The bug this keeps away: a sidecar that takes every connection and says nothing is never told to be lost, because a
    /// connection counts as a success.
    #[tokio::test]
    async fn a_sidecar_that_connects_and_says_nothing_is_lost() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let upgrade = get(|upgrade: WebSocketUpgrade| async {
            upgrade.on_upgrade(|mut socket| async move { drop(socket.recv().await) })
        });
        let api = Router::new().route("/ws", upgrade).fallback(|| async { StatusCode::INTERNAL_SERVER_ERROR });
        let server = tokio::spawn(async move { axum::serve(listener, api).await });
        let (teller, mut told) = mpsc::channel(1);
        let sidecar = Sidecar { pod: "pod-1".to_owned(), address, token: "token".to_owned() };
        let follower = tokio::spawn(sidecar.follow("fixer".to_owned(), teller));
        let (agent, heard) = timeout(Duration::from_secs(60), told.recv()).await.expect("in time").expect("something");
        assert_eq!((agent.as_str(), heard.state.as_str()), ("fixer", "unknown"));
        assert_eq!(heard.unreachable.as_deref(), Some("agent was answered with 500"));
        follower.abort();
        server.abort();
    }
}
