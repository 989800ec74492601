//! The server: one task that knows the clients, the conversation and what is asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::thread::{self, Thread, Tokens};
use super::turn::{Stage, play};
use super::{VERSION, rollout};

pub(crate) type ClientId = u64;

/// What the hub hears.
pub(crate) enum Heard {
    Connected(ClientId, mpsc::UnboundedSender<Value>),
    Said(ClientId, Value),
    Gone(ClientId),
    /// Something happened in the conversation.
    Happened(&'static str, Value),
    /// The agent asks.
    Asks(&'static str, Value, oneshot::Sender<Value>),
    /// A request to the model was paid for.
    Used(Tokens),
    /// A line for the rollout.
    Written(&'static str, Value),
    /// The turn is over.
    Ended(&'static str, Value),
}

/// A handle to the hub.
#[derive(Clone)]
pub(crate) struct Hub {
    tell: mpsc::UnboundedSender<Heard>,
    next: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Hub {
    pub(crate) fn connect(&self) -> (ClientId, mpsc::UnboundedReceiver<Value>) {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (tell, told) = mpsc::unbounded_channel();
        self.hear(Heard::Connected(id, tell));
        (id, told)
    }

    pub(crate) fn said(&self, client: ClientId, message: Value) {
        self.hear(Heard::Said(client, message));
    }

    pub(crate) fn gone(&self, client: ClientId) {
        self.hear(Heard::Gone(client));
    }

    pub(crate) fn hear(&self, heard: Heard) {
        // Without a hub this process is about to end.
        let _ = self.tell.send(heard);
    }
}

/// Starts a hub whose conversations are kept in a folder.
pub(crate) fn start(home: PathBuf) -> Hub {
    let (tell, mut heard) = mpsc::unbounded_channel();
    let hub = Hub { tell, next: std::sync::Arc::default() };
    let mut state = State {
        hub: hub.clone(),
        home,
        clients: HashMap::new(),
        thread: None,
        turn: None,
        asked: HashMap::new(),
        count: 0,
    };
    tokio::spawn(async move {
        while let Some(what) = heard.recv().await {
            state.hear(what);
        }
    });
    hub
}

struct Client {
    tell: mpsc::UnboundedSender<Value>,
    /// Whether it has said hello; before that it is told nothing.
    greeted: bool,
    /// Whether it follows the conversation.
    follows: bool,
}

struct State {
    hub: Hub,
    home: PathBuf,
    clients: HashMap<ClientId, Client>,
    thread: Option<Thread>,
    turn: Option<(String, JoinHandle<()>)>,
    asked: HashMap<u64, (Value, oneshot::Sender<Value>)>,
    count: u64,
}

impl State {
    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Connected(id, tell) => {
                drop(self.clients.insert(id, Client { tell, greeted: false, follows: false }))
            }
            Heard::Gone(id) => drop(self.clients.remove(&id)),
            Heard::Said(client, message) => self.said(client, &message),
            Heard::Happened(method, params) => self.happened(method, params),
            Heard::Asks(method, params, answer) => self.ask(method, params, answer),
            Heard::Used(tokens) => self.used(tokens),
            Heard::Written(kind, payload) => self.write(kind, &payload),
            Heard::Ended(status, error) => self.end_turn(status, &error),
        }
    }

    fn new_id(&mut self) -> String {
        self.count += 1;
        format!("{:016x}-{:04x}-{:04x}", thread::now_ms(), std::process::id() & 0xffff, self.count)
    }

    fn all(&self, method: &str, params: &Value) {
        let message = json!({ "method": method, "params": params });
        let greeted = self.clients.values().filter(|client| client.greeted);
        greeted.for_each(|client| drop(client.tell.send(message.clone())));
    }

    /// Tells those who follow the conversation, with its name and the turn's.
    fn happened(&self, method: &str, mut params: Value) {
        params["threadId"] = json!(self.thread.as_ref().map(|thread| &thread.id));
        if let Some((turn, _)) = &self.turn {
            params["turnId"] = json!(turn);
        }
        let message = json!({ "method": method, "params": params });
        self.followers().for_each(|client| drop(client.tell.send(message.clone())));
    }

    fn followers(&self) -> impl Iterator<Item = &Client> {
        self.clients.values().filter(|client| client.follows)
    }

    fn set_status(&mut self, status: Value) {
        let Some(thread) = &mut self.thread else { return };
        if thread.status != status {
            thread.status = status;
            let params = json!({ "threadId": thread.id, "status": thread.status });
            self.all("thread/status/changed", &params);
        }
    }

    fn ask(&mut self, method: &str, mut params: Value, answer: oneshot::Sender<Value>) {
        let flag = if method.ends_with("requestUserInput") { "waitingOnUserInput" } else { "waitingOnApproval" };
        self.set_status(json!({ "type": "active", "activeFlags": [flag] }));
        params["threadId"] = json!(self.thread.as_ref().map(|thread| &thread.id));
        params["turnId"] = json!(self.turn.as_ref().map(|(turn, _)| turn));
        self.count += 1;
        let message = json!({ "method": method, "id": self.count, "params": params });
        self.followers().for_each(|client| drop(client.tell.send(message.clone())));
        self.asked.insert(self.count, (message, answer));
    }

    fn used(&mut self, tokens: Tokens) {
        let Some(thread) = &mut self.thread else { return };
        thread.total.add(tokens);
        let usage = json!({ "total": thread.total.shown(), "last": tokens.shown() });
        let turn = self.turn.as_ref().map(|(turn, _)| turn);
        let params = json!({ "threadId": thread.id, "turnId": turn, "tokenUsage": usage });
        thread.last_usage = Some(params.clone());
        self.happened("thread/tokenUsage/updated", params);
    }

    fn write(&mut self, kind: &str, payload: &Value) {
        let Some(thread) = &mut self.thread else { return };
        let meta = json!({ "id": thread.id, "cwd": thread.cwd, "cli_version": VERSION });
        if !std::mem::replace(&mut thread.is_written, true) {
            let _ = rollout::append(&thread.path, "session_meta", &meta);
        }
        let _ = rollout::append(&thread.path, kind, payload);
    }

    fn end_turn(&mut self, status: &str, error: &Value) {
        let Some((turn, _)) = self.turn.take() else { return };
        let asked: Vec<u64> = self.asked.drain().map(|(id, _)| id).collect();
        for id in asked {
            self.happened("serverRequest/resolved", json!({ "requestId": id }));
        }
        let kind = if status == "failed" { "systemError" } else { "idle" };
        self.set_status(json!({ "type": kind }));
        self.happened("turn/completed", json!({ "turn": thread::turn(&turn, status, error) }));
    }

    fn said(&mut self, client: ClientId, message: &Value) {
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => {
                let answer = match self.request(client, method, &message["params"]) {
                    Ok(result) => json!({ "id": id, "result": result }),
                    Err(error) => json!({ "id": id, "error": { "code": -32600, "message": error } }),
                };
                if let Some(client) = self.clients.get(&client) {
                    let _ = client.tell.send(answer);
                }
                self.after(client, method);
            }
            (Some(_), None) => {}
            (None, _) => self.answered(message),
        }
    }

    /// Does what has to come after the reply: a client that joins is told what was used, and asked again.
    fn after(&mut self, client: ClientId, method: &str) {
        if method == "thread/resume"
            && let Some(client) = self.clients.get(&client).filter(|client| client.follows)
        {
            if let Some(params) = self.thread.as_ref().and_then(|thread| thread.last_usage.as_ref()) {
                let _ = client.tell.send(json!({ "method": "thread/tokenUsage/updated", "params": params }));
            }
            self.asked.values().for_each(|(message, _)| drop(client.tell.send(message.clone())));
        }
    }

    fn answered(&mut self, message: &Value) {
        let Some((_, answer)) = message["id"].as_u64().and_then(|id| self.asked.remove(&id)) else { return };
        self.happened("serverRequest/resolved", json!({ "requestId": message["id"] }));
        self.set_status(json!({ "type": "active", "activeFlags": [] }));
        let _ = answer.send(message["result"].clone());
    }

    fn request(&mut self, client: ClientId, method: &str, params: &Value) -> Result<Value, String> {
        match method {
            "initialize" => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.greeted = true;
                }
                Ok(json!({ "userAgent": format!("coop-sim/{VERSION}"), "codexHome": self.home }))
            }
            "thread/start" => Ok(self.begin(client, params, None)),
            "thread/resume" => self.resume(client, params),
            "thread/loaded/list" => {
                Ok(json!({ "data": self.thread.iter().map(|thread| &thread.id).collect::<Vec<_>>() }))
            }
            "thread/read" => Ok(json!({ "thread": self.named(params)?.shown() })),
            "thread/list" => {
                let cwd = params["cwd"].as_str().unwrap_or_default();
                let found = rollout::latest(&self.home, cwd).map(|id| json!({ "id": id }));
                Ok(json!({ "data": found.into_iter().collect::<Vec<_>>() }))
            }
            "thread/settings/update" => {
                let thread = self.named(params)?;
                if let Some(mode) = params["collaborationMode"]["mode"].as_str() {
                    mode.clone_into(&mut thread.mode);
                }
                Ok(json!({}))
            }
            "turn/start" => self.start_turn(client, params),
            "turn/steer" => self.steer(params),
            "turn/interrupt" => {
                let (turn, task) = self.turn.as_ref().ok_or("no turn is under way")?;
                if params["turnId"] != json!(turn) {
                    return Err("another turn is under way".to_owned());
                }
                task.abort();
                self.end_turn("interrupted", &Value::Null);
                Ok(json!({}))
            }
            _ => Err(format!("{method} is not simulated")),
        }
    }

