//! Claude Code told truthfully: the same list for the scripted agent and, where `COOP_REAL_CLAUDE` names it, for the
//! real one (`make test-real` does).

use std::time::Instant;

use serde_json::{Value, json};

use crate::driven::{Agent, Runtime, Which, with_both};
use crate::tool::wait_until;

/// From the start to the exit: every state with its evidence, every answer with its effect.
fn the_list(which: &Which, runtime: Runtime) {
    let told = |case: &str, since: Instant| tell(which, runtime, case, since);
    let began = Instant::now();
    let mut agent = Agent::start(which, runtime, &[], &[]);
    agent.state("idle");
    told("idle", began);
    assert_eq!(agent.get("/api/v1/agent/state")["state"], "waiting_for_input");

    let sent = Instant::now();
    agent.nudge("one [[bash:touch denied.txt]]");
    let ask = agent.asked("permission");
    told("permission", sent);
    assert_eq!((&ask["tool"], &ask["preview"]), (&json!("Bash"), &json!("touch denied.txt")));
    let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "not now" }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
    let denied = Instant::now();
    let answered = agent.respond(&json!({ "accept": false, "text": "leave that alone" }));
    let via = match runtime {
        Runtime::Pty => "hook",
        Runtime::Pipe => "control",
    };
    assert_eq!(answered["via"], via);
    agent.state("idle");
    assert!(!agent.has("denied.txt"), "what was denied was done");
    told("permission denied", denied);
    agent.written_down("leave that alone");
    let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
    assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));

    agent.nudge("two [[bash:touch allowed.txt]]");
    agent.asked("permission");
    let allowed = Instant::now();
    agent.respond(&json!({ "accept": true }));
    agent.state("idle");
    assert!(agent.has("allowed.txt"), "what was allowed was not done");
    told("permission allowed", allowed);

    let sent = Instant::now();
    agent.nudge("three [[ask]]");
    let ask = agent.asked("question");
    told("question", sent);
    assert_eq!(ask["options"][1]["label"], "SQLite");
    let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "option": 9 }));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
    agent.respond(&json!({ "option": 2 }));
    agent.state("idle");
    agent.written_down(r#"\"Which database should we use?\"=\"SQLite\""#);

    agent.nudge("four [[ask]]");
    agent.asked("question");
    agent.respond(&json!({ "text": "CockroachDB, please" }));
    agent.state("idle");
    agent.written_down("CockroachDB, please");

    agent.nudge("five [[ask2]]");
    let ask = agent.asked("question");
    assert_eq!(ask["questions"].as_array().map(Vec::len), Some(2));
    agent.respond(&json!({ "answers": [{ "option": 3 }, { "text": "Zig" }] }));
    agent.state("idle");
    agent.written_down(r#"=\"MySQL\""#);
    agent.written_down(r#"=\"Zig\""#);

    let sent = Instant::now();
    agent.nudge("six [[slow:60]]");
    agent.state("working");
    told("working", sent);
    let stopped = Instant::now();
    let (status, body) = agent.post("/api/v1/agent/interrupt", &json!({}));
    assert_eq!((status, body), (200, json!({ "delivered": true })));
    let ended = agent.event("the turn's end", |body| body["kind"] == "turn" && body["what"] == "ended");
    assert_eq!(ended["outcome"], "interrupted");
    agent.state("idle");
    told("interrupt", stopped);
    let explained = agent.get("/api/v1/agent/explain");
    assert_eq!(explained["state"]["state"], "idle");

    let sent = Instant::now();
    agent.nudge("seven [[err:529x2]]");
    agent.state("idle");
    told("error and recovery", sent);
    agent.asked_at_least(3, "seven [[err:529x2]]");

    let sent = Instant::now();
    agent.nudge("eight [[err:401]]");
    let blocked = agent.state("blocked");
    told("error", sent);
    assert_eq!(
        (&blocked["next"]["fault"]["kind"], &blocked["next"]["fault"]["status"]),
        (&json!("auth"), &json!(401)),
        "{blocked:#}"
    );
    assert_eq!(agent.get("/api/v1/agent")["name"], "error");

    let used = agent.get("/api/v1/session/usage");
    assert!(
        used["total"]["output_tokens"].as_u64() > Some(0) && used["total"]["cost_usd"].as_f64() > Some(0.0),
        "{used}"
    );

    let ended = Instant::now();
    agent.post("/api/v1/shutdown", &json!({}));
    agent.state("exited");
    told("exit", ended);
}

pub(crate) fn tell(which: &Which, runtime: Runtime, case: &str, since: Instant) {
    let runtime = match runtime {
        Runtime::Pty => "pty",
        Runtime::Pipe => "pipe",
    };
    which.case("claude", runtime, case, since);
}

#[test]
fn the_whole_list_in_the_terminal() {
    with_both(|which| the_list(which, Runtime::Pty));
}

#[test]
fn the_whole_list_over_pipes() {
    with_both(|which| the_list(which, Runtime::Pipe));
}

#[test]
fn a_plan_is_rejected_with_feedback_and_then_accepted() {
    with_both(|which| {
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            let mut agent = Agent::start(which, runtime, &[], &["--permission-mode", "plan"]);
            agent.state("idle");
            agent.nudge("make a plan [[plan]]");
            let ask = agent.asked("plan");
            assert!(ask["input"]["plan"].as_str().is_some_and(|plan| plan.contains("Do the first thing")), "{ask:#}");
            agent.respond(&json!({ "accept": false, "text": "do not touch the database" }));
            agent.state("idle");
            agent.written_down("do not touch the database");
            agent.nudge("again [[plan]]");
            agent.asked("plan");
            agent.respond(&json!({ "accept": true }));
            agent.state("idle");
            agent.written_down("approved your plan");
        }
    });
}

#[test]
fn a_gated_stop_holds_the_turn_until_it_is_decided() {
    with_both(|which| {
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            let config = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(config.path(), r#"{"stop":{"mode":"gate"},"start":{"shell":["echo the sky is green"]}}"#)
                .expect("written");
            let path = config.path().to_str().expect("UTF-8");
            let mut agent = Agent::start(which, runtime, &["--agent-config", path], &[]);
            agent.state("idle");
            agent.nudge("work [[text:first try]]");
            agent.state("working");
            let held = agent.event("the stop", |body| body["kind"] == "stop");
            assert_eq!(held["outcome"], "blocked");
            let report = agent.get("/api/v1/agent");
            assert_eq!(report["name"], "working", "an agent that is held is not idle");
            assert_eq!(report["stop_held"], true);
            let more = json!({ "decision": "block", "reason": "also say [[text:second try]]" });
            assert_eq!(agent.post("/api/v1/stop/resolve", &more).0, 200);
            let sent_back = agent.event("being sent back", |body| body["kind"] == "stop");
            assert!(sent_back["reason"].as_str().is_some_and(|why| why.contains("second try")), "{sent_back}");
            let held = agent.event("the second stop", |body| body["kind"] == "stop" || body["kind"] == "state");
            assert_eq!((&held["kind"], &held["outcome"]), (&json!("stop"), &json!("blocked")), "a false idle: {held}");
            assert_eq!(agent.post("/api/v1/stop/resolve", &json!({})).0, 200);
            agent.state("idle");
            let report = agent.get("/api/v1/agent");
            assert_eq!((&report["last_message"], &report["stop_held"]), (&json!("second try"), &json!(false)));
            agent.written_down("the sky is green");
            assert_eq!(agent.post("/api/v1/stop/resolve", &json!({})).0, 409);
        }
    });
}

/// Returns the messages the agent took, in order.
fn prompts(agent: &mut Agent, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            let turn = agent.event("a turn", |body| body["kind"] == "turn" && body["what"] == "began");
            turn["prompt"].as_str().unwrap_or_default().to_owned()
        })
        .collect()
}

