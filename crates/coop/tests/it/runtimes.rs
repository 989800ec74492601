//! Over pipes and in its terminal an agent is told in the same words: the same turns, messages, tools, files, faults and
//! tokens, whichever way it is run.

use std::time::Instant;

use serde_json::{Value, json};

use crate::claude::tell;
use crate::driven::{Agent, Runtime, Which, with_both};

const BOTH: [Runtime; 2] = [Runtime::Pty, Runtime::Pipe];
/// What the scripted agent and the fake model tell of each request: read, written, from the cache, into it.
const REQUEST: [u64; 4] = [1200, 42, 5000, 300];

/// What is compared of an event: all but names, times, places and what has no counterpart.
fn essence(body: &Value, work: &str) -> Option<(String, String)> {
    let text = |value: &Value| value.to_string().replace(work, "WORK");
    let kind = body["kind"].as_str()?;
    let told = match kind {
        "turn" => format!("{} {} {}", body["what"], text(&body["prompt"]), body["outcome"]),
        "message" => format!("{} {}", body["role"], text(&body["text"])),
        "tool" => {
            let timed = if body["duration_ms"].is_u64() { "timed" } else { "" };
            format!("{} {} {} {timed}", body["tool"], body["phase"], text(&body["input"]))
        }
        "ask" if body["what"] == "opened" => format!("{} {}", body["ask"]["kind"], text(&body["ask"]["preview"])),
        "artifact" => text(body),
        "fault" if body["retry"].is_null() => format!("{}", body["fault"]),
        "stop" => format!("{} {}", body["outcome"], body["reason"]),
        _ => return None,
    };
    let whose = if body["subagent"].is_string() { "sub-agent's " } else { "" };
    Some((format!("{whose}{kind}"), told))
}

/// Everything an agent does, told by kind, turn by turn. What sub-agents do is told beside it.
fn story(which: &Which, runtime: Runtime) -> Vec<Vec<(String, String)>> {
    let mut agent = Agent::start(which, runtime, &[], &[]);
    agent.state("idle");
    // With its whole path: hooks are told that also where the model gave less.
    let notes = agent.work.join("notes.md").display().to_string();
    let yes = [json!({ "accept": true })];
    let turns = [
        agent.turn("one [[text:hello]]", &[]),
        agent.turn(&format!("two [[write:{notes}|hi]]"), &yes),
        agent.turn("three [[bash:touch no.txt]]", &[json!({ "accept": false, "text": "no" })]),
        agent.turn("four [[bash:ls nowhere]]", &[]),
        agent.turn("five [[ask]]", &[json!({ "option": 2 })]),
        agent.turn("six [[agent:look [[bash:echo there]]]]", &[]),
        agent.turn("seven [[err:400]]", &[]),
        agent.turn("eight", &[]),
    ];
    let work = agent.work.to_str().expect("UTF-8").to_owned();
    turns
        .iter()
        .enumerate()
        .map(|(number, turn)| {
            let began = turn.iter().position(|body| body["kind"] == "turn").expect("a turn");
            let early = turn[..began].iter().find(|body| matches!(body["kind"].as_str(), Some("message" | "tool")));
            assert_eq!(early, None, "told after the end of the turn it belongs to ({runtime:?})");
            let mut told: Vec<_> = turn.iter().filter_map(|body| essence(body, &work)).collect();
            match number {
                // The real one does not write the first lines of a new log in order.
                0 => told.sort(),
                _ => told.sort_by(|(one, _), (other, _)| one.cmp(other)),
            }
            told
        })
        .collect()
}

#[test]
fn both_runtimes_tell_the_same_story() {
    with_both(|which| {
        let [pty, pipe] = BOTH.map(|runtime| story(which, runtime));
        for (turn, (pty, pipe)) in pty.iter().zip(&pipe).enumerate() {
            assert_eq!(pipe, pty, "turn {turn} of {which:?}");
        }
        let all: Vec<_> = pipe.into_iter().flatten().collect();
        let count = |kind: &str| all.iter().filter(|(found, _)| found == kind).count();
        assert_eq!((count("fault"), count("artifact"), count("turn")), (1, 1, 16), "{all:#?}");
        let has = |kind: &str, text: &str| all.iter().any(|(found, told)| found == kind && told.contains(text));
        assert!(has("turn", "two [[write") && has("message", "\"user\" \"two [[write"), "{all:#?}");
        assert!(has("artifact", "WORK/notes.md") && has("tool", "\"completed\" null timed"), "{all:#?}");
        assert!(has("sub-agent's message", "") && has("sub-agent's tool", "timed"), "{all:#?}");
    });
}

