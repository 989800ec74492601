//! What a shim's events mean to a fleet: inputs for the engine, and the same in coop's own words.

use std::collections::VecDeque;

use coop_api::{
    AgentId, AgentState, Artifact, Ask, AskChange, AskChannel, AskId, AskKind, AskOption, Epoch, Event, EventBody,
    Fault, FaultKind, FaultReport, Lifecycle, Message, Offset, OptionKind, Role, Seq, ToolPhase, ToolUse, Turn,
    TurnOutcome,
};
use serde_json::Value;

use super::frame::Frame;
use crate::Fact;
use crate::engine::Input;

/// How far an agent is, as its events tell it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    asks: VecDeque<Ask>,
    is_working: bool,
    last_message: Option<String>,
    fault: Option<Fault>,
    since: String,
}

impl Story {
    /// Returns what the agent asks.
    pub(crate) fn asks(&self) -> &VecDeque<Ask> {
        &self.asks
    }

    /// Returns when the agent last began something else.
    pub(crate) fn since(&self) -> &str {
        &self.since
    }

    pub(crate) fn last_message(&self) -> Option<String> {
        self.last_message.clone()
    }

    /// Forgets an ask that was answered; tells whether it was open.
    pub(crate) fn close(&mut self, ask: &AskId) -> bool {
        let before = self.asks.len();
        self.asks.retain(|open| open.id != *ask);
        self.asks.len() < before
    }

    /// Forgets an ask about a tool that was then used or denied. Of what is heard again, nobody says what was answered.
    pub(crate) fn close_used(&mut self, frame: &Frame) {
        let is_used = frame.text("type") == "tool_call" && frame.text("phase") != "requested";
        let tool = Some(frame.text("toolName"));
        if let Some(at) = self.asks.iter().position(|ask| is_used && ask.tool.as_deref() == tool) {
            self.asks.remove(at);
        }
    }

    /// Returns the agent's state, given what the shim says it is.
    pub(crate) fn state(&self, status: &str) -> AgentState {
        match (status, self.asks.front()) {
            ("running", _) => AgentState::Working { tool: None },
            ("waiting_on_human", Some(ask)) => AgentState::Waiting { ask: ask.id.clone(), kind: ask.kind },
            // A shim whose run is over, or had none yet, waits for a task.
            ("idle" | "completed", _) => AgentState::Idle,
            ("error", _) => {
                AgentState::Blocked { fault: self.fault.clone().unwrap_or_else(|| fault("it does not say why")) }
            }
            // It waits for an answer to what we have not heard, or is paused: nothing that we have a word for.
            _ => AgentState::Unknown,
        }
    }

    /// Takes an event in, and returns what there is to tell of it. The last has its number.
    pub(crate) fn hear(&mut self, agent: &AgentId, sidecar: &str, frame: &Frame, seq: Seq, run: u64) -> Vec<Fact> {
        let plain = |input: Input| Fact { agent: agent.clone(), told: None, input: Some(input), event: None };
        let mut facts = Vec::new();
        let ends = ends(frame);
        // What a run leaves open nobody waits for any more.
        if ends {
            facts.extend(self.asks.drain(..).map(|ask| plain(Input::AskClosed { ask: ask.id })));
        }
        let was_working = std::mem::replace(&mut self.is_working, !ends && self.asks.is_empty());
        let event = self.body(frame);
        let input = self.input(frame).or_else(|| (self.is_working && !was_working).then_some(Input::Working));
        if input.is_some() {
            self.since.clone_from(&frame.at);
        }
        if frame.text("type") == "lifecycle" && matches!(frame.text("action"), "started" | "resumed") {
            let session = EventBody::Lifecycle(Lifecycle::Session { id: frame.run.clone() });
            let event = Some(Box::new(told(agent, frame, seq, run, session)));
            // By it the fleet knows that there is something to go on with; what that is, is kept beside.
            facts.push(Fact { agent: agent.clone(), told: None, input: None, event });
        }
        let event = event.map(|body| Box::new(told(agent, frame, seq, run, body)));
        facts.push(Fact { agent: agent.clone(), told: Some((sidecar.to_owned(), seq)), input, event });
        facts
    }

    fn input(&mut self, frame: &Frame) -> Option<Input> {
        match (frame.text("type"), frame.text("outcome"), frame.text("action")) {
            ("decision", ..) => {
                let ask = ask(frame);
                self.asks.push_back(ask.clone());
                self.is_working = false;
                Some(Input::Prompt { ask: Box::new(ask) })
            }
            ("completion", "success" | "partial", _) => {
                self.last_message = Some(frame.text("summary").to_owned());
                Some(Input::Idle { last_message: self.last_message.clone() })
            }
            ("completion", ..) => {
                let why = [frame.text("reason"), frame.text("summary")].into_iter().find(|text| !text.is_empty());
                let fault = self.fault.clone().unwrap_or_else(|| fault(why.unwrap_or("it does not say why")));
                self.fault = Some(fault.clone());
                Some(Input::Failed { fault })
            }
            ("lifecycle", _, "crashed" | "killed") => Some(Input::Gone { code: None, signal: None }),
            ("lifecycle", _, "paused") => Some(Input::Interrupted),
            ("lifecycle", _, "started" | "resumed") => {
                self.fault = None;
                Some(Input::Working)
            }
            ("error", ..) => {
                self.fault = Some(of_error(frame));
                None
            }
            ("status", ..) => {
                self.last_message = Some(frame.text("message").to_owned());
                None
            }
            _ => None,
        }
    }

