//! coop's own agent for whoever speaks the Agent Client Protocol, version 1: `coop run --acp`.
//!
//! | Method | |
//! |---|---|
//! | `initialize`, `session/new`, `session/resume` | as the protocol says; there is one folder, the one it was started in |
//! | `session/prompt` | one at a time; answered when its turn is over |
//! | `session/cancel` | ends that turn |
//! | `session/update` | what happens: words, thoughts, tools, what it has cost |
//! | `session/request_permission` | before what changes something |
//! | `_coop/retry` | a call of the model failed and is made again |

mod kept;
mod peer;
mod turn;

use std::collections::HashMap;
use std::env;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use coop_llm::{AgentError, ErrorKind, Events, Limits, Message, Metrics, Outcome, RunCx};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_util::sync::CancellationToken;

use self::kept::Conversation;
use self::peer::{Peer, RpcError};
use self::turn::{Asker, Teller};
use super::options::Run;
use super::ready::{Allowed, Ready};

/// Serves until its input ends.
pub(super) async fn run(options: &Run, cx: &RunCx) -> anyhow::Result<i32> {
    let folder = env::current_dir().context("cannot tell the current folder")?;
    // What is wrong is told when a conversation is asked for: the client would not see it elsewhere.
    let ready = Ready::make(options, &folder, cx).await;
    let mut server = Server {
        ready,
        folder,
        allowed: Arc::new(Allowed::new(&options.allow)),
        peer: Arc::new(Peer::default()),
        conversations: HashMap::new(),
        stop: None,
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut running: Option<Running> = None;
    loop {
        let ended = async {
            match &mut running {
                Some(running) => running.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = ended => {
                running = None;
                server.ended(ended);
            }
            line = lines.next_line() => {
                let Some(line) = line.context("cannot read standard input")? else { break };
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if let Some(begun) = server.hear(&message, cx) {
                    running = Some(begun);
                }
            }
            () = cx.cancel.cancelled() => break,
        }
    }
    // Dropped, it takes its tools with it.
    drop(running);
    Ok(0)
}

type Running = Pin<Box<dyn Future<Output = Ended>>>;

/// A turn that is over.
struct Ended {
    request: Value,
    session: String,
    outcome: Outcome,
}

struct Server {
    ready: anyhow::Result<Ready>,
    folder: PathBuf,
    allowed: Arc<Allowed>,
    peer: Arc<Peer>,
    conversations: HashMap<String, Conversation>,
    /// Stops the turn that is under way, and whose it is.
    stop: Option<(String, CancellationToken)>,
}

impl Server {
    /// Does what a message wants; returns the turn that it begins.
    fn hear(&mut self, message: &Value, cx: &RunCx) -> Option<Running> {
        let (id, params) = (&message["id"], &message["params"]);
        match (message["method"].as_str(), id.is_null()) {
            (None, false) => self.peer.answered(message),
            (Some("session/cancel"), true) => {
                if let Some((session, stop)) = &self.stop
                    && params["sessionId"] == **session
                {
                    stop.cancel();
                }
            }
            (Some("session/prompt"), false) => match self.prompt(id, params, cx) {
                Ok(running) => return Some(running),
                Err(error) => self.peer.reply(id, Err(error)),
            },
            (Some("initialize"), false) => self.peer.reply(id, Ok(greeting())),
            (Some("session/new"), false) => {
                let opened = self.open();
                self.peer.reply(id, opened);
            }
            (Some("session/resume"), false) => {
                let opened = self.reopen(params["sessionId"].as_str().unwrap_or_default());
                self.peer.reply(id, opened);
            }
            (Some(method), false) => self.peer.reply(id, Err(RpcError::no_such_method(method))),
            (_, true) => {}
        }
        None
    }

    fn open(&mut self) -> Result<Value, RpcError> {
        self.ready.as_ref().map_err(RpcError::not_ready)?;
        let id = uuid::Uuid::new_v4().to_string();
        self.conversations.insert(id.clone(), Conversation::default());
        Ok(json!({ "sessionId": id }))
    }

    fn reopen(&mut self, id: &str) -> Result<Value, RpcError> {
        self.ready.as_ref().map_err(RpcError::not_ready)?;
        let conversation = Conversation::load(id).map_err(|error| RpcError::invalid(&format!("{error:#}")))?;
        self.conversations.insert(id.to_owned(), conversation);
        Ok(json!({}))
    }

    fn prompt(&mut self, request: &Value, params: &Value, cx: &RunCx) -> Result<Running, RpcError> {
        let ready = self.ready.as_ref().map_err(RpcError::not_ready)?;
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let conversation = self.conversations.get_mut(&session).ok_or_else(|| RpcError::invalid("no such session"))?;
        if self.stop.is_some() {
            return Err(RpcError::invalid("a turn is under way"));
        }
        let text = turn::text(&params["prompt"]).ok_or_else(|| RpcError::invalid("a prompt is made of text"))?;
        let cancel = cx.cancel.child_token();
        self.stop = Some((session.clone(), cancel.clone()));
        let teller = Arc::new(Teller::new(self.peer.clone(), session.clone(), self.folder.clone(), conversation.cost));
        // Something to show that the message is here: the model may take its time.
        teller.heard(&text);
        let told = teller.clone();
        let cx = RunCx { cancel, deadline: None, events: Events::to(move |event| told.tell(&event)) };
        let executor = ready
            .executor
            .clone()
            .gate(Asker::new(teller, self.allowed.clone()))
            .limits(left(&ready.limits, conversation));
        let mut history = std::mem::take(&mut conversation.history);
        history.push(Message::user(text));
        let request = request.clone();
        Ok(Box::pin(async move {
            let outcome = executor.run(history, &cx).await;
            Ended { request, session, outcome }
        }))
    }

    fn ended(&mut self, Ended { request, session, outcome }: Ended) {
        self.stop = None;
        self.peer.forget();
        let reply = turn::reply(&outcome);
        if let Some(conversation) = self.conversations.get_mut(&session) {
            let Metrics { usage, cost, .. } = outcome.metrics;
            conversation.tokens = conversation.tokens.saturating_add(usage.total());
            conversation.cost += cost.unwrap_or(0.0);
            conversation.history = outcome.history;
            if let Err(error) = conversation.save(&session) {
                // It goes on all the same; only nobody can take it up again.
                let _ = writeln!(std::io::stderr(), "coop: {error:#}");
            }
        }
        self.peer.reply(&request, reply);
    }
}

/// Returns the limits that are left for a turn. Money and tokens are for the whole conversation, calls and time for a turn.
fn left(limits: &Limits, conversation: &Conversation) -> Limits {
    Limits {
        tokens: limits.tokens.map(|tokens| tokens.saturating_sub(conversation.tokens)),
        cost: limits.cost.map(|cost| (cost - conversation.cost).max(0.0)),
        ..limits.clone()
    }
}

fn greeting() -> Value {
    let way_in = json!({ "id": "anthropic-api-key", "name": "API key", "description": "Set COOP_API_KEY" });
    json!({
        "protocolVersion": 1,
        "agentInfo": { "name": "coop", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": { "sessionCapabilities": { "resume": {} } },
        "authMethods": [way_in],
    })
}

impl RpcError {
    /// Says why there is no agent. Without a key somebody has to log in.
    fn not_ready(error: &anyhow::Error) -> Self {
        let agent_error = error.downcast_ref::<AgentError>();
        let code = if agent_error.is_some_and(|error| error.kind == ErrorKind::Agent) { -32000 } else { -32603 };
        Self { code, message: format!("{error:#}"), data: Value::Null }
    }
}