/// Newer versions put a long paste between tags.
fn without_paste_tags(taken: &str) -> &str {
    let inner = taken.trim().strip_prefix("<pasted_content id=").and_then(|rest| rest.split_once(">\n"));
    let inner = inner.and_then(|(_, rest)| rest.rsplit_once("\n</pasted_content")).map(|(inner, _)| inner);
    inner.unwrap_or(taken).trim()
}

#[test]
fn messages_of_any_size_arrive_once_and_whole() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        agent.state("idle");
        let line = "The quick brown fox, 漢字 and 👍, \"quoted\". ";
        let messages = [
            "x".to_owned(),
            line.repeat(10)[..300].to_owned(),
            line.chars().cycle().take(5 * 1024).collect(),
            (1..=100).map(|n| format!("line {n} of many\n")).collect::<String>() + "the end",
            "begin\u{1b}[201~\r\u{1b}[31mred\u{7} end".to_owned(),
            "0123456789abcdef".repeat(64 * 1024),
        ];
        for message in messages {
            let receipt = agent.nudge(&message);
            assert!(receipt["confirmed_by"].is_string(), "{receipt}");
            let expected: String =
                message.replace('\r', "\n").chars().filter(|c| !c.is_control() || *c == '\n').collect();
            let taken = prompts(&mut agent, 1).remove(0);
            let (bytes, length) = (message.len(), taken.len());
            assert!(without_paste_tags(&taken) == expected.trim(), "{bytes} bytes became {length}: {taken:.200}");
            agent.state("idle");
        }
    });
}

