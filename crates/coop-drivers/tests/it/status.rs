//! What the status file and the log say beside the hooks: who tells that a turn is over, and how it ended.

use coop_api::TurnOutcome;
use coop_drivers::{Meaning, Runtime, Signal};
use serde_json::{Value, json};

use crate::mimic::{Mimic, SESSION, Seen};

fn hook(event: &str, payload: Value) -> Seen {
    Seen::Hook { event: event.into(), payload }
}

fn status(status: &str, at: u64) -> Seen {
    Seen::Status(json!({ "sessionId": SESSION, "status": status, "statusUpdatedAt": at }))
}

/// Returns a line of the log that was written at this time, in seconds since 1970.
fn line(mut line: Value, at: u64) -> Seen {
    line["timestamp"] = format!("1970-01-01T00:00:{at:02}Z").into();
    Seen::Log(line)
}

/// Returns one in the middle of a turn, whose status file is there. It is the second 20.
fn working() -> Mimic {
    let mut mimic = Mimic::ready();
    mimic.see(&hook("SessionStart", json!({ "source": "startup", "session_id": SESSION })), 1_000);
    mimic.see(&status("idle", 2_000), 2_000);
    mimic.see(&hook("UserPromptSubmit", json!({ "prompt": "go" })), 10_000);
    mimic.see(&status("busy", 11_000), 11_000);
    mimic
}

fn outcome(signals: &[Signal]) -> Option<TurnOutcome> {
    signals.iter().find_map(|signal| match signal.meaning {
        Meaning::Idle(outcome) => Some(outcome),
        _ => None,
    })
}

/// Ours is not the only hook: the agent was said to be idle, while another one sent it back and it worked on.
#[test]
fn a_turn_is_over_when_all_hooks_have_let_it_end() {
    let mut mimic = working();
    mimic.see(&hook("Stop", json!({})), 20_000);
    assert_eq!(mimic.describe(), "working");
    let feedback = json!({ "type": "user", "isMeta": true, "message": { "content": "Stop hook feedback:\nmore" } });
    mimic.see(&line(feedback, 21), 21_000);
    assert_eq!(mimic.describe(), "working");
    mimic.see(&hook("Stop", json!({ "stop_hook_active": true })), 30_000);
    assert_eq!(mimic.describe(), "working");
    assert_eq!(outcome(&mimic.see(&status("idle", 31_000), 31_000)), Some(TurnOutcome::Completed));
    assert_eq!(mimic.describe(), "idle");
    // The log may be first.
    let mut mimic = working();
    mimic.see(&hook("Stop", json!({})), 20_000);
    mimic.see(&line(json!({ "type": "system", "subtype": "turn_duration" }), 21), 21_000);
    assert_eq!(mimic.describe(), "idle");
}

/// The file may be read late: all that it told was older than the hooks, and a hook of the user's own sent the agent back.
#[test]
fn a_file_that_is_read_late_still_tells_the_end() {
    let mut mimic = Mimic::ready();
    mimic.see(&hook("SessionStart", json!({ "source": "startup", "session_id": SESSION })), 1_000);
    mimic.see(&hook("UserPromptSubmit", json!({ "prompt": "go" })), 10_000);
    mimic.see(&status("busy", 9_990), 15_000);
    mimic.see(&hook("Stop", json!({})), 20_000);
    assert_eq!(mimic.describe(), "working");
    mimic.see(&hook("Stop", json!({ "stop_hook_active": true })), 30_000);
    assert_eq!(outcome(&mimic.see(&status("idle", 31_000), 31_000)), Some(TurnOutcome::Completed));
    assert_eq!(mimic.describe(), "idle");
}

#[test]
fn an_old_idleness_does_not_take_back_a_new_ask() {
    let mut mimic = working();
    mimic.see(&hook("Stop", json!({})), 20_000);
    mimic.see(&hook("PermissionRequest", json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } })), 22_000);
    mimic.see(&status("idle", 21_000), 22_100);
    assert_eq!(mimic.describe(), "permission ask-1: ls");
    mimic.see(&status("idle", 23_000), 23_000);
    assert_eq!(mimic.describe(), "idle");
}

/// What is run with `!` may be over before the status file has told of it.
#[test]
fn where_no_work_was_told_its_end_is_that_of_the_hook() {
    let mut mimic = working();
    mimic.see(&hook("Stop", json!({})), 20_000);
    mimic.see(&status("idle", 21_000), 21_000);
    mimic.see(&hook("PreToolUse", json!({ "tool_name": "Bash" })), 30_000);
    assert_eq!(mimic.describe(), "working: Bash");
    mimic.see(&hook("Stop", json!({})), 31_000);
    assert_eq!(mimic.describe(), "idle");
}

