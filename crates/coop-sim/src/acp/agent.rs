//! The agent between turns: greeting, logging in, conversations, settings.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Options;
use super::peer::{Heard, Peer};
use super::store::Store;

const MODES: [&str; 3] = ["default", "plan", "yolo"];

/// What the client offers.
#[derive(Clone, Copy, Default)]
pub(super) struct Offered {
    pub(super) files: bool,
    pub(super) terminals: bool,
}

pub(super) struct Agent {
    options: Options,
    pub(super) store: Store,
    pub(super) peer: Peer,
    pub(super) offered: Offered,
    pub(super) session: Option<Session>,
    is_logged_in: bool,
    /// What was said in the conversation that is loaded and not told again yet.
    untold: Vec<(String, String)>,
}

pub(super) struct Session {
    pub(super) id: String,
    pub(super) cwd: PathBuf,
    pub(super) mode: String,
    /// Kinds of tools that are allowed for good.
    pub(super) allowed: Vec<&'static str>,
    /// How many tools it has used.
    pub(super) tools: u64,
    /// What it has cost, in thousandths of a dollar.
    pub(super) cost: u64,
}

/// What is said in place of a result.
pub(super) fn error(code: i64, message: impl Into<String>) -> Value {
    json!({ "code": code, "message": message.into() })
}

impl Agent {
    pub(super) fn new(options: Options, store: Store, peer: Peer) -> Self {
        Self {
            options,
            store,
            peer,
            offered: Offered::default(),
            session: None,
            is_logged_in: false,
            untold: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> anyhow::Result<i32> {
        loop {
            match self.peer.next(None) {
                Heard::Message(message) => {
                    if let Some(code) = self.hear(&message)? {
                        return Ok(code);
                    }
                }
                Heard::End => return Ok(0),
                // Of a turn that was stopped.
                Heard::Ran(..) | Heard::TimeUp => {}
            }
        }
    }

    /// Does what a message wants. Returns how the process is to end, if it is.
    fn hear(&mut self, message: &Value) -> anyhow::Result<Option<i32>> {
        let Some(method) = message["method"].as_str() else { return Ok(None) };
        let (id, params) = (&message["id"], &message["params"]);
        if method == "session/prompt" {
            return self.prompted(id, params);
        }
        if !id.is_null() {
            let outcome = self.asked(method, params)?;
            self.peer.reply(id, outcome);
            self.tell_again(usize::MAX);
        }
        Ok(None)
    }

    /// Answers what can be asked at any time.
    pub(super) fn asked(&mut self, method: &str, params: &Value) -> anyhow::Result<Result<Value, Value>> {
        Ok(match method {
            "initialize" => Ok(self.initialize(params)),
            "authenticate" => {
                let has_key = env::var_os("GEMINI_API_KEY").is_some_and(|key| !key.is_empty());
                self.is_logged_in = has_key && params["methodId"] == "gemini-api-key";
                if self.is_logged_in { Ok(json!({})) } else { Err(error(-32000, "Authentication failed")) }
            }
            "session/new" | "session/load" | "session/resume" if self.options.auth && !self.is_logged_in => {
                Err(error(-32000, "Authentication required"))
            }
            "session/new" => {
                let id = format!("sim-{:016x}", RandomState::new().hash_one("session"));
                self.open(&id, params);
                Ok(json!({ "sessionId": id, "modes": self.modes() }))
            }
            "session/resume" if self.options.load_only => Err(error(-32601, "Method not found")),
            "session/load" | "session/resume" => self.reopen(method, params),
            "session/set_mode" => self.set_mode(params),
            _ => Err(error(-32601, format!("\"Method not found\": {method}"))),
        })
    }

    fn initialize(&mut self, params: &Value) -> Value {
        let offered = &params["clientCapabilities"];
        self.offered = Offered {
            files: offered["fs"]["readTextFile"] == true && offered["fs"]["writeTextFile"] == true,
            terminals: offered["terminal"] == true,
        };
        let session = if self.options.load_only { json!({}) } else { json!({ "resume": {} }) };
        let methods = [
            json!({ "id": "oauth", "name": "Log in", "description": "Log in with a browser" }),
            json!({ "id": "gemini-api-key", "name": "API key", "description": "Use a key" }),
        ];
        json!({
            "protocolVersion": 1,
            "agentCapabilities": { "loadSession": true, "sessionCapabilities": session },
            "authMethods": if self.options.auth { &methods[..] } else { &[] },
            "agentInfo": { "name": "coop-sim", "version": env!("CARGO_PKG_VERSION") },
        })
    }

    fn open(&mut self, id: &str, params: &Value) {
        self.session = Some(Session {
            id: id.to_owned(),
            cwd: params["cwd"].as_str().unwrap_or(".").into(),
            mode: MODES[0].to_owned(),
            allowed: Vec::new(),
            tools: 0,
            cost: 0,
        });
    }

    fn reopen(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let said = self.store.load(id).map_err(|_| error(-32602, format!("Session not found: {id}")))?;
        self.open(id, params);
        if method == "session/load" {
            self.untold = said;
            // Gemini answers after the first of it.
            self.tell_again(1);
        }
        Ok(json!({ "modes": self.modes() }))
    }

    /// Tells so much of an earlier conversation again.
    fn tell_again(&mut self, count: usize) {
        for (role, text) in self.untold.drain(..count.min(self.untold.len())).collect::<Vec<_>>() {
            let kind = if role == "user" { "user_message_chunk" } else { "agent_message_chunk" };
            self.update(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }));
        }
    }

    fn set_mode(&mut self, params: &Value) -> Result<Value, Value> {
        let mode = params["modeId"].as_str().filter(|mode| MODES.contains(mode));
        match (mode, &mut self.session) {
            (Some(mode), Some(session)) => {
                session.mode = mode.to_owned();
                self.update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }));
                Ok(json!({}))
            }
            _ => Err(error(-32602, "there is no such mode")),
        }
    }

    fn modes(&self) -> Value {
        let current = self.session.as_ref().map_or(MODES[0], |session| &session.mode);
        let modes: Vec<_> = MODES.iter().map(|mode| json!({ "id": mode, "name": mode })).collect();
        json!({ "availableModes": modes, "currentModeId": current })
    }

    /// Tells something of the conversation.
    pub(super) fn update(&self, update: Value) {
        let id = self.session.as_ref().map(|session| session.id.as_str());
        self.peer.tell("session/update", json!({ "sessionId": id, "update": update }));
    }
}
