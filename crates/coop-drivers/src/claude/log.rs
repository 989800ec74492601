//! What the conversation's log says.

use coop_api::{EvidenceSource, TurnOutcome};
use serde_json::Value;

use super::{Claude, Compaction, content};
use crate::driver::Runtime;
use crate::{Meaning, Signal, fault};

const INTERRUPTED: &str = "[Request interrupted by user";
const SENT_BACK: &str = "Stop hook feedback:";

impl Claude {
    pub(super) fn observe_log(&mut self, line: &Value, past: bool) -> Vec<Signal> {
        let kind = line["type"].as_str().unwrap_or_default();
        let signal = |meaning| Signal::new(EvidenceSource::SessionLog, format!("a line of type {kind}"), meaning);
        let message = &line["message"];
        let mut meanings = Vec::new();
        if kind == "assistant" {
            meanings.extend(content::used(message, written_at(line)));
        }
        // What was there before is history.
        if past {
            return meanings.into_iter().map(signal).collect();
        }
        let of_subagent = line["isSidechain"] == true;
        // A line of its own tells of a change, and a message of the mode that it was sent in.
        if !of_subagent && !self.is_stale(line) {
            meanings.extend(self.mode_from_name(&line["permissionMode"]));
        }
        if let Some(prompt) = self.prompt_in(line) {
            prompt.clone_into(&mut self.last_prompt);
            if self.runtime == Runtime::Pipe {
                meanings.push(content::prompted(prompt.to_owned()));
            }
        }
        // Over pipes the protocol tells the rest, but for what sub-agents say. That is not the agent's state.
        let in_terminal = self.runtime == Runtime::Pty;
        let tells_state = in_terminal && !of_subagent;
        let prompt = self.prompt_in(line).map(str::to_owned);
        let is_prompt = prompt.is_some();
        let mut ended = None;
        if tells_state {
            meanings.extend(command_in(line).map(|text| Meaning::Command { text }));
            if let Some(prompt) = prompt {
                let (began, over) = self.prompt_logged(prompt, line);
                meanings.extend(began);
                ended = over;
            }
        }
        if (in_terminal || of_subagent) && line["isMeta"] != true && matches!(kind, "user" | "assistant") {
            meanings.extend(self.blocks(line, line["agentId"].as_str()));
        }
        // The first lines of a new log may have another order: what it says last is waited for, whatever stands before it.
        if !of_subagent && ends_turn(line) {
            self.behind.ended();
        }
        if in_terminal && is_sent_back(line) && !self.is_stale(line) {
            self.busy = true;
        }
        // What was said and done in a turn is told before its end. Why it ended is news also after the status file told that
        // it did.
        let is_failure = line["isApiErrorMessage"] == true && written_at(line).is_none_or(|at| at >= self.began_at);
        if tells_state && !is_prompt && (is_failure || !self.is_stale(line)) {
            ended = self.turn_end(line);
        }
        meanings.extend(ended);
        meanings.into_iter().map(signal).collect()
    }

    /// Returns the turn that a message began, where there are no hooks to say so, and its end if that was before.
    fn prompt_logged(&mut self, prompt: String, line: &Value) -> (Option<Meaning>, Option<Meaning>) {
        let is_stale = self.is_stale(line);
        // The log may be behind: the work that the status told of, or what is asked now, is that of this turn or a later.
        let is_told = written_at(line).is_some_and(|at| self.worked.covers(at)) || self.on_screen.is_some();
        if is_told || is_stale && (self.busy || self.status != "idle") {
            return (None, None);
        }
        self.begin_turn();
        let ended = is_stale.then(|| {
            // It was over before anything showed that it had begun: the status is newer.
            self.busy = false;
            self.behind.await_end();
            Meaning::Idle(TurnOutcome::Completed)
        });
        (Some(Meaning::TurnBegan { prompt: Some(prompt) }), ended)
    }

    /// Returns the message in a line, where there are no hooks to say it. What begins with a tag is no message but the
    /// trace of a command, and a summary is none either.
    fn prompt_in<'a>(&self, line: &'a Value) -> Option<&'a str> {
        let prompt = line["message"]["content"].as_str().filter(|text| !text.starts_with('<'))?;
        let is_message = line["type"] == "user"
            && line["isMeta"] != true
            && line["isSidechain"] != true
            && line["isCompactSummary"] != true;
        (!self.hooked && is_message).then_some(prompt)
    }

    /// Returns how a line ends the turn.
    fn turn_end(&mut self, line: &Value) -> Option<Meaning> {
        match line["type"].as_str()? {
            "user" if text_of(&line["message"]).starts_with(INTERRUPTED) => {
                self.busy = false;
                Some(Meaning::Idle(TurnOutcome::Interrupted))
            }
            // A hook may have told it already.
            "assistant" if line["isApiErrorMessage"] == true && !self.gave_up => {
                self.busy = false;
                self.gave_up = true;
                let status = line["apiErrorStatus"].as_u64().and_then(|status| status.try_into().ok());
                let error = line["error"].as_str().unwrap_or_default();
                Some(Meaning::Blocked(fault::fault(error, text_of(&line["message"]), status)))
            }
            // There was nothing to make shorter, or it went wrong: no hook tells.
            "system" | "user" if self.compacting == Some(Compaction::Manual) && is_outcome(line) => {
                self.compacting = None;
                self.busy = false;
                Some(Meaning::Idle(TurnOutcome::Completed))
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
        written_at(line).is_some_and(|at| at < self.settled_at)
    }
}

/// Returns the command that a line tells of: of what the agent does itself, or of what it asks the model.
fn command_in(line: &Value) -> Option<String> {
    let text = line["content"].as_str().or_else(|| line["message"]["content"].as_str())?;
    let is_told = line["subtype"] == "local_command" || line["type"] == "user" && line["isMeta"] != true;
    let within = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner)
    };
    let name = within("command-name").filter(|_| is_told && text.starts_with("<command-"))?;
    Some(format!("{name} {}", within("command-args").unwrap_or_default()).trim_end().to_owned())
}

/// Tells whether a line has what a command printed.
fn is_outcome(line: &Value) -> bool {
    let text = line["content"].as_str().or_else(|| line["message"]["content"].as_str());
    text.is_some_and(|text| text.starts_with("<local-command-std"))
}

/// Tells whether a line has what a hook told an agent that wanted to end its turn.
fn is_sent_back(line: &Value) -> bool {
    line["type"] == "user" && line["isMeta"] == true && text_of(&line["message"]).starts_with(SENT_BACK)
}

/// Tells whether a line is the last that is told of a turn.
fn ends_turn(line: &Value) -> bool {
    match line["type"].as_str() {
        Some("user") => text_of(&line["message"]).starts_with(INTERRUPTED),
        Some("assistant") => line["isApiErrorMessage"] == true,
        Some("system") => line["subtype"] == "turn_duration",
        _ => false,
    }
}

/// Returns when a line was written, in milliseconds since 1970.
fn written_at(line: &Value) -> Option<u64> {
    let time = humantime::parse_rfc3339(line["timestamp"].as_str()?).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}

fn text_of(message: &Value) -> &str {
    match &message["content"] {
        Value::String(text) => text,
        Value::Array(blocks) => blocks.iter().find_map(|block| block["text"].as_str()).unwrap_or_default(),
        _ => "",
    }
}