#[test]
fn who_is_sent_back_and_then_interrupted_was_interrupted() {
    let mut mimic = working();
    mimic.see(&hook("Stop", json!({})), 20_000);
    let feedback = json!({ "type": "user", "isMeta": true, "message": { "content": "Stop hook feedback:\nmore" } });
    mimic.see(&line(feedback, 21), 21_000);
    assert_eq!(outcome(&mimic.see(&status("idle", 31_000), 31_000)), Some(TurnOutcome::Interrupted));
    // So it is with the gate.
    let mut mimic = working();
    mimic.holds = true;
    mimic.see(&hook("Stop", json!({})), 20_000);
    assert_eq!(outcome(&mimic.see(&status("idle", 31_000), 31_000)), Some(TurnOutcome::Interrupted));
}

/// The error was written before the status, and read after it: it was taken for old, and the turn for interrupted.
#[test]
fn why_a_turn_failed_is_news_after_the_status_file_told_that_it_is_over() {
    let error = json!({ "type": "assistant", "isApiErrorMessage": true, "error": "authentication_failed",
                        "apiErrorStatus": 401, "message": { "role": "assistant", "content": "API Error: 401 no" } });
    let mut mimic = working();
    mimic.see(&status("idle", 21_500), 21_500);
    mimic.see(&line(error.clone(), 21), 21_600);
    assert_eq!(mimic.describe(), "blocked: auth Some(401) API Error: 401 no");
    // But not after the next message.
    let mut mimic = working();
    mimic.see(&status("idle", 21_500), 21_500);
    mimic.see(&hook("UserPromptSubmit", json!({ "prompt": "on" })), 30_000);
    mimic.see(&line(error, 21), 30_100);
    assert_eq!(mimic.describe(), "working");
}

/// A status that says nothing new made the log's lines old that were written just before it.
#[test]
fn a_status_that_is_not_believed_does_not_make_the_log_old() {
    let mut mimic = working();
    let tasks = json!([{ "id": "b1", "type": "subagent", "status": "running" }]);
    mimic.see(&hook("Stop", json!({ "background_tasks": tasks })), 20_000);
    mimic.see(&status("idle", 25_000), 25_000);
    assert_eq!(mimic.describe(), "working");
    let interrupted = json!({ "type": "user", "message": { "content": [
        { "type": "text", "text": "[Request interrupted by user]" }] } });
    mimic.see(&line(interrupted, 24), 25_100);
    assert_eq!(mimic.describe(), "idle");
}

#[test]
fn sub_agents_that_failed_or_were_ended_do_not_go_on() {
    for (state, expected) in [("running", "working"), ("failed", "idle"), ("killed", "idle"), ("completed", "idle")] {
        let mut mimic = working();
        let tasks = json!([{ "id": "b1", "type": "subagent", "status": state }]);
        mimic.see(&hook("Stop", json!({ "background_tasks": tasks })), 20_000);
        mimic.see(&status("idle", 21_000), 21_000);
        assert_eq!(mimic.describe(), expected, "{state}");
    }
}

/// The status file says `idle` before the first prompt of the command line is taken.
#[test]
fn who_is_started_with_a_prompt_is_not_idle_before_it() {
    let mut mimic = Mimic::new(Runtime::Pty, &["claude", "--bare", "fix it"]);
    mimic.see(&Seen::Screen(Vec::new()), 0);
    mimic.see(&status("idle", 1_000), 1_000);
    assert_eq!(mimic.describe(), "starting");
    mimic.see(&status("busy", 2_000), 2_000);
    mimic.see(&status("idle", 3_000), 3_000);
    assert_eq!(mimic.describe(), "idle");
}

/// Hooks may be switched off where nobody looks: in the settings of an organisation, say.
#[test]
fn who_has_worked_without_a_hook_has_none() {
    let mut mimic = Mimic::ready();
    mimic.see(&status("idle", 1_000), 1_000);
    assert_eq!(mimic.describe(), "starting", "a hook may come yet");
    mimic.see(&status("busy", 2_000), 2_000);
    mimic.see(&status("idle", 3_000), 3_000);
    assert_eq!(mimic.describe(), "idle");
}

/// Agents keep their files in one folder.
#[test]
fn a_status_file_of_another_conversation_is_not_its_own() {
    let mut mimic = working();
    let file = |session: &str| json!({ "sessionId": session, "pid": 7, "status": "idle", "statusUpdatedAt": 12_000 });
    mimic.see(&Seen::Status(file("another")), 12_000);
    assert_eq!(mimic.describe(), "working");
    assert!(mimic.driver.owns_status(&file(SESSION)) && !mimic.driver.owns_status(&file("another")));
    assert!(!mimic.driver.owns_status(&json!({})));
}
