//! The app-server's protocol: JSON-RPC, in which the server asks too.
//!
//! Every client hears of conversations and their status. What happens in one is told to those who began it, have begun a
//! turn in it, or have joined it by `thread/resume`, which works once it has a turn.

use coop_api::{AskKind, EvidenceSource, FaultReport, TurnOutcome, Usage};
use serde_json::{Value, json};

use super::content::ItemTurn;
use super::setup::{ASK_FIRST, Way};
use super::{Begin, Codex, asks, fault};
use crate::driver::{Runtime, Say};
use crate::{Meaning, Signal};

/// Names of our own requests.
const HELLO: &str = "coop-hello";
const LOADED: &str = "coop-loaded";
const READ: &str = "coop-read";
const MOVED: &str = "coop-moved";
const MISSED: &str = "coop-missed";
const LATEST: &str = "coop-latest";
const THREAD: &str = "coop-thread";
const JOIN: &str = "coop-join";
const JOIN_LATE: &str = "coop-join-late";
const TURN: &str = "coop-turn";
pub(super) const STEER: &str = "coop-steer";
/// The request that lists what the turn's commands left running, and that by which coop ends one; a number follows.
pub(super) const TERMINALS: &str = "coop-terminals";
const TERMINATE: &str = "coop-terminate-";
/// What the names of those begin with that change settings; a number follows.
pub(super) const SETTINGS: &str = "coop-settings-";
/// What comes in many small pieces and is told as a whole at the end.
const PIECES: [&str; 8] = [
    "item/agentMessage/delta",
    "item/plan/delta",
    "item/reasoning/textDelta",
    "item/reasoning/summaryTextDelta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "turn/diff/updated",
];
/// What the server is told of a request that only its first client can answer.
const NOT_OURS: i64 = -32601;

impl Codex {
    /// The link came up or is down. What was asked before is asked again by the server once we have joined.
    pub(super) fn observe_link(&mut self, up: bool) -> Vec<Signal> {
        self.linked = false;
        (self.joined, self.joining) = (false, false);
        self.outbox.clear();
        let mut signals = Vec::new();
        if up {
            self.outbox.push(Say::Message(hello()));
            if self.on_screen.take_if(|draft| draft.kind != AskKind::Setup).is_some() {
                let gone = Meaning::AskGone { about: None };
                signals.push(Signal::new(EvidenceSource::Screen, "the server will tell of it", gone));
            }
        }
        let detail = if up { "the link came up anew" } else { "the link is down" };
        let gone = |request| Signal::new(EvidenceSource::Control, detail, Meaning::RequestGone { request });
        signals.extend(self.asking.drain().map(gone));
        signals
    }

    /// The server is gone for long. The interface lives on, and its title shows work for ever while it tries to reach the
    /// server: it says nothing of the agent either.
    pub(super) fn observe_lost(&mut self) -> Vec<Signal> {
        if self.way != Way::Server {
            return Vec::new();
        }
        self.forget_turn();
        vec![Signal::new(EvidenceSource::Process, "Codex's server cannot be reached any more", Meaning::Lost)]
    }

    pub(super) fn observe_message(&mut self, message: &Value) -> Vec<Signal> {
        let method = message["method"].as_str();
        let id = message.get("id").filter(|id| !id.is_null());
        let params = &message["params"];
        let detail = method.or_else(|| id.and_then(Value::as_str)).unwrap_or_default().to_owned();
        let of_another = params["threadId"].is_string() && !self.is_main(params);
        let mode = if of_another { None } else { self.mode_in(message) };
        let meanings = match (method, id) {
            (Some(method), Some(id)) => self.requested(method, id, params),
            (Some(method), None) => self.notified(method, params),
            (None, Some(id)) => self.replied(id.as_str().unwrap_or_default(), message),
            (None, None) => Vec::new(),
        };
        let meanings = mode.into_iter().chain(meanings);
        meanings.map(|meaning| Signal::new(EvidenceSource::Control, detail.clone(), meaning)).collect()
    }

    fn tell(&mut self, id: &str, method: &str, params: &Value) {
        self.outbox.push(Say::Message(request(id, method, params)));
    }