    fn body(&self, frame: &Frame) -> Option<EventBody> {
        let whole = |key: &str| frame.event.get(key).and_then(Value::as_u64);
        Some(match frame.text("type") {
            "status" => EventBody::Message(Message {
                role: Role::Assistant,
                text: frame.text("message").to_owned(),
                id: None,
                subagent: None,
            }),
            "tool_call" => EventBody::Tool(ToolUse {
                id: frame.text("toolCallId").to_owned(),
                tool: frame.text("toolName").to_owned(),
                phase: match frame.text("phase") {
                    "requested" => ToolPhase::Requested,
                    "running" => ToolPhase::Running,
                    "completed" => ToolPhase::Completed,
                    _ => ToolPhase::Failed,
                },
                input: frame.event.get("input").cloned(),
                output: frame.event.get("output").cloned(),
                duration_ms: whole("durationMs"),
                subagent: None,
            }),
            "decision" => EventBody::Ask(AskChange::Opened { ask: Box::new(ask(frame)) }),
            "artifact" => {
                let path = frame.event.get("provenance").and_then(|found| found["sourcePath"].as_str());
                EventBody::Artifact(Artifact {
                    path: path.unwrap_or_else(|| frame.text("name")).to_owned(),
                    artifact_kind: frame.text("kind").to_owned(),
                    tool: String::new(),
                })
            }
            "error" => EventBody::Fault(FaultReport { fault: of_error(frame), retry: None }),
            "completion" => EventBody::Turn(Turn::Ended {
                outcome: match frame.text("outcome") {
                    "success" | "partial" => TurnOutcome::Completed,
                    _ => TurnOutcome::Failed,
                },
            }),
            "lifecycle" => match frame.text("action") {
                "started" | "resumed" => EventBody::Turn(Turn::Began { prompt: None }),
                "paused" => EventBody::Turn(Turn::Ended { outcome: TurnOutcome::Interrupted }),
                "crashed" | "killed" => EventBody::Lifecycle(Lifecycle::Exited { code: None, signal: None }),
                _ => return None,
            },
            _ => return None,
        })
    }
}

fn told(agent: &AgentId, frame: &Frame, seq: Seq, run: u64, body: EventBody) -> Event {
    let (id, ts, agent) = (frame.id.clone(), frame.at.clone(), agent.clone());
    Event { seq, id, ts, agent, run: Epoch(run), offset: Offset(0), body }
}

/// Tells whether nothing of the run comes after this.
pub(crate) fn ends(frame: &Frame) -> bool {
    frame.text("type") == "completion"
        || frame.text("type") == "lifecycle" && matches!(frame.text("action"), "paused" | "killed" | "crashed")
}

fn fault(message: &str) -> Fault {
    Fault { kind: FaultKind::Other, message: message.to_owned(), status: None, until: None }
}

fn of_error(frame: &Frame) -> Fault {
    let status = frame.text("errorCode").parse().ok();
    let kind = match (frame.text("category"), status) {
        (_, Some(401 | 403)) => FaultKind::Auth,
        (_, Some(429)) => FaultKind::RateLimit,
        (_, Some(503 | 529)) => FaultKind::Overload,
        ("model", _) => FaultKind::Request,
        _ => FaultKind::Other,
    };
    Fault { kind, status, ..fault(frame.text("message")) }
}

