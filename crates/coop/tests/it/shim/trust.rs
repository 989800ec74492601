//! Who steers an agent behind a shim, and what holds of a brief that changes.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::world::{Agent, with_both};
use super::{Shim, approval, brief};
use crate::tool::{LIMIT, coop, request, run};

/// Whoever could answer there would answer around the shim, which tells its backend of every answer.
#[test]
fn nobody_answers_around_the_shim() {
    with_both(Agent::Claude, |world| {
        let shim = world.start_with(&["--auth-token", "dummy"], |command| command);
        let auth = "authorization: Bearer dummy\r\n";
        let (status, handle) =
            request(shim.connect(), "POST", "/spawn", &brief("x [[write:b.md|x]]").to_string(), auth);
        assert_eq!(status, 200, "{handle}");
        let socket = world.socket();
        let ask = |method: &str, path: &str, body: &str, headers: &str| {
            let stream = UnixStream::connect(&socket).expect("it listens");
            stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
            request(stream, method, path, body, headers)
        };
        let yes = r#"{"accept":true}"#;
        assert_eq!(ask("GET", "/api/v1/agent/asks", "", "").0, 401);
        assert_eq!(ask("POST", "/api/v1/agent/respond", yes, "").0, 401);
        assert_eq!(ask("GET", "/api/v1/agent/asks", "", auth).0, 200);
        let (status, refused) = ask("POST", "/api/v1/agent/respond", yes, auth);
        let why = "the shim steers this agent; here it can only be looked at";
        assert_eq!((status, &refused["error"]["message"]), (403, &json!(why)));
        assert_eq!(ask("POST", "/api/v1/input", r#"{"text":"1"}"#, auth).0, 403);
        assert!(!world.has("b.md"));
    });
}

#[test]
fn what_a_changed_brief_forbids_is_forbidden_at_once() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        let mut free = brief("x [[bash:rm -rf nothing]] [[write:e.md|x]]");
        free["controlMode"] = json!("ecosystem");
        shim.done("/spawn", &free);
        let first = events.decision();
        shim.done("/update-brief", &json!({ "controlMode": "orchestrator" }));
        shim.resolve(&first["decisionId"], &approval("approve"));
        let second = events.decision();
        assert_eq!(second["toolName"], "Write", "{second:#}");
        shim.resolve(&second["decisionId"], &approval("reject"));
        events.of("completion");
        assert!(!world.has("e.md"), "it was allowed by what no longer holds");
    });
}

#[test]
fn changes_that_make_no_sense_are_refused_and_what_nobody_knows_is_not_told() {
    with_both(Agent::Acp, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief(&format!("x {}", world.agent.bash("touch a"))));
        let decision = events.decision();
        for changes in [json!(5), json!("x"), json!([])] {
            let (status, refused) = shim.post("/update-brief", &json!({ "changes": changes }));
            assert_eq!((status, &refused["detail"][0]["loc"]), (422, &json!(["body", "changes"])), "{refused}");
        }
        assert_eq!(shim.post("/update-brief", &json!({ "controlMode": "none" })).0, 422);
        shim.done("/update-brief", &json!({ "nonsense": 1, "agentId": "other", "secretRefs": [] }));
        shim.resolve(&decision["decisionId"], &approval("approve"));
        events.of("completion");
        let told = world.prompts();
        assert!(!told.contains("Your brief has changed"), "{told}");
        assert!(events.past.iter().all(|event| event["event"]["agentId"] == "a1"));
    });
}

/// A process that is killed in the middle of its work has not abandoned it.
#[test]
fn an_agent_that_dies_at_work_has_crashed() {
    for agent in [Agent::Claude, Agent::Codex, Agent::OpenCode, Agent::Acp] {
        with_both(agent, |world| {
            let shim = world.start();
            let mut events = shim.follow();
            shim.done("/spawn", &brief("x [[hang]]"));
            while events.of("status")["message"] != "Turn 1 started" {}
            let pid = rustix::process::Pid::from_raw(world.agent_pid()).expect("a process");
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
            let error = events.of("error");
            assert_eq!(error["severity"], "high", "{:#?}", events.told());
            let crashed = events.of("lifecycle");
            assert_eq!(crashed["action"], "crashed", "{:#?}", events.told());
            assert_eq!(shim.health()["agentStatus"], "error");
        });
    }
}

