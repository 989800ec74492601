//! What the conversation's log says.
//!
//! A line is a message, under an id that comes again as the message grows, or a patch `{"$set": …}`. After a request was
//! cancelled at its dialog the whole conversation is written once more, under new ids: from the message with the context
//! of the session on, which is otherwise part of a patch, to the patch with all messages.

use coop_api::{EvidenceSource, Message, Role, TurnOutcome};
use serde_json::Value;

use super::Gemini;
use super::content::{used, written_at};
use crate::keys::without_blanks;
use crate::rules::TitleSays;
use crate::{Meaning, Signal, fault};

const CONTEXT: &str = "<session_context>";
const CANCELLED: &str = "Request cancelled.";
/// How an error begins on which a request was given up.
const API_ERROR: &str = "[API Error: ";

impl Gemini {
    pub(super) fn observe_log(&mut self, line: &Value, past: bool, at: u64) -> Vec<Signal> {
        let kind = line["type"].as_str().unwrap_or_default();
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, format!("a line of type {kind}"), meaning);
        if past {
            // Parts are what it repeats; as a text it is what the model said.
            return used(line).map(signal).into_iter().collect();
        }
        let text = text_of(line);
        let patch = &line["$set"];
        if patch["messages"].is_array() {
            self.repeating = false;
        }
        self.repeating |= kind == "user" && text.starts_with(CONTEXT);
        if self.repeating {
            return Vec::new();
        }
        let begins = if self.resumes { &patch["sessionId"] } else { &line["sessionId"] };
        if let Some(id) = begins.as_str() {
            return self.conversation_begins(id);
        }
        let mut meanings: Vec<_> = used(line).into_iter().collect();
        meanings.extend(self.said(line, &text));
        meanings.extend(self.calls.logged(line, self.hooked));
        let mut signals: Vec<_> = meanings.into_iter().map(signal).collect();
        let written = written_at(line).unwrap_or(at);
        if written >= self.settled_at {
            signals.extend(self.turn(line, kind, &text, written));
        }
        // The title may have been seen before the line was read.
        let tells_of_turn = matches!(kind, "user" | "gemini") && self.asked.is_none();
        if tells_of_turn && self.title == Some(TitleSays::Idle) {
            signals.extend(self.settle());
        }
        signals
    }

    fn conversation_begins(&mut self, id: &str) -> Vec<Signal> {
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, "the log was begun", meaning);
        // Where there are hooks for sure, one tells what the agent should know before it is told anything else.
        self.started |= self.resumes || !self.waits_for_hook;
        let session = signal(Meaning::Session { id: id.to_owned(), transcript: None });
        std::iter::once(session).chain(self.begin_idle()).collect()
    }

    /// Returns what a line says about the turn.
    fn turn(&mut self, line: &Value, kind: &str, text: &str, written: u64) -> Vec<Signal> {
        let signal = |detail: &str, meaning| Signal::new(EvidenceSource::SessionLog, detail, meaning);
        let answers = matches!(kind, "gemini" | "info" | "error");
        self.answered |= answers;
        let is_late = answers && std::mem::take(&mut self.unanswered);
        match kind {
            // A hook tells of it where there are hooks.
            "user" if !self.hooked && is_prompt(line) && !self.is_sent_back(line) => {
                let typed = typed(line);
                self.begin_turn(written, &typed);
                let prompt = Some(typed);
                let mut signals = vec![signal("a message in the log", Meaning::TurnBegan { prompt })];
                if let Some(dialog) = self.early.take() {
                    signals.extend(self.dialog_seen(&dialog));
                }
                signals
            }
            "gemini" => {
                self.worked_at.get_or_insert(written);
                Vec::new()
            }
            "info" if text == CANCELLED && (self.busy || self.asked.is_some() || is_late) => {
                let detail = "the log says that the request was cancelled";
                let mut signals = self.ask_over(EvidenceSource::SessionLog, detail);
                self.end_turn();
                self.settled_at = written;
                signals.push(signal(detail, Meaning::Idle(TurnOutcome::Interrupted)));
                signals
            }
            // It may be written after the title has said that all is over.
            "error" if text.starts_with(API_ERROR) => {
                self.end_turn();
                self.settled_at = written;
                vec![signal("the log says that the request failed", Meaning::Blocked(api_fault(text)))]
            }
            _ => Vec::new(),
        }
    }

    /// Tells whether a line is what a hook of the user's sent the agent back with: it shows the prompt of the turn that is
    /// under way, and has another text.
    fn is_sent_back(&self, line: &Value) -> bool {
        let shown = joined(&line["displayContent"]);
        self.busy && shown == self.last_prompt && shown != joined(&line["content"])
    }

    /// Returns a message, once.
    fn said(&mut self, line: &Value, text: &str) -> Option<Meaning> {
        let role = match line["type"].as_str()? {
            "user" if is_prompt(line) => Role::User,
            "gemini" if line["content"].is_string() => Role::Assistant,
            _ => return None,
        };
        let id = line["id"].as_str()?.to_owned();
        let is_new = !text.is_empty() && self.told.insert(&id);
        self.has_gone_on |= is_new && role == Role::Assistant;
        is_new.then(|| Meaning::Said(Message { role, text: text.to_owned(), id: Some(id), subagent: None }))
    }
}

/// Tells whether a line of the user holds something that was typed, and not the result of a tool.
fn is_prompt(line: &Value) -> bool {
    line["content"].as_array().is_some_and(|parts| {
        !parts.is_empty() && parts.iter().all(|part| part["text"].is_string() && part["functionResponse"].is_null())
    })
}

/// Returns what a line says, without the content of files that a message names.
fn text_of(line: &Value) -> String {
    let (sent, typed) = (joined(&line["content"]), typed(line));
    if without_blanks(&sent).starts_with(&without_blanks(&typed)) { typed } else { sent }
}

/// Returns what the user typed. The agent may send more, or other blanks.
fn typed(line: &Value) -> String {
    let shown = joined(&line["displayContent"]);
    if shown.is_empty() { joined(&line["content"]) } else { shown }
}

fn joined(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Returns the fault in `[API Error: {"error":{"code":401,"message":"…"}}]`.
fn api_fault(text: &str) -> coop_api::Fault {
    let inner = text.strip_prefix(API_ERROR).and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let error: Value = serde_json::from_str(inner).unwrap_or_default();
    let error = &error["error"];
    let status = error["code"].as_u64().and_then(|code| code.try_into().ok());
    let message = error["message"].as_str().unwrap_or(inner);
    fault::fault(error["status"].as_str().unwrap_or_default(), message, status)
}

#[cfg(test)]
mod tests {
    use coop_api::FaultKind;

    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let kind = |text: &str| {
            let fault = api_fault(text);
            (fault.kind, fault.status, fault.message)
        };
        assert_eq!(
            kind(r#"[API Error: {"error":{"code":401,"message":"bad key","status":"UNAUTHENTICATED"}}]"#),
            (FaultKind::Auth, Some(401), "bad key".to_owned())
        );
        assert_eq!(
            kind(r#"[API Error: {"error":{"code":429,"message":"too many"}}]"#),
            (FaultKind::RateLimit, Some(429), "too many".to_owned())
        );
        assert_eq!(kind("[API Error: fetch failed]"), (FaultKind::Network, None, "fetch failed".to_owned()));
    }
}