/// Waits until so many requests were counted, and returns what was used in the turn and in all.
fn used(agent: &mut Agent, requests: u64) -> [Value; 2] {
    let mut report = agent.get("/api/v1/session/usage");
    while report["requests"].as_u64() < Some(requests) {
        report = agent.event("usage", |body| body["kind"] == "usage");
    }
    assert_eq!(report["requests"], requests, "{report}");
    [report["turn"].clone(), report["total"].clone()]
}

fn tokens(usage: &Value) -> [u64; 4] {
    ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
        .map(|key| usage[key].as_u64().expect("a number"))
}

#[test]
fn tokens_are_those_the_model_told_also_after_a_resume() {
    with_both(|which| {
        for runtime in BOTH {
            let mut agent = Agent::start(which, runtime, &[], &[]);
            agent.state("idle");
            let mut total = 0;
            // So many requests does each of these take, those of the sub-agent counted.
            let turns = [("one [[text:hello]]", 1), ("two [[bash:ls]]", 2), ("three [[agent:look [[bash:ls]]]]", 4)];
            for (message, requests) in turns {
                total += requests;
                agent.turn(message, &[]);
                let report = used(&mut agent, total);
                let counted = report.each_ref().map(tokens);
                let expected = [requests, total].map(|count| REQUEST.map(|tokens| tokens * count));
                assert_eq!(counted, expected, "{message} {runtime:?} {which:?}");
            }
            let again = Instant::now();
            let mut agent = agent.resume(which, runtime);
            agent.state("idle");
            tell(which, runtime, "resume", again);
            let before = used(&mut agent, total);
            assert_eq!(before.each_ref().map(tokens), [[0; 4], REQUEST.map(|tokens| tokens * total)]);
            agent.turn("four [[bash:ls]]", &[]);
            let counted = used(&mut agent, total + 2).each_ref().map(tokens);
            let expected = [2, total + 2].map(|count| REQUEST.map(|tokens| tokens * count));
            assert_eq!(counted, expected, "after a resume, {runtime:?} {which:?}");
        }
    });
}

#[test]
fn a_setting_is_changed_or_refused_in_words() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pipe, &[], &[]);
        agent.state("idle");
        let (status, refused) = agent.post("/api/v1/agent/configure", &json!({ "mode": "nonsense", "model": "opus" }));
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("BAD_REQUEST")), "{refused}");
        let why = refused["error"]["message"].as_str().expect("a message");
        assert!(why.contains("nonsense") && why.contains("acceptEdits"), "{why}");
        let (status, refused) = agent.post("/api/v1/agent/configure", &json!({ "mode": "bypassPermissions" }));
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("BAD_REQUEST")), "{refused}");
        let why = refused["error"]["message"].as_str().expect("a message");
        assert!(why.contains("--dangerously-skip-permissions"), "the agent's own words: {why}");
        let both = json!({ "mode": "acceptEdits", "model": "claude-opus-4-8" });
        assert_eq!(agent.post("/api/v1/agent/configure", &both), (200, json!({ "delivered": true })));
        agent.turn("one [[write:free.txt|hi]]", &[]);
        assert!(agent.has("free.txt"), "edits are accepted now");
    });
}

#[test]
fn the_last_message_is_of_this_turn_and_this_conversation() {
    with_both(|which| {
        for runtime in BOTH {
            let mut agent = Agent::start(which, runtime, &[], &[]);
            agent.state("idle");
            agent.turn("one [[text:first]]", &[]);
            assert_eq!(agent.get("/api/v1/agent")["last_message"], "first");
            agent.nudge("two [[hang]]");
            assert_eq!(agent.post("/api/v1/agent/interrupt", &json!({})).0, 200);
            let idle = agent.state("idle");
            assert_ne!(idle["last_message"], "first", "{runtime:?}");
            assert_ne!(agent.get("/api/v1/agent")["last_message"], "first", "{runtime:?}");
            agent.turn("three [[text:third]]", &[]);
            let before = agent.get("/api/v1/agent")["session_id"].clone();
            agent.post("/api/v1/agent/nudge", &json!({ "message": "/clear" }));
            agent.event("another conversation", |body| body["what"] == "session" && body["id"] != before);
            assert_eq!(agent.get("/api/v1/agent")["last_message"], Value::Null, "{runtime:?}");
        }
    });
}

