//! Nothing is approved unseen.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::lab::{Lab, is};
use crate::tool::{COOP, Terminal, request};

/// Two commands, of which the first is harmless, and one that turns its own text around.
const AGENTS: &str = "[agents.asker]\nSIM\nkind = \"crew\"\n\
                      prompt = \"[[bash:touch harmless.txt\\ntouch victim.txt]] [[text:both]]\"\n\
                      [agents.turned]\nSIM\nkind = \"crew\"\n\
                      prompt = \"[[bash:touch \u{202e}txt\u{200b}31m]] [[text:done]]\"\n";

/// The list showed `touch harmless.txt`, and a yes that named nothing ran both lines.
#[test]
fn an_ask_is_listed_whole_and_a_yes_names_it() {
    let lab = Lab::new(AGENTS);
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let list = lab.ok(&["asks"]);
    assert!(list.contains("Bash  touch harmless.txt … (+1 line)\n"), "{list}");
    assert!(list.contains("    │   touch harmless.txt\n    │   touch victim.txt\n"), "{list}");
    assert!(list.contains("    coop respond asker yes --ask ask-1\n"), "{list}");
    for text in [lab.ok(&["show", "asker"]), lab.ok(&["ls"]), lab.ok(&["logs", "asker"])] {
        assert!(text.contains("touch harmless.txt … (+1 line)"), "{text}");
    }
    let victim = lab.workspace("asker").join("victim.txt");
    for answer in ["yes", "1"] {
        let (code, _, said) = lab.run(&["respond", "asker", answer]);
        let command = format!("`coop respond asker {answer} --ask ask-1`");
        assert_eq!((code, said.contains(&command)), (1, true), "{said}");
    }
    for body in [json!({ "accept": true }), json!({ "option": 1 })] {
        let (status, refused) = lab.ask("POST", "/api/v1/agents/asker/agent/respond", &body.to_string());
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("BAD_REQUEST")), "{refused}");
    }
    assert!(!victim.exists());
    // A person at a terminal sees it whole, and only a clear yes is one.
    let respond = format!("COOP_STATE={} {COOP} respond asker yes; read wait", lab.state().display());
    for (typed, told) in [("", "nothing was answered"), ("y", "")] {
        let terminal = Terminal::start(&["sh", "-c", &respond], lab.home.path());
        let screen = terminal.see("Answer ask-1 with yes? [y]es, [N]o:");
        assert!(screen.contains("│   touch harmless.txt") && screen.contains("│   touch victim.txt"), "{screen}");
        assert!(!victim.exists());
        terminal.tmux(&["send-keys", typed, "Enter"]);
        terminal.see(told);
        if told.is_empty() {
            lab.until(0, "the answer", |entry| is(entry, "decided"));
        }
    }
    lab.wait_until("it ran", || victim.exists());
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    let shown = &audit["decisions"][0]["shown"];
    assert_eq!((&shown["surface"], &shown["whole"]), (&json!("cli"), &json!(true)), "{audit}");
    assert!(shown["characters"].as_u64().is_some_and(|count| count > 60), "{audit}");
    lab.ok(&["kill", "asker"]);
}

#[test]
fn hidden_characters_are_named_in_lists_and_escaped_in_json() {
    let lab = Lab::new(AGENTS);
    lab.ok(&["spawn", "turned"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    for args in [&["asks"][..], &["logs", "turned"], &["show", "turned"], &["ls"]] {
        let text = lab.ok(args);
        assert!(text.contains("touch <U+202E>txt<U+200B>31m"), "{args:?}: {text}");
        let json = lab.ok(&[args, &["--json"]].concat());
        for text in [text, json] {
            assert!(!text.contains(['\u{202e}', '\u{200b}']), "{args:?}: {text}");
        }
    }
    let asks = lab.json(&["asks"]);
    assert_eq!(asks["asks"][0]["ask"]["input"]["command"], "touch \u{202e}txt\u{200b}31m", "programs get it as it is");
    // Denying approves nothing, and needs no id.
    lab.ok(&["respond", "turned", "no"]);
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    assert_eq!(audit["decisions"][0]["shown"], json!({ "surface": "cli", "characters": 0, "whole": false }), "{audit}");
    lab.ok(&["kill", "turned"]);
}

/// An answer at the sidecar's own socket was in no audit, and after a resume its id named another ask.
#[test]
fn answers_at_the_sidecar_are_audited_and_ask_ids_are_never_used_again() {
    let lab = Lab::new(AGENTS);
    let socket = lab.state().join("agents/asker/coop.sock");
    let at_sidecar = |body: Value| {
        let stream = UnixStream::connect(&socket).expect("the sidecar listens");
        request(stream, "POST", "/api/v1/agent/respond", &body.to_string(), "")
    };
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let (status, answered) = at_sidecar(json!({ "ask": "ask-1", "accept": true }));
    assert_eq!((status, &answered["delivered"]), (200, &json!(true)), "{answered}");
    lab.until(0, "the answer", |entry| is(entry, "ask_closed"));
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    let [decision] = audit["decisions"].as_array().expect("a list").as_slice() else { panic!("{audit}") };
    let told = (&decision["ask"], &decision["accept"], &decision["by"]);
    assert_eq!(told, (&json!("ask-1"), &json!(true), &json!({ "by": "sidecar" })), "{audit}");

    lab.ok(&["wait", "asker", "--for", "idle"]);
    lab.ok(&["kill", "asker"]);
    let gone = lab.until(0, "its end", |entry| is(entry, "gone"));
    lab.ok(&["resume", "asker"]);
    lab.until(gone, "its return", |entry| is(entry, "idle"));
    lab.ok(&["send", "asker", "[[bash:touch second.txt]]"]);
    lab.until(gone, "another ask", |entry| is(entry, "prompt"));
    assert_eq!(lab.json(&["asks"])["asks"][0]["ask"]["id"], "ask-2");
    let (status, refused) = at_sidecar(json!({ "ask": "ask-1", "accept": true }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("ALREADY_ANSWERED")), "{refused}");
    lab.ok(&["kill", "asker"]);
}

/// The daemon's WebSocket to one agent took an answer that named no ask.
#[test]
fn an_answer_over_the_daemons_web_socket_names_its_ask() {
    use tokio_tungstenite::tungstenite::{Message, client};
    let lab = Lab::new(AGENTS);
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let (mut socket, _) = client("ws://localhost/api/v1/agents/asker/ws", lab.connect()).expect("it is served");
    let mut answer = |message: &str| {
        socket.send(Message::Text(message.into())).expect("sent");
        loop {
            let reply = socket.read().expect("a message");
            let reply: Value = serde_json::from_str(reply.to_text().unwrap_or("null")).unwrap_or_default();
            if matches!(reply["type"].as_str(), Some("error" | "answered")) {
                return reply;
            }
        }
    };
    let refused = answer(r#"{"type":"respond","accept":true}"#);
    assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("BAD_REQUEST")), "{refused}");
    assert!(!lab.workspace("asker").join("victim.txt").exists());
    let answered = answer(r#"{"type":"respond","ask":"ask-1","accept":true}"#);
    assert_eq!((&answered["type"], &answered["delivered"]), (&json!("answered"), &json!(true)), "{answered}");
    lab.ok(&["kill", "asker"]);
}