    fn replied(&mut self, id: &str, message: &Value) -> Vec<Meaning> {
        let (result, error) = (&message["result"], &message["error"]);
        let failed = error.is_object();
        match id {
            HELLO if !failed => {
                self.linked = true;
                self.outbox.push(Say::Message(json!({ "method": "initialized" })));
                match (self.runtime, self.begin.clone()) {
                    (Runtime::Pipe, Begin::Latest { params, .. }) => {
                        self.tell(LATEST, "thread/list", &json!({ "limit": 1, "cwd": params["cwd"] }));
                    }
                    (Runtime::Pipe, Begin::By { method, params }) => self.tell(THREAD, method, &params),
                    // That was refused before the start.
                    (Runtime::Pipe, Begin::Picked) => {}
                    (Runtime::Pty | Runtime::Server | Runtime::Inproc, _) => {
                        self.tell(LOADED, "thread/loaded/list", &json!({}))
                    }
                }
                Vec::new()
            }
            LOADED => {
                self.read_loaded(&result["data"]);
                Vec::new()
            }
            READ if self.thread.is_none() || self.is_known(&result["thread"]) => self.adopt(&result["thread"]),
            READ => Vec::new(),
            MOVED if self.busy => Vec::new(),
            MOVED => self.adopt(&result["thread"]),
            MISSED => self.read_missed(&result["thread"]),
            LATEST => {
                let Begin::Latest { method, mut params } = self.begin.clone() else { return Vec::new() };
                let method = match result["data"][0]["id"].as_str() {
                    Some(latest) => {
                        params["threadId"] = json!(latest);
                        method
                    }
                    None => "thread/start",
                };
                self.tell(THREAD, method, &params);
                Vec::new()
            }
            THREAD if failed => vec![Meaning::Blocked(fault::of_reply(error))],
            THREAD => {
                let meanings = self.adopt(&result["thread"]);
                self.joined = true;
                if let (Some(thread), Some(prompt)) = (&self.thread, &self.prompt) {
                    let turn = turn_start(thread, prompt);
                    self.outbox.push(Say::Message(turn));
                }
                meanings
            }
            JOIN => {
                (self.joining, self.joined) = (false, self.joined || !failed);
                self.catch_up(&result["thread"])
            }
            // After this reply the server tells what was used, so what is read next comes after that.
            JOIN_LATE => {
                self.joined |= !failed;
                self.tell(MISSED, "thread/read", &json!({ "threadId": self.thread, "includeTurns": true }));
                Vec::new()
            }
            // The first message is not on its way any more, and nothing else would be heard. Of any other the sender is told.
            TURN if failed => {
                let fault = fault::of_reply(error);
                let refused = Meaning::Replied { request: id.to_owned(), error: Some(fault.message.clone()) };
                let blocked = self.prompt.take().map(|_| Meaning::Blocked(fault));
                [refused].into_iter().chain(blocked).collect()
            }
            TERMINALS if !failed => self.end_terminals(&result["data"]),
            _ if id.starts_with(TERMINATE) => {
                self.ending.remove(id);
                let error = failed.then(|| fault::of_reply(error).message);
                let is_settled = error.is_some() || self.ending.is_empty();
                is_settled.then(|| Meaning::Replied { request: TERMINALS.to_owned(), error }).into_iter().collect()
            }
            _ if id == TERMINALS || id == STEER || id.starts_with(SETTINGS) => {
                vec![Meaning::Replied { request: id.to_owned(), error: failed.then(|| fault::of_reply(error).message) }]
            }
            _ => Vec::new(),
        }
    }

    /// Ends those of the running terminals in which commands of the interrupted turn run. Those of earlier turns stay.
    fn end_terminals(&mut self, terminals: &Value) -> Vec<Meaning> {
        let terminals = terminals.as_array().into_iter().flatten();
        let of_turn =
            terminals.filter(|terminal| terminal["itemId"].as_str().is_some_and(|item| self.commands.contains(item)));
        let processes: Vec<_> = of_turn.map(|terminal| terminal["processId"].clone()).collect();
        self.ending = (1..=processes.len()).map(|number| format!("{TERMINATE}{number}")).collect();
        for (number, process) in (1..).zip(processes) {
            let params = json!({ "threadId": self.thread, "processId": process });
            self.tell(&format!("{TERMINATE}{number}"), "thread/backgroundTerminals/terminate", &params);
        }
        let is_settled = self.ending.is_empty();
        is_settled.then(|| Meaning::Replied { request: TERMINALS.to_owned(), error: None }).into_iter().collect()
    }

