//! Programs nobody knows.

use std::sync::mpsc::Receiver;

use serde_json::Value;

use crate::driven::follow;
use crate::tool::{LIMIT, Sidecar};

const RULES: &str = r"
version = 1
agent = 'mine'
[screen]
prompt = '^mine>'
working = '^\.\.\. thinking'
error = '^FATAL: '
[dialog]
option = '^\s*(?P<mark>>)?\s*(?P<number>[1-9])\) (?P<label>.+)$'
hint = 'Enter to choose'
[[ask]]
kind = 'permission'
name = 'really'
pattern = 'Really\?'
[[option]]
kind = 'reject'
pattern = '^No$'
";

/// Shows the next screen for each line it is given.
const PROGRAM: &str = r#"
dialog='mine> rm\r\n\r\nReally?\r\n> 1) Yes\r\n  2) No\r\nEnter to choose'
for screen in 'hello' '... thinking hard' 'mine> ' 'FATAL: out of luck' "$dialog" 'bye'; do
    printf '\033[2J\033[H%b\r\n' "$screen"; read -r _
done
"#;

fn state(sidecar: &Sidecar) -> (String, Value) {
    let (_, agent) = sidecar.ask("GET", "/api/v1/agent", "");
    (agent["state"].as_str().expect("a state").to_owned(), agent)
}

/// Waits for the next change to a state.
fn until(events: &Receiver<Value>, wanted: &str) {
    loop {
        let event = events.recv_timeout(LIMIT).expect("an event");
        if event["body"]["kind"] == "state" && event["body"]["next"]["state"] == wanted {
            return;
        }
    }
}

#[test]
fn without_rules_nothing_is_guessed() {
    let sidecar = Sidecar::start(&["--", "sh", "-c", "echo hello; read -r _"]);
    sidecar.see("hello");
    let (state, agent) = state(&sidecar);
    assert_eq!((state.as_str(), &agent["agent"]), ("unknown", &"unknown".into()));
    assert!(agent["quiet_secs"].is_number() && agent["capabilities"] == Value::Array(vec![]));
    for (path, body) in [("nudge", r#"{"message":"hi"}"#), ("respond", r#"{"accept":true}"#)] {
        let (status, told) = sidecar.ask("POST", &format!("/api/v1/agent/{path}"), body);
        assert_eq!((status, &told["error"]["code"]), (404, &"NO_DRIVER".into()), "{path}");
    }
}

#[test]
fn with_rules_the_screen_tells() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("mine.toml");
    std::fs::write(&rules, RULES).expect("rules");
    let rules = rules.to_str().expect("a path");
    let sidecar = Sidecar::start(&["--agent-config", rules, "--idle-grace", "0", "--", "sh", "-c", PROGRAM]);
    let next = || assert_eq!(sidecar.ask("POST", "/api/v1/input", r#"{"text":"","enter":true}"#).0, 200);
    let events = follow(&sidecar.socket());
    until(&events, "unknown");
    next();
    until(&events, "working");
    next();
    until(&events, "idle");
    let (_, idle) = state(&sidecar);
    assert_eq!(idle["evidence"]["source"], "screen");
    let (status, told) = sidecar.ask("POST", "/api/v1/agent/nudge", r#"{"message":"hi"}"#);
    assert_eq!((status, &told["error"]["code"]), (404, &"NO_DRIVER".into()));
    next();
    until(&events, "blocked");
    let (_, error) = state(&sidecar);
    assert_eq!(error["detail"]["fault"]["message"], "FATAL: out of luck");
    next();
    // What stands above the dialog is no prompt any more. It is told, and nothing is typed into it.
    until(&events, "waiting");
    let (_, asked) = sidecar.ask("GET", "/api/v1/agent/asks", "");
    assert_eq!(
        (&asked["asks"][0]["kind"], &asked["asks"][0]["options"][1]["label"]),
        (&"permission".into(), &"No".into())
    );
    let (status, told) = sidecar.ask("POST", "/api/v1/agent/respond", r#"{"accept":false}"#);
    assert_eq!((status, &told["error"]["code"]), (404, &"NO_DRIVER".into()));
    next();
    until(&events, "unknown");
}
