//! An agent that shows what no rule knows, for each kind of agent.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::tool::{Sidecar, wait_until};

/// A program that is called as an agent is, shows a dialog of its own, and says which key it got.
const STRANGER: &str = r#"#!/bin/sh
case "$*" in *--version*|*serve*|*app-server*) echo stranger 0; exit 0;; esac
printf '\033[?2004h\033[?25lA quite new dialog\r\n\r\n   [ Go on ]   [ Leave ]\r\n'
stty raw -echo
key=$(dd bs=1 count=1 2>/dev/null)
printf '\033[2J\033[HThe key was %s.\r\n' "$key"
exec sleep 1000
"#;

fn is_asked_about(kind: &str) {
    let home = tempfile::tempdir().expect("a folder");
    let program = home.path().join(kind);
    fs::write(&program, STRANGER).expect("written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("changed");
    let sidecar = Sidecar::start(&["--agent", kind, "--log-level", "warn", "--", program.to_str().expect("UTF-8")]);
    let asks = || sidecar.ask("GET", "/api/v1/agent/asks", "").1["asks"].clone();
    wait_until("the ask", || asks()[0].is_object());
    let ask = asks()[0].clone();
    assert_eq!((&ask["kind"], &ask["channel"]), (&json!("setup"), &json!("keys")), "{ask}");
    assert_eq!(ask["screen_lines"], json!(["A quite new dialog", "", "   [ Go on ]   [ Leave ]"]));
    let explained = sidecar.ask("GET", "/api/v1/agent/explain", "").1;
    let because = explained["evidence"]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(because.contains("does not know"), "{explained}");
    let answer = |answer: Value| sidecar.ask("POST", "/api/v1/agent/respond", &answer.to_string());
    let (status, refused) = answer(json!({ "ask": ask["id"], "accept": true }));
    assert!(
        status == 409 && refused["error"]["message"].as_str().is_some_and(|why| why.contains("\"keys\"")),
        "{refused}"
    );
    let (status, answered) = answer(json!({ "ask": ask["id"], "keys": ["g"] }));
    assert_eq!((status, &answered["delivered"]), (200, &json!(true)), "{answered}");
    sidecar.see("The key was g.");
}

#[test]
fn a_claude_that_shows_something_new_asks() {
    is_asked_about("claude");
}

#[test]
fn a_codex_that_shows_something_new_asks() {
    is_asked_about("codex");
}

#[test]
fn a_gemini_that_shows_something_new_asks() {
    is_asked_about("gemini");
}

#[test]
fn an_opencode_that_shows_something_new_asks() {
    is_asked_about("opencode");
}