    /// Asks for the conversation that is known, if it is still there, or else for all of them: the names of newer ones are
    /// greater, and the person is in the newest. Those that were left stay loaded.
    fn read_loaded(&mut self, loaded: &Value) {
        let mut loaded: Vec<&str> = loaded.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        loaded.sort_unstable_by(|one, other| other.cmp(one));
        match self.thread.as_deref().filter(|known| loaded.contains(known)) {
            Some(known) => loaded.retain(|id| *id == known),
            None => self.thread = None,
        }
        for id in loaded {
            self.tell(READ, "thread/read", &json!({ "threadId": id }));
        }
    }

    fn is_known(&self, thread: &Value) -> bool {
        self.thread.is_some() && thread["id"].as_str() == self.thread.as_deref()
    }

    /// Takes a conversation for the one the person sees, if it can be that.
    fn adopt(&mut self, thread: &Value) -> Vec<Meaning> {
        let Some(id) = thread["id"].as_str() else { return Vec::new() };
        if thread["ephemeral"] == true || thread["parentThreadId"].is_string() {
            self.others.insert(id);
            return Vec::new();
        }
        let mut meanings = Vec::new();
        // The preview is the first message: of a new conversation, the one of the command line.
        let is_new = matches!(self.begin, Begin::By { method: "thread/start", .. });
        let is_first = is_new && self.thread.is_none() && self.counted_usage.is_none();
        let has_turn = thread["preview"].as_str().is_some_and(|preview| !preview.is_empty());
        if self.thread.as_deref() != Some(id) {
            self.left.extend(self.thread.replace(id.to_owned()).filter(|_| self.busy));
            self.left.remove(id);
            (self.joined, self.joining) = (false, false);
            self.forget_turn();
            let transcript = thread["path"].as_str().map(str::to_owned);
            meanings.push(Meaning::Session { id: id.to_owned(), transcript });
            self.counted_usage = (is_first || !has_turn).then(Usage::default);
            // Over pipes the conversation was begun so.
            if self.asks_first && self.runtime == Runtime::Pty {
                self.settings += 1;
                let change = json!({ "threadId": id, "approvalPolicy": ASK_FIRST, "approvalsReviewer": "user" });
                self.tell(&format!("{SETTINGS}{}", self.settings), "thread/settings/update", &change);
            }
            // What it used before is told to a client that joins.
            if has_turn && self.runtime == Runtime::Pty {
                self.join();
            }
        }
        if is_new && has_turn {
            self.prompt = None;
        }
        if let Some(model) = thread["model"].as_str() {
            model.clone_into(&mut self.model);
        }
        meanings.extend(self.status(&thread["status"]));
        meanings
    }

    fn is_main(&self, params: &Value) -> bool {
        self.thread.is_some() && params["threadId"].as_str() == self.thread.as_deref()
    }

    fn notified(&mut self, method: &str, params: &Value) -> Vec<Meaning> {
        // Whoever cannot be told anything yet is not said to wait; what is so by then is read after the greeting.
        if !self.linked {
            return Vec::new();
        }
        match method {
            // Over pipes there is only the one we began.
            "thread/started" if self.runtime == Runtime::Pty => return self.adopt(&params["thread"]),
            // A sub-agent's is told by its own conversation.
            "serverRequest/resolved" => {
                let request = params["requestId"].to_string();
                let was_open = self.asking.remove(&request);
                let gone = was_open.then_some(Meaning::RequestGone { request });
                // A sub-agent, or a command of an earlier turn, asked between turns: the conversation rests as before.
                let rests = was_open && self.rests && self.asking.is_empty();
                return gone.into_iter().chain(rests.then_some(Meaning::Idle(TurnOutcome::Completed))).collect();
            }
            "thread/status/changed" if !self.is_main(params) => {
                if let Some(id) = params["threadId"].as_str().filter(|_| self.runtime == Runtime::Pty) {
                    self.other_changed(id, &params["status"]);
                }
                return Vec::new();
            }
            _ if !self.is_main(params) => return Vec::new(),
            _ => {}
        }
        if method.starts_with("turn/") || method.starts_with("item/") {
            self.joined = true;
        }
        let item_turn = if self.is_over(&params["turnId"]) { ItemTurn::Earlier } else { ItemTurn::Current };
        // After a join the sum of an earlier turn is told.
        let is_of_turn = method != "thread/tokenUsage/updated" && self.busy && self.turn.is_none();
        if let Some(turn) = params["turnId"].as_str().filter(|_| is_of_turn && item_turn == ItemTurn::Current) {
            self.turn = Some(turn.to_owned());
        }
        match method {
            "thread/status/changed" => self.status(&params["status"]),
            "turn/started" => {
                self.turn = params["turn"]["id"].as_str().map(str::to_owned);
                self.commands.clear();
                self.work()
            }
            "turn/completed" if self.is_over(&params["turn"]["id"]) => Vec::new(),
            "turn/completed" => self.turn_completed(&params["turn"]),
            "item/started" => self.item_began(&params["item"], item_turn),
            "item/completed" => self.item_ended(&params["item"], item_turn),
            "thread/tokenUsage/updated" => self.used(params),
            "error" if params["willRetry"] == true && item_turn == ItemTurn::Current => {
                let fault = fault::of_error(&params["error"]);
                let retry = fault::attempt(&fault.message);
                vec![Meaning::Retrying(FaultReport { fault, retry: Some(retry) })]
            }
            _ => Vec::new(),
        }
    }

