//! Messages and answers that are typed: what the agent takes for a command, what it takes for data, and how it is answered
//! where no hook reaches coop.

use serde_json::{Value, json};

use crate::driven::{Agent, Runtime, Which, with_both};

/// Starts an agent whose hooks are switched off.
fn without_hooks(which: &Which, args: &[&str]) -> Agent {
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), r#"{"settings":{"disableAllHooks":true}}"#).expect("written");
    let path = config.path().to_str().expect("UTF-8");
    let mut agent = Agent::start(which, Runtime::Pty, &["--agent-config", path], args);
    agent.state("idle");
    agent
}

fn with_hooks(which: &Which) -> Agent {
    let mut agent = Agent::start(which, Runtime::Pty, &[], &[]);
    agent.state("idle");
    agent
}

/// A message is taken with one Enter. A real program that is slow may need a second, which is pressed only where the message still
/// stands.
fn taken(which: &Which, receipt: &Value) {
    let most = if matches!(which, Which::Real(_)) { 2 } else { 1 };
    assert!((1..=most).contains(&receipt["attempts"].as_u64().unwrap_or_default()), "{receipt}");
}

/// Sends a command and sees it taken, with one Enter.
fn command(agent: &mut Agent, text: &str) -> Value {
    let receipt = agent.nudge(text);
    assert_eq!(receipt["attempts"], 1, "{text}: {receipt}");
    assert!(receipt["confirmed_by"].is_string(), "{text}: {receipt}");
    receipt
}

/// Waits for the next state, which must be this one: not even work may come between.
fn next_state(agent: &mut Agent, name: &str) -> Value {
    let change = agent.event("a state", |body| body["kind"] == "state");
    assert_eq!(change["next"]["state"], name, "{change:#}");
    change["ask"].clone()
}

/// A command begins no turn. It used to be told as unconfirmed, and Enter was pressed once more: in the dialog of `/model`
/// that chooses a model.
#[test]
fn commands_end_in_a_true_state_and_enter_is_pressed_once() {
    with_both(|which| {
        for mut agent in [with_hooks(which), without_hooks(which, &[])] {
            agent.nudge("hello [[text:hi]]");
            agent.state("idle");

            command(&mut agent, "/help");
            let ask = agent.asked("setup");
            assert_eq!(ask["channel"], "keys");
            let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "1" }));
            assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
            let (status, refused) = agent.post("/api/v1/agent/respond", &json!({ "accept": true }));
            assert_eq!((status, &refused["error"]["code"]), (409, &json!("NO_SUCH_OPTION")));
            agent.respond(&json!({ "ask": ask["id"], "accept": false }));
            agent.state("idle");

            command(&mut agent, "/model");
            let ask = agent.asked("setup");
            assert_eq!(ask["preview"], "Select model");
            assert!(ask["options"][0]["label"].as_str().is_some_and(|label| label.starts_with("Default")), "{ask:#}");
            agent.respond(&json!({ "accept": false }));
            agent.state("idle");

            // This one has no hint below its options.
            command(&mut agent, "/model haiku");
            let ask = agent.asked("setup");
            assert_eq!(ask["options"][1]["label"], "No, go back", "{ask:#}");
            agent.respond(&json!({ "option": 2 }));
            agent.state("idle");

            assert!(!agent.transcript().contains("Set model to"), "something was chosen");
        }
    });
}

#[test]
fn a_conversation_is_made_shorter_and_cleared_by_messages() {
    with_both(|which| {
        for mut agent in [with_hooks(which), without_hooks(which, &[])] {
            agent.nudge("hello [[text:hi]]");
            agent.state("idle");
            let session = agent.get("/api/v1/agent")["session_id"].clone();
            for message in ["/compact", "go on [[text:yes]]", "/clear", "after it [[text:anew]]"] {
                let later = json!({ "message": message, "when": "idle", "wait": true });
                let (status, receipt) = agent.post("/api/v1/agent/nudge", &later);
                assert_eq!(
                    (status, &receipt["delivered"], &receipt["reason"]),
                    (200, &json!(true), &Value::Null),
                    "{message}: {receipt}"
                );
                taken(which, &receipt);
            }
            agent.event("another conversation", |body| body["what"] == "session" && body["id"] != session);
            agent.written_down("after it");
            assert!(!agent.transcript().contains("go on"), "it is the old conversation");
        }
    });
}

#[test]
fn what_is_sent_is_data_whatever_it_begins_with() {
    with_both(|which| {
        let mut agent = with_hooks(which);
        std::fs::write(agent.work.join("note.txt"), "a note").expect("written");
        for message in
            ["!touch ran.txt", "  !touch ran.txt", "#remember", "look at @no", "/usr/bin is a path", "\ttabs\tand \\"]
        {
            let receipt = agent.nudge(message);
            taken(which, &receipt);
            let turn = agent.event("its turn", |body| body["kind"] == "turn" && body["what"] == "began");
            let prompt = turn["prompt"].as_str().map(coop_drivers::comparable);
            assert_eq!(prompt, Some(coop_drivers::comparable(message)));
            agent.state("idle");
        }
        assert!(!agent.has("ran.txt"), "a message was run");
        // The agent would trim the blank and run it.
        let (status, refusal) = agent.post("/api/v1/agent/nudge", &json!({ "message": " /clear" }));
        assert_eq!((status, &refusal["error"]["code"]), (400, &json!("BAD_REQUEST")), "{refusal}");
    });
}

