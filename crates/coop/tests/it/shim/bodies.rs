//! Bodies that make no sense: a clear 4xx, and nothing is spawned.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::{Shim, brief};

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let shim = Shim::start(&["--mock"]);
    let wrong = |change: fn(&mut Value)| {
        let mut brief = brief("x");
        change(&mut brief);
        let (status, body) = shim.post("/spawn", &brief);
        assert_eq!(status, 422, "{body}");
        body["detail"][0].clone()
    };
    let missing = wrong(|brief| drop(brief.as_object_mut().expect("an object").remove("role")));
    assert_eq!(
        (&missing["type"], &missing["loc"], &missing["msg"]),
        (&json!("missing"), &json!(["body", "role"]), &json!("Field required"))
    );
    let typed = wrong(|brief| brief["constraints"] = json!("none"));
    assert_eq!(typed["loc"], json!(["body", "constraints"]));
    let nested = wrong(|brief| brief["projectBrief"]["goals"] = json!([1]));
    assert_eq!((&nested["loc"], &nested["input"]), (&json!(["body", "projectBrief", "goals", 0]), &json!(1)));
    assert_eq!(wrong(|brief| brief["controlMode"] = json!("chaos"))["loc"], json!(["body", "controlMode"]));
    assert_eq!(wrong(|brief| brief["agentId"] = json!(""))["loc"], json!(["body", "agentId"]));
    for (path, body) in [
        ("/resolve", json!({ "decisionId": "d", "resolution": { "type": "tool_approval", "action": "maybe" } })),
        ("/resolve", json!({ "decisionId": "d" })),
        ("/kill", json!({ "graceTimeoutMs": 0 })),
        ("/checkpoint", json!({})),
        ("/inject-context", json!({ "content": 1 })),
        ("/resume", json!({ "agentId": "a" })),
    ] {
        let (status, answer) = shim.post(path, &body);
        assert_eq!(status, 422, "{path} {answer}");
        assert!(answer["detail"][0]["msg"].is_string(), "{answer}");
    }
    assert_eq!(shim.post("/kill", &json!({})).0, 404, "nothing was spawned");
}

#[test]
fn what_is_not_json_or_too_much_is_refused() {
    let shim = Shim::start(&["--mock"]);
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for body in ["{", "nonsense", "[]", "7", "\u{0}", deep.as_str(), &format!("\"{}\"", "x".repeat(4 << 20))] {
        let (status, answer) = shim.ask("POST", "/spawn", body);
        assert_eq!(status, 422, "{answer}");
        assert!(answer["detail"][0]["msg"].is_string(), "{answer}");
    }
    // A hundred megabytes are refused before they are read.
    let mut stream = shim.connect();
    let head = format!(
        "POST /spawn HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        100 << 20
    );
    stream.write_all(head.as_bytes()).expect("it is open");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert_eq!(shim.post("/kill", &json!({})).0, 404, "nothing was spawned");
}

/// The public shim took a hundred kilobytes; snapshots are larger.
#[test]
fn a_large_brief_is_taken() {
    let shim = Shim::start(&["--mock"]);
    let mut large = brief("x");
    large["knowledgeSnapshot"]["artifactIndex"] = json!([{ "id": "x".repeat(4 << 20) }]);
    assert_eq!(shim.done("/spawn", &large)["status"], "running");
}

#[test]
fn keys_that_nobody_knows_and_both_forms_of_a_body_are_taken() {
    let shim = Shim::start(&["--mock"]);
    let mut odd = brief("x");
    odd["unheardOf"] = json!({ "a": [1] });
    for lenient in ["readableWorkstreams", "constraints", "allowedTools"] {
        odd.as_object_mut().expect("an object").remove(lenient);
    }
    let handle = shim.done("/spawn", &odd);
    let accepted = json!({ "status": "accepted" });
    for body in [
        json!({ "handle": handle, "changes": { "role": "tester" } }),
        json!({ "handle": handle, "role": "tester" }),
        json!({ "role": "tester", "more": 1 }),
    ] {
        assert_eq!(shim.done("/update-brief", &body), accepted);
    }
    assert_eq!(shim.post("/update-brief", &json!({ "changes": { "role": 7 } })).0, 422);
    for body in [json!({ "decisionId": "d" }), json!({ "handle": handle, "decisionId": "d" })] {
        assert_eq!(shim.done("/checkpoint", &body)["serializedBy"], "decision_checkpoint");
    }
    let state = shim.done("/pause", &Value::Null);
    assert_eq!(state["briefSnapshot"]["unheardOf"], json!({ "a": [1] }));
}