#[test]
fn a_brief_that_is_cut_is_said_to_be() {
    let shim = Shim::start(&["--agent", "acp", "--", crate::tool::COOP, "sim", "acp"]);
    let mut events = shim.follow();
    let mut long = brief(&"D".repeat(9000));
    long["constraints"] = json!(["NEVER DELETE"]);
    shim.done("/spawn", &long);
    let error = events.of("error");
    assert_eq!(error["severity"], "warning");
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with("the brief is too long for a prompt: its last 11"), "{message}");
}

#[test]
fn a_shim_that_is_told_to_stop_says_so_to_everybody() {
    let shim = Shim::start(&["--agent", "acp", "--", crate::tool::COOP, "sim", "acp"]);
    let mut events = shim.follow();
    shim.done("/spawn", &brief("x [[hang]]"));
    while events.of("status")["message"] != "Turn 1 started" {}
    drop(shim);
    assert_eq!(events.of("lifecycle")["action"], "killed", "{:#?}", events.told());
}

#[test]
fn several_choices_are_several() {
    with_both(Agent::Claude, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("x [[askmulti]]"));
        let decision = events.decision();
        assert!(decision["summary"].as_str().is_some_and(|text| text.contains("several")), "{decision:#}");
        let ids: Vec<&str> = decision["options"].as_array().expect("options")[..2]
            .iter()
            .filter_map(|option| option["id"].as_str())
            .collect();
        let choice = |ids: &str| json!({ "type": "option", "chosenOptionId": ids, "rationale": "" });
        let wrong = json!({ "decisionId": decision["decisionId"], "resolution": choice("1,none") });
        let (status, refused) = shim.post("/resolve", &wrong);
        let known = refused["detail"][0]["msg"].as_str().unwrap_or_default().to_owned();
        assert_eq!((status, known.contains(ids[0])), (422, true), "{refused}");
        shim.resolve(&decision["decisionId"], &choice(&ids.join(", ")));
        assert_eq!(events.of("completion")["outcome"], "success");
    });
}

#[test]
fn what_no_agent_could_be_started_with_is_refused_at_once() {
    let home = tempfile::tempdir().expect("a folder");
    for (args, why) in [
        (&["--agent", "acp"][..], "give the agent's command after --"),
        (&["--agent", "gemini", "--isolate"], "--isolate is for claude, codex and opencode"),
    ] {
        let (code, _, errors) = run(coop(home.path()).args(["shim", "--port", "0"]).args(args));
        assert_eq!((code, errors.contains(why)), (1, true), "{errors}");
    }
}

/// The public backend's documents have an older form of what is decided.
#[test]
fn the_older_form_of_a_resolution_is_taken() {
    let shim = Shim::start(&["--agent", "codex", "--mock"]);
    let mut events = shim.follow();
    shim.done("/spawn", &brief("x"));
    let decision = events.decision();
    shim.resolve(&decision["decisionId"], &json!({ "resolutionType": "approve" }));
    events.of("completion");
    let real = Shim::start(&["--agent", "acp", "--", crate::tool::COOP, "sim", "acp"]);
    assert_eq!(real.ask("GET", "/debug/config", "").0, 404, "it is for the scripted runs");
}

#[test]
fn every_run_has_a_name_of_its_own() {
    let shim = Shim::start(&["--mock"]);
    let mut events = shim.follow();
    shim.done("/spawn", &brief("x"));
    events.decision();
    let state = shim.done("/pause", &Value::Null);
    shim.done("/resume", &state);
    while events.of("lifecycle")["action"] != "resumed" {}
    let runs: Vec<_> = events.past.iter().map(|event| event["runId"].clone()).collect();
    assert_ne!(runs.first(), runs.last());
}

