use std::path::PathBuf;

use serde_json::{Value, json};

use super::{LineOptions, Lines, Source, Stream};
use crate::claude::args::Format;
use crate::claude::engine::{Asker, Bypass, Effect, Millis};
use crate::claude::face::{Face, Touch};
use crate::claude::ids::{Ids, SessionId};
use crate::claude::permission::PermissionMode;
use crate::claude::rig::{Rig, SESSION};

/// A program at the other end of the stream, in front of an engine.
struct Wire {
    stream: Stream,
    rig: Rig,
}

impl Wire {
    fn new(options: LineOptions) -> Self {
        Self::with(Source::Channel(None), Format::StreamJson, options)
    }

    fn with(source: Source, format: Format, options: LineOptions) -> Self {
        let lines = Lines {
            ids: Ids::seeded(2),
            session: SessionId(SESSION.into()),
            cwd: PathBuf::from("/home/dev/project"),
            model: "claude-opus-4-8[1m]".into(),
            mode: PermissionMode::Default,
            mcp_servers: Vec::new(),
            options,
            agents: Vec::new(),
        };
        let stream = Stream::new(lines, source, format, Bypass::Refused);
        Self { stream, rig: Rig::with(Asker::Channel, "") }
    }

    fn begin(mut self) -> Self {
        self.touch(Touch::Begin);
        self
    }

    fn touch(&mut self, touch: Touch<'_>) {
        for command in self.stream.touch(touch) {
            let effects = self.rig.command(command);
            self.tell(&effects);
        }
    }

    fn tell(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Tell(notice) = effect {
                self.stream.tell(Millis(0), notice);
            }
        }
    }

    fn send(&mut self, line: Value) -> Vec<Value> {
        self.touch(Touch::Input(format!("{line}\n").as_bytes()));
        self.read()
    }

    fn read(&mut self) -> Vec<Value> {
        let out = String::from_utf8(self.stream.draw()).unwrap();
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn user(&mut self, text: &str) -> Vec<Value> {
        self.send(json!({ "type": "user", "message": { "role": "user", "content": text } }))
    }

    fn control(&mut self, request: Value) -> Vec<Value> {
        self.send(json!({ "type": "control_request", "request_id": "r1", "request": request }))
    }

    fn answer(&mut self, asked: &[Value], response: Value) -> Vec<Value> {
        let id = asked.iter().find(|line| line["type"] == "control_request").unwrap()["request_id"].clone();
        let response = json!({ "subtype": "success", "request_id": id, "response": response });
        self.send(json!({ "type": "control_response", "response": response }))
    }
}

/// `type` or `type/subtype` of each line.
fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| match line["subtype"].as_str() {
        Some(subtype) => format!("{}/{subtype}", line["type"].as_str().unwrap()),
        None => line["type"].as_str().unwrap().to_owned(),
    };
    lines.iter().map(kind).collect()
}

#[test]
fn a_turn_is_init_assistant_result() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    let about = wire.control(json!({ "subtype": "initialize", "hooks": null }));
    assert_eq!(about[0]["response"]["request_id"], "r1");
    assert!(about[0]["response"]["response"]["models"].is_array());
    let lines = wire.user("hello");
    assert_eq!(kinds(&lines), ["system/init", "assistant", "result/success"]);
    assert_eq!(lines[1]["message"]["stop_reason"], Value::Null);
    let result = &lines[2];
    assert_eq!(result["result"], "Hello from the mock model.");
    assert_eq!(result["usage"]["output_tokens"], 42);
    assert_eq!(result["total_cost_usd"], 0.011425);
    assert_eq!(result["session_id"], SESSION);
    let again = wire.user("hello");
    assert_eq!(again[2]["usage"]["output_tokens"], 42);
    assert_eq!(again[2]["total_cost_usd"], 0.02285);
}

#[test]
fn a_permission_is_asked_over_the_channel_and_allowed_with_a_changed_input() {
    let mut wire = Wire::new(LineOptions { state_events: true, ..LineOptions::default() }).begin();
    wire.read();
    let asked = wire.user("do [[bash:touch x]]");
    let expected = [
        "system/session_state_changed",
        "system/init",
        "assistant",
        "assistant",
        "control_request",
        "system/session_state_changed",
    ];
    assert_eq!(kinds(&asked), expected);
    let request = &asked[4]["request"];
    assert_eq!((&request["subtype"], &request["tool_name"]), (&json!("can_use_tool"), &json!("Bash")));
    assert_eq!(request["permission_suggestions"].as_array().unwrap().len(), 3);
    assert_eq!(asked[5]["state"], "requires_action");
    let done = wire.answer(&asked, json!({ "behavior": "allow", "updatedInput": { "command": "true" } }));
    let expected =
        ["system/session_state_changed", "user", "assistant", "result/success", "system/session_state_changed"];
    assert_eq!(kinds(&done), expected);
    assert_eq!(done[4]["state"], "idle");
    assert_eq!(done[3]["num_turns"], 2);
}

#[test]
fn a_denial_goes_on_and_a_denial_with_interrupt_does_not() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    let asked = wire.user("do [[bash:touch x]]");
    let done = wire.answer(&asked, json!({ "behavior": "deny", "message": "Not allowed by supervisor" }));
    assert_eq!(kinds(&done), ["user", "assistant", "result/success"]);
    assert_eq!(done[0]["message"]["content"][0]["content"], "Not allowed by supervisor");
    assert_eq!(done[2]["permission_denials"][0]["tool_name"], "Bash");
    let asked = wire.user("do [[bash:touch x]]");
    let done = wire.answer(&asked, json!({ "behavior": "deny", "message": "Stop", "interrupt": true }));
    assert_eq!(kinds(&done), ["user", "user", "result/error_during_execution"]);
    assert_eq!(done[1]["message"]["content"][0]["text"], "[Request interrupted by user for tool use]");
    assert_eq!(done[2]["terminal_reason"], "aborted_tools");
}

