use serde_json::json;

use super::world::{Home, Pipe};

const SESSION: &str = "b2222222-2222-4222-8222-222222222222";

#[test]
fn a_program_drives_it_over_the_stream() {
    let mut home = Home::new();
    home.env.push(("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1".to_owned()));
    let args = "-p --input-format stream-json --output-format stream-json --verbose --permission-prompt-tool stdio";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.extend(["--session-id", SESSION]);
    let mut pipe = Pipe::start(&home, &args);
    pipe.send(&json!({ "type": "control_request", "request_id": "r1", "request": { "subtype": "initialize" } }));
    pipe.out.wait_for("\"request_id\":\"r1\"");
    pipe.send(&json!({ "type": "user", "message": { "role": "user", "content": "[[bash:touch allowed.txt]]" } }));
    pipe.out.wait_for("can_use_tool");
    pipe.out.wait_for("requires_action");
    let asked = pipe.out.seen.lines().find(|line| line.contains("can_use_tool")).unwrap();
    let asked: serde_json::Value = serde_json::from_str(asked).unwrap();
    let allow = json!({ "subtype": "success", "request_id": asked["request_id"], "response": { "behavior": "allow" } });
    pipe.send(&json!({ "type": "control_response", "response": allow }));
    pipe.out.wait_for("\"result\":\"Mock reply after 1 tool result(s).\"");
    pipe.out.wait_for("\"state\":\"idle\"");
    assert!(home.project().join("allowed.txt").exists());
    let (code, _, _) = pipe.finish();
    assert_eq!(code, 0);
    assert!(home.log().iter().all(|line| line["sessionId"] == SESSION));
}

#[test]
fn one_prompt_is_answered_and_that_is_all() {
    let home = Home::new();
    let run = |args: &[&str]| Pipe::start(&home, args).finish();
    assert_eq!(run(&["-p", "hello"]), (0, "Hello from the mock model.\n".into(), String::new()));
    let (code, out, _) = run(&["-p", "--output-format", "json", "[[err:401]]"]);
    let result: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &result["api_error_status"]), (1, &json!(401)));
    let (_, out, _) = run(&["-p", "--output-format=stream-json", "--verbose", "[[bash:touch no.txt]]"]);
    assert!(out.contains("haven't granted it yet"), "{out}");
    assert!(!home.project().join("no.txt").exists());
}

#[test]
fn the_prompt_can_come_from_the_input() {
    let home = Home::new();
    let mut pipe = Pipe::start(&home, &["-p"]);
    pipe.write("[[text:from the pipe]]\n");
    assert_eq!(pipe.finish(), (0, "from the pipe\n".into(), String::new()));
}

#[test]
fn what_cannot_be_run_is_refused_in_the_words_of_the_real_one() {
    let home = Home::new();
    let run = |args: &[&str]| Pipe::start(&home, args).finish();
    assert_eq!(run(&["--version"]), (0, "2.1.197 (Claude Code)\n".into(), String::new()));
    assert_eq!(run(&["--nonsense"]), (1, String::new(), "error: unknown option '--nonsense'\n".into()));
    run(&["-p", "--session-id", SESSION, "hello"]);
    let used = format!("Error: Session ID {SESSION} is already in use.\n");
    assert_eq!(run(&["-p", "--session-id", SESSION, "hello"]), (1, String::new(), used));
    let missing = "c3333333-3333-4333-8333-333333333333";
    let (code, out, errors) = run(&["-p", "--output-format", "stream-json", "--resume", missing, "hello"]);
    assert_eq!((code, errors), (1, format!("No conversation found with session ID: {missing}\n")));
    assert!(out.contains("error_during_execution"));
}

#[test]
fn continue_takes_the_latest_and_fork_copies_it() {
    let home = Home::new();
    let run = |args: &[&str]| Pipe::start(&home, args).finish().0;
    assert_eq!(run(&["-p", "-c", "hello"]), 1);
    assert_eq!(run(&["-p", "--session-id", SESSION, "one"]), 0);
    assert_eq!(run(&["-p", "-c", "two"]), 0);
    let prompts = |lines: Vec<serde_json::Value>| -> Vec<String> {
        lines.iter().filter_map(|line| line["message"]["content"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(prompts(home.log()), ["one", "two"]);
    let other = "d4444444-4444-4444-8444-444444444444";
    assert_eq!(run(&["-p", "-c", "--fork-session", "--session-id", other, "three"]), 0);
    let forked = std::fs::read_to_string(home.logs().join(format!("{other}.jsonl"))).unwrap();
    assert!(forked.contains("\"one\"") && forked.contains("\"three\"") && !forked.contains(SESSION));
}

#[test]
fn a_wrong_settings_file_is_dropped_without_a_word() {
    let home = Home::new();
    let hook = json!({ "type": "command", "command": home.record() });
    let settings = home.settings(&json!({ "hooks": { "Stop": [hook], "SessionEnd": [{ "hooks": [hook] }] } }));
    assert_eq!(Pipe::start(&home, &["-p", "--settings", &settings, "hello"]).finish().0, 0);
    assert_eq!(home.recorded(), Vec::<serde_json::Value>::new());
}
