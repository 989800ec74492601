//! The control protocol over pipes: one JSON object a line, both ways.

use std::time::Duration;

use coop_api::{Configure, EvidenceSource, FaultReport, Retry, TurnOutcome};
use serde_json::{Value, json};

use super::{ASKING, Claude, answer};
use crate::driver::{Expected, Refusal, Step};
use crate::{Meaning, Reach, Signal, fault};

const BEGINS_WITHIN: Duration = Duration::from_secs(20);
const ENDS_WITHIN: Duration = Duration::from_secs(20);
const REPLIES_WITHIN: Duration = Duration::from_secs(20);
/// What the names of our requests begin with whose replies are awaited; a number follows.
const OURS: &str = "coop-request-";
/// How the agent can ask for permission, as its `--help` says. It calls any other mode a success, and stays in the one it
/// has.
const MODES: [&str; 6] = ["acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"];

impl Claude {
    pub(super) fn observe_control(&mut self, message: &Value) -> Vec<Signal> {
        let kind = message["type"].as_str().unwrap_or_default();
        let subtype = message["subtype"].as_str();
        let detail = match subtype {
            Some(subtype) => format!("{kind}/{subtype}"),
            None => kind.to_owned(),
        };
        let signal = |meaning| Signal::new(EvidenceSource::Control, detail.clone(), meaning);
        let meanings = match (kind, subtype) {
            ("system", Some("init")) => {
                let mode = self.mode_from_name(&message["permissionMode"]);
                mode.into_iter().chain(self.turn_init(message)).collect()
            }
            ("system", Some("status")) => self.mode_from_name(&message["permissionMode"]).into_iter().collect(),
            ("system", Some("session_state_changed")) => match message["state"].as_str() {
                Some("running") => {
                    self.busy = true;
                    vec![Meaning::Working { tool: None }]
                }
                // A turn that failed is told by its result; being idle after it says nothing new.
                Some("idle") if !self.busy && !self.unfinished => Vec::new(),
                Some("idle") => {
                    self.unfinished = false;
                    vec![Meaning::Idle(TurnOutcome::Completed)]
                }
                _ => Vec::new(),
            },
            ("system", Some("task_started")) => {
                if let (Some(id), Some(by)) = (message["task_id"].as_str(), message["tool_use_id"].as_str()) {
                    self.told.began(id, by);
                }
                Vec::new()
            }
            ("system", Some("background_tasks_changed")) => {
                let tasks = message["tasks"].as_array().map_or(&[][..], Vec::as_slice);
                self.has_background_agents = tasks.iter().any(|task| task["task_type"] == "local_agent");
                Vec::new()
            }
            ("system", Some("api_retry")) => vec![Meaning::Retrying(retry(message))],
            ("assistant" | "user", _) => {
                let parent = message["parent_tool_use_id"].as_str();
                let subagent = parent.map(|parent| self.told.subagent(parent).to_owned());
                let mut meanings = self.blocks(message, subagent.as_deref());
                // In the background a sub-agent works on when the turn is over.
                if subagent.is_none() || self.busy {
                    meanings.extend(work(&message["message"]["content"][0]));
                }
                meanings
            }
            ("result", _) => vec![self.turn_result(message)],
            ("control_request", _) => self.asked(message).into_iter().collect(),
            ("control_cancel_request", _) => {
                let request = message["request_id"].as_str().unwrap_or_default();
                let was_open = self.asking.remove(request).is_some();
                was_open.then(|| Meaning::RequestGone { request: request.to_owned() }).into_iter().collect()
            }
            ("control_response", _) => self.replied(&message["response"]).into_iter().collect(),
            _ => Vec::new(),
        };
        meanings.into_iter().map(signal).collect()
    }

    fn replied(&mut self, response: &Value) -> Option<Meaning> {
        let request = response["request_id"].as_str()?;
        if request.starts_with(OURS) {
            let why = || response["error"].as_str().unwrap_or("it does not say why").to_owned();
            let error = (response["subtype"] != "success").then(why);
            return Some(Meaning::Replied { request: request.to_owned(), error });
        }
        // What is said before the first turn is the greeting.
        let is_first = !std::mem::replace(&mut self.started, true);
        is_first.then_some(Meaning::Idle(TurnOutcome::Completed))
    }

