use std::path::PathBuf;

use serde_json::{Value, json};

use super::{LogBook, LogLine, LogSetup, Opened};
use crate::claude::engine::{Command, Effect, Millis};
use crate::claude::hook::{Decision, HookEvent};
use crate::claude::ids::{Ids, SessionId};
use crate::claude::permission::PermissionMode;
use crate::claude::rig::{Answer, Rig, SESSION};

/// What an engine's doings leave in the log.
fn written(rig: &Rig) -> Vec<LogLine> {
    let mut book = LogBook::new(LogSetup {
        logs: PathBuf::from("/logs"),
        cwd: PathBuf::from("/home/dev/project"),
        entrypoint: "cli",
        model: "claude-opus-4-8[1m]".into(),
        mode: PermissionMode::Default,
        session: SessionId(SESSION.into()),
        opened: Opened::No,
        ids: Ids::seeded(3),
    });
    let mut lines = Vec::new();
    for effect in &rig.effects {
        if let Effect::Tell(notice) = effect {
            lines.extend(book.write(Millis(1_794_722_821_371), notice));
        }
    }
    lines
}

/// The gist of a line: type, subtype, and text, tool or result.
fn gist(line: &Value) -> String {
    let kind = line["type"].as_str().unwrap();
    let content = &line["message"]["content"];
    let detail = match kind {
        "system" => line["subtype"].as_str().unwrap(),
        "permission-mode" => line["permissionMode"].as_str().unwrap(),
        "queue-operation" => line["operation"].as_str().unwrap(),
        "attachment" => line["attachment"]["hookEvent"].as_str().unwrap(),
        _ => [content, &content[0]["text"], &content[0]["name"], &content[0]["content"], &line["mode"]]
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or(""),
    };
    format!("{kind}: {}", detail.chars().take(44).collect::<String>())
}

fn gists(rig: &Rig) -> Vec<String> {
    written(rig).iter().map(|line| gist(&line.value)).collect()
}

fn decide(rig: &mut Rig, decision: Decision) {
    let request = rig.request();
    rig.command(Command::Decide { request, decision });
}

#[test]
fn nothing_is_written_before_the_first_prompt() {
    assert_eq!(written(&Rig::started()), []);
}

#[test]
fn a_turn_with_a_tool_is_written_line_by_line() {
    let mut rig = Rig::started();
    rig.hook(HookEvent::Stop, Answer::Says(""));
    rig.submit("hello [[bash:touch perm.txt]]");
    decide(&mut rig, Decision::ALLOW);
    assert_eq!(
        gists(&rig),
        [
            "mode: normal",
            "permission-mode: default",
            "user: hello [[bash:touch perm.txt]]",
            "assistant: I will call Bash.",
            "assistant: Bash",
            "user: (Bash completed with no output)",
            "assistant: Mock reply after 1 tool result(s).",
            "system: stop_hook_summary",
            "system: turn_duration",
        ]
    );
}

#[test]
fn lines_carry_the_fields_a_reader_needs() {
    let mut rig = Rig::started();
    rig.submit("[[bash:ls]]");
    let lines: Vec<Value> = written(&rig).into_iter().map(|line| line.value).collect();
    let [_, _, prompt, text, call, result, answer, ..] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(prompt["sessionId"], SESSION);
    assert_eq!(prompt["timestamp"], "2026-11-15T06:07:01.371Z");
    assert_eq!(prompt["promptSource"], "typed");
    assert_eq!(prompt["parentUuid"], Value::Null);
    assert_eq!(text["parentUuid"], prompt["uuid"]);
    assert_eq!(text["message"]["id"], call["message"]["id"]);
    assert_eq!(text["message"]["stop_reason"], "tool_use");
    assert_eq!(text["message"]["usage"]["output_tokens"], 42);
    assert_eq!(result["toolUseResult"]["interrupted"], false);
    assert_eq!(result["message"]["content"][0]["tool_use_id"], call["message"]["content"][0]["id"]);
    assert_eq!(result["sourceToolAssistantUUID"], call["uuid"]);
    assert_ne!(answer["message"]["id"], call["message"]["id"]);
    assert_eq!(answer["message"]["stop_reason"], "end_turn");
}

#[test]
fn an_interrupt_is_a_line_and_ends_without_a_duration() {
    let mut rig = Rig::started();
    rig.submit("w [[slow:12]]");
    rig.pass();
    rig.command(Command::Interrupt);
    let gists = gists(&rig);
    assert_eq!(gists[3..], ["assistant: tick 0. ", "user: [Request interrupted by user]"]);
    let interrupted = &written(&rig)[4].value["interruptedMessageId"];
    assert!(interrupted.as_str().unwrap().starts_with("msg_"));
}

#[test]
fn a_rejected_tool_is_told_to_the_model() {
    let mut rig = Rig::started();
    rig.submit("[[bash:touch x]]");
    decide(&mut rig, Decision::interrupt());
    let gists = gists(&rig);
    let expected =
        ["user: The user doesn't want to proceed with this to", "user: [Request interrupted by user for tool use]"];
    assert_eq!(gists[5..], expected.map(|gist| gist.chars().take(50).collect::<String>()));
}

#[test]
fn an_api_error_is_marked() {
    let mut rig = Rig::started();
    rig.submit("[[err:401]]");
    let lines = written(&rig);
    let error = &lines.last().unwrap().value;
    assert_eq!(error["isApiErrorMessage"], true);
    assert_eq!(error["apiErrorStatus"], 401);
    assert_eq!(error["message"]["model"], "<synthetic>");
}

#[test]
fn the_context_of_hooks_is_written_down() {
    let mut rig = Rig::new();
    rig.hook(HookEvent::SessionStart, Answer::Says("be brief"));
    rig.command(Command::Start);
    rig.submit("hello");
    let lines = written(&rig);
    assert_eq!(lines[2].value["attachment"]["content"], json!(["be brief"]));
}

#[test]
fn a_sub_agent_has_a_file_of_its_own() {
    let mut rig = Rig::started();
    rig.submit("[[agent:look]]");
    let lines = written(&rig);
    let own_path = PathBuf::from(format!("/logs/{SESSION}.jsonl"));
    let (own, other): (Vec<&LogLine>, Vec<&LogLine>) = lines.iter().partition(|line| line.path == own_path);
    assert!(own.iter().all(|line| line.value["isSidechain"] != json!(true)));
    assert_eq!(other.len(), 4);
    assert!(other.iter().all(|line| line.value["isSidechain"] == json!(true)));
    assert!(other[0].path.starts_with(format!("/logs/{SESSION}/subagents")));
}

#[test]
fn a_queued_prompt_is_enqueued_and_dequeued() {
    let mut rig = Rig::started();
    rig.submit("[[hang]]");
    rig.submit("next");
    rig.command(Command::Interrupt);
    let gists = gists(&rig);
    let expected = [
        "queue-operation: enqueue",
        "user: [Request interrupted by user]",
        "queue-operation: dequeue",
        "user: next",
        "assistant: Hello from the mock model.",
        "system: turn_duration",
    ];
    assert_eq!(gists[3..], expected);
}
