//! Hooks without their sidecar, and agents without theirs: nobody is hindered.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::{Value, json};

use crate::driven::{Agent, Model, Runtime, Which, know, prepare, with_both};
use crate::tool::{COOP, LIMIT, Sidecar, coop, wait_for};

/// Runs a hook as an agent would and returns its exit code and what it printed.
fn hook(event: &str, socket: &Path, token: &str) -> (i32, String, String) {
    hook_told(event, socket, token, r#"{"hook_event_name":"x"}"#)
}

/// The same with what the hook is told.
fn hook_told(event: &str, socket: &Path, token: &str, told: &str) -> (i32, String, String) {
    run_hook(&[event], socket, token, told)
}

/// The same with options.
fn run_hook(args: &[&str], socket: &Path, token: &str, told: &str) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = coop(folder.path());
    command.arg("hook").args(args).env("COOP_SOCKET", socket).env("COOP_HOOK_TOKEN", token);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    // It may be gone before it has read everything.
    let _ = child.stdin.take().expect("it is piped").write_all(told.as_bytes());
    let code = wait_for(&mut child);
    let output = child.wait_with_output().expect("it is ours");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn a_hook_without_its_sidecar_says_nothing_and_succeeds() {
    let nothing = (0, String::new(), String::new());
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("none.sock");
    let dead = folder.path().join("dead.sock");
    drop(UnixListener::bind(&dead).expect("bound"));
    let rude = folder.path().join("rude.sock");
    let listener = UnixListener::bind(&rude).expect("bound");
    thread::spawn(move || listener.incoming().for_each(drop));
    for event in ["PreToolUse", "PermissionRequest", "Stop"] {
        for socket in [&nowhere, &dead, &rude] {
            assert_eq!(hook(event, socket, "t"), nothing, "{event} {}", socket.display());
        }
    }
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &[]);
    agent.state("idle");
    assert_eq!(hook("Stop", &agent.sidecar.socket(), "wrong"), nothing);
    assert_eq!(agent.get("/api/v1/agent")["name"], "idle");
}

#[test]
fn an_agent_whose_sidecar_is_killed_ends_with_its_terminal() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        agent.state("idle");
        agent.nudge("work [[slow:60]]");
        let pid = agent.get("/api/v1/health")["pid"].as_i64().expect("a pid") as i32;
        let pid = Pid::from_raw(pid).expect("a pid");
        let alive = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
        agent.sidecar.signal(Signal::KILL);
        let mut fds = [rustix::event::PollFd::new(&alive, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
        // Tests beside it have children whose ends interrupt this.
        let ended = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&limit)));
        assert_eq!(ended, Ok(1), "the agent outlived its terminal");
    });
}

/// Hooks that wait for an answer are released when the agent ends, and say nothing.
#[test]
fn a_held_hook_is_let_go_when_its_agent_ends() {
    let mut agent =
        Agent::start(&Which::Scripted, Runtime::Pty, &["--linger", "60"], &["--dangerously-skip-permissions"]);
    agent.state("idle");
    agent.nudge("tell [[bash:printf %s $COOP_HOOK_TOKEN >token.txt]]");
    agent.state("idle");
    let token = std::fs::read_to_string(agent.work.join("token.txt")).expect("it was written");
    let socket = agent.sidecar.socket();
    let asked = json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } }).to_string();
    let held = thread::spawn(move || run_hook(&["--hold", "PermissionRequest"], &socket, &token, &asked));
    agent.asked("permission");
    assert!(!held.is_finished(), "it waits for an answer");
    agent.post("/api/v1/signal", &json!({ "signal": "KILL" }));
    agent.state("exited");
    // The sidecar is still there: it is not the end of the socket that lets the hook go.
    assert_eq!(held.join().expect("no panic"), (0, String::new(), String::new()));
    assert_eq!(agent.get("/api/v1/agent/asks"), json!({ "asks": [] }));
}

