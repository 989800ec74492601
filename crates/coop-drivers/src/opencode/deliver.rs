//! Messages and interrupts: calls to the server, each with the proof that it took.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LinkState, OpenCode, ids, setup};
use crate::driver::{Call, Expected, Refusal, Say, Step};

/// How long the server may take to answer a call.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// How long a turn may take to begin: the first one loads all of its providers, which takes seconds.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(20);

impl OpenCode {
    /// Refuses what would reach nobody.
    pub(super) fn reachable(&self) -> Result<(), Refusal> {
        match self.link {
            LinkState::Up => Ok(()),
            LinkState::Down => Err(Refusal::Occupied("opencode's server cannot be reached just now".into())),
            LinkState::Never => Err(Refusal::Unsupported("opencode was started without a server coop knows".into())),
        }
    }

    /// Returns a path with the folder that the server is told to work in.
    pub(super) fn path(&self, path: &str) -> String {
        match &self.words.folder {
            None => path.to_owned(),
            Some(folder) if path.contains('?') => format!("{path}&{}", &setup::query(folder)[1..]),
            Some(folder) => format!("{path}{}", setup::query(folder)),
        }
    }

    pub(super) fn deliver_steps(&self, text: &str) -> Vec<Step> {
        let time = self.newest.as_deref().unwrap_or_default();
        let (message, part) = (ids::name("msg", time, text), ids::name("prt", time, text));
        let mut steps = Vec::new();
        let session = self.session.clone().unwrap_or_else(|| {
            let session = ids::session(time, &self.run);
            let mut body = json!({ "id": session });
            if let Some(folder) = &self.words.folder {
                body["location"] = json!({ "directory": folder });
            }
            steps.extend(taken(post(&format!("create {session}"), "/api/session".to_owned(), body)));
            steps.extend(taken(self.select_call(&session)));
            session
        });
        steps.extend(taken(self.prompt_call(&session, &message, &part, text)));
        steps.push(Step::Expect { what: Expected::TurnBegan, within: BEGINS_WITHIN, retry: None });
        steps
    }

    /// Whoever looks at the terminal interface is to see the conversation in it.
    fn select_call(&self, session: &str) -> Call {
        let shown = json!({ "sessionID": session });
        post(&format!("select {session}"), self.path("/tui/select-session"), shown)
    }

    /// Has the terminal interface show our conversation. While it starts it does not hear that, so it is told again.
    pub(super) fn show_session(&mut self) {
        let ours = self.session.as_deref().filter(|session| ids::is_ours(session));
        if let Some(session) = ours.filter(|_| self.at_home && self.ready) {
            let call = self.select_call(session);
            let is_said = self.outbox.iter().any(|said| matches!(said, Say::Call(said) if *said == call));
            if !is_said {
                self.outbox.push(Say::Call(call));
            }
        }
    }

    fn prompt_call(&self, session: &str, message: &str, part: &str, text: &str) -> Call {
        let mut body = json!({ "messageID": message, "parts": [{ "id": part, "type": "text", "text": text }] });
        // Left out, it would work as its default agent, not as the one that the person chose.
        if let Some(agent) = &self.agent {
            body["agent"] = json!(agent);
        }
        if let Some((provider, model)) = &self.model {
            body["model"] = json!({ "providerID": provider, "modelID": model });
        }
        post(&format!("prompt {message}"), self.path(&format!("/session/{session}/prompt_async")), body)
    }

    /// Sends a message again that is there and was not run, as the server's status says too.
    pub(super) fn send_again(&mut self, message: &str, status: &Value) {
        let Some(session) = self.session.clone() else { return };
        let rests = !matches!(status[&session]["type"].as_str(), Some("busy" | "retry"));
        let lost = self.prompt.as_mut().filter(|prompt| prompt.message == message && !prompt.ran && !prompt.again);
        let Some(prompt) = lost.filter(|_| rests && !self.busy) else { return };
        prompt.again = true;
        let Some((part, text)) = prompt.text.clone() else { return };
        let call = self.prompt_call(&session, message, &part, &text);
        self.outbox.push(Say::Call(call));
    }

    /// Stops the turn. What was asked in it would stay on the screen for good, so that is refused too.
    pub(super) fn interrupt_steps(&self, session: &str) -> Vec<Step> {
        let abort = post(&format!("abort {session}"), self.path(&format!("/session/{session}/abort")), Value::Null);
        let refuse = self.asks.keys().map(|request| {
            let (path, body) = match request.starts_with("que") {
                true => (format!("/question/{request}/reject"), json!({})),
                false => (format!("/permission/{request}/reply"), json!({ "reply": "reject" })),
            };
            Step::Call(post(&format!("refuse {request}"), self.path(&path), body))
        });
        let idle = Step::Expect { what: Expected::Idle, within: ENDS_WITHIN, retry: None };
        taken(abort).into_iter().chain(refuse).chain([idle]).collect()
    }
}

/// Returns a call, and the wait until the server took it.
pub(super) fn taken(call: Call) -> [Step; 2] {
    [Step::Call(call), Step::Expect { what: Expected::Accepted, within: ANSWERS_WITHIN, retry: None }]
}

pub(super) fn post(name: &str, path: String, body: Value) -> Call {
    Call { name: name.to_owned(), method: "POST", path, body: (!body.is_null()).then_some(body) }
}

pub(super) fn get(name: &str, path: String) -> Call {
    Call { name: name.to_owned(), method: "GET", path, body: None }
}
