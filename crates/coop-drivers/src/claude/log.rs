//! What the conversation's log says.

use coop_api::{EvidenceSource, TurnOutcome};
use serde_json::Value;

use super::{Claude, content};
use crate::driver::Runtime;
use crate::{Meaning, Signal, fault};

const INTERRUPTED: &str = "[Request interrupted by user";

impl Claude {
    pub(super) fn observe_log(&mut self, line: &Value, past: bool) -> Vec<Signal> {
        let kind = line["type"].as_str().unwrap_or_default();
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, format!("a line of type {kind}"), meaning);
        let message = &line["message"];
        let mut meanings = Vec::new();
        if kind == "assistant" {
            meanings.extend(content::used(message));
        }
        // What was there before is history, what a sub-agent says is not the agent's state, and over pipes the protocol
        // tells all but the tokens.
        if !past && let Some(prompt) = self.prompt_in(line) {
            prompt.clone_into(&mut self.last_prompt);
        }
        let is_news = !past && self.runtime == Runtime::Pty && line["isSidechain"] != true && !self.is_stale(line);
        if is_news && let Some(meaning) = self.turn_goes_on(line).or_else(|| self.turn_end(line)) {
            meanings.push(meaning);
        }
        let tells_content = !past && self.runtime == Runtime::Pty && line["isMeta"] != true;
        if tells_content && matches!(kind, "user" | "assistant") {
            meanings.extend(self.blocks(message, line["agentId"].as_str()));
        }
        meanings.into_iter().map(signal).collect()
    }

    /// Returns the work that a message begins, where there are no hooks to say so.
    fn turn_goes_on(&mut self, line: &Value) -> Option<Meaning> {
        self.prompt_in(line)?;
        self.begin_turn();
        Some(Meaning::Working { tool: None })
    }

    /// Returns the message in a line, where there are no hooks to say it. What begins with a tag is no message but the
    /// trace of a command.
    fn prompt_in<'a>(&self, line: &'a Value) -> Option<&'a str> {
        let prompt = line["message"]["content"].as_str().filter(|text| !text.starts_with('<'))?;
        (!self.hooked && line["type"] == "user" && line["isMeta"] != true).then_some(prompt)
    }

    /// Returns how a line ends the turn.
    fn turn_end(&mut self, line: &Value) -> Option<Meaning> {
        match line["type"].as_str()? {
            "user" if text_of(&line["message"]).starts_with(INTERRUPTED) => {
                self.busy = false;
                Some(Meaning::Idle(TurnOutcome::Interrupted))
            }
            "assistant" if line["isApiErrorMessage"] == true => {
                self.busy = false;
                self.gave_up = true;
                let status = line["apiErrorStatus"].as_u64().and_then(|status| status.try_into().ok());
                let error = line["error"].as_str().unwrap_or_default();
                Some(Meaning::Blocked(fault::fault(error, text_of(&line["message"]), status)))
            }
            "system" if line["subtype"] == "turn_duration" && !self.unfinished && !self.gave_up => {
                self.busy = false;
                Some(Meaning::Idle(TurnOutcome::Completed))
            }
            _ => None,
        }
    }

    /// Tells whether a line was written before the last turn began or ended.
    fn is_stale(&self, line: &Value) -> bool {
        let written = line["timestamp"].as_str().and_then(|time| humantime::parse_rfc3339(time).ok());
        let millis = written.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        millis.is_some_and(|since| since.as_millis() < u128::from(self.settled_at))
    }
}

fn text_of(message: &Value) -> &str {
    match &message["content"] {
        Value::String(text) => text,
        Value::Array(blocks) => blocks.iter().find_map(|block| block["text"].as_str()).unwrap_or_default(),
        _ => "",
    }
}
