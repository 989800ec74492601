//! The stream of events: what each means.

use coop_api::{EvidenceSource, Role, TurnOutcome};
use serde_json::Value;

use super::setup::Program;
use super::{OpenCode, Prompt, Whose, answer, deliver, fault, ids};
use crate::driver::Say;
use crate::{Meaning, Signal};

/// The error of a turn that somebody stopped.
const ABORTED: &str = "MessageAbortedError";

/// What is asked, and in which words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Permission,
    /// A permission as older versions ask for it.
    OldPermission,
    Question,
}

impl OpenCode {
    pub(super) fn observe_event(&mut self, event: &Value, at: u64) -> Vec<Signal> {
        if let Some(time) = event["id"].as_str().and_then(ids::time)
            && self.newest.as_deref().is_none_or(|newest| newest < time)
        {
            self.newest = Some(time.to_owned());
        }
        self.read_again();
        let about = &event["properties"];
        let session = about["sessionID"].as_str().unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        let meanings = match kind {
            "session.created" | "session.updated" => self.session_told(&about["info"]),
            "message.updated" => self.message_told(&about["info"]),
            "message.part.updated" => self.part_told(&about["part"]),
            "session.status" => self.status_told(session, &about["status"], at),
            "session.idle" => self.status_told(session, &serde_json::json!({ "type": "idle" }), at),
            "session.error" => {
                if self.whose(session) == Whose::Own {
                    self.error = Some(about["error"].clone());
                }
                Vec::new()
            }
            "permission.asked" => self.asked(Asking::Permission, about),
            "permission.updated" => self.asked(Asking::OldPermission, about),
            "question.asked" => self.asked(Asking::Question, about),
            "permission.replied" | "question.replied" | "question.rejected" => {
                let request = about["requestID"].as_str().or_else(|| about["permissionID"].as_str());
                request.and_then(|request| self.settled(request)).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let word = ["reply", "response"].iter().find_map(|key| about[*key].as_str());
        let word = word.or_else(|| about["status"]["type"].as_str()).or_else(|| about["error"]["name"].as_str());
        signals(word.map_or_else(|| kind.to_owned(), |word| format!("{kind} {word}")), meanings)
    }

    /// A session was made or changed.
    pub(super) fn session_told(&mut self, info: &Value) -> Vec<Meaning> {
        let Some(id) = info["id"].as_str() else { return Vec::new() };
        self.parents.set(id, info["parentID"].as_str().map(str::to_owned));
        if Some(id) == self.session.as_deref() {
            self.works_as(&info["agent"], &info["model"]["providerID"], &info["model"]["id"]);
        }
        let unplaced = std::mem::take(&mut self.unplaced);
        unplaced.into_iter().flat_map(|(asking, about)| self.asked(asking, &about)).collect()
    }

    fn works_as(&mut self, agent: &Value, provider: &Value, model: &Value) {
        if let Some(agent) = agent.as_str() {
            self.agent = Some(agent.to_owned());
        }
        if let (Some(provider), Some(model)) = (provider.as_str(), model.as_str()) {
            self.model = Some((provider.to_owned(), model.to_owned()));
        }
    }

    /// Makes a session the agent's own.
    pub(super) fn adopt(&mut self, session: &str) -> Meaning {
        self.session = Some(session.to_owned());
        if !self.parents.contains(session) {
            self.parents.set(session, None);
        }
        self.busy = false;
        self.error = None;
        self.prompt = None;
        Meaning::Session { id: session.to_owned(), transcript: None }
    }

    pub(super) fn message_told(&mut self, info: &Value) -> Vec<Meaning> {
        let (Some(id), Some(session)) = (info["id"].as_str(), info["sessionID"].as_str()) else { return Vec::new() };
        let role = if info["role"] == "user" { Role::User } else { Role::Assistant };
        self.roles.set(id, role);
        let mut meanings = Vec::new();
        if role == Role::User && self.is_next(session) {
            meanings.push(self.adopt(session));
        }
        if self.whose(session) != Whose::Own {
            return meanings;
        }
        match role {
            // Older ones are told again when something about them changes.
            Role::User if self.prompt.as_ref().is_none_or(|prompt| *prompt.message < *id) => {
                self.works_as(&info["agent"], &info["model"]["providerID"], &info["model"]["modelID"]);
                self.prompt = Some(Prompt { message: id.to_owned(), ..Prompt::default() });
            }
            Role::User => {}
            Role::Assistant => {
                if let Some(prompt) = &mut self.prompt
                    && info["parentID"].as_str() == Some(&prompt.message)
                {
                    prompt.ran = true;
                    prompt.answered = true;
                    // What stops a turn at its very beginning is told of its message alone.
                    if self.busy && info["error"].is_object() {
                        self.error = Some(info["error"].clone());
                    }
                }
            }
        }
        meanings
    }

    /// Tells whether a message in a session makes it the agent's: somebody began another conversation in its interface.
    /// A server that somebody else runs has conversations of others.
    fn is_next(&self, session: &str) -> bool {
        let is_root = self.parents.get(session).is_some_and(Option::is_none);
        let is_shared = matches!(self.words.program, Program::Attach { .. });
        is_root && self.session.as_deref() != Some(session) && (self.session.is_none() || !is_shared)
    }

    fn status_told(&mut self, session: &str, status: &Value, at: u64) -> Vec<Meaning> {
        let kind = status["type"].as_str().unwrap_or_default();
        match self.whose(session) {
            Whose::Own => {}
            // What is left of a sub-agent that was stopped asks nothing any more.
            Whose::Child if kind == "idle" => return self.asks_of(|of| of == session),
            Whose::Child | Whose::Other | Whose::Unknown => return Vec::new(),
        }
        self.reread.heard = true;
        match kind {
            "busy" => self.works(),
            "retry" => {
                let mut meanings = self.works();
                self.retell = true;
                meanings.push(Meaning::Retrying(fault::retry(status, at)));
                meanings
            }
            "idle" => self.rests(),
            _ => Vec::new(),
        }
    }

    pub(super) fn works(&mut self) -> Vec<Meaning> {
        self.error = None;
        let retell = std::mem::take(&mut self.retell);
        if std::mem::replace(&mut self.busy, true) {
            return retell.then_some(Meaning::Working { tool: None }).into_iter().collect();
        }
        let prompt = self.prompt.as_mut().filter(|prompt| !prompt.ran);
        let text = prompt.and_then(|prompt| {
            prompt.ran = true;
            prompt.text.as_ref().map(|(_, text)| text.clone())
        });
        vec![Meaning::TurnBegan { prompt: text }]
    }

    fn rests(&mut self) -> Vec<Meaning> {
        let was_busy = std::mem::take(&mut self.busy);
        self.retell = false;
        let error = self.error.take();
        if !was_busy && error.is_none() {
            self.check_prompt();
            return Vec::new();
        }
        // Nobody waits for what it asked.
        self.asks.clear();
        let unanswered = self.prompt.as_mut().is_some_and(|prompt| {
            prompt.ran = true;
            !prompt.answered
        });
        match error {
            // It did not even begin to answer.
            None if unanswered => vec![Meaning::Idle(TurnOutcome::Interrupted)],
            error => vec![ended(error.as_ref())],
        }
    }

    /// A message that comes just before the end of a turn that failed is kept, but no turn begins with it. It is idle
    /// after the message and was not busy in between; if its status says the same, the message is sent again.
    fn check_prompt(&mut self) {
        let lost = self.prompt.as_ref().filter(|prompt| !prompt.ran && !prompt.again && prompt.text.is_some());
        if let Some(prompt) = lost.filter(|prompt| ids::is_ours(&prompt.message)) {
            let check = deliver::get(&format!("recheck {}", prompt.message), self.path("/session/status"));
            self.outbox.push(Say::Call(check));
        }
    }

    pub(super) fn asked(&mut self, asking: Asking, about: &Value) -> Vec<Meaning> {
        let (Some(id), Some(session)) = (about["id"].as_str(), about["sessionID"].as_str()) else { return Vec::new() };
        if self.asks.contains_key(id) || self.settled.contains(id) {
            return Vec::new();
        }
        match self.whose(session) {
            Whose::Own | Whose::Child => {
                self.asks.insert(id.to_owned(), session.to_owned());
                self.reread.asked.insert(id);
                vec![Meaning::Ask(Box::new(answer::draft(asking, id, about)))]
            }
            Whose::Other => Vec::new(),
            Whose::Unknown => {
                self.read(format!("session {session}"));
                self.unplaced.push((asking, about.clone()));
                Vec::new()
            }
        }
    }

    fn settled(&mut self, request: &str) -> Option<Meaning> {
        self.settled.insert(request);
        self.unplaced.retain(|(_, about)| about["id"].as_str() != Some(request));
        let was_open = self.asks.remove(request).is_some();
        was_open.then(|| Meaning::RequestGone { request: request.to_owned() })
    }

    /// Closes the asks of some sessions.
    fn asks_of(&mut self, is_meant: impl Fn(&str) -> bool) -> Vec<Meaning> {
        let gone: Vec<_> =
            self.asks.iter().filter(|(_, of)| is_meant(of)).map(|(request, _)| request.clone()).collect();
        gone.iter().filter_map(|request| self.settled(request)).collect()
    }
}

/// Returns what the end of a turn means.
pub(super) fn ended(error: Option<&Value>) -> Meaning {
    match error {
        None => Meaning::Idle(TurnOutcome::Completed),
        Some(error) if error["name"] == ABORTED => Meaning::Idle(TurnOutcome::Interrupted),
        Some(error) => Meaning::Blocked(fault::fault(error)),
    }
}

pub(super) fn signals(detail: String, meanings: Vec<Meaning>) -> Vec<Signal> {
    meanings.into_iter().map(|meaning| Signal::new(EvidenceSource::Control, detail.clone(), meaning)).collect()
}
