//! The protocol itself, on the scripted runs: checklist 1.11 of the wire's notes, a test each.

use serde_json::{Value, json};

use super::{Events, Shim, approval, brief};
use crate::tool::{coop, request};

/// Returns an event in a few words.
fn short(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let detail = match event["type"].as_str().expect("a type") {
        "status" => word("message"),
        "tool_call" => format!("{} {} {}", word("toolName"), word("phase"), event["durationMs"]).replace(" null", ""),
        "decision" => format!("{} {}", word("subtype"), word("severity")),
        "artifact" => format!("{} {} {} {}", word("name"), word("kind"), event["qualityScore"], event["sizeBytes"]),
        "completion" => word("outcome"),
        "lifecycle" => word("action"),
        other => panic!("{other}"),
    };
    format!("{} {detail}", word("type"))
}

fn play(shim: &Shim, events: &mut Events, resolution: &Value) -> Vec<String> {
    let handle = shim.done("/spawn", &brief("x"));
    assert_eq!((&handle["id"], &handle["status"]), (&json!("a1"), &json!("running")));
    let decision = events.decision();
    assert_eq!(shim.health()["agentStatus"], "waiting_on_human");
    let answer = shim.resolve(&decision["decisionId"], resolution);
    assert_eq!(answer, json!({ "status": "resolved", "decisionId": decision["decisionId"] }));
    events.of("completion");
    assert_eq!(shim.health()["agentStatus"], "completed");
    events.told().iter().map(short).collect()
}

