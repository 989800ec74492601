//! coop's own agent for whoever speaks the Agent Client Protocol, version 1: `coop run --acp`.
//!
//! | Method | |
//! |---|---|
//! | `initialize`, `session/new`, `session/resume` | as the protocol says; there is one folder, the one it was started in |
//! | `session/prompt` | one at a time; answered when its turn is over |
//! | `session/cancel` | ends that turn |
//! | `session/update` | what happens: words, thoughts, tools, what it has cost |
//! | `_coop/used` | what one call of the model took, or what an earlier process did |
//! | `session/request_permission` | before what changes something |
//! | `_coop/retry` | a call of the model failed and is made again |

mod kept;
mod peer;
mod servers;
mod turn;

use std::collections::HashMap;
use std::env;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use coop_llm::{AgentError, ErrorKind, Events, Limits, McpServers, Message, Metrics, Outcome, RunCx, Usage};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
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
    // What is wrong is also told when a conversation is asked for: the client may not see it elsewhere.
    let ready = Ready::make(options, &folder, cx).await;
    if let Err(error) = &ready {
        let _ = writeln!(std::io::stderr(), "coop: {error:#}");
    }
    let mut server = Server {
        ready,
        folder,
        allowed: Arc::new(Allowed::new(options)),
        peer: Arc::new(Peer::default()),
        conversations: HashMap::new(),
        turns: 0,
        stop: None,
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut running: FuturesUnordered<Running> = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(done) = running.next() => server.done(done),
            line = lines.next_line() => {
                let Some(line) = line.context("cannot read standard input")? else { break };
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if let Some(begun) = server.hear(&message, cx) {
                    running.push(begun);
                }
            }
            () = cx.cancel.cancelled() => break,
        }
    }
    // Whoever goes on with the conversation is to know what was said and paid for.
    if let Some((_, stop)) = &server.stop {
        stop.cancel();
        while let Some(done) = running.next().await {
            server.done(done);
            if server.stop.is_none() {
                break;
            }
        }
    }
    Ok(0)
}

type Running = Pin<Box<dyn Future<Output = Done>>>;

/// What was begun and is over.
enum Done {
    Turn(Ended),
    Opened(Opened),
}

/// A conversation whose servers of tools are connected, or why they are not.
struct Opened {
    request: Value,
    id: String,
    reply: Value,
    conversation: Conversation,
    servers: Result<McpServers, AgentError>,
}

