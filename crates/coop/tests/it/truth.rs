//! What is easily told wrong: turns that others prolong, that nobody announced, that fail, and agents that die.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::driven::{Agent, Runtime, Which, with_both};
use crate::tool::agents_are_sandboxed;

fn is_turn(what: &'static str) -> impl Fn(&Value) -> bool {
    move |body| body["kind"] == "turn" && body["what"] == what
}

/// Returns a hook that sends an agent back that wants to end its turn, once.
fn blocking_hook(folder: &std::path::Path) -> String {
    let path = folder.join("mine.sh");
    let mut file = std::fs::File::create(&path).expect("a file");
    let script = r#"#!/bin/sh
read -r told
case "$told" in
  *'"stop_hook_active":true'*) ;;
  *) echo '{"decision":"block","reason":"not yet [[text:second words]]"}' ;;
esac
"#;
    file.write_all(script.as_bytes()).expect("written");
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.to_str().expect("UTF-8").to_owned()
}

/// coop's hook let it end its turn, another sent it back: it was said to be idle, and worked on.
#[test]
fn a_hook_of_the_users_own_may_send_the_agent_back() {
    with_both(|which| {
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            // Not below `/tmp`, which is another in a sandbox.
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
            let hook = json!({ "type": "command", "command": blocking_hook(folder.path()) });
            let config = json!({ "settings": { "hooks": { "Stop": [{ "hooks": [hook] }] } } });
            let path = folder.path().join("config.json");
            std::fs::write(&path, config.to_string()).expect("written");
            let options = ["--agent-config", path.to_str().expect("UTF-8")];
            let mut agent = Agent::start(which, runtime, &options, &[]);
            agent.state("idle");
            let happened = agent.turn("work [[text:first words]]", &[]);
            let count = |kind: &str| happened.iter().filter(|body| body["kind"] == kind).count();
            assert_eq!((count("stop"), count("turn")), (2, 2), "{runtime:?} {which:?} {happened:#?}");
            assert_eq!(agent.get("/api/v1/agent")["last_message"], "second words");
        }
    });
}

/// Nothing but its end has a hook.
#[test]
fn a_shell_command_at_the_prompt_is_a_turn() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        agent.state("idle");
        agent.post("/api/v1/input", &json!({ "text": "!echo seen" }));
        agent.sidecar.see("echo seen");
        agent.post("/api/v1/input/keys", &json!({ "keys": ["Enter"] }));
        let began = agent.event("its turn", is_turn("began"));
        assert_eq!(began["prompt"], Value::Null);
        let ended = agent.event("its end", is_turn("ended"));
        assert_eq!(ended["outcome"], "completed");
        agent.state("idle");
    });
}

#[test]
fn what_runs_in_the_background_does_not_keep_a_turn_open() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        let start = match which {
            Which::Scripted => "[[bg:sleep 60]]".to_owned(),
            Which::Real(_) => {
                let input = json!({ "command": "sleep 60", "description": "d", "run_in_background": true });
                format!("[[tool Bash {input}]]")
            }
        };
        agent.state("idle");
        agent.turn(&format!("serve {start}"), &[json!({ "accept": true })]);
        assert_eq!(agent.get("/api/v1/agent")["name"], "idle");
        agent.turn("and [[text:answer me]]", &[]);
        assert_eq!(agent.get("/api/v1/agent")["last_message"], "answer me");
    });
}

/// First it tries again, then it gives up, and is never idle in between.
#[test]
fn a_limit_is_told_with_its_kind() {
    with_both(|which| {
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            let mut agent = Agent::start(which, runtime, &[], &[]);
            agent.state("idle");
            agent.nudge("one [[err:429]]");
            let blocked = agent.state("blocked");
            let fault = &blocked["next"]["fault"];
            assert_eq!((&fault["kind"], &fault["status"]), (&json!("rate_limit"), &json!(429)), "{blocked:#}");
            // It takes the next message all the same.
            agent.turn("two [[text:better]]", &[]);
            assert_eq!(agent.get("/api/v1/agent")["last_message"], "better");
        }
    });
}

/// Returns the agent's own process. In a sandbox it is below two of bubblewrap's.
fn program_of(pid: i32) -> i32 {
    let child = |pid: i32| {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
        children.split_whitespace().next().expect("a child").parse().expect("a pid")
    };
    if agents_are_sandboxed() { child(child(pid)) } else { pid }
}

#[test]
fn an_agent_that_is_killed_leaves_nobody_waiting() {
    with_both(|which| {
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            let mut agent = Agent::start(which, runtime, &[], &[]);
            agent.state("idle");
            agent.nudge("one [[bash:touch never.txt]]");
            let ask = agent.asked("permission");
            let later = json!({ "message": "later", "when": "idle" });
            let (_, receipt) = agent.post("/api/v1/agent/nudge", &later);
            assert_eq!(receipt["queued"], true);
            let pid = agent.get("/api/v1/health")["pid"].as_i64().expect("a pid") as i32;
            kill_process(Pid::from_raw(program_of(pid)).expect("a pid"), Signal::KILL).expect("it runs");
            // In a sandbox the hook ends with the agent, and may be missed before the agent is.
            let is_told = |body: &Value| body["kind"] == "delivery" && body["id"] == receipt["id"];
            let is_gone = |body: &Value| body["kind"] == "ask" && body["ask"] == ask["id"];
            let ends = [0, 1].map(|_| agent.event("both ends", |body| is_told(body) || is_gone(body)));
            let told = ends.iter().find(|body| is_told(body)).expect("the message's end");
            assert_eq!((&told["delivered"], &told["reason"]), (&json!(false), &json!("exited")));
            assert_eq!(ends.iter().find(|body| is_gone(body)).expect("the ask's end")["what"], "withdrawn");
            let ended = agent.event("the turn's end", is_turn("ended"));
            assert_eq!(ended["outcome"], "failed");
            let exited = agent.state("exited");
            // Bubblewrap, which has no signal of its own to end by, exits as a shell does.
            let expected = if agents_are_sandboxed() { (json!(128 + 9), Value::Null) } else { (Value::Null, json!(9)) };
            assert_eq!((exited["next"]["code"].clone(), exited["next"]["signal"].clone()), expected, "{exited:#}");
            assert!(!agent.has("never.txt"));
        }
    });
}
