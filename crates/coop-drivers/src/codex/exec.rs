//! `codex exec --json`: one line for each thing that happens, and no questions. It ends when its turn does.

use coop_api::{EvidenceSource, FaultReport, TurnOutcome};
use serde_json::Value;

use super::content::{ItemTurn, Spelling, usage};
use super::{Begin, Codex, fault};
use crate::{Meaning, Signal};

impl Codex {
    pub(super) fn observe_line(&mut self, line: &Value) -> Vec<Signal> {
        let kind = line["type"].as_str().unwrap_or_default();
        let meanings = match kind {
            "thread.started" => {
                self.thread = line["thread_id"].as_str().map(str::to_owned);
                let session = |id: &String| Meaning::Session { id: id.clone(), transcript: None };
                self.thread.as_ref().map(session).into_iter().collect()
            }
            "turn.started" => {
                let prompt = self.prompt.take();
                self.announce(prompt).into_iter().collect()
            }
            "item.started" => self.item_began(&line["item"], ItemTurn::Current),
            "item.updated" => Vec::new(),
            "item.completed" => self.item_ended(&line["item"], ItemTurn::Current),
            "turn.completed" => {
                self.turn_over();
                self.sum(line).into_iter().chain([Meaning::Idle(TurnOutcome::Completed)]).collect()
            }
            "turn.failed" => {
                self.turn_over();
                let message = line["error"]["message"].as_str().unwrap_or("the turn failed");
                vec![Meaning::Blocked(fault::of_text(message))]
            }
            // An error that is for good is told again by the turn.
            "error" => {
                let fault = fault::of_text(line["message"].as_str().unwrap_or_default());
                let retry = fault.message.starts_with("Reconnecting").then(|| fault::attempt(&fault.message));
                retry.map(|retry| Meaning::Retrying(FaultReport { fault, retry: Some(retry) })).into_iter().collect()
            }
            _ => Vec::new(),
        };
        meanings.into_iter().map(|meaning| Signal::new(EvidenceSource::Stdout, kind, meaning)).collect()
    }

    /// Counts the turn. The sum is that of the whole conversation, so of one that is resumed it says nothing.
    fn sum(&self, line: &Value) -> Option<Meaning> {
        let is_new = matches!(self.begin, Begin::By { method: "thread/start", .. });
        let id = self.thread.clone().unwrap_or_default();
        is_new.then(|| Meaning::Used { id, usage: usage(&line["usage"], Spelling::Snake), at: None })
    }
}
