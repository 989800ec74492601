//! What the hooks say.

use coop_api::{EvidenceSource, TurnOutcome};
use serde_json::Value;

use super::{ASKING, Claude, Compaction, answer, content};
use crate::driver::Runtime;
use crate::{Meaning, Reach, Signal, StartSource, fault};

impl Claude {
    pub(super) fn observe_hook(&mut self, event: &str, payload: &Value, at: u64) -> Vec<Signal> {
        self.hooked = true;
        let tool = payload["tool_name"].as_str();
        let of_subagent = payload["agent_id"].is_string();
        let detail = match tool {
            Some(tool) => format!("{event} {tool}"),
            None => event.to_owned(),
        };
        let signal = |meaning| Signal::new(EvidenceSource::Hook, detail.clone(), meaning);
        let working = |tool: Option<&str>| signal(Meaning::Working { tool: tool.map(str::to_owned) });
        let mode = if of_subagent { None } else { self.mode_from_name(&payload["permission_mode"]).map(signal) };
        let told = match event {
            "SessionStart" => self.session_started(payload, at),
            "UserPromptSubmit" => {
                self.settled_at = at;
                self.began_at = at;
                self.begin_turn();
                let prompt = payload["prompt"].as_str().map(str::to_owned);
                self.last_prompt = prompt.clone().unwrap_or_default();
                // In the terminal the log tells the message; the protocol has no word for it.
                let said = prompt.clone().filter(|_| self.runtime == Runtime::Pipe).map(content::prompted);
                self.announced = self.runtime == Runtime::Pipe;
                [Meaning::TurnBegan { prompt }].into_iter().chain(said).map(signal).collect()
            }
            "PreToolUse" => {
                self.busy = true;
                let mut signals: Vec<_> = self.tool_requested(payload).map(signal).into_iter().collect();
                signals.push(working(tool.filter(|tool| !ASKING.contains(tool))));
                signals
            }
            "PermissionRequest" => {
                self.asked_at = at;
                let reach = Reach::Hook { suggestions: payload["permission_suggestions"].clone() };
                match self.runtime {
                    Runtime::Pty | Runtime::Server | Runtime::Inproc => {
                        let draft = answer::draft(tool.unwrap_or("?"), &payload["tool_input"], reach);
                        vec![signal(Meaning::Ask(Box::new(draft)))]
                    }
                    // The control protocol asks.
                    Runtime::Pipe => Vec::new(),
                }
            }
            "PostToolUse" | "PostToolUseFailure" => {
                let about = content::ask_about(payload);
                let mut signals = vec![signal(Meaning::AskGone { about })];
                signals.extend(self.tool_finished(payload, event == "PostToolUse").into_iter().map(signal));
                signals.push(working(None));
                signals
            }
            "Stop" if of_subagent || self.compacting == Some(Compaction::Auto) => Vec::new(),
            "Stop" => {
                self.settled_at = at;
                self.unfinished = content::has_background_agents(payload);
                let last_message = payload["last_assistant_message"].as_str().map(str::to_owned);
                // Over pipes the protocol tells what the agent itself says, and in order.
                if let (Some(text), Runtime::Pty) = (&last_message, self.runtime) {
                    self.behind.await_words(None, text);
                    // The first lines of a new log come in any order.
                    if !self.has_logged_prompt {
                        self.behind.await_prompt();
                    }
                }
                vec![signal(Meaning::StopWanted {
                    again: payload["stop_hook_active"].as_bool().unwrap_or(false),
                    last_message,
                    unfinished: self.unfinished,
                })]
            }
            // The log may have told it already.
            "StopFailure" if of_subagent || self.gave_up => Vec::new(),
            "StopFailure" => {
                self.settled_at = at;
                self.busy = false;
                self.gave_up = true;
                let error = payload["error"].as_str().unwrap_or_default();
                let message = payload["last_assistant_message"].as_str().unwrap_or(error);
                self.behind.await_words(None, message);
                vec![signal(Meaning::Blocked(fault::fault(error, message, None)))]
            }
            "SubagentStop" => {
                if let Some(text) = payload["last_assistant_message"].as_str() {
                    self.behind.await_words(payload["agent_id"].as_str(), text);
                }
                Vec::new()
            }
            "PreCompact" => {
                let manual = payload["trigger"].as_str() == Some("manual");
                if manual {
                    // What older commands printed is not the end of this one.
                    self.settled_at = at;
                }
                self.compacting = Some(if manual { Compaction::Manual } else { Compaction::Auto });
                vec![working(Some("compact"))]
            }
            // It waits at its prompt for a while already, and nothing else was heard.
            "Notification" if payload["notification_type"].as_str() == Some("idle_prompt") => {
                let is_news = !self.busy && !self.unfinished && !self.gave_up;
                is_news.then(|| signal(Meaning::Idle(TurnOutcome::Completed))).into_iter().collect()
            }
            _ => Vec::new(),
        };
        mode.into_iter().chain(told).collect()
    }

    fn session_started(&mut self, payload: &Value, at: u64) -> Vec<Signal> {
        let source = match payload["source"].as_str() {
            Some("resume") => StartSource::Resume,
            Some("clear") => StartSource::Clear,
            Some("compact") => StartSource::Compact,
            _ => StartSource::Startup,
        };
        let signal = |meaning| Signal::new(EvidenceSource::Hook, format!("SessionStart {}", source.as_str()), meaning);
        let mut signals = Vec::new();
        if let Some(id) = payload["session_id"].as_str() {
            self.session = Some(id.to_owned());
            let transcript = payload["transcript_path"].as_str().map(str::to_owned);
            signals.push(signal(Meaning::Session { id: id.to_owned(), transcript }));
        }
        signals.push(signal(Meaning::Started(source)));
        self.started = true;
        self.settled_at = at;
        self.has_logged_prompt &= source != StartSource::Clear;
        match (source, self.compacting.take()) {
            // The turn in whose middle it was goes on.
            (StartSource::Compact, Some(Compaction::Auto)) => signals.push(signal(Meaning::Working { tool: None })),
            (StartSource::Compact, _) => {
                self.busy = false;
                signals.push(signal(Meaning::Idle(TurnOutcome::Completed)));
            }
            // Over pipes it is a turn like any other, and the protocol tells its end.
            (StartSource::Clear, _) if self.runtime == Runtime::Pipe => {}
            (StartSource::Clear | StartSource::Resume | StartSource::Startup, _) => {
                self.busy = false;
                self.behind.begin_turn();
                signals.extend(self.begin_idle("it takes what is typed"));
            }
        }
        signals
    }
}
