//! What is read when the stream of events begins, or begins again: the events in between are gone for good, and the
//! server may be another process. What comes in by the stream meanwhile is newer than what was read.

use coop_api::TurnOutcome;
use serde_json::Value;

use super::events::{Asking, ended, signals};
use super::setup::Begin;
use super::{LinkState, OpenCode, deliver};
use crate::driver::Say;
use crate::recent::Recent;
use crate::{Meaning, Signal};

/// How many sessions and messages are read.
const SESSIONS: usize = 200;
const MESSAGES: usize = 50;
/// What is read, in the order it is asked for.
const PARTS: [&str; 5] = ["status", "permissions", "questions", "sessions", "messages"];

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Reread {
    /// How often the stream has begun.
    count: u64,
    /// What came back, as in [`PARTS`].
    parts: [Option<Value>; 5],
    /// Whether the stream told the agent's status since.
    pub(super) heard: bool,
    /// What the stream said is asked since.
    pub(super) asked: Recent,
}

impl OpenCode {
    pub(super) fn link_up(&mut self) -> Vec<Signal> {
        let is_first = self.link == LinkState::Never;
        self.link = LinkState::Up;
        self.reread = Reread { count: self.reread.count + 1, ..Reread::default() };
        self.again.clear();
        // What was said before the start is not told again.
        if is_first || self.session.is_none() {
            self.reread.parts[4] = Some(Value::Null);
        }
        let wanted: Vec<_> = PARTS.iter().zip(&self.reread.parts).filter(|(_, read)| read.is_none()).collect();
        let names: Vec<_> = wanted.iter().map(|(part, _)| format!("{part} {}", self.reread.count)).collect();
        for name in names {
            self.read(name);
        }
        Vec::new()
    }

    /// Asks for what this name stands for.
    pub(super) fn read(&mut self, name: String) {
        let path = match name.split_once(' ') {
            Some(("session", id)) => format!("/session/{id}"),
            Some(("status", _)) => "/session/status".to_owned(),
            Some(("permissions", _)) => "/permission".to_owned(),
            Some(("questions", _)) => "/question".to_owned(),
            Some(("sessions", _)) => format!("/session?limit={SESSIONS}"),
            Some(("messages", _)) => {
                format!("/session/{}/message?limit={MESSAGES}", self.session.as_deref().unwrap_or_default())
            }
            _ => return,
        };
        let call = deliver::get(&name, self.path(&path));
        self.outbox.push(Say::Call(call));
    }

    /// Asks again for what could not be read. An event comes every few seconds, if only to say that the server is there.
    pub(super) fn read_again(&mut self) {
        for name in std::mem::take(&mut self.again) {
            self.read(name);
        }
    }

    pub(super) fn observe_reply(&mut self, name: &str, status: Option<u16>, body: &Value, _: u64) -> Vec<Signal> {
        let Some((what, of)) = name.split_once(' ') else { return Vec::new() };
        let is_good = status == Some(200);
        // Who has no such thing does not have to be asked again; but its status every server has.
        let is_missing = status == Some(404) && what != "status";
        match what {
            "session" if is_good => signals(name.to_owned(), self.session_told(body)),
            "session" if is_missing => {
                self.unplaced.retain(|(_, about)| about["sessionID"] != of);
                Vec::new()
            }
            "session" => {
                self.again.push(name.to_owned());
                Vec::new()
            }
            "recheck" => {
                if is_good {
                    self.send_again(of, body);
                }
                Vec::new()
            }
            _ => {
                let part = PARTS.iter().position(|part| *part == what);
                let Some(part) = part.filter(|_| of == self.reread.count.to_string()) else { return Vec::new() };
                let fits = if what == "status" { body.is_object() } else { body.is_array() };
                if !(is_good && fits || is_missing) {
                    self.again.push(name.to_owned());
                    return Vec::new();
                }
                self.reread.parts[part] = Some(if is_good { body.clone() } else { Value::Null });
                if self.reread.parts.iter().all(Option::is_some) { self.take_in() } else { Vec::new() }
            }
        }
    }