    fn named(&mut self, params: &Value) -> Result<&mut Thread, String> {
        let missing = || format!("thread not found: {}", params["threadId"]);
        self.thread.as_mut().filter(|thread| params["threadId"] == json!(thread.id)).ok_or_else(missing)
    }

    fn begin(&mut self, client: ClientId, params: &Value, resumed: Option<(&str, &Path)>) -> Value {
        let id = resumed.map_or_else(|| self.new_id(), |(id, _)| id.to_owned());
        let thread = Thread {
            path: resumed.map_or_else(|| rollout::path(&self.home, &id), |(_, path)| path.to_owned()),
            id,
            cwd: params["cwd"].as_str().unwrap_or(".").to_owned(),
            model: params["model"].as_str().unwrap_or("gpt-5.5").to_owned(),
            mode: "default".to_owned(),
            is_wary: params["approvalPolicy"] == "untrusted",
            status: json!({ "type": "idle" }),
            is_written: resumed.is_some(),
            total: Tokens::default(),
            last_usage: None,
        };
        let shown = thread.shown();
        self.thread = Some(thread);
        self.clients.iter_mut().for_each(|(id, other)| other.follows = *id == client);
        self.all("thread/started", &json!({ "thread": shown }));
        json!({ "thread": shown, "model": shown["model"], "cwd": shown["cwd"] })
    }