/// Returns a decision as what it is to us: an ask.
fn ask(frame: &Frame) -> Ask {
    let option =
        |id: &str, label: &str, kind| AskOption { id: id.to_owned(), label: label.to_owned(), description: None, kind };
    let is_tool = frame.text("subtype") == "tool_approval";
    let options = match frame.event.get("options").and_then(Value::as_array) {
        Some(options) if !is_tool => {
            let text = |option: &Value, key: &str| option[key].as_str().unwrap_or_default().to_owned();
            let of = |found: &Value| AskOption {
                description: Some(text(found, "description")).filter(|text| !text.is_empty()),
                ..option(&text(found, "id"), &text(found, "label"), OptionKind::Choice)
            };
            options.iter().map(of).collect()
        }
        _ => vec![
            option("approve", "Approve", OptionKind::AllowOnce),
            option("always", "Approve for the rest of the run", OptionKind::AllowAlways),
            option("reject", "Reject", OptionKind::Reject),
        ],
    };
    let args = frame.event.get("toolArgs");
    let command = args.and_then(|args| args["command"].as_str().or_else(|| args["file_path"].as_str()));
    let about = if is_tool { command.unwrap_or_else(|| frame.text("toolName")) } else { frame.text("title") };
    Ask {
        id: AskId(frame.text("decisionId").to_owned()),
        kind: if is_tool { AskKind::Permission } else { AskKind::Question },
        tool: is_tool.then(|| frame.text("toolName").to_owned()),
        input: args.cloned(),
        preview: coop_api::preview(about, args.unwrap_or(&Value::Null)),
        questions: vec![],
        options,
        opened: frame.at.clone(),
        channel: AskChannel::Structured,
        screen_lines: vec![],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::frame::tests::frame;
    use super::*;

    fn hear(story: &mut Story, sequence: u64, event: Value) -> Vec<Option<Input>> {
        let frame = Frame::read(&frame("r", sequence, event).to_string()).expect("an event");
        let facts = story.hear(&AgentId("a1".to_owned()), "s", &frame, Seq(sequence), 1);
        assert_eq!(facts.last().and_then(|fact| fact.told.clone()), Some(("s".to_owned(), Seq(sequence))));
        facts.into_iter().map(|fact| fact.input).collect()
    }

    fn decision(id: &str) -> Value {
        json!({ "type": "decision", "subtype": "tool_approval", "decisionId": id, "toolName": "Bash",
                "toolArgs": { "command": "ls" } })
    }

    fn completion(outcome: &str) -> Value {
        json!({ "type": "completion", "summary": "Done.", "artifactsProduced": [], "decisionsNeeded": [],
                "outcome": outcome })
    }

    #[test]
    fn a_run_is_work_asks_and_an_end() {
        let mut story = Story::default();
        let started = hear(&mut story, 1, json!({ "type": "lifecycle", "action": "started" }));
        assert_eq!(started, [None, Some(Input::Working)], "first, that there is a conversation");
        assert_eq!(hear(&mut story, 2, json!({ "type": "status", "message": "m" })), [None]);
        let asked = hear(&mut story, 3, decision("d"));
        assert!(matches!(&asked[..], [Some(Input::Prompt { ask })] if ask.preview == "ls"), "{asked:?}");
        let asks = AgentState::Waiting { ask: AskId("d".to_owned()), kind: AskKind::Permission };
        assert_eq!(story.state("waiting_on_human"), asks);
        assert!(story.close(&AskId("d".to_owned())) && !story.close(&AskId("d".to_owned())));
        assert_eq!(story.state("waiting_on_human"), AgentState::Unknown, "what it asks was not heard");
        let running = json!({ "type": "tool_call", "toolCallId": "t", "toolName": "Bash", "phase": "running",
                              "approved": true });
        assert_eq!(hear(&mut story, 4, running), [Some(Input::Working)], "it goes on");
        let idle = Input::Idle { last_message: Some("Done.".to_owned()) };
        assert_eq!(hear(&mut story, 5, completion("success")), [Some(idle)]);
    }

    #[test]
    fn what_is_heard_again_leaves_open_what_is_open() {
        let mut story = Story::default();
        let mut again = |event: Value| {
            hear(&mut story, 1, event.clone());
            story.close_used(&Frame::read(&frame("r", 1, event).to_string()).expect("an event"));
            story.asks().iter().map(|ask| ask.id.0.clone()).collect::<Vec<_>>()
        };
        assert_eq!(again(decision("first")), ["first"]);
        let used = |phase: &str| json!({ "type": "tool_call", "toolCallId": "t", "toolName": "Bash", "phase": phase, "approved": true });
        assert_eq!(again(used("requested")), ["first"]);
        assert!(again(used("running")).is_empty());
        assert_eq!(again(decision("second")), ["second"]);
    }

    #[test]
    fn an_end_closes_what_was_asked_and_says_what_went_wrong() {
        let mut story = Story::default();
        hear(&mut story, 1, decision("d"));
        let error = json!({ "type": "error", "severity": "high", "message": "no key", "recoverable": false,
                            "category": "provider", "errorCode": "401" });
        hear(&mut story, 2, error);
        let told = hear(&mut story, 3, completion("abandoned"));
        let failed = Fault { kind: FaultKind::Auth, message: "no key".to_owned(), status: Some(401), until: None };
        let closed = Input::AskClosed { ask: AskId("d".to_owned()) };
        assert_eq!(told, [Some(closed), Some(Input::Failed { fault: failed.clone() })]);
        assert_eq!(story.state("error"), AgentState::Blocked { fault: failed });
        for (action, expected) in
            [("crashed", Input::Gone { code: None, signal: None }), ("paused", Input::Interrupted)]
        {
            let told = hear(&mut story, 4, json!({ "type": "lifecycle", "action": action }));
            assert_eq!(told, [Some(expected)]);
        }
    }
}
