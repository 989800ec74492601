//! The seed's command line examples, run as they stand there but for the port, which is any free one.

use std::path::Path;
use std::process::Command;

use crate::tool::{COOP, Sidecar, run, write_program};

/// A folder with programs named like the agents, which only say what they were given.
fn agents(folder: &Path) -> String {
    for name in ["claude", "codex"] {
        write_program(&folder.join(name), "#!/bin/sh\necho \"$(basename \"$0\") was given [$*]\"\nexec cat\n");
    }
    std::os::unix::fs::symlink(COOP, folder.join("coop")).expect("it can be linked");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

/// Starts what an example says, through a shell, like a person would.
fn example(line: &str, path: &str) -> Sidecar {
    let args: Vec<String> = line
        .replace("8080", "0")
        .replace("9090", "0")
        .replace("9091", "0")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    assert_eq!(args[0], "coop");
    let args: Vec<&str> = args[1..].iter().map(String::as_str).collect();
    Sidecar::with(&args, |command| command.env("PATH", path))
}

fn curl(args: &[&str]) -> String {
    let (code, out, err) = run(Command::new("curl").args(["--silent", "--max-time", "60"]).args(args));
    assert_eq!(code, 0, "curl {args:?}: {err}");
    out
}

#[test]
fn agents_and_shells_run_as_in_the_examples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = agents(folder.path());
    let claude = example("coop --agent claude --port 8080 -- claude --dangerously-skip-permissions", &path);
    // After what coop adds for its hooks.
    claude.see(" --dangerously-skip-permissions]");
    assert_eq!(claude.ask("GET", "/api/v1/health", "").1["agent"], "claude");

    let socket = folder.path().join("coop.sock");
    let codex = example(&format!("coop --agent codex --socket {} -- codex", socket.display()), &path);
    codex.see("codex was given []");
    assert_eq!(codex.socket(), socket);

    let bash = example("coop --port 8080 -- /bin/bash", &path);
    bash.ask("POST", "/api/v1/input", r#"{"text":"echo $((40+2))","enter":true}"#);
    bash.see("\n42\n");
}

#[test]
fn all_transports_with_a_token_run_as_in_the_examples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = agents(folder.path());
    let all = example(
        "coop --agent claude --port 8080 --grpc-port 9090 --health-port 9091 --auth-token T0KEN -- claude",
        &path,
    );
    let health = curl(&[&format!("{}/api/v1/health", all.line("health"))]);
    assert!(health.contains(r#""status":"running""#), "{health}");
    let refused = curl(&[&format!("{}/api/v1/health", all.line("http"))]);
    assert!(refused.contains("UNAUTHORIZED"), "{refused}");
    let allowed = curl(&["-H", "Authorization: Bearer T0KEN", &format!("{}/api/v1/health", all.line("http"))]);
    assert!(allowed.contains(r#""agent":"claude""#), "{allowed}");
}

#[test]
fn an_existing_tmux_session_is_shown_as_in_the_examples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = agents(folder.path());
    let tmux = |args: &[&str]| {
        let mut command = Command::new("tmux");
        command.env_clear().env("PATH", &path).env("TMUX_TMPDIR", folder.path()).env("TERM", "xterm-256color");
        run(command.args(["-f", "/dev/null"]).args(args))
    };
    assert_eq!(
        tmux(&["new-session", "-d", "-s", "gt-alpha", "-x", "80", "-y", "24", "sh -c 'echo hello from tmux; cat'"]).0,
        0
    );
    let args = ["--agent", "claude", "--attach", "tmux:gt-alpha", "--port", "0", "--log-level", "off"];
    let attached = Sidecar::with(&args, |command| command.env("TMUX_TMPDIR", folder.path()));
    attached.see("hello from tmux");
    attached.ask("POST", "/api/v1/input", r#"{"text":"typed over HTTP","enter":true}"#);
    attached.see("typed over HTTP\ntyped over HTTP");
    drop(attached);
    assert_eq!(tmux(&["has-session", "-t", "gt-alpha"]).0, 0, "the session lives on");
    tmux(&["kill-server"]);
}

#[test]
fn a_session_that_is_not_there_is_told_on_standard_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (target, sentence) in [("tmux:nope", "tmux"), ("screen:nope", "screen")] {
        let mut command = crate::tool::coop(folder.path());
        command.env("TMUX_TMPDIR", folder.path()).env("SCREENDIR", folder.path());
        let (code, _, err) = run(command.args(["--attach", target, "--log-level", "off"]));
        assert!(
            code == 1 && err.starts_with("coop: ") && err.contains(sentence) && err.contains("nope"),
            "{code} {err}"
        );
    }
}

#[test]
fn clients_ask_as_in_the_examples() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sidecar = example("coop --port 8080 -- cat", &agents(folder.path()));
    let url = sidecar.line("http").replace("127.0.0.1", "localhost");
    let state = curl(&[&format!("{url}/api/v1/agent/state")]);
    assert!(state.contains(r#""state":"unknown""#), "{state}");
    // Without a driver these are refused and nothing is typed.
    for (route, body) in [
        ("nudge", r#"{"message": "Fix the login bug"}"#),
        ("respond", r#"{"accept": true}"#),
        ("respond", r#"{"option": 2}"#),
    ] {
        let answer = curl(&["-X", "POST", &format!("{url}/api/v1/agent/{route}"), "-d", body]);
        assert!(answer.contains("NO_DRIVER"), "{route}: {answer}");
    }
    assert_eq!(sidecar.ask("GET", "/api/v1/status", "").1["bytes_written"], 0);
}
