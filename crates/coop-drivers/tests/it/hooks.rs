//! What hooks do to the state: the table and the seven overrides of the orchestrator that follows them, as far as they
//! apply to our states.

use coop_drivers::{Meaning, Runtime};
use serde_json::{Value, json};

use crate::mimic::{Mimic, SESSION, Seen};

/// Returns the state after each hook. They come a second apart.
fn states(mut mimic: Mimic, hooks: &[(&str, Value)]) -> Vec<String> {
    let mut at = 1_000;
    let mut states = Vec::new();
    for (event, payload) in hooks {
        at += 1_000;
        mimic.see(&Seen::Hook { event: (*event).into(), payload: payload.clone() }, at);
        states.push(mimic.describe());
    }
    states
}

fn started() -> (&'static str, Value) {
    ("SessionStart", json!({ "source": "startup", "session_id": SESSION }))
}

fn prompt() -> (&'static str, Value) {
    ("UserPromptSubmit", json!({ "prompt": "go" }))
}

fn bash(event: &'static str, of: &str) -> (&'static str, Value) {
    let agent = if of.is_empty() { Value::Null } else { of.into() };
    (event, json!({ "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "t1", "agent_id": agent }))
}

fn question(event: &'static str) -> (&'static str, Value) {
    let input = json!({ "questions": [{ "question": "Which?", "options": [{ "label": "A" }, { "label": "B" }] }] });
    (event, json!({ "tool_name": "AskUserQuestion", "tool_input": input, "tool_use_id": "q1" }))
}

fn stop() -> (&'static str, Value) {
    ("Stop", json!({ "stop_hook_active": false, "background_tasks": [] }))
}

fn notification(kind: &str) -> (&'static str, Value) {
    ("Notification", json!({ "notification_type": kind }))
}

fn compact(trigger: &str) -> (&'static str, Value) {
    ("PreCompact", json!({ "trigger": trigger }))
}

fn compacted() -> (&'static str, Value) {
    ("SessionStart", json!({ "source": "compact", "session_id": SESSION }))
}

fn background(kind: &str, status: &str) -> (&'static str, Value) {
    ("Stop", json!({ "background_tasks": [{ "id": "b1", "type": kind, "status": status }] }))
}

#[test]
fn each_hook_does_what_the_table_says() {
    let of_agent = |event: &'static str| (event, json!({ "agent_id": "a1", "agent_type": "Explore" }));
    // From idle, and from work.
    let table = [
        (prompt(), "working", "working"),
        (compact("auto"), "working: compact", "working: compact"),
        (bash("PreToolUse", ""), "working: Bash", "working: Bash"),
        (bash("PostToolUse", ""), "working", "working"),
        // A tool that failed was used: there is a turn.
        (bash("PostToolUseFailure", ""), "working", "working"),
        (bash("PermissionRequest", ""), "permission ask-1: ls", "permission ask-1: ls"),
        (stop(), "idle", "idle"),
        (
            ("StopFailure", json!({ "error": "rate_limit", "last_assistant_message": "API Error: 429 slow down" })),
            "blocked: rate_limit Some(429) API Error: 429 slow down",
            "blocked: rate_limit Some(429) API Error: 429 slow down",
        ),
        // What an ask shows on the screen is told by its own hook, and long before.
        (notification("permission_prompt"), "idle", "working"),
        (notification("elicitation_dialog"), "idle", "working"),
        // Nothing says that the turn is over; the log and the status file tell of an interrupt.
        (notification("idle_prompt"), "idle", "working"),
        (notification("auth_success"), "idle", "working"),
        (of_agent("SubagentStart"), "idle", "working"),
        (of_agent("SubagentStop"), "idle", "working"),
        (("TeammateIdle", json!({})), "idle", "working"),
        (("TaskCompleted", json!({})), "idle", "working"),
        (("PostCompact", json!({})), "idle", "working"),
        (("MessageDisplay", json!({ "final": true })), "idle", "working"),
        // The end of the process tells that; a cleared conversation ends a session too.
        (("SessionEnd", json!({ "reason": "clear" })), "idle", "working"),
        (("SomethingNew", json!({ "tool_name": 7 })), "idle", "working"),
    ];
    for (hook, from_idle, from_work) in table {
        let from_idle = [started(), hook.clone()].into_iter().zip(["idle", from_idle]).collect::<Vec<_>>();
        let from_work = [started(), prompt(), hook].into_iter().zip(["idle", "working", from_work]).collect::<Vec<_>>();
        for (hooks, expected) in [from_idle, from_work].map(|case| case.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()) {
            assert_eq!(states(Mimic::ready(), &hooks), expected, "{hooks:?}");
        }
    }
}

#[test]
fn the_end_of_a_sub_agent_is_not_the_end_of_the_turn() {
    let of_agent = |event: &'static str| (event, json!({ "agent_id": "a1", "error": "unknown" }));
    let hooks = [started(), prompt(), of_agent("Stop"), of_agent("StopFailure"), stop()];
    assert_eq!(states(Mimic::ready(), &hooks), ["idle", "working", "working", "working", "idle"]);
}

#[test]
fn who_is_started_with_a_prompt_is_not_idle_first() {
    let mut mimic = Mimic::new(Runtime::Pty, &["claude", "fix it"]);
    mimic.see(&Seen::Screen(Vec::new()), 0);
    let clear = ("SessionStart", json!({ "source": "clear", "session_id": "another" }));
    let failed = ("StopFailure", json!({ "error": "unknown" }));
    let hooks = [started(), prompt(), stop(), prompt(), failed, clear];
    let expected = ["starting", "working", "idle", "working", "blocked: other None unknown", "idle"];
    assert_eq!(states(mimic, &hooks), expected);
}

#[test]
fn nobody_is_idle_before_the_terminal_takes_pastes() {
    let mut mimic = Mimic::new(Runtime::Pty, &["claude"]);
    let (event, payload) = started();
    mimic.see(&Seen::Hook { event: event.into(), payload }, 1);
    assert_eq!(mimic.describe(), "starting");
    mimic.see(&Seen::Screen(Vec::new()), 2);
    assert_eq!(mimic.describe(), "idle");
}

#[test]
fn a_question_is_not_hidden_by_sub_agents_that_work_beside_it() {
    let hooks = [
        started(),
        prompt(),
        question("PreToolUse"),
        question("PermissionRequest"),
        bash("PreToolUse", "a1"),
        bash("PostToolUse", "a1"),
        notification("idle_prompt"),
        question("PostToolUse"),
        stop(),
    ];
    let asked = "question ask-1: Which?";
    let expected = ["idle", "working", "working", asked, asked, asked, asked, "working", "idle"];
    assert_eq!(states(Mimic::ready(), &hooks), expected);
    // So it is with what another sub-agent asks: it comes to light when the first is settled.
    let hooks = [
        started(),
        prompt(),
        question("PermissionRequest"),
        bash("PermissionRequest", "a1"),
        question("PostToolUse"),
        bash("PostToolUse", "a1"),
    ];
    let expected = ["idle", "working", asked, asked, "permission ask-2: ls", "working"];
    assert_eq!(states(Mimic::ready(), &hooks), expected);
}

#[test]
fn a_turn_goes_on_when_its_conversation_was_compacted_by_itself() {
    let hooks = [started(), prompt(), compact("auto"), stop(), compacted(), bash("PreToolUse", ""), stop()];
    let compacting = "working: compact";
    let expected = ["idle", "working", compacting, compacting, "working", "working: Bash", "idle"];
    assert_eq!(states(Mimic::ready(), &hooks), expected);
    // A new message ends it in any case.
    let hooks = [started(), prompt(), compact("auto"), prompt(), stop()];
    assert_eq!(states(Mimic::ready(), &hooks), ["idle", "working", compacting, "working", "idle"]);
}

#[test]
fn a_conversation_that_somebody_had_compacted_is_idle_after_it() {
    let hooks = [started(), compact("manual"), compacted(), compact("manual"), stop()];
    let expected = ["idle", "working: compact", "idle", "working: compact", "idle"];
    assert_eq!(states(Mimic::ready(), &hooks), expected);
}

#[test]
fn a_turn_is_not_over_while_sub_agents_go_on_in_the_background() {
    let hooks = [
        started(),
        prompt(),
        background("subagent", "running"),
        notification("idle_prompt"),
        bash("PreToolUse", "a1"),
        background("subagent", "completed"),
    ];
    let expected = ["idle", "working", "working", "working", "working: Bash", "idle"];
    assert_eq!(states(Mimic::ready(), &hooks), expected);
    // The log and the status file say that it is at its prompt, which is not the question.
    let mut mimic = Mimic::ready();
    for (at, (event, payload)) in (1..).zip([started(), prompt(), background("subagent", "running")]) {
        mimic.see(&Seen::Hook { event: event.into(), payload }, at);
    }
    mimic.see(&Seen::Log(json!({ "type": "system", "subtype": "turn_duration" })), 4);
    mimic.see(&Seen::Status(json!({ "sessionId": SESSION, "status": "idle", "statusUpdatedAt": 5 })), 5);
    assert_eq!(mimic.describe(), "working");
}

/// A server that runs in the background does not keep the agent from taking messages. The orchestrator counts it as
/// work unless its command is marked; coop knows no such mark.
#[test]
fn a_command_in_the_background_does_not_keep_a_turn_open() {
    let hooks = [started(), prompt(), background("shell", "running")];
    assert_eq!(states(Mimic::ready(), &hooks), ["idle", "working", "idle"]);
}

#[test]
fn a_failed_turn_stays_blocked_until_the_next_message() {
    let failed = ("StopFailure", json!({ "error": "unknown", "last_assistant_message": "API Error: 529 no room" }));
    let mut mimic = Mimic::ready();
    for (at, (event, payload)) in (1..).zip([started(), prompt(), failed, notification("idle_prompt")]) {
        mimic.see(&Seen::Hook { event: event.into(), payload }, at);
    }
    mimic.see(&Seen::Log(json!({ "type": "system", "subtype": "turn_duration" })), 5);
    mimic.see(&Seen::Status(json!({ "sessionId": SESSION, "status": "idle", "statusUpdatedAt": 6 })), 6);
    assert_eq!(mimic.describe(), "blocked: overload Some(529) API Error: 529 no room");
    let (event, payload) = prompt();
    mimic.see(&Seen::Hook { event: event.into(), payload }, 7);
    assert_eq!(mimic.describe(), "working");
}

/// A turn of `!cmd` has no other hook than its end. It stays idle, and whoever waits for ends of turns hears of one.
#[test]
fn the_end_of_a_turn_without_a_beginning_is_heard() {
    let mut mimic = Mimic::ready();
    let (event, payload) = started();
    mimic.see(&Seen::Hook { event: event.into(), payload }, 1);
    let (event, payload) = stop();
    let signals = mimic.see(&Seen::Hook { event: event.into(), payload }, 2);
    let meaning = Meaning::StopWanted { again: false, last_message: None, unfinished: false };
    assert_eq!(signals.iter().map(|signal| &signal.meaning).collect::<Vec<_>>(), [&meaning]);
    assert_eq!(mimic.describe(), "idle");
}

/// The file said that the first ask was answered, but was read only when there was a second one.
#[test]
fn an_old_status_does_not_take_back_a_new_ask() {
    let status =
        |status: &str, at: u64| Seen::Status(json!({ "sessionId": SESSION, "status": status, "statusUpdatedAt": at }));
    let mut mimic = Mimic::ready();
    let hook = |(event, payload): (&str, Value)| Seen::Hook { event: event.into(), payload };
    mimic.see(&hook(started()), 10);
    mimic.see(&hook(prompt()), 20);
    mimic.see(&hook(bash("PermissionRequest", "")), 30);
    mimic.see(&status("waiting", 31), 32);
    mimic.see(&hook(bash("PostToolUse", "")), 50);
    mimic.see(&hook(question("PermissionRequest")), 60);
    mimic.see(&status("busy", 45), 61);
    assert_eq!(mimic.describe(), "question ask-2: Which?");
    // One that is newer says that somebody answered at the keyboard.
    mimic.see(&status("waiting", 62), 63);
    mimic.see(&status("busy", 70), 71);
    assert_eq!(mimic.describe(), "working");
}

/// Of two asks over pipes one is taken back: the other is still open.
#[test]
fn a_request_that_is_cancelled_takes_only_itself_back() {
    let request = |id: &str, command: &str| {
        let request = json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": command } });
        Seen::Control(json!({ "type": "control_request", "request_id": id, "request": request }))
    };
    let cancel = |id: &str| Seen::Control(json!({ "type": "control_cancel_request", "request_id": id }));
    let mut mimic = Mimic::new(Runtime::Pipe, &["claude"]);
    mimic.see(&Seen::Control(json!({ "type": "system", "subtype": "init", "session_id": SESSION })), 0);
    mimic.see(&request("r1", "ls"), 0);
    mimic.see(&request("r2", "rm x"), 0);
    mimic.see(&cancel("r0"), 0);
    assert_eq!(mimic.describe(), "permission ask-1: ls");
    mimic.see(&cancel("r1"), 0);
    assert_eq!(mimic.describe(), "permission ask-2: rm x");
    mimic.see(&cancel("r2"), 0);
    assert_eq!(mimic.describe(), "working");
}

/// Over pipes the agent says by itself when it works and when not, also where there is no result.
#[test]
fn state_events_are_followed_over_pipes() {
    let changed =
        |state: &str| Seen::Control(json!({ "type": "system", "subtype": "session_state_changed", "state": state }));
    let result = |fields: Value| {
        let mut result = json!({ "type": "result", "subtype": "success", "is_error": false });
        result.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        Seen::Control(result)
    };
    let mut mimic = Mimic::new(Runtime::Pipe, &["claude"]);
    let mut after = |seen: Seen| {
        mimic.see(&seen, 0);
        mimic.describe()
    };
    assert_eq!(after(changed("running")), "working");
    assert_eq!(after(changed("requires_action")), "working");
    assert_eq!(after(changed("idle")), "idle");
    assert_eq!(after(changed("running")), "working");
    let failed = json!({ "is_error": true, "api_error_status": 401, "result": "no" });
    assert_eq!(after(result(failed)), "blocked: auth Some(401) no");
    assert_eq!(after(changed("idle")), "blocked: auth Some(401) no");
    let aborted = json!({ "is_error": true, "subtype": "error_during_execution", "terminal_reason": "aborted_tools" });
    assert_eq!(after(result(aborted)), "idle");
}

/// Returns what a meaning is called, for each that the driver told.
fn told(mimic: &mut Mimic, seen: &Seen, at: u64) -> Vec<&'static str> {
    mimic.see(seen, at).iter().map(|signal| signal.meaning.name()).collect()
}

fn log(line: Value) -> Seen {
    Seen::Log(line)
}

fn hook((event, payload): (&str, Value)) -> Seen {
    Seen::Hook { event: event.into(), payload }
}

/// The hook and the log both tell of it, in any order.
#[test]
fn a_failure_is_told_once_whoever_is_first() {
    let failure = "API Error: 401 no";
    let hooked = || hook(("StopFailure", json!({ "error": "auth", "last_assistant_message": failure })));
    let content = json!([{ "type": "text", "text": failure }]);
    let line = json!({ "type": "assistant", "isApiErrorMessage": true, "apiErrorStatus": 401,
        "message": { "role": "assistant", "model": "<synthetic>", "id": "m", "content": content } });
    let mut first = Mimic::ready();
    first.see(&hook(prompt()), 1_000);
    assert_eq!(told(&mut first, &hooked(), 2_000), ["blocked"]);
    assert_eq!(told(&mut first, &log(line.clone()), 3_000), ["message"]);
    let mut last = Mimic::ready();
    last.see(&hook(prompt()), 1_000);
    assert_eq!(told(&mut last, &log(line), 2_000), ["message", "blocked"]);
    assert_eq!(told(&mut last, &hooked(), 3_000), [""; 0]);
}

/// The log is written when the agent has time, and a new one not even in order.
#[test]
fn a_turn_is_behind_until_the_log_has_told_what_was_said_last() {
    let stop = || hook(("Stop", json!({ "last_assistant_message": "done" })));
    let said = |text: &str| {
        let content = json!([{ "type": "text", "text": text }]);
        log(json!({ "type": "assistant", "message": { "role": "assistant", "id": "m", "content": content } }))
    };
    let mut late = Mimic::ready();
    late.see(&hook(prompt()), 1_000);
    late.see(&stop(), 2_000);
    assert!(late.driver.is_behind());
    late.see(&log(json!({ "type": "system", "subtype": "turn_duration" })), 2_001);
    late.see(&said("on it"), 2_002);
    assert!(late.driver.is_behind());
    late.see(&said("done"), 2_003);
    assert!(late.driver.is_behind(), "the message of the person is missing");
    let asked = || log(json!({ "type": "user", "message": { "role": "user", "content": "go" } }));
    late.see(&asked(), 2_004);
    assert!(!late.driver.is_behind());
    let mut early = Mimic::ready();
    early.see(&hook(prompt()), 1_000);
    early.see(&asked(), 1_400);
    early.see(&said("done"), 1_500);
    early.see(&stop(), 2_000);
    assert!(!early.driver.is_behind());
    // What it said in the turn before does not count.
    early.see(&hook(prompt()), 3_000);
    early.see(&stop(), 4_000);
    assert!(early.driver.is_behind());
}