/// Returns a file with a configuration.
fn config(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn in_mode_auto_an_agent_is_asked_once_whether_it_is_done() {
    with_both(|which| {
        for runtime in BOTH {
            let config = config(r#"{"stop":{"mode":"auto","prompt":"Sure? [[text:quite sure]]","escalate":true}}"#);
            let path = config.path().to_str().expect("UTF-8");
            let mut agent = Agent::start(which, runtime, &["--agent-config", path], &[]);
            agent.state("idle");
            for _ in 0..2 {
                let happened = agent.turn("work [[text:done]]", &[]);
                let stops: Vec<_> = happened.iter().filter(|body| body["kind"] == "stop").collect();
                let asked = "Sure? [[text:quite sure]] Use the AskUserQuestion tool before proceeding.";
                assert_eq!(stops.len(), 2, "{happened:#?}");
                assert_eq!((&stops[0]["outcome"], &stops[0]["reason"]), (&json!("blocked"), &json!(asked)));
                assert_eq!((&stops[1]["outcome"], &stops[1]["reason"]), (&json!("allowed"), &Value::Null));
                assert_eq!(agent.get("/api/v1/agent")["last_message"], "quite sure", "{runtime:?}");
            }
            agent.written_down("Use the AskUserQuestion tool before proceeding.");
        }
    });
}

#[test]
fn who_escalates_tells_an_agent_that_is_sent_back_to_ask() {
    with_both(|which| {
        let config = config(r#"{"stop":{"mode":"gate","escalate":true}}"#);
        let path = config.path().to_str().expect("UTF-8");
        let mut agent = Agent::start(which, Runtime::Pty, &["--agent-config", path], &[]);
        agent.state("idle");
        agent.nudge("work [[text:done]]");
        agent.event("being held", |body| body["kind"] == "stop");
        assert_eq!(agent.post("/api/v1/stop/resolve", &json!({ "decision": "block" })).0, 200);
        let sent_back = agent.event("being sent back", |body| body["kind"] == "stop");
        let reason = sent_back["reason"].as_str().expect("a reason");
        assert!(reason.ends_with(" Use the AskUserQuestion tool before proceeding."), "{reason}");
        agent.event("being held again", |body| body["kind"] == "stop");
        agent.written_down("Use the AskUserQuestion tool before proceeding.");
        assert_eq!(agent.post("/api/v1/stop/resolve", &json!({})).0, 200);
        agent.state("idle");
    });
}

#[test]
fn messages_that_wait_when_the_agent_exits_are_told_of() {
    for runtime in BOTH {
        let mut agent = Agent::start(&Which::Scripted, runtime, &["--linger", "60"], &[]);
        agent.state("idle");
        agent.nudge("work [[hang]]");
        let (_, queued) = agent.post("/api/v1/agent/nudge", &json!({ "message": "later", "when": "idle" }));
        assert_eq!(queued["queued"], true);
        std::thread::scope(|scope| {
            let sidecar = &agent.sidecar;
            let waits = scope.spawn(move || {
                let body = json!({ "message": "later still", "when": "idle", "wait": true });
                sidecar.ask("POST", "/api/v1/agent/nudge", &body.to_string())
            });
            let both = || agent.get("/api/v1/agent/nudges")["nudges"].as_array().map(Vec::len) == Some(2);
            let deadline = std::time::Instant::now() + crate::tool::LIMIT;
            while !both() {
                assert!(std::time::Instant::now() < deadline, "two messages wait");
                crate::tool::pause();
            }
            assert_eq!(agent.post("/api/v1/signal", &json!({ "signal": "KILL" })).0, 200);
            let (status, refused) = waits.join().expect("no panic");
            assert_eq!((status, &refused["error"]["code"]), (410, &json!("EXITED")), "{refused}");
        });
        for _ in 0..2 {
            let told = agent.event("an end", |body| body["kind"] == "delivery" && body["delivered"] == false);
            assert_eq!(told["reason"], "exited", "{told}");
        }
        assert_eq!(agent.get("/api/v1/agent/nudges"), json!({ "nudges": [] }));
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "too late", "when": "idle" }));
        assert_eq!((status, &refused["error"]["code"]), (410, &json!("EXITED")));
    }
}