/// More than is kept: one client from the beginning on, one that comes late, and one that comes back each time.
#[test]
fn the_newest_thousand_reach_whoever_comes_late_or_again() {
    let home = std::sync::Arc::new(tempfile::tempdir().expect("a folder"));
    let gate = home.path().join("half");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::from_raw_mode(0o600)).expect("a pipe");
    let args = ["--agent", "claude", "--isolate", "--", crate::tool::COOP, "sim", "claude"];
    let shim = Shim::start_in(std::sync::Arc::clone(&home), home.path(), &args, |command| {
        command.env("COOP_SIM_SCENARIO", "plain").env("COOP_SIM_GATES", home.path())
    });
    let mut early = shim.follow();
    let reads = |count| "[[read:n]] ".repeat(count);
    let mut free = brief(&format!("x {} [[gate:half]] {} [[text:Done.]]", reads(125), reads(200)));
    free["controlMode"] = json!("ecosystem");
    shim.done("/spawn", &free);
    let mut again = shim.follow();
    for events in [&mut early, &mut again] {
        while events.past.len() < 450 {
            events.next();
        }
    }
    std::fs::OpenOptions::new().write(true).open(&gate).expect("it waits");
    let mut seen: Vec<Value> = std::mem::take(&mut again.past);
    drop(again);
    early.of("completion");
    assert!(early.past.len() > 1200, "{}", early.past.len());
    let newest: Vec<Value> = early.past[early.past.len() - 1000..].to_vec();
    let mut late = shim.follow();
    let mut back = shim.follow();
    for events in [&mut late, &mut back] {
        // Of a run that began before, they see the newest only.
        events.past.push(early.past[early.past.len() - 1001].clone());
        events.of("completion");
    }
    assert_eq!(late.past[1..], newest);
    seen.extend(back.past.drain(1..));
    let ids = |events: &[Value]| {
        events.iter().map(|event| event["sourceEventId"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let is_whole = ids(&seen) == ids(&early.past);
    assert!(is_whole, "whoever came back in time has everything, by id: {} of {}", seen.len(), early.past.len());
    assert_eq!(ids(&early.past).len(), early.past.len(), "none is doubled");
}

/// A body without a length is counted as it comes.
#[test]
fn a_body_that_never_ends_is_cut_off() {
    use std::io::{Read, Write};
    let shim = Shim::start(&["--mock"]);
    let mut stream = shim.connect();
    write!(stream, "POST /spawn HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n").expect("sent");
    let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
    // It is refused long before the 100 MiB are over; then it takes no more.
    let sent = (0..1600).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() && sent < 1600 || answer.contains(" 413 "), "{sent} chunks, then {answer}");
    assert_eq!(shim.health()["agentStatus"], "completed", "nothing was spawned");
}

#[test]
fn another_address_is_served_with_a_token() {
    let home = std::sync::Arc::new(tempfile::tempdir().expect("a folder"));
    let args = ["--mock", "--host", "0.0.0.0", "--auth-token", "dummy"];
    let shim = Shim::start_in(std::sync::Arc::clone(&home), home.path(), &args, |command| command);
    assert_eq!(shim.ask("GET", "/health", "").0, 401);
    let (status, health) = request(shim.connect(), "GET", "/health", "", "authorization: Bearer dummy\r\n");
    assert_eq!(status, 200, "{health}");
}

#[test]
fn what_waits_for_one_agent_is_not_told_to_the_next() {
    with_both(Agent::Acp, |world| {
        let shim = world.start();
        let mut events = shim.follow();
        shim.done("/spawn", &brief("one [[text:Done.]]"));
        events.of("completion");
        let context = |content: &str| {
            json!({ "content": content, "format": "plain", "snapshotVersion": 5, "estimatedTokens": 1,
                    "priority": "required" })
        };
        shim.done("/inject-context", &context("for the first"));
        let mut other = brief(&format!("two {}", world.agent.bash("touch a")));
        other["agentId"] = json!("a2");
        shim.done("/spawn", &other);
        let decision = events.decision();
        // The other one was not told of this version.
        shim.done("/inject-context", &context("for the second"));
        shim.resolve(&decision["decisionId"], &approval("approve"));
        events.of("completion");
        let told = world.prompts();
        assert!(!told.contains("for the first") && told.contains("for the second"), "{told}");
    });
}