    /// Returns the requests that change settings, each after the reply to the one before.
    pub(super) fn configure_by_control(&mut self, settings: &Configure) -> Result<Vec<Step>, Refusal> {
        if let Some(mode) = settings.mode.as_deref().filter(|mode| !MODES.contains(mode)) {
            let why = format!("the agent has no mode {mode:?}; it has {}", MODES.join(", "));
            return Err(Refusal::BadRequest(why));
        }
        let mode = settings.mode.as_ref().map(|mode| json!({ "subtype": "set_permission_mode", "mode": mode }));
        let model = settings.model.as_ref().map(|model| json!({ "subtype": "set_model", "model": model }));
        let mut steps = Vec::new();
        for body in mode.into_iter().chain(model) {
            self.requests += 1;
            let id = format!("{OURS}{}", self.requests);
            steps.push(Step::Send(request(&id, body)));
            steps.push(Step::Expect { what: Expected::Reply(id), within: REPLIES_WITHIN, retry: None });
        }
        Ok(steps)
    }

    fn turn_init(&mut self, message: &Value) -> Vec<Meaning> {
        let is_announced = std::mem::take(&mut self.announced) && self.busy;
        if !is_announced {
            self.begin_turn();
        }
        let mut meanings = Vec::new();
        if let Some(id) = message["session_id"].as_str()
            && self.session.as_deref() != Some(id)
        {
            self.session = Some(id.to_owned());
            meanings.push(Meaning::Session { id: id.to_owned(), transcript: None });
        }
        meanings.push(match is_announced {
            true => Meaning::Working { tool: None },
            false => Meaning::TurnBegan { prompt: None },
        });
        meanings
    }

    /// A result says "success" also of an API error; what counts is `is_error` and the status.
    fn turn_result(&mut self, message: &Value) -> Meaning {
        self.busy = false;
        self.announced = false;
        let status = message["api_error_status"].as_u64().and_then(|status| status.try_into().ok());
        // A conversation that cannot be resumed ends in the same subtype as an interrupt, without having begun.
        let interrupted = message["terminal_reason"].as_str().is_some_and(|reason| reason.starts_with("aborted"));
        match (message["is_error"] == true, interrupted) {
            (true, false) => {
                let text = message["result"].as_str().or_else(|| message["errors"][0].as_str());
                let text = text.unwrap_or("the turn failed");
                Meaning::Blocked(fault::fault("", text, status))
            }
            (_, true) => Meaning::Idle(TurnOutcome::Interrupted),
            // Sub-agents go on, and wake the agent when they are done. That it is idle is told then.
            (false, false) if self.has_background_agents => {
                self.unfinished = true;
                Meaning::Working { tool: None }
            }
            (false, false) => Meaning::Idle(TurnOutcome::Completed),
        }
    }

    fn asked(&mut self, message: &Value) -> Option<Meaning> {
        let request = &message["request"];
        if request["subtype"] != "can_use_tool" {
            return None;
        }
        let (id, tool) = (message["request_id"].as_str()?, request["tool_name"].as_str()?);
        let suggestions = request["permission_suggestions"].clone();
        let reach = Reach::Control { request: id.to_owned(), suggestions };
        self.asking.insert(id.to_owned(), (tool.to_owned(), request["input"].clone()));
        let draft = answer::draft(tool, &request["input"], reach);
        Some(Meaning::Ask(Box::new(draft)))
    }
}

/// Returns the work that a block of a message shows: that a tool is used, or that it was.
fn work(block: &Value) -> Option<Meaning> {
    match block["type"].as_str()? {
        "tool_use" => {
            let tool = block["name"].as_str().filter(|tool| !ASKING.contains(tool));
            Some(Meaning::Working { tool: tool.map(str::to_owned) })
        }
        "tool_result" => Some(Meaning::Working { tool: None }),
        _ => None,
    }
}

fn retry(message: &Value) -> FaultReport {
    let status = message["error_status"].as_u64().and_then(|status| status.try_into().ok());
    let error = message["error"].as_str().unwrap_or_default();
    let number = |key: &str| message[key].as_u64().and_then(|number| number.try_into().ok());
    let delay_ms = message["retry_delay_ms"].as_f64().map(|delay| delay as u64);
    let retry = Retry { attempt: number("attempt").unwrap_or(1), max: number("max_retries"), delay_ms };
    FaultReport { fault: fault::fault(error, error, status), retry: Some(retry) }
}

pub(super) fn opening() -> Vec<Value> {
    vec![request("coop-hello", json!({ "subtype": "initialize", "hooks": null }))]
}

pub(super) fn deliver(text: &str) -> Vec<Step> {
    let message = json!({ "type": "user", "message": { "role": "user", "content": text } });
    vec![Step::Send(message), Step::Expect { what: Expected::TurnBegan, within: BEGINS_WITHIN, retry: None }]
}

pub(super) fn interrupt() -> Vec<Step> {
    let idle = Step::Expect { what: Expected::Idle, within: ENDS_WITHIN, retry: None };
    vec![Step::Send(request("coop-interrupt", json!({ "subtype": "interrupt" }))), idle]
}

fn request(id: &str, body: Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": body })
}
