use std::fs;

use serde_json::json;

use super::world::{Held, Home, Screen, knock, within_patience};

const SESSION: &str = "a1111111-1111-4111-8111-111111111111";

fn names(home: &Home) -> Vec<String> {
    home.recorded().iter().map(|payload| payload["hook_event_name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_turn_with_a_permission_leaves_its_traces_everywhere() {
    let home = Home::new();
    let record = home.record();
    let events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"];
    let settings = home.hooks(&events.map(|event| (event, record.clone())));
    let mut screen = Screen::ready(&home, &["--settings", &settings, "--session-id", SESSION]);
    screen.submit("hello [[bash:touch perm.txt]]");
    screen.wait_for("Do you want to proceed?");
    screen.wait_for("3. No");
    let pid = std::process::id();
    let waiting = home.status(pid).unwrap();
    assert_eq!((&waiting["status"], &waiting["waitingFor"]), (&json!("waiting"), &json!("permission prompt")));
    screen.write(b"n\r");
    screen.wait_for("Mock reply after 1 tool result(s).");
    screen.wait_for("Worked for");
    assert_eq!(home.status(pid).unwrap()["status"], "idle");
    assert!(home.project().join("perm.txt").exists());
    assert_eq!(screen.exit(), 0);
    assert_eq!(home.status(pid), None);
    assert_eq!(names(&home), events);
    let payloads = home.recorded();
    assert_eq!(payloads[0]["source"], "startup");
    assert_eq!(payloads[1]["prompt"], "hello [[bash:touch perm.txt]]");
    assert_eq!(payloads[3]["tool_response"]["noOutputExpected"], true);
    assert_eq!(payloads[5]["reason"], "prompt_input_exit");
    let transcript = payloads[1]["transcript_path"].as_str().unwrap();
    assert_eq!(transcript, home.logs().join(format!("{SESSION}.jsonl")).to_str().unwrap());
    assert!(home.log().iter().all(|line| line["sessionId"] == SESSION));
    let counters = "starts = 1\nturns = 1\ntools = 1\nallowed = 1\ndenied = 0\nstop_blocks = 0\n";
    assert_eq!(home.read("state/counters.toml"), counters);
    assert_eq!(home.read("state/prompts.jsonl"), "\"hello [[bash:touch perm.txt]]\"\n");
    assert_eq!(home.read("state/trace.bin"), "\x1b[200~hello [[bash:touch perm.txt]]\x1b[201~\rn\r/exit\r");
}

#[test]
fn a_hook_answers_the_dialog_that_is_on_the_screen() {
    let home = Home::new();
    let go = home.fifo("go");
    let answer = json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest",
        "decision": { "behavior": "allow", "updatedInput": { "command": "touch other.txt" } } } });
    let command = format!("cat {} >/dev/null; echo '{answer}'", go.display());
    let settings = home.hooks(&[("PermissionRequest", command)]);
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("[[bash:touch perm.txt]]");
    screen.wait_for("Do you want to proceed?");
    knock(&go);
    screen.wait_for("Mock reply after 1 tool result(s).");
    assert!(home.project().join("other.txt").exists());
    assert!(!home.project().join("perm.txt").exists());
    assert_eq!(screen.exit(), 0);
}

#[test]
fn the_keyboard_kills_the_hook_it_was_faster_than() {
    let home = Home::new();
    let held = home.fifo("held");
    let settings = home.hooks(&[("PermissionRequest", format!("exec 3>{}; sleep 1000", held.display()))]);
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("[[bash:touch perm.txt]]");
    screen.wait_for("Do you want to proceed?");
    let held = Held::by_somebody(held);
    screen.write(b"1");
    screen.wait_for("Mock reply after 1 tool result(s).");
    held.wait_until_dead();
    assert_eq!(screen.exit(), 0);
}

