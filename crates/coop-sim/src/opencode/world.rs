//! All that the server knows, and whoever waits for it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;

use super::store::{self, Session, Sessions};

/// How many events may wait for a slow listener.
const EVENTS: usize = 65_536;

/// What somebody said to an ask.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Once,
    Always,
    Reject {
        message: Option<String>,
    },
    /// The answers to questions, several to each.
    Answers(Value),
    Dismissed,
}

pub(super) struct World {
    state: Mutex<State>,
    events: broadcast::Sender<Value>,
}

#[derive(Default)]
struct State {
    sessions: Sessions,
    status: BTreeMap<String, Value>,
    /// What is asked, by its name, in the order it was asked.
    permissions: BTreeMap<String, Value>,
    questions: BTreeMap<String, Value>,
    waiting: HashMap<String, oneshot::Sender<Verdict>>,
    /// The turns that run, and what stops them.
    turns: HashMap<String, CancellationToken>,
    /// What is allowed from now on.
    always: HashSet<String>,
    /// How often the model has failed, by the message.
    failed: HashMap<String, u32>,
    last_id: u64,
}

impl World {
    pub(super) fn load() -> anyhow::Result<Self> {
        let state = State { sessions: store::load()?, ..State::default() };
        Ok(Self { state: Mutex::new(state), events: broadcast::channel(EVENTS).0 })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with it is gone, and so will we be soon.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn events(&self) -> broadcast::Receiver<Value> {
        self.events.subscribe()
    }

    /// Returns a name that sorts behind all others; the newest session sorts first.
    pub(super) fn id(&self, prefix: &str) -> String {
        let mut state = self.state();
        state.last_id = (now() << 12 | 1).max(state.last_id + 1);
        let mask = 0xffff_ffff_ffff;
        let time = if prefix == "ses" { !state.last_id & mask } else { state.last_id & mask };
        format!("{prefix}_{time:012x}Sim{:011x}", state.last_id & mask)
    }

    pub(super) fn tell(&self, kind: &str, properties: Value) {
        let event = json!({ "id": self.id("evt"), "type": kind, "properties": properties });
        // Without listeners nobody is told.
        let _ = self.events.send(event);
    }

    pub(super) fn has(&self, session: &str) -> bool {
        self.state().sessions.contains_key(session)
    }

    /// Returns the conversation that was used last.
    pub(super) fn last(&self) -> Option<String> {
        self.sessions().iter().find(|info| info["parentID"].is_null())?["id"].as_str().map(str::to_owned)
    }

    /// Returns the sessions, the one that was used last first.
    pub(super) fn sessions(&self) -> Vec<Value> {
        let mut list: Vec<_> = self.state().sessions.values().map(|session| session.info.clone()).collect();
        list.sort_by_key(|info| std::cmp::Reverse(info["time"]["updated"].as_u64()));
        list
    }

    pub(super) fn session(&self, id: &str) -> Option<Value> {
        self.state().sessions.get(id).map(|session| session.info.clone())
    }

    pub(super) fn messages(&self, id: &str) -> Option<Vec<Value>> {
        self.state().sessions.get(id).map(|session| session.messages.clone())
    }

    /// Makes a session, unless there is one of that name.
    pub(super) fn create(&self, id: Option<String>, parent: Option<&str>) -> Value {
        let id = id.unwrap_or_else(|| self.id("ses"));
        if let Some(info) = self.session(&id) {
            return info;
        }
        let mut info = json!({ "id": id, "slug": "sim", "version": "1.18.33", "projectID": "global", "title": "New session",
            "directory": std::env::current_dir().unwrap_or_default(), "time": { "created": now(), "updated": now() } });
        if let Some(parent) = parent {
            info["parentID"] = json!(parent);
        }
        self.state().sessions.insert(id.clone(), Session { info: info.clone(), messages: Vec::new() });
        self.tell("session.created", json!({ "sessionID": id, "info": info }));
        info
    }

    /// Keeps a message, which is new or has changed, and tells of it.
    pub(super) fn put_message(&self, session: &str, info: &Value) {
        if let Some(found) = self.state().sessions.get_mut(session) {
            found.info["time"]["updated"] = json!(now());
            match found.messages.iter_mut().find(|message| message["info"]["id"] == info["id"]) {
                Some(message) => message["info"] = info.clone(),
                None => found.messages.push(json!({ "info": info, "parts": [] })),
            }
        }
        self.tell("message.updated", json!({ "sessionID": session, "info": info }));
    }

    /// Keeps a part of a message, which is new or has changed, and tells of it.
    pub(super) fn put_part(&self, session: &str, part: &Value) {
        if let Some(found) = self.state().sessions.get_mut(session)
            && let Some(message) = found.messages.iter_mut().find(|message| message["info"]["id"] == part["messageID"])
            && let Some(parts) = message["parts"].as_array_mut()
        {
            match parts.iter_mut().find(|old| old["id"] == part["id"]) {
                Some(old) => *old = part.clone(),
                None => parts.push(part.clone()),
            }
        }
        self.tell("message.part.updated", json!({ "sessionID": session, "part": part, "time": now() }));
    }

    /// Writes everything down.
    pub(super) fn save(&self) {
        if let Err(error) = store::save(&self.state().sessions) {
            let _ = writeln!(std::io::stderr(), "{error:#}");
        }
    }

    pub(super) fn status(&self) -> Value {
        json!(self.state().status)
    }

    pub(super) fn set_status(&self, session: &str, status: Value) {
        let is_idle = status["type"] == "idle";
        if is_idle {
            self.state().status.remove(session);
        } else {
            self.state().status.insert(session.to_owned(), status.clone());
        }
        self.tell("session.status", json!({ "sessionID": session, "status": status }));
        if is_idle {
            self.tell("session.idle", json!({ "sessionID": session }));
        }
    }

    /// Notes that the sub-agents of a turn that was stopped have stopped too.
    pub(super) fn stop_children(&self, session: &str) {
        let is_child = |id: &str| self.session(id).is_some_and(|info| info["parentID"] == session);
        let busy: Vec<_> = self.state().status.keys().cloned().collect();
        for child in busy.iter().filter(|id| is_child(id)) {
            self.set_status(child, json!({ "type": "idle" }));
            self.stop_children(child);
        }
    }

    pub(super) fn permissions(&self) -> Vec<Value> {
        self.state().permissions.values().cloned().collect()
    }

    pub(super) fn questions(&self) -> Vec<Value> {
        self.state().questions.values().cloned().collect()
    }

    pub(super) fn is_allowed(&self, pattern: &str) -> bool {
        self.state().always.contains(pattern)
    }

    /// Asks for leave and returns who will tell. The ask stays in the list when its turn is stopped, as the real one's does.
    pub(super) fn ask(&self, prefix: &str, mut about: Value) -> oneshot::Receiver<Verdict> {
        let id = self.id(prefix);
        about["id"] = json!(id);
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        state.waiting.insert(id.clone(), answer);
        let is_question = prefix == "que";
        let list = if is_question { &mut state.questions } else { &mut state.permissions };
        list.insert(id, about.clone());
        drop(state);
        self.tell(if is_question { "question.asked" } else { "permission.asked" }, about);
        answered
    }

    /// Answers an ask. Returns false if there is none.
    pub(super) fn answer(&self, id: &str, verdict: Verdict) -> bool {
        let mut state = self.state();
        let Some(about) = state.permissions.remove(id).or_else(|| state.questions.remove(id)) else { return false };
        if verdict == Verdict::Always {
            let patterns = about["always"].as_array().into_iter().flatten().filter_map(Value::as_str);
            state.always.extend(patterns.map(str::to_owned));
        }
        let waits = state.waiting.remove(id);
        drop(state);
        let told = |more: Value| {
            let mut told = json!({ "sessionID": about["sessionID"], "requestID": id });
            told.as_object_mut()
                .into_iter()
                .for_each(|told| told.extend(more.as_object().cloned().unwrap_or_default()));
            told
        };
        match &verdict {
            Verdict::Once => self.tell("permission.replied", told(json!({ "reply": "once" }))),
            Verdict::Always => self.tell("permission.replied", told(json!({ "reply": "always" }))),
            Verdict::Reject { .. } => self.tell("permission.replied", told(json!({ "reply": "reject" }))),
            Verdict::Answers(answers) => self.tell("question.replied", told(json!({ "answers": answers }))),
            Verdict::Dismissed => self.tell("question.rejected", told(json!({}))),
        }
        // Nobody waits for what a turn that was stopped has asked.
        let _ = waits.map(|waits| waits.send(verdict));
        true
    }

    /// Begins a turn, unless one runs already: then the message is only kept.
    pub(super) fn begin(&self, session: &str) -> Option<CancellationToken> {
        let mut state = self.state();
        if state.turns.contains_key(session) {
            return None;
        }
        let stop = CancellationToken::new();
        state.turns.insert(session.to_owned(), stop.clone());
        Some(stop)
    }

    pub(super) fn end(&self, session: &str) {
        self.state().turns.remove(session);
    }

    pub(super) fn abort(&self, session: &str) {
        if let Some(stop) = self.state().turns.get(session) {
            stop.cancel();
        }
    }

    /// Counts a failure of the model, and returns how many there were before.
    pub(super) fn count_failure(&self, message: &str) -> u32 {
        let mut state = self.state();
        let failed = state.failed.entry(message.to_owned()).or_default();
        *failed += 1;
        *failed - 1
    }
}

/// Takes a message of the user and begins a turn with it.
pub(super) fn prompt(world: &Arc<World>, session: &str, body: &Value) {
    let message = body["messageID"].as_str().map_or_else(|| world.id("msg"), str::to_owned);
    let info = json!({ "id": message, "role": "user", "sessionID": session, "time": { "created": now() },
        "agent": body["agent"].as_str().unwrap_or("build"),
        "model": { "providerID": "sim", "modelID": "sim-model" } });
    world.put_message(session, &info);
    let mut text = String::new();
    for part in body["parts"].as_array().into_iter().flatten() {
        let id = part["id"].as_str().map_or_else(|| world.id("prt"), str::to_owned);
        text.push_str(part["text"].as_str().unwrap_or_default());
        let part =
            json!({ "id": id, "type": "text", "text": part["text"], "messageID": message, "sessionID": session });
        world.put_part(session, &part);
    }
    world.save();
    if let Some(stop) = world.begin(session) {
        let (world, session) = (Arc::clone(world), session.to_owned());
        tokio::spawn(async move { super::turn::run(&world, &session, &message, &text, stop).await });
    }
}

/// Returns the time in milliseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