#[test]
fn the_openai_script_is_played_as_it_is_known() {
    let shim = Shim::start(&["--agent", "codex", "--mock"]);
    let mut events = shim.follow();
    assert_eq!(shim.health()["agentStatus"], "completed", "there is no agent yet");
    let told = play(&shim, &mut events, &approval("reject"));
    insta::assert_snapshot!(told.join("\n"), @r"
    lifecycle started
    status Starting task...
    tool_call file_search requested
    tool_call file_search running
    tool_call file_search completed 150
    decision tool_approval medium
    artifact report.md document 0.9 1024
    completion success
    ");
    let decision = &events.told()[5];
    assert_eq!((&decision["confidence"], &decision["blastRadius"]), (&json!(0.85), &json!("small")));
    assert_eq!(decision["toolName"], "execute_code");
}

#[test]
fn the_claude_script_is_played_as_it_is_known() {
    let shim = Shim::start(&["--mock"]);
    let mut events = shim.follow();
    let chosen = json!({ "type": "option", "chosenOptionId": "option-3", "rationale": "r", "actionKind": "update" });
    let told = play(&shim, &mut events, &chosen);
    insta::assert_snapshot!(told.join("\n"), @r"
    lifecycle started
    status Analyzing codebase...
    tool_call Read requested
    tool_call Read running
    tool_call Read completed 90
    status Planning implementation...
    tool_call Edit requested
    tool_call Edit completed 45
    decision option medium
    artifact pipeline.ts code 0.85 2048
    completion success
    ");
    let decision = &events.told()[8];
    assert_eq!(decision["options"].as_array().map(Vec::len), Some(3));
    assert_eq!(decision["recommendedOptionId"], decision["options"][2]["id"]);
    assert_eq!((&decision["confidence"], &decision["requiresRationale"]), (&json!(0.75), &json!(true)));
    assert_eq!(decision["affectedArtifactIds"], json!([]), "without it the public backend drops the decision");
}

#[test]
fn what_cannot_be_is_told_as_the_protocol_says() {
    let shim = Shim::start(&["--mock"]);
    let nobody = (404, json!({ "detail": "No agent running" }));
    for (path, body) in [
        ("/kill", json!({})),
        ("/pause", json!({})),
        ("/checkpoint", json!({ "decisionId": "d" })),
        ("/update-brief", json!({ "role": "x" })),
        ("/resolve", json!({ "decisionId": "d", "resolution": approval("approve") })),
    ] {
        assert_eq!(shim.post(path, &body), nobody, "{path}");
    }
    let context =
        json!({ "content": "c", "format": "json", "snapshotVersion": 1, "estimatedTokens": 1, "priority": "required" });
    assert_eq!(shim.done("/inject-context", &context), json!({ "status": "accepted" }));
    assert_eq!(shim.ask("GET", "/debug/config", ""), (200, json!({ "providerConfig": null })));
    let mut with_config = brief("x");
    with_config["providerConfig"] = json!({ "a": 1 });
    shim.done("/spawn", &with_config);
    assert_eq!(shim.ask("GET", "/debug/config", ""), (200, json!({ "providerConfig": { "a": 1 } })));
    let running = (409, json!({ "detail": "Agent already running" }));
    assert_eq!(shim.post("/spawn", &brief("x")), running);
    let state = shim.done("/checkpoint", &json!({ "handle": {}, "decisionId": "d" }));
    assert_eq!(shim.post("/resume", &state), running);
    let unknown = shim.done("/resolve", &json!({ "decisionId": "no", "resolution": approval("approve") }));
    assert_eq!(unknown, json!({ "status": "not_found", "decisionId": "no" }));
    assert_eq!(shim.ask("GET", "/nowhere", "").0, 404);
    assert_eq!(shim.ask("GET", "/spawn", "").0, 405);
    assert_eq!(shim.ask("GET", "/events", "").0, 426);
}

#[test]
fn a_strict_shim_says_404_to_decisions_that_nobody_waits_for() {
    let shim = Shim::start(&["--mock", "--strict"]);
    shim.done("/spawn", &brief("x"));
    let answer = shim.post("/resolve", &json!({ "decisionId": "no", "resolution": approval("approve") }));
    assert_eq!(answer, (404, json!({ "detail": "No pending decision with id no" })));
}

#[test]
fn a_run_is_killed_and_the_last_one_stays_known() {
    let shim = Shim::start(&["--agent", "codex", "--mock"]);
    let mut events = shim.follow();
    shim.done("/spawn", &brief("x"));
    events.decision();
    let (status, killed) = shim.ask("POST", "/kill", "");
    assert_eq!((status, &killed["cleanShutdown"], &killed["artifactsExtracted"]), (200, &json!(true), &json!(0)));
    let end = events.of("lifecycle");
    assert_eq!((&end["action"], &end["reason"]), (&json!("killed"), &json!("kill requested (graceful)")));
    assert_eq!(shim.health()["agentStatus"], "completed");
    assert_eq!(shim.done("/kill", &json!({ "grace": false }))["cleanShutdown"], false);
    // Nothing is told after the end, and the next run begins at one.
    shim.done("/spawn", &brief("x"));
    assert_eq!(events.next()["action"], "started");
    let runs: Vec<_> = events.past.iter().map(|event| &event["runId"]).collect();
    assert_ne!(runs[0], runs[runs.len() - 1]);
}

#[test]
fn a_paused_script_goes_on_where_it_was() {
    let shim = Shim::start(&["--agent", "codex", "--mock"]);
    let mut events = shim.follow();
    let handle = shim.done("/spawn", &brief("x"));
    let decision = events.decision();
    let state = shim.done("/pause", &handle);
    assert_eq!((&state["serializedBy"], &state["lastSequence"]), (&json!("pause"), &json!(7)));
    assert_eq!(state["checkpoint"], json!({ "sdk": "mock", "scriptPosition": 6 }));
    assert_eq!(state["pendingDecisionIds"], json!([decision["decisionId"]]));
    assert_eq!(state["briefSnapshot"], brief("x"), "the brief is kept as it came");
    assert_eq!(events.of("lifecycle")["action"], "paused");
    assert_eq!(shim.health()["agentStatus"], "paused");
    shim.done("/resume", &state);
    assert_eq!(events.next()["action"], "resumed");
    let decision = events.next();
    assert_eq!(decision["type"], "decision", "what was not decided is asked again");
    shim.resolve(&decision["decisionId"], &approval("approve"));
    events.of("artifact");
    assert_eq!(events.next()["outcome"], "success");
}

#[test]
fn every_client_gets_everything_whenever_it_comes() {
    let shim = Shim::start(&["--agent", "codex", "--mock"]);
    let mut early = shim.follow();
    shim.done("/spawn", &brief("x"));
    let decision = early.decision();
    let mut late = shim.follow();
    late.decision();
    shim.resolve(&decision["decisionId"], &approval("approve"));
    let mut again = shim.follow();
    for events in [&mut early, &mut late, &mut again] {
        events.of("completion");
    }
    assert_eq!(early.past, late.past);
    assert_eq!(early.past, again.past);
    let ids: std::collections::HashSet<_> = early.past.iter().map(|event| event["sourceEventId"].to_string()).collect();
    assert_eq!(ids.len(), 8, "none is doubled");
    assert_eq!(shim.health()["pendingEventBufferSize"], 0);
    // The sockets stay open for the next run.
    shim.done("/spawn", &brief("x"));
    for events in [&mut early, &mut late, &mut again] {
        assert_eq!(events.next()["action"], "started");
    }
}

#[test]
fn the_port_is_told_on_the_first_line() {
    let home = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let (code, out, err) = crate::tool::run(coop(home.path()).args(["shim", "--mock"]).env("AGENT_PORT", &port));
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains(&port) && err.contains("--port"), "{err}");
    let (code, _, err) =
        crate::tool::run(coop(home.path()).args(["shim", "--mock", "--host", "0.0.0.0", "--port", "0"]));
    assert!(code == 1 && err.contains("token"), "{code} {err}");
    // `--port 0` comes before the variable.
    let home = std::sync::Arc::new(home);
    let shim = Shim::start_in(std::sync::Arc::clone(&home), home.path(), &["--mock", "--port", "0"], |command| {
        command.env("AGENT_PORT", &port)
    });
    assert_ne!(shim.port.to_string(), port);
}

#[test]
fn strangers_and_pages_are_kept_out() {
    let shim = Shim::start(&["--mock", "--auth-token", "hush"]);
    let ask = |headers: &str| request(shim.connect(), "POST", "/spawn", &brief("x").to_string(), headers).0;
    assert_eq!(ask(""), 401);
    assert_eq!(ask("authorization: Bearer wrong\r\n"), 401);
    assert_eq!(ask("authorization: Bearer hush\r\norigin: http://evil.example\r\n"), 403);
    assert_eq!(ask("authorization: Bearer hush\r\n"), 200);
}