#[test]
fn questions_are_answered_in_the_updated_input() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    let asked = wire.user("do [[ask2]]");
    let mut input = asked.last().unwrap()["request"]["input"].clone();
    input["answers"] = json!({ "Which database should we use?": "SQLite", "Which language?": "Rust" });
    let done = wire.answer(&asked, json!({ "behavior": "allow", "updatedInput": input }));
    let content = done[0]["message"]["content"][0]["content"].as_str().unwrap();
    assert!(content.starts_with(
        "Your questions have been answered: \"Which database should we use?\"=\"SQLite\", \"Which language?\"=\"Rust\"."
    ));
}

#[test]
fn an_approved_plan_can_set_the_mode() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    wire.control(json!({ "subtype": "set_permission_mode", "mode": "plan" }));
    let asked = wire.user("do [[plan]]");
    assert_eq!(asked[0]["permissionMode"], "plan");
    let mode = json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" });
    let done = wire.answer(&asked, json!({ "behavior": "allow", "updatedPermissions": [mode] }));
    assert_eq!(kinds(&done), ["system/status", "user", "assistant", "result/success"]);
    assert_eq!(done[0]["permissionMode"], "acceptEdits");
}

#[test]
fn an_interrupt_takes_the_question_back_first() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    let asked = wire.user("do [[bash:touch x]]");
    wire.user("queued while busy");
    let done = wire.control(json!({ "subtype": "interrupt" }));
    let expected = [
        "control_response",
        "control_cancel_request",
        "user",
        "user",
        "result/error_during_execution",
        "system/init",
        "assistant",
        "result/success",
    ];
    assert_eq!(kinds(&done), expected);
    assert_eq!(done[1]["request_id"], asked.last().unwrap()["request_id"]);
}

#[test]
fn an_interrupted_answer_keeps_what_it_had_said() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    wire.user("do [[slow:10]]");
    let effects = wire.rig.pass();
    wire.tell(&effects);
    let done = wire.control(json!({ "subtype": "interrupt" }));
    assert_eq!(kinds(&done), ["control_response", "assistant", "user", "result/error_during_execution"]);
    assert_eq!(done[1]["message"]["content"][0]["text"], "tick 0. ");
    assert_eq!(done[3]["terminal_reason"], "aborted_streaming");
}

#[test]
fn retries_and_errors_are_told() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    let lines = wire.user("[[err:529x1]]");
    assert_eq!(kinds(&lines), ["system/init", "system/api_retry"]);
    assert_eq!((&lines[1]["error_status"], &lines[1]["error"]), (&json!(529), &json!("overloaded")));
    let effects = wire.rig.pass();
    wire.tell(&effects);
    wire.read();
    let lines = wire.user("[[err:401]]");
    assert_eq!(kinds(&lines), ["system/init", "assistant", "result/success"]);
    assert_eq!(lines[1]["error"], "authentication_failed");
    assert_eq!((&lines[2]["is_error"], &lines[2]["api_error_status"]), (&json!(true), &json!(401)));
}

#[test]
fn control_requests_are_answered_or_refused() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    let refused = wire.control(json!({ "subtype": "set_permission_mode", "mode": "bypassPermissions" }));
    assert_eq!(refused[0]["response"]["subtype"], "error");
    let model = wire.control(json!({ "subtype": "set_model", "model": "claude-sonnet-4-5" }));
    assert_eq!(kinds(&model), ["user", "control_response"]);
    assert_eq!(wire.user("hello")[0]["model"], "claude-sonnet-4-5");
    let unknown = wire.control(json!({ "subtype": "bogus_thing" }));
    assert_eq!(unknown[0]["response"]["error"], "Unsupported control request subtype: bogus_thing");
    wire.control(json!({ "subtype": "end_session" }));
    assert_eq!(wire.rig.effects.last(), Some(&Effect::Exit(1)));
}

#[test]
fn the_end_of_the_input_is_the_end() {
    let mut wire = Wire::new(LineOptions::default()).begin();
    wire.touch(Touch::InputEnded);
    assert_eq!(wire.rig.effects.last(), Some(&Effect::Exit(0)));
}

#[test]
fn partial_messages_are_streamed_word_by_word() {
    let mut wire = Wire::new(LineOptions { partial_messages: true, ..LineOptions::default() }).begin();
    let lines = wire.user("[[text:one two]]");
    let words: String = lines
        .iter()
        .filter_map(|line| line["event"]["delta"]["text"].as_str())
        .map(|word| format!("<{word}>"))
        .collect();
    assert_eq!(words, "<one ><two>");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"]["type"].as_str()).collect();
    assert_eq!(events.first(), Some(&"message_start"));
    assert_eq!(events.last(), Some(&"message_stop"));
}

#[test]
fn one_prompt_is_printed_as_text_or_as_its_result() {
    let once = |format| Wire::with(Source::Once("hello".into()), format, LineOptions::default()).begin();
    let mut text = once(Format::Text);
    assert_eq!(text.stream.leave(0), (b"Hello from the mock model.\n".to_vec(), 0));
    let result = once(Format::Json).read();
    assert_eq!(kinds(&result), ["result/success"]);
    let mut failed = Wire::with(Source::Once("[[err:400]]".into()), Format::Text, LineOptions::default()).begin();
    assert_eq!(failed.stream.leave(0), (b"API Error: 400 mock invalid_request_error\n".to_vec(), 1));
}