#[test]
fn without_hooks_a_no_has_its_reason_and_is_told_once() {
    with_both(|which| {
        let mut agent = without_hooks(which, &[]);
        agent.nudge("one [[bash:touch denied.txt]] [[text:well]]");
        let ask = agent.asked("permission");
        agent.respond(&json!({ "accept": false, "text": "use other.txt" }));
        agent.state("idle");
        agent.written_down("use other.txt");
        // Without one the turn ends with it, which is heard before the dialog is seen to be gone.
        agent.nudge("two [[bash:touch denied.txt]]");
        let plain = agent.asked("permission");
        agent.respond(&json!({ "accept": false }));
        agent.state("idle");
        agent.nudge("three [[text:done]]");
        agent.state("idle");
        for ask in [ask, plain] {
            assert_eq!(agent.told_of(&ask["id"]), ["answered"], "{ask:#}");
        }
        assert!(!agent.has("denied.txt"));
    });
}

/// Between two questions the agent used to be told as working for a second and a half.
#[test]
fn without_hooks_questions_follow_each_other_without_work_between() {
    with_both(|which| {
        let mut agent = without_hooks(which, &[]);
        agent.nudge("one [[ask2]]");
        agent.asked("question");
        agent.respond(&json!({ "option": 2 }));
        let second = next_state(&mut agent, "waiting");
        assert!(second["preview"].as_str().is_some_and(|shown| shown.starts_with("Which language?")), "{second:#}");
        agent.respond(&json!({ "text": "Zig" }));
        let review = next_state(&mut agent, "waiting");
        assert_eq!(review["options"][0]["label"], "Submit answers", "{review:#}");
        agent.respond(&json!({ "option": 1 }));
        agent.state("idle");
        agent.written_down(r#"=\"SQLite\""#);
        agent.written_down(r#"=\"Zig\""#);

        agent.nudge("two [[askmulti]]");
        let ask = agent.asked("question");
        assert_eq!(ask["questions"][0]["multi_select"], true, "{ask:#}");
        agent.respond(&json!({ "options": [1, 3] }));
        next_state(&mut agent, "waiting");
        agent.respond(&json!({ "option": 1 }));
        agent.state("idle");
        agent.written_down("Login, Export");
        assert_eq!(agent.told_of(&ask["id"]), ["answered"]);
    });
}

#[test]
fn without_hooks_a_plan_is_sent_back_with_words() {
    let mut agent = without_hooks(&Which::Scripted, &["--permission-mode", "plan"]);
    agent.nudge("make a plan [[plan]]");
    agent.asked("plan");
    agent.respond(&json!({ "accept": false, "text": "smaller steps" }));
    agent.state("idle");
    agent.written_down("smaller steps");
}

/// Its status file says nothing of a turn that takes less than a tenth of a second; its log does.
#[test]
fn without_hooks_short_turns_are_confirmed() {
    with_both(|which| {
        let mut agent = without_hooks(which, &[]);
        for turn in 1..=6 {
            let receipt = agent.nudge(&format!("turn {turn} [[text:ok]]"));
            taken(which, &receipt);
            agent.state("idle");
        }
    });
}

#[test]
fn a_queued_message_waits_for_a_person_who_is_typing() {
    with_both(|which| {
        let mut agent = with_hooks(which);
        agent.post("/api/v1/input", &json!({ "text": "half a thought" }));
        agent.sidecar.see("half a thought");
        let (status, refused) = agent.post("/api/v1/agent/nudge", &json!({ "message": "now" }));
        assert_eq!((status, &refused["error"]["code"]), (409, &json!("AGENT_BUSY")));
        let later = |text: &str| json!({ "message": text, "when": "idle" });
        let (status, receipt) = agent.post("/api/v1/agent/nudge", &later("first [[text:1]]"));
        assert_eq!((status, &receipt["queued"]), (200, &json!(true)), "{receipt}");
        agent.post("/api/v1/agent/nudge", &later("second [[text:2]]"));
        assert_eq!(agent.get("/api/v1/agent/nudges")["nudges"].as_array().map(Vec::len), Some(2));
        agent.post("/api/v1/input", &json!({ "text": " is sent" }));
        agent.sidecar.see("half a thought is sent");
        agent.post("/api/v1/input/keys", &json!({ "keys": ["Enter"] }));
        for prompt in ["half a thought is sent", "first [[text:1]]", "second [[text:2]]"] {
            let turn = agent.event("a turn", |body| body["kind"] == "turn" && body["what"] == "began");
            assert_eq!(turn["prompt"], prompt);
        }
    });
}