/// A conversation with its own tools.
struct Session {
    conversation: Conversation,
    servers: McpServers,
}

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
    conversations: HashMap<String, Session>,
    /// How many turns there were.
    turns: u64,
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
            (Some("session/new"), false) => match self.open(id, params, cx) {
                Ok(running) => return Some(running),
                Err(error) => self.peer.reply(id, Err(error)),
            },
            (Some("session/resume"), false) => match self.reopen(id, params, cx) {
                Ok(running) => return Some(running),
                Err(error) => self.peer.reply(id, Err(error)),
            },
            (Some(method), false) => self.peer.reply(id, Err(RpcError::no_such_method(method))),
            (_, true) => {}
        }
        None
    }

    fn open(&mut self, request: &Value, params: &Value, cx: &RunCx) -> Result<Running, RpcError> {
        let id = uuid::Uuid::new_v4().to_string();
        let reply = json!({ "sessionId": id });
        self.connect(request, params, cx, (id, reply, Conversation::default()))
    }

    fn reopen(&mut self, request: &Value, params: &Value, cx: &RunCx) -> Result<Running, RpcError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let conversation = Conversation::load(id).map_err(|error| RpcError::invalid(&format!("{error:#}")))?;
        self.connect(request, params, cx, (id.to_owned(), json!({}), conversation))
    }

    /// Connects the servers of tools that a conversation is to have.
    fn connect(
        &self,
        request: &Value,
        params: &Value,
        cx: &RunCx,
        (id, reply, conversation): (String, Value, Conversation),
    ) -> Result<Running, RpcError> {
        self.ready.as_ref().map_err(RpcError::not_ready)?;
        let config = servers::read(params)?;
        let (request, cx) = (request.clone(), cx.clone());
        Ok(Box::pin(async move {
            let servers = McpServers::connect(&config, &cx).await;
            Done::Opened(Opened { request, id, reply, conversation, servers })
        }))
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Turn(ended) => self.ended(ended),
            Done::Opened(opened) => self.opened(opened),
        }
    }

    fn opened(&mut self, Opened { request, id, reply, conversation, servers }: Opened) {
        let servers = match servers {
            Ok(servers) => servers,
            Err(error) => return self.peer.reply(&request, Err(RpcError::internal(&error.to_string()))),
        };
        // First, so that whoever sees the conversation open sees what it took.
        if conversation.usage != Usage::default() {
            let priced = self.ready.as_ref().is_ok_and(|ready| ready.is_priced);
            turn::used(&self.peer, &id, turn::BEFORE, &conversation.usage, priced.then_some(conversation.cost));
        }
        self.peer.reply(&request, Ok(reply));
        self.conversations.insert(id, Session { conversation, servers });
    }

    fn prompt(&mut self, request: &Value, params: &Value, cx: &RunCx) -> Result<Running, RpcError> {
        let ready = self.ready.as_ref().map_err(RpcError::not_ready)?;
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let found = self.conversations.get_mut(&session).ok_or_else(|| RpcError::invalid("no such session"))?;
        let Session { conversation, servers } = found;
        if self.stop.is_some() {
            return Err(RpcError::invalid("a turn is under way"));
        }
        let text = turn::text(&params["prompt"]).ok_or_else(|| RpcError::invalid("a prompt is made of text"))?;
        let cancel = cx.cancel.child_token();
        self.stop = Some((session.clone(), cancel.clone()));
        self.turns += 1;
        let teller =
            Teller::new(self.peer.clone(), session.clone(), self.folder.clone(), self.turns, conversation.cost);
        let teller = Arc::new(teller);
        // Something to show that the message is here: the model may take its time.
        teller.heard(&text);
        let told = teller.clone();
        let cx = RunCx { cancel, deadline: None, events: Events::to(move |event| told.tell(&event)) };
        let (id, before) = (session.clone(), (conversation.usage, conversation.cost));
        let keep = move |history: &[Message], metrics: &Metrics| save(&id, history, before, metrics);
        let executor = ready
            .executor
            .clone()
            .tools(servers.tools())
            .keeper(keep)
            .gate(Asker::new(teller, self.allowed.clone()))
            .limits(left(&ready.limits, conversation));
        let mut history = std::mem::take(&mut conversation.history);
        history.push(Message::user(text));
        let request = request.clone();
        Ok(Box::pin(async move {
            let outcome = executor.run(history, &cx).await;
            Done::Turn(Ended { request, session, outcome })
        }))
    }

    fn ended(&mut self, Ended { request, session, outcome }: Ended) {
        self.stop = None;
        self.peer.forget();
        let reply = turn::reply(&outcome);
        if let Some(Session { conversation, .. }) = self.conversations.get_mut(&session) {
            save(&session, &outcome.history, (conversation.usage, conversation.cost), &outcome.metrics);
            conversation.usage += outcome.metrics.usage;
            conversation.cost += outcome.metrics.cost.unwrap_or(0.0);
            conversation.history = outcome.history;
        }
        self.peer.reply(&request, reply);
    }
}

/// Keeps a conversation, with what it took before this turn and in it.
fn save(id: &str, history: &[Message], (usage, cost): (Usage, f64), metrics: &Metrics) {
    let (usage, cost) = (usage + metrics.usage, cost + metrics.cost.unwrap_or(0.0));
    if let Err(error) = kept::save(id, history, &usage, cost) {
        // It goes on all the same; only nobody can take it up again.
        let _ = writeln!(std::io::stderr(), "coop: {error:#}");
    }
}

/// Returns the limits that are left for a turn. Money and tokens are for the whole conversation, calls and time for a turn.
fn left(limits: &Limits, conversation: &Conversation) -> Limits {
    Limits {
        tokens: limits.tokens.map(|tokens| tokens.saturating_sub(conversation.usage.total())),
        cost: limits.cost.map(|cost| (cost - conversation.cost).max(0.0)),
        ..limits.clone()
    }
}

fn greeting() -> Value {
    let way_in = json!({ "id": "anthropic-api-key", "name": "API key", "description": "Set COOP_API_KEY" });
    json!({
        "protocolVersion": 1,
        "agentInfo": { "name": "coop", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "sessionCapabilities": { "resume": {} }, "mcpCapabilities": { "http": true, "sse": false },
        },
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