    /// Another conversation than the person's works or rests. A turn that begins in one while nothing happens in the
    /// person's is the sign that they went on with it: Codex does not tell of that otherwise. What they left in the middle
    /// of a turn is none, until that turn is over.
    fn other_changed(&mut self, id: &str, status: &Value) {
        let is_active = status["type"] == "active";
        if !is_active {
            self.left.remove(id);
        }
        let name = match &self.thread {
            None => READ,
            Some(_) => MOVED,
        };
        let is_moved = is_active && !self.busy && !self.left.contains(id);
        if !self.others.contains(id) && (self.thread.is_none() || is_moved) {
            self.tell(name, "thread/read", &json!({ "threadId": id }));
        }
    }

    fn work(&mut self) -> Vec<Meaning> {
        (self.busy, self.rests) = (true, false);
        vec![Meaning::Working { tool: None }]
    }

    /// Tells that a turn began, unless that was told.
    pub(super) fn announce(&mut self, prompt: Option<String>) -> Option<Meaning> {
        (self.busy, self.rests) = (true, false);
        self.prompt = None;
        (!std::mem::replace(&mut self.announced, true)).then_some(Meaning::TurnBegan { prompt })
    }

    /// Tells whether a turn of this name is over.
    fn is_over(&self, turn: &Value) -> bool {
        turn.as_str().is_some_and(|turn| self.over.contains(turn))
    }