#[test]
fn a_stop_hook_holds_the_turn_and_sends_it_back_once() {
    let home = Home::new();
    let (go, marker) = (home.fifo("go"), home.path("blocked"));
    let (go_path, marker) = (go.display(), marker.display());
    let command = format!(
        "cat {go_path} >/dev/null; [ -e {marker} ] || {{ touch {marker}; echo 'not done: [[text:extra work]]' >&2; exit 2; }}"
    );
    let settings = home.hooks(&[("Stop", command)]);
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("hello");
    screen.wait_for("Hello from the mock model.");
    assert_eq!(home.status(std::process::id()).unwrap()["status"], "busy");
    knock(&go);
    screen.wait_for("Stop hook error: not done: [[text:extra work]]");
    screen.wait_for("● extra work");
    knock(&go);
    screen.wait_for("Worked for");
    assert_eq!(home.status(std::process::id()).unwrap()["status"], "idle");
    assert_eq!(screen.exit(), 0);
    assert!(home.read("state/counters.toml").contains("stop_blocks = 1"));
}

#[test]
fn a_paste_of_a_hundred_kilobytes_arrives_whole() {
    let home = Home::new();
    let mut screen = Screen::ready(&home, &[]);
    let text: String = (0..5000).map(|row| format!("row {row} of a long paste é\n")).collect();
    assert!(text.len() > 100_000);
    screen.submit(&text);
    screen.wait_for("Hello from the mock model.");
    assert_eq!(screen.exit(), 0);
    let prompt: String = serde_json::from_str(home.read("state/prompts.jsonl").trim_end()).unwrap();
    assert_eq!(prompt, text);
}

#[test]
fn esc_interrupts_without_a_stop_hook() {
    let home = Home::new();
    let record = home.record();
    let settings = home.hooks(&[("Stop", record.clone()), ("UserPromptSubmit", record)]);
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("[[hang]]");
    screen.wait_for("Working…");
    screen.write(b"\x1b");
    screen.wait_for("Interrupted · What should Claude do instead?");
    assert_eq!(home.status(std::process::id()).unwrap()["status"], "idle");
    assert_eq!(screen.exit(), 0);
    assert_eq!(names(&home), ["UserPromptSubmit"]);
    let log = home.log();
    assert_eq!(log.last().unwrap()["message"]["content"][0]["text"], "[Request interrupted by user]");
}

#[test]
fn a_gate_lets_the_agent_go_on_when_it_is_opened() {
    let home = Home::new();
    let gate = home.fifo("gates/go");
    let mut screen = Screen::ready(&home, &[]);
    screen.submit("[[text:before]] [[gate:go]] [[text:passed]]");
    screen.wait_for("● before");
    knock(&gate);
    screen.wait_for("● passed");
    assert_eq!(screen.exit(), 0);
}

#[test]
fn esc_is_heard_before_a_closed_gate() {
    let home = Home::new();
    home.fifo("gates/go");
    let mut screen = Screen::ready(&home, &[]);
    screen.submit("[[text:before]] [[gate:go]] [[text:passed]]");
    screen.wait_for("● before");
    screen.write(b"\x1b");
    screen.wait_for("Interrupted");
    screen.submit("hello");
    screen.wait_for("Hello from the mock model.");
    assert_eq!(screen.exit(), 0);
}

#[test]
fn the_notification_hook_runs_while_the_dialog_is_up() {
    let mut home = Home::new();
    home.env.push(("COOP_SIM_NOTIFY_MS", "1".to_owned()));
    let told = home.fifo("told");
    let settings = home.hooks(&[("Notification", format!("cat > {}", told.display()))]);
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("[[bash:touch x]]");
    let payload = within_patience(|| fs::read_to_string(told).unwrap());
    assert!(payload.contains("Claude needs your permission"), "{payload}");
    screen.wait_for("3. No");
    screen.write(b"3");
    screen.wait_for("Interrupted");
    assert_eq!(screen.exit(), 0);
}

#[test]
fn a_hook_that_takes_too_long_is_killed_and_ignored() {
    let home = Home::new();
    let held = home.fifo("held");
    let hook =
        json!({ "type": "command", "command": format!("exec 3>{}; sleep 1000", held.display()), "timeout": 0.2 });
    let settings = home.settings(&json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } }));
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("hello");
    Held::by_somebody(held).wait_until_dead();
    screen.wait_for("Worked for");
    assert_eq!(screen.exit(), 0);
}

