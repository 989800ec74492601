//! What the status file says: the only sign of an interrupt that comes at once, and of a dialog that a command opened.

use coop_api::{EvidenceSource, TurnOutcome};
use serde_json::Value;

use super::Claude;
use crate::{Meaning, Signal, StartSource};

/// What it waits for when a command of its own has opened a dialog.
pub(super) const DIALOG_OPEN: &str = "dialog open";

/// A stretch of work, from the idleness before it to that after it, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worked {
    idle_at: u64,
    from: Option<u64>,
    to: Option<u64>,
}

impl Worked {
    fn begin(&mut self) {
        if self.from.is_none() || self.to.is_some() {
            (self.from, self.to) = (Some(self.idle_at), None);
        }
    }

    fn end(&mut self, at: u64) {
        self.idle_at = at;
        self.to = self.to.or(self.from.map(|_| at));
    }

    /// Tells whether something that was written at this time belongs to it.
    pub(super) fn covers(self, at: u64) -> bool {
        self.from.is_some_and(|from| at >= from) && self.to.is_none_or(|to| at <= to)
    }
}

impl Claude {
    pub(super) fn observe_status(&mut self, file: &Value) -> Vec<Signal> {
        let mut signals = self.session_of(file);
        let status = file["status"].as_str().unwrap_or_default();
        let updated_at = file["statusUpdatedAt"].as_u64().unwrap_or(0);
        if !self.is_own_status(file) {
            return signals;
        }
        if updated_at < self.settled_at {
            // It says nothing about now. But that there is such a file counts, and from where it goes on.
            if updated_at >= self.status_at {
                (self.status, self.status_at) = (status.to_owned(), updated_at);
            }
            return signals;
        }
        let before = std::mem::replace(&mut self.status, status.to_owned());
        self.status_at = updated_at;
        let waiting_for = file["waitingFor"].as_str().filter(|_| status == "waiting").unwrap_or_default();
        let had_dialog = std::mem::replace(&mut self.waiting_for, waiting_for.to_owned()) == DIALOG_OPEN;
        let detail = format!("the status file says {status}");
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, detail.clone(), meaning);
        if status == "idle" {
            self.worked.end(updated_at);
        }
        let told_before = signals.len();
        match status {
            // The hooks have told the end of the turn in which it was asked: the file is only behind.
            "busy" if self.hooked && !self.busy && before == "waiting" && !had_dialog => {}
            "busy" => {
                let begins = !self.hooked && !self.busy && matches!(before.as_str(), "" | "idle");
                if !self.busy {
                    self.began_at = updated_at;
                }
                self.busy = true;
                self.has_prompt = false;
                self.gave_up = false;
                self.worked_once = true;
                if before == "waiting" && (had_dialog || updated_at >= self.asked_at) {
                    self.on_screen.take_if(|_| had_dialog);
                    signals.push(signal(Meaning::AskGone { about: None }));
                }
                self.worked.begin();
                if begins {
                    signals.push(signal(Meaning::TurnBegan { prompt: None }));
                }
                signals.push(signal(Meaning::Working { tool: None }));
            }
            // After a dialog that a command opened it is at its prompt, whatever was before.
            // One from before the last ask says nothing about it.
            "idle" if updated_at < self.asked_at => {}
            "idle" if self.may_be_idle() && (!self.gave_up || had_dialog) => {
                let outcome = if self.busy { TurnOutcome::Interrupted } else { TurnOutcome::Completed };
                if std::mem::take(&mut self.busy) {
                    self.behind.await_end();
                }
                self.gave_up = false;
                self.on_screen.take_if(|_| had_dialog);
                signals.push(signal(Meaning::Idle(outcome)));
            }
            "waiting" => {
                if self.waiting_for != DIALOG_OPEN {
                    self.busy = true;
                    self.worked.begin();
                }
                signals.extend(self.look());
            }
            _ => {}
        }
        if signals.len() > told_before {
            // The log is written when the agent has time: its older lines say nothing any more.
            self.settled_at = updated_at;
        }
        signals
    }

    /// Tells whether a file is about this conversation.
    pub(super) fn is_own_status(&self, file: &Value) -> bool {
        self.session.is_some() && file["sessionId"].as_str() == self.session.as_deref()
    }

    /// Tells whether `idle` means that the agent waits for a message. Before its first prompt, or its first hook, it does
    /// not; but one that has worked without a hook has none.
    fn may_be_idle(&self) -> bool {
        let has_begun = self.started || !self.expects_hooks || self.worked_once && !self.hooked;
        self.ready && has_begun && !self.unfinished && !self.has_prompt
    }

    /// Notes that the process has another conversation, where there are no hooks to say so.
    fn session_of(&mut self, file: &Value) -> Vec<Signal> {
        let (Some(id), Some(pid)) = (file["sessionId"].as_str(), file["pid"].as_u64()) else { return Vec::new() };
        if self.session.as_deref() == Some(id) {
            self.pid = Some(pid);
            return Vec::new();
        }
        if self.hooked || self.expects_hooks || self.pid != Some(pid) {
            return Vec::new();
        }
        self.session = Some(id.to_owned());
        let transcript = Some(format!("{}/{id}.jsonl", self.logs));
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, "the status file has another session", meaning);
        vec![signal(Meaning::Session { id: id.to_owned(), transcript }), signal(Meaning::Started(StartSource::Clear))]
    }
}