/// The sidecar is gone and its hooks are not: whole turns run, and the agent asks on its own screen.
#[test]
fn an_agent_whose_hooks_lead_nowhere_works_by_itself() {
    with_both(|which| {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path().canonicalize().expect("it is there");
        let dead = work.join("dead.sock");
        drop(UnixListener::bind(&dead).expect("bound"));
        let events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop"];
        let hooks: serde_json::Map<_, _> = events
            .map(|event| {
                let command =
                    format!("COOP_SOCKET='{}' COOP_HOOK_TOKEN=t '{COOP}' hook --hold {event}", dead.display());
                (event.to_owned(), json!([{ "hooks": [{ "type": "command", "command": command, "timeout": 600 }] }]))
            })
            .into_iter()
            .collect();
        let settings = work.join("settings.json");
        std::fs::write(&settings, json!({ "hooks": hooks }).to_string()).expect("written");
        let settings = format!("--settings={}", settings.display());
        let (program, model) = match which {
            Which::Scripted => (vec![COOP, "sim", "claude"], None),
            Which::Real(path) => (vec![path.to_str().expect("UTF-8")], Some(Model::start(&work))),
        };
        let words = [settings.as_str(), "--permission-mode=default"];
        let command = [&["--agent", "unknown", "--"][..], &program, &words].concat();
        let sidecar = Sidecar::with(&command, |command| {
            know(&work, &work);
            prepare(command, model.as_ref().map(|model| model.url.as_str()))
                .current_dir(&work)
                .env("CLAUDE_CONFIG_DIR", &work)
        });
        sidecar.see("? for shortcuts");
        let send = |keys: &Value| assert_eq!(sidecar.ask("POST", "/api/v1/input", &keys.to_string()).0, 200);
        send(&json!({ "text": "one [[bash:touch made.txt]] [[text:it is done]]" }));
        sidecar.see("it is done");
        send(&json!({ "text": "\r" }));
        sidecar.see("Do you want to proceed?");
        assert!(!work.join("made.txt").exists());
        send(&json!({ "text": "1" }));
        sidecar.see("● it is done");
        assert!(work.join("made.txt").exists());
    });
}

/// Tools say more than the sidecar takes at once, and the end of such a one was lost.
#[test]
fn what_a_long_tool_said_is_cut_and_not_lost() {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &["--dangerously-skip-permissions"]);
    agent.state("idle");
    agent.nudge("tell [[bash:printf %s $COOP_HOOK_TOKEN >token.txt]]");
    agent.state("idle");
    let token = std::fs::read_to_string(agent.work.join("token.txt")).expect("it was written");
    let long = |event: &str, id: &str| {
        let said = "0123456789abcdef".repeat(2 * 1024 * 1024);
        let input = json!({ "command": "make" });
        json!({
            "hook_event_name": event, "tool_name": "Bash", "tool_use_id": id, "tool_input": input,
            "tool_response": { "stdout": said, "stderr": "", "interrupted": false },
        })
        .to_string()
    };
    let nothing = (0, String::new(), String::new());
    let socket = agent.sidecar.socket();
    assert_eq!(hook_told("PostToolUse", &socket, &token, &long("PostToolUse", "toolu_long")), nothing);
    let told = agent.event("the tool's end", |body| body["kind"] == "tool" && body["id"] == "toolu_long");
    assert_eq!(told["phase"], "completed");
    let said = told["output"]["stdout"].as_str().expect("a string");
    assert!(
        said.starts_with("0123456789abcdef") && said.ends_with(" bytes]") && said.len() < 100_000,
        "{}",
        said.len()
    );

    // Nobody may be asked to allow what they are not shown: the agent asks by itself.
    assert_eq!(hook_told("PermissionRequest", &socket, &token, &long("PermissionRequest", "toolu_other")), nothing);
    assert_eq!(agent.get("/api/v1/agent/asks"), json!({ "asks": [] }));
}
