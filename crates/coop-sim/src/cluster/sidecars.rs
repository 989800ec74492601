//! Sidecars that say what they are told to: one server for all pods, which knows them by their tokens.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Cluster, text};

/// What a sidecar says of its agent.
#[derive(Clone, Debug)]
pub struct Said {
    /// The state's short name.
    pub state: String,
    /// What it has cost so far.
    pub cost_usd: Option<f64>,
    /// The messages it was given.
    pub messages: Vec<String>,
    since: SystemTime,
    seq: u64,
}

/// The sidecars of a cluster's pods.
#[derive(Clone)]
pub struct Sidecars {
    cluster: Cluster,
    said: Arc<Mutex<BTreeMap<String, watch::Sender<Said>>>>,
}

impl Sidecars {
    /// Returns the sidecars of a cluster. All agents are idle.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), said: Arc::default() }
    }

    /// Serves them until it is dropped.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let api = Router::new()
            .route("/api/v1/agent", get(agent))
            .route("/api/v1/agent/asks", get(asks))
            .route("/api/v1/agent/nudge", post(nudge))
            .route("/api/v1/session/usage", get(usage))
            .route("/ws", get(events));
        axum::serve(listener, api.with_state(self)).await
    }

    /// Changes what an agent's sidecar says, and has it tell.
    pub fn say(&self, agent: &str, change: impl FnOnce(&mut Said)) {
        self.of(agent).send_modify(|said| {
            change(said);
            said.since = SystemTime::now();
            said.seq += 1;
        });
    }

    /// Returns what it says.
    pub fn said(&self, agent: &str) -> Said {
        self.of(agent).borrow().clone()
    }

    fn of(&self, agent: &str) -> watch::Sender<Said> {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Said {
            state: "idle".to_owned(),
            cost_usd: None,
            messages: Vec::new(),
            since: SystemTime::now(),
            seq: 1,
        };
        all.entry(agent.to_owned()).or_insert_with(|| watch::Sender::new(new())).clone()
    }

    /// Returns whose token this is, by the Secrets of the cluster.
    fn whose(&self, token: &str) -> Option<String> {
        let coded = STANDARD.encode(token);
        let secrets = self.cluster.list("/api/v1/secrets").unwrap_or_default();
        let its = secrets.iter().find(|secret| secret["data"]["token"] == coded)?;
        text(&its["metadata"]["name"]).strip_prefix("agent-").map(str::to_owned)
    }
}

/// The agent that is asked about.
struct Whose(watch::Sender<Said>);

impl FromRequestParts<Sidecars> for Whose {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, sidecars: &Sidecars) -> Result<Self, StatusCode> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let agent = header.strip_prefix("Bearer ").and_then(|token| sidecars.whose(token));
        agent.map(|agent| Self(sidecars.of(&agent))).ok_or(StatusCode::UNAUTHORIZED)
    }
}

async fn agent(Whose(said): Whose) -> axum::Json<Value> {
    let said = said.borrow();
    axum::Json(json!({ "name": said.state, "since": time(said.since), "session_id": "simulated",
        "evidence": { "source": "hook", "detail": "it was told to say so" } }))
}

async fn asks(Whose(_): Whose) -> axum::Json<Value> {
    axum::Json(json!({ "asks": [{ "id": "ask-1", "kind": "permission", "tool": "Bash", "preview": "ls" }] }))
}

async fn usage(Whose(said): Whose) -> axum::Json<Value> {
    let used = json!({ "input_tokens": 1, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0,
        "cost_usd": said.borrow().cost_usd });
    axum::Json(json!({ "turn": used, "total": used, "requests": 1 }))
}

async fn nudge(Whose(said): Whose, body: Bytes) -> axum::Json<Value> {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    said.send_modify(|said| {
        said.messages.push(text(&body["message"]).to_owned());
        said.seq += 1;
    });
    axum::Json(json!({ "delivered": true }))
}

async fn events(Whose(said): Whose, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| tell(socket, said.subscribe())).into_response()
}

async fn tell(mut socket: WebSocket, mut said: watch::Receiver<Said>) {
    loop {
        tokio::select! {
            news = said.changed() => {
                if news.is_err() {
                    return;
                }
                let (seq, since) = { let said = said.borrow_and_update(); (said.seq, said.since) };
                let event = json!({ "type": "log", "seq": seq, "id": format!("simulated-{seq}"), "ts": time(since),
                    "agent": "simulated", "run": 1, "offset": 0, "body": { "kind": "turn", "what": "began", "prompt": null } });
                if socket.send(Message::Text(event.to_string().into())).await.is_err() {
                    return;
                }
            }
            // Pings are answered by whoever reads.
            message = socket.recv() => if !matches!(message, Some(Ok(_))) {
                return;
            },
        }
    }
}

fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}