#[test]
fn many_senders_are_served_one_after_another() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        agent.state("idle");
        let count = 20;
        std::thread::scope(|scope| {
            for n in 0..count {
                let sidecar = &agent.sidecar;
                scope.spawn(move || {
                    let message = format!("sender {n} says {}", "all of this ".repeat(50));
                    let body = json!({ "message": message, "when": "idle", "wait": true });
                    let (status, receipt) = sidecar.ask("POST", "/api/v1/agent/nudge", &body.to_string());
                    assert_eq!((status, &receipt["delivered"]), (200, &json!(true)), "{receipt}");
                });
            }
        });
        let mut taken = prompts(&mut agent, count);
        taken.sort_by_key(|text| text.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok()));
        let expected: Vec<_> =
            (0..count).map(|n| format!("sender {n} says {}", "all of this ".repeat(50)).trim().to_owned()).collect();
        assert_eq!(taken.iter().map(|text| text.trim().to_owned()).collect::<Vec<_>>(), expected);
    });
}

#[test]
fn a_person_at_the_keyboard_answers_first() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        agent.state("idle");
        agent.nudge("one [[bash:touch typed.txt]]");
        let ask = agent.asked("permission");
        agent.sidecar.see("Esc to cancel");
        // What was drawn this moment takes no keys yet.
        wait_until("the dialog takes the key", || {
            agent.post("/api/v1/input", &json!({ "text": "1" }));
            !agent.sidecar.screen().contains("Esc to cancel")
        });
        let gone = agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
        assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &ask["id"]));
        agent.state("idle");
        assert!(agent.has("typed.txt"));
        let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": false }));
        assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));
        let (status, none) = agent.post("/api/v1/agent/respond", &json!({ "accept": true }));
        assert_eq!((status, &none["error"]["code"]), (409, &json!("NO_PROMPT")));
    });
}

/// A late answer to an ask of the agent that ran before must not hit one of the next.
#[test]
fn asks_are_counted_on_over_a_restart() {
    let mut agent = Agent::start(&Which::Scripted, Runtime::Pty, &[], &[]);
    agent.state("idle");
    agent.nudge("one [[bash:touch old.txt]]");
    let old = agent.asked("permission");
    assert_eq!(agent.post("/api/v1/restart", &json!({})).0, 200);
    agent.state("exited");
    agent.event("the next one", |body| body["kind"] == "state" && body["next"]["state"] == "idle");
    agent.nudge("two [[bash:touch new.txt]]");
    let new = agent.asked("permission");
    assert_ne!(old["id"], new["id"]);
    let (status, late) = agent.post("/api/v1/agent/respond", &json!({ "ask": old["id"], "accept": true }));
    assert_eq!((status, &late["error"]["code"]), (409, &json!("ALREADY_ANSWERED")));
    // What cannot be done as it was said is not done.
    for answer in [
        json!({ "accept": true, "input": "touch other.txt" }),
        json!({ "accept": true, "text": "but carefully" }),
        json!({ "accept": false, "always": true }),
    ] {
        let (status, refused) = agent.post("/api/v1/agent/respond", &answer);
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("BAD_REQUEST")), "{answer}");
    }
    agent.respond(&json!({ "ask": new["id"], "accept": false }));
    agent.state("idle");
    assert!(!agent.has("old.txt") && !agent.has("new.txt"));
}