#[test]
fn hooks_of_an_event_run_side_by_side() {
    let home = Home::new();
    let (one, two) = (home.fifo("one"), home.fifo("two"));
    let (one, two) = (one.display(), two.display());
    // Each waits for the other: one after the other they would wait for ever.
    let hooks = [format!("echo > {one}; cat {two}"), format!("cat {one}; echo > {two}")];
    let hooks = hooks.map(|command| json!({ "type": "command", "command": command }));
    let settings = home.settings(&json!({ "hooks": { "Stop": [{ "hooks": hooks }] } }));
    let mut screen = Screen::ready(&home, &["--settings", &settings]);
    screen.submit("hello");
    screen.wait_for("Worked for");
    assert_eq!(screen.exit(), 0);
}

#[test]
fn a_settings_file_in_the_flat_shape_stops_at_a_dialog() {
    let home = Home::new();
    let settings = home.settings(&json!({ "hooks": { "Stop": [{ "type": "command", "command": "true" }] } }));
    let mut screen = Screen::start(&home, &["--settings", &settings]);
    screen.wait_for("Settings Error");
    screen.wait_for("1. Exit and fix manually");
    screen.write(b"\r");
    assert_eq!(screen.code(), 1);
}

#[test]
fn the_trust_dialog_is_shown_once() {
    let mut home = Home::new();
    home.env.push(("COOP_SIM_DIALOGS", "1".to_owned()));
    let mut screen = Screen::start(&home, &[]);
    screen.wait_for("1. Yes, I trust this folder");
    screen.write(b"\r");
    screen.wait_for("\x1b[?2004h");
    assert_eq!(screen.exit(), 0);
    assert_eq!(Screen::ready(&home, &[]).exit(), 0);
}

#[test]
fn a_conversation_is_resumed_and_its_id_cannot_be_used_again() {
    let home = Home::new();
    let mut screen = Screen::ready(&home, &["--session-id", SESSION]);
    screen.submit("[[text:remember me]]");
    screen.wait_for("Worked for");
    assert_eq!(screen.exit(), 0);
    let settings = home.hooks(&[("SessionStart", home.record())]);
    let mut screen = Screen::start(&home, &["--resume", SESSION, "--settings", &settings]);
    screen.wait_for("● remember me");
    screen.wait_for("\x1b[?2004h");
    screen.submit("hello");
    screen.wait_for("Hello from the mock model.");
    assert_eq!(screen.exit(), 0);
    assert_eq!(home.recorded()[0]["source"], "resume");
    assert_eq!(home.recorded()[0]["session_id"], SESSION);
    assert!(home.read("state/counters.toml").starts_with("starts = 2\nturns = 2\n"));
    let mut screen = Screen::start(&home, &["--session-id", SESSION]);
    screen.wait_for("is already in use.");
    assert_eq!(screen.code(), 1);
}

#[test]
fn what_runs_in_the_background_does_not_outlive_the_agent() {
    let home = Home::new();
    let held = home.fifo("held");
    let mut screen = Screen::ready(&home, &["--allowedTools", "Bash"]);
    screen.submit(&format!("[[bg:exec 3>{}; sleep 1000]]", held.display()));
    let held = Held::by_somebody(held);
    screen.wait_for("Worked for");
    assert_eq!(screen.exit(), 0);
    held.wait_until_dead();
}

#[test]
fn the_context_of_a_session_start_hook_is_there_for_the_script() {
    let home = Home::new();
    let said = json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": "be brief" } });
    let settings = home.hooks(&[("SessionStart", format!("echo '{said}'"))]);
    let mut screen = Screen::ready(&home, &["--settings", &settings, "[[text:told: {context}]]"]);
    screen.wait_for("told: be brief");
    assert_eq!(screen.exit(), 0);
}