    fn resume(&mut self, client: ClientId, params: &Value) -> Result<Value, String> {
        let id = params["threadId"].as_str().unwrap_or_default().to_owned();
        let missing = format!("no rollout found for thread id {id}");
        if let Ok(thread) = self.named(params) {
            if !thread.is_written {
                return Err(missing);
            }
            let shown = thread.shown();
            if let Some(client) = self.clients.get_mut(&client) {
                client.follows = true;
            }
            return Ok(json!({ "thread": shown }));
        }
        let path = rollout::path(&self.home, &id);
        if !path.exists() {
            return Err(missing);
        }
        Ok(self.begin(client, params, Some((&id, &path))))
    }

    fn start_turn(&mut self, client: ClientId, params: &Value) -> Result<Value, String> {
        if self.turn.is_some() {
            return Err("a turn is under way".to_owned());
        }
        let (turn, title) = (self.new_id(), self.new_id());
        let text = input(params);
        let thread = self.named(params)?;
        let stage =
            Stage { cwd: thread.cwd.clone(), mode: thread.mode.clone(), is_wary: thread.is_wary, turn: turn.clone() };
        if let Some(client) = self.clients.get_mut(&client) {
            client.follows = true;
        }
        // The interface asks for a title of a conversation that begins, in another one.
        self.all("thread/started", &json!({ "thread": thread::title(&title) }));
        self.set_status(json!({ "type": "active", "activeFlags": [] }));
        for status in ["active", "idle"] {
            let status = json!({ "type": status, "activeFlags": [] });
            self.all("thread/status/changed", &json!({ "threadId": title, "status": status }));
        }
        let task = tokio::spawn(play(self.hub.clone(), stage, text));
        self.turn = Some((turn.clone(), task));
        let shown = thread::turn(&turn, "inProgress", &Value::Null);
        self.happened("turn/started", json!({ "turn": shown }));
        Ok(json!({ "turn": shown }))
    }

    fn steer(&mut self, params: &Value) -> Result<Value, String> {
        let (turn, _) = self.turn.as_ref().ok_or("no turn is under way")?;
        if params["expectedTurnId"] != json!(turn) {
            return Err("another turn is under way".to_owned());
        }
        let (text, id) = (input(params), self.new_id());
        let item = json!({ "type": "userMessage", "id": id, "content": [{ "type": "text", "text": text }] });
        self.happened("item/started", json!({ "item": item }));
        self.happened("item/completed", json!({ "item": item }));
        self.write("response_item", &json!({ "type": "message", "role": "user", "content": text }));
        Ok(json!({ "turnId": params["expectedTurnId"] }))
    }
}

fn input(params: &Value) -> String {
    let parts = params["input"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    parts.collect::<Vec<_>>().join("\n")
}