    fn take_in(&mut self) -> Vec<Signal> {
        let [status, permissions, questions, sessions, messages] =
            std::mem::take(&mut self.reread.parts).map(Option::unwrap_or_default);
        let mut meanings = self.take_in_sessions(&sessions);
        meanings.extend(self.take_in_messages(&messages));
        let is_live = |session: &str| matches!(status[session]["type"].as_str(), Some("busy" | "retry"));
        let own_is_live = self.session.as_deref().is_some_and(is_live);
        if !self.reread.heard && own_is_live {
            meanings.extend(self.works());
        }
        let lists = [(Asking::Permission, &permissions), (Asking::Question, &questions)];
        let listed: Vec<_> = lists
            .iter()
            .flat_map(|(asking, list)| list.as_array().into_iter().flatten().map(|about| (*asking, about)))
            // An ask outlives the turn that was stopped in it. Nobody waits for its answer.
            .filter(|(_, about)| about["sessionID"].as_str().is_some_and(is_live))
            .collect();
        let is_listed = |id: &str| listed.iter().any(|(_, about)| about["id"] == id);
        let gone: Vec<_> =
            self.asks.keys().filter(|id| !is_listed(id) && !self.reread.asked.contains(id)).cloned().collect();
        for request in gone {
            self.asks.remove(&request);
            meanings.push(Meaning::RequestGone { request });
        }
        for (asking, about) in listed {
            meanings.extend(self.asked(asking, about));
        }
        let was_known = std::mem::replace(&mut self.known, true);
        if !self.reread.heard && !own_is_live && std::mem::take(&mut self.busy) {
            meanings.push(end_in_between(&messages));
        }
        let detail = if was_known { "session/status, read again" } else { "session/status" };
        let mut signals = signals(detail.to_owned(), meanings);
        if !was_known {
            signals.extend(self.first_idle(detail));
        }
        signals
    }

    fn take_in_sessions(&mut self, sessions: &Value) -> Vec<Meaning> {
        let mut meanings = Vec::new();
        let list = sessions.as_array().map_or(&[][..], Vec::as_slice);
        if !self.known {
            let last = list.iter().find(|info| info["parentID"].is_null()).and_then(|info| info["id"].as_str());
            match (&self.session, &self.words.begin, last) {
                (Some(id), _, _) => meanings.push(Meaning::Session { id: id.clone(), transcript: None }),
                (None, Begin::Last, Some(last)) => meanings.push(self.adopt(last)),
                (None, _, _) => {}
            }
        }
        for info in list {
            meanings.extend(self.session_told(info));
        }
        meanings
    }

    fn take_in_messages(&mut self, messages: &Value) -> Vec<Meaning> {
        let mut meanings = Vec::new();
        for message in messages.as_array().into_iter().flatten() {
            meanings.extend(self.message_told(&message["info"]));
            for part in message["parts"].as_array().into_iter().flatten() {
                meanings.extend(self.part_told(part));
            }
        }
        // It may be working no longer: what its parts say of work is no news.
        meanings.retain(|meaning| !matches!(meaning, Meaning::Working { .. }));
        meanings
    }
}

/// Returns what the end of a turn means that nobody told of: its last message says how it ended, if it did.
fn end_in_between(messages: &Value) -> Meaning {
    let last = messages.as_array().and_then(|list| list.last()).map_or(&Value::Null, |message| &message["info"]);
    match (last["role"].as_str(), &last["error"]) {
        (Some("assistant"), Value::Null) if last["time"]["completed"].is_number() => ended(None),
        (Some("assistant"), error @ Value::Object(_)) => ended(Some(error)),
        _ => Meaning::Idle(TurnOutcome::Interrupted),
    }
}