#[test]
fn a_queued_message_can_be_seen_and_taken_back() {
    with_both(|which| {
        let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
        agent.state("idle");
        agent.nudge("work [[slow:60]]");
        // Newer ones keep what the model was told in their log, which has every common word.
        let message = json!({ "message": "later-than-this", "when": "idle" });
        let (status, receipt) = agent.post("/api/v1/agent/nudge", &message);
        assert_eq!((status, &receipt["queued"], &receipt["delivered"]), (200, &json!(true), &json!(false)));
        let waiting = agent.get("/api/v1/agent/nudges");
        assert_eq!(
            (&waiting["nudges"][0]["id"], &waiting["nudges"][0]["preview"]),
            (&receipt["id"], &json!("later-than-this"))
        );
        let path = format!("/api/v1/agent/nudges/{}", receipt["id"].as_str().expect("an id"));
        assert_eq!(agent.sidecar.ask("DELETE", &path, "").0, 200);
        assert_eq!(agent.sidecar.ask("DELETE", &path, "").0, 404);
        let told = agent.event("its end", |body| body["kind"] == "delivery" && body["id"] == receipt["id"]);
        assert_eq!((&told["delivered"], &told["reason"]), (&json!(false), &json!("cancelled")));
        agent.post("/api/v1/agent/interrupt", &json!({}));
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent/nudges"), json!({ "nudges": [] }));
        assert!(!agent.transcript().contains("later-than-this"));
    });
}

#[test]
fn without_hooks_keys_choose_what_is_on_the_screen() {
    with_both(|which| {
        let config = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(config.path(), r#"{"settings":{"disableAllHooks":true}}"#).expect("written");
        let path = config.path().to_str().expect("UTF-8");
        let mut agent = Agent::start(which, Runtime::Pty, &["--agent-config", path], &[]);
        agent.state("idle");
        agent.nudge("one [[bash:touch denied.txt]]");
        let ask = agent.asked("permission");
        assert_eq!(ask["channel"], "keys");
        let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "option": 7 }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
        agent.respond(&json!({ "accept": false }));
        agent.state("idle");
        assert!(!agent.has("denied.txt"), "what was denied was done");
        agent.nudge("two [[bash:touch allowed.txt]]");
        agent.asked("permission");
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
        assert!(agent.has("allowed.txt"), "what was allowed was not done");
        agent.nudge("three [[ask]]");
        agent.asked("question");
        agent.respond(&json!({ "text": "Oracle" }));
        agent.state("idle");
        agent.written_down("Oracle");
    });
}

/// Its files alone tell that a turn is over. Beyond 128 agents of a user the state was `working` for ever.
#[test]
fn an_agent_is_followed_where_no_inotify_instance_is_left() {
    if !coop_testkit::has_user_namespaces() {
        return;
    }
    with_both(|which| {
        let mut agent = Agent::start_unwatched(which);
        agent.state("idle");
        let explained = agent.get("/api/v1/agent/explain");
        let polled = explained["signals"].as_array().into_iter().flatten().find(|signal| signal["meaning"] == "polled");
        let detail = polled.and_then(|polled| polled["detail"].as_str()).unwrap_or_default();
        assert!(detail.contains("fs.inotify.max_user_instances"), "{explained:#}");
        agent.nudge("one [[bash:touch denied.txt]]");
        agent.asked("permission");
        agent.respond(&json!({ "accept": false }));
        agent.state("idle");
        assert!(!agent.has("denied.txt"), "what was denied was done");
        agent.nudge("two");
        agent.state("idle");
        agent.nudge("three [[slow:60]]");
        agent.state("working");
        assert_eq!(agent.post("/api/v1/agent/interrupt", &json!({})).0, 200);
        agent.state("idle");
    });
}

#[test]
fn a_set_up_dialog_is_an_ask_and_nothing_is_typed_into_it() {
    with_both(|which| {
        let mut agent = Agent::start_new(which);
        let ask = agent.asked("setup");
        assert_eq!(ask["channel"], "keys", "{ask:#}");
        allowing_option(&ask);
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "1" }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
        agent.nudge("hello [[text:hello yourself]]");
        agent.state("idle");
        assert_eq!(agent.get("/api/v1/agent")["last_message"], "hello yourself");
    });
}

/// Returns the option that allows. Newer releases have it last.
fn allowing_option(ask: &Value) -> &Value {
    let options = ask["options"].as_array().expect("options");
    options.iter().find(|option| option["kind"] == "allow_once").unwrap_or_else(|| panic!("{ask:#}"))
}

/// A checkout's hooks and settings count once its folder is trusted. Whether it is, a person says.
#[test]
fn an_isolated_agent_asks_whether_its_folder_is_trusted() {
    with_both(|which| {
        let mut agent = Agent::start_untrusted(which);
        let ask = agent.asked("setup");
        assert_eq!(allowing_option(&ask)["label"], "Yes, I trust this folder");
        agent.respond(&json!({ "accept": true }));
        agent.state("idle");
    });
}
