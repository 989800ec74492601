//! What the hooks say.

use coop_api::EvidenceSource;
use serde_json::Value;

use super::ask::Notified;
use super::content::written_at;
use super::{Gemini, setup};
use crate::{Meaning, Signal, StartSource};

/// Tools whose use is an ask and not work.
const ASKING: [&str; 2] = ["ask_user", "exit_plan_mode"];
/// What a turn answered that failed or was stopped; the log says why, or the title that it is over.
const NO_ANSWER: &str = "[no response text]";

impl Gemini {
    pub(super) fn observe_hook(&mut self, event: &str, payload: &Value, at: u64) -> Vec<Signal> {
        self.hooked = true;
        let tool = payload["tool_name"].as_str();
        let detail = match tool.or_else(|| payload["notification_type"].as_str()) {
            Some(about) => format!("{event} {about}"),
            None => event.to_owned(),
        };
        let signal = |meaning| Signal::new(EvidenceSource::Hook, detail.clone(), meaning);
        let working = |tool: Option<&str>| signal(Meaning::Working { tool: tool.map(str::to_owned) });
        match event {
            "SessionStart" => self.session_started(payload),
            "BeforeAgent" => {
                let prompt = payload["prompt"].as_str().unwrap_or_default();
                self.begin_turn(written_at(payload).unwrap_or(at), prompt);
                // What it is sent back with comes as a prompt too, and is none.
                if self.sent_back.take_if(|reason| reason.trim() == prompt.trim()).is_some() {
                    return vec![working(None)];
                }
                vec![signal(Meaning::TurnBegan { prompt: Some(prompt.to_owned()) })]
            }
            "BeforeTool" => {
                self.worked_at.get_or_insert(at);
                let requested = self.calls.requested(payload);
                vec![signal(requested), working(tool.filter(|tool| !ASKING.contains(tool)))]
            }
            "Notification" if payload["notification_type"] == "ToolPermission" => {
                let call = self.calls.meant(&payload["details"]);
                let notified = call.and_then(|(tool, input)| Notified::new(tool, input, &payload["details"]));
                if let Some(notified) = notified {
                    self.remember_notified(notified);
                }
                Vec::new()
            }
            "AfterTool" => {
                self.worked_at.get_or_insert(at);
                let about = Some((tool.unwrap_or_default().to_owned(), payload["tool_input"].clone()));
                let is_asked = self.asked.as_ref().is_some_and(|ask| {
                    about.as_ref().is_some_and(|(tool, input)| {
                        ask.tool.as_ref() == Some(tool) && ask.input.as_ref() == Some(input)
                    })
                });
                let mut signals = Vec::new();
                if is_asked {
                    self.asked = None;
                    signals.push(signal(Meaning::AskGone { about }));
                }
                signals.extend(self.calls.finished(payload).into_iter().map(signal));
                signals.push(working(None));
                signals
            }
            // What was cancelled has no end of its own, and the gate has no say in it.
            "AfterAgent" if self.busy && payload["prompt_response"] != NO_ANSWER => {
                vec![signal(Meaning::StopWanted {
                    again: payload["stop_hook_active"].as_bool().unwrap_or(false),
                    // What the hook is told of the answer is garbled; the log has it.
                    last_message: None,
                    unfinished: false,
                })]
            }
            _ => Vec::new(),
        }
    }

    fn session_started(&mut self, payload: &Value) -> Vec<Signal> {
        let source = match payload["source"].as_str() {
            Some("resume") => StartSource::Resume,
            Some("clear") => StartSource::Clear,
            _ => StartSource::Startup,
        };
        let signal = |meaning| Signal::new(EvidenceSource::Hook, format!("SessionStart {}", source.as_str()), meaning);
        let mut signals = Vec::new();
        if let Some(id) = payload["session_id"].as_str() {
            // The log it names is not the one it goes on with when it resumes.
            let folder = payload["transcript_path"].as_str().and_then(|path| Some(path.rsplit_once('/')?.0));
            let transcript = folder.map(|folder| setup::log_path(folder, id));
            signals.push(signal(Meaning::Session { id: id.to_owned(), transcript }));
        }
        signals.push(signal(Meaning::Started(source)));
        // What is resumed is read after this; the log says when that is done.
        self.started |= source != StartSource::Resume;
        signals.extend(self.begin_idle());
        signals
    }
}