    /// Ends the turn: what is told of it later is late.
    pub(super) fn turn_over(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.over.insert(&turn);
        }
        self.forget_turn();
    }

    /// Leaves a turn that may go on where coop does not hear of it. It is the same turn if coop comes back to it.
    fn forget_turn(&mut self) {
        self.turn = None;
        (self.busy, self.rests, self.announced) = (false, false, false);
        self.last_before_join = None;
        self.untold_usage = None;
        self.asking.clear();
    }

    /// The status of the conversation. The end of a turn we have joined is told by the turn itself, and how it went.
    fn status(&mut self, status: &Value) -> Vec<Meaning> {
        match status["type"].as_str() {
            Some("active") => {
                self.prompt = None;
                self.join();
                if self.busy { Vec::new() } else { self.work() }
            }
            Some("idle") if self.joined && self.busy => Vec::new(),
            // The first message is on its way.
            Some("idle") if self.prompt.is_some() => Vec::new(),
            // It was over before we had joined.
            Some("idle") if self.busy => {
                self.tell(JOIN_LATE, "thread/resume", &json!({ "threadId": self.thread }));
                Vec::new()
            }
            Some("idle") => {
                self.turn_over();
                self.rests = true;
                vec![Meaning::Idle(TurnOutcome::Completed)]
            }
            Some("systemError") if !self.joined => {
                let began = self.busy.then(|| self.announce(None)).flatten();
                self.turn_over();
                began.into_iter().chain([Meaning::Blocked(fault::unknown())]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Asks to hear of what happens in the conversation. Before its first turn is written down that is refused, so it is
    /// asked again while the turn goes on.
    pub(super) fn join(&mut self) {
        if self.linked && !self.joined && !self.joining {
            self.joining = true;
            self.tell(JOIN, "thread/resume", &json!({ "threadId": self.thread }));
        }
    }

    /// Tells what has happened so far in a turn that was joined in its middle.
    fn catch_up(&mut self, thread: &Value) -> Vec<Meaning> {
        let turn = thread["turns"].as_array().and_then(|turns| turns.last()).unwrap_or(&Value::Null);
        if !self.busy || turn["status"] != "inProgress" {
            return Vec::new();
        }
        if self.turn.is_none() {
            self.turn = turn["id"].as_str().map(str::to_owned);
        }
        let items = turn["items"].as_array().map_or(&[][..], Vec::as_slice);
        // Of the last one there may be more to come.
        let (last, done) = items.split_last().map_or((&Value::Null, items), |(last, done)| (last, done));
        let mut meanings: Vec<_> = done.iter().flat_map(|item| self.item_ended(item, ItemTurn::Current)).collect();
        meanings.extend(self.item_began(last, ItemTurn::Current));
        self.last_before_join = Some(last.clone()).filter(|last| last["status"] != "inProgress");
        meanings
    }

    /// Tells what happened in a turn that nobody told us of, if no other has begun since.
    fn read_missed(&mut self, thread: &Value) -> Vec<Meaning> {
        if !self.busy || thread["status"]["type"] == "active" {
            return Vec::new();
        }
        let turn = thread["turns"].as_array().and_then(|turns| turns.last()).unwrap_or(&Value::Null);
        let items = turn["items"].as_array().map_or(&[][..], Vec::as_slice);
        let mut meanings: Vec<_> = items.iter().flat_map(|item| self.item_ended(item, ItemTurn::Current)).collect();
        meanings.extend(self.turn_completed(turn));
        meanings
    }

    fn turn_completed(&mut self, turn: &Value) -> Vec<Meaning> {
        // Its end was announced before we joined, or else it is known already.
        let last = self.last_before_join.take().map(|last| self.item_ended(&last, ItemTurn::Current));
        let began = self.announce(None);
        let used = self.untold_usage.take().map(|params| self.used(&params));
        self.turn_over();
        self.rests = true;
        if let Some(turn) = turn["id"].as_str() {
            self.over.insert(turn);
        }
        let ended = match turn["status"].as_str() {
            Some("failed") => Meaning::Blocked(fault::of_error(&turn["error"])),
            Some("interrupted") => Meaning::Idle(TurnOutcome::Interrupted),
            _ => Meaning::Idle(TurnOutcome::Completed),
        };
        last.into_iter().flatten().chain(began).chain(used.into_iter().flatten()).chain([ended]).collect()
    }

    fn requested(&mut self, method: &str, id: &Value, params: &Value) -> Vec<Meaning> {
        let mut params = params.clone();
        if let Some((_, changes)) = self.file_change.as_ref().filter(|(item, _)| params["itemId"] == item.as_str()) {
            params["changes"] = changes.clone();
        }
        let Some(draft) = asks::draft(method, id, &params) else {
            // In the terminal the interface answers; over pipes nobody would, and the agent would wait for ever.
            if self.runtime == Runtime::Pipe {
                let error = json!({ "code": NOT_OURS, "message": "coop cannot do this" });
                self.outbox.push(Say::Message(json!({ "id": id, "error": error })));
            }
            return Vec::new();
        };
        // A sub-agent asks by its own conversation, and waits for a person all the same.
        if !self.asking.insert(id.to_string()) {
            return Vec::new();
        }
        let is_of_turn = self.is_main(&params) && !self.is_over(&params["turnId"]);
        let began = is_of_turn.then(|| self.announce(None)).flatten();
        began.into_iter().chain([Meaning::Ask(Box::new(draft))]).collect()
    }
}

pub(super) fn hello() -> Value {
    let client = json!({ "name": "coop", "title": "coop", "version": env!("CARGO_PKG_VERSION") });
    let abilities = json!({ "experimentalApi": true, "optOutNotificationMethods": PIECES });
    request(HELLO, "initialize", &json!({ "clientInfo": client, "capabilities": abilities }))
}

pub(super) fn turn_start(thread: &str, text: &str) -> Value {
    request(TURN, "turn/start", &json!({ "threadId": thread, "input": [{ "type": "text", "text": text }] }))
}

/// Returns what tells the turn that is under way something more.
pub(super) fn steer(thread: &str, turn: &str, text: &str) -> Value {
    let input = json!([{ "type": "text", "text": text }]);
    request(STEER, "turn/steer", &json!({ "threadId": thread, "expectedTurnId": turn, "input": input }))
}

pub(super) fn interrupt(thread: &str, turn: &str) -> Value {
    request("coop-interrupt", "turn/interrupt", &json!({ "threadId": thread, "turnId": turn }))
}

pub(super) fn list_terminals(thread: &str) -> Value {
    request(TERMINALS, "thread/backgroundTerminals/list", &json!({ "threadId": thread }))
}

pub(super) fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({ "id": id, "method": method, "params": params })
}
