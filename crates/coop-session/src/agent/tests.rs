use coop_drivers::{Known, Launch};
use serde_json::{Value, json};

use super::*;

fn agent(runtime: Runtime) -> (Agent, Now) {
    let now = Now { instant: Instant::now(), wall: SystemTime::now(), screen: Seq(1), lock: None };
    let launch = Launch { runtime, ..Launch::default() };
    let claude = Known::by_name("claude").expect("a known agent");
    let driver = (claude.new)(claude.rules().expect("rules"), &launch);
    (Agent::new(driver, runtime, Duration::ZERO, StopConfig::default(), None, &now), now)
}

/// Returns the kinds of the events among effects, and states by name.
fn told(effects: &[Effect]) -> Vec<&str> {
    let name = |effect| match effect {
        &Effect::Record(EventBody::State(ref change)) => Some(change.next.short_name()),
        Effect::Record(body) => Some(body.kind()),
        _ => None,
    };
    effects.iter().filter_map(name).collect()
}

fn hook(agent: &mut Agent, event: &str, payload: Value, now: &Now) -> Vec<Effect> {
    agent.hook(
        &coop_api::HookCall { token: coop_api::Token::new("t").expect("a token"), event: event.to_owned(), payload },
        oneshot::channel().0,
        now,
    )
}

fn says(text: &str) -> Value {
    json!({ "type": "assistant", "parent_tool_use_id": null, "message": {
        "id": "m", "role": "assistant", "content": [{ "type": "text", "text": text }] } })
}

#[test]
fn a_conversation_that_is_resumed_counts_and_is_not_told_again() {
    let (mut agent, now) = agent(Runtime::Pty);
    let line = |id: &str| {
        let message = json!({ "id": id, "role": "assistant", "model": "claude-opus-4-8", "content": [],
                              "usage": { "output_tokens": 10 } });
        json!({ "type": "assistant", "message": message })
    };
    for id in ["a", "a", "b"] {
        assert!(agent.observe(&Observation::LogLine { line: &line(id), past: true }, &now).is_empty());
    }
    let told = agent.observe(&Observation::LogLine { line: &line("c"), past: false }, &now);
    assert!(matches!(told[..], [Effect::Record(EventBody::Usage(report))] if report.total.output_tokens == 30));
}

/// The hook that ends a turn was heard before the log's last lines, and the agent was idle before it had said anything.
#[test]
fn what_was_said_in_a_turn_is_told_before_its_end() {
    let (mut agent, now) = agent(Runtime::Pty);
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &now);
    assert_eq!(told(&hook(&mut agent, "Stop", json!({ "last_assistant_message": "done" }), &now)), ["stop"]);
    assert_eq!(agent.state().short_name(), "working");
    let told_then = agent.observe(&Observation::LogLine { line: &says("done"), past: false }, &now);
    assert_eq!(told(&told_then), ["message", "turn", "idle"]);
}

#[test]
fn a_turn_whose_log_does_not_come_ends_all_the_same() {
    let (mut agent, now) = agent(Runtime::Pty);
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &now);
    hook(&mut agent, "Stop", json!({ "last_assistant_message": "done" }), &now);
    let due = agent.deadline().expect("a deadline");
    let screen = coop_term::Screen::new(coop_api::Size::new(80, 24).expect("a size")).snapshot();
    let early = Now { instant: due - Duration::from_millis(1), ..now };
    assert_eq!(told(&agent.tick(&screen, &early)), [""; 0]);
    assert_eq!(told(&agent.tick(&screen, &Now { instant: due, ..now })), ["turn", "idle"]);
    // The next message may come before that.
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &now);
    hook(&mut agent, "Stop", json!({ "last_assistant_message": "done again" }), &now);
    let next = hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "on" }), &now);
    assert_eq!(told(&next), ["turn", "idle", "turn", "working"]);
}

/// The status file is first to know that the turn is over, and takes it for an interrupt.
#[test]
fn how_a_turn_ended_is_told_by_who_knows_best() {
    let (mut agent, now) = agent(Runtime::Pty);
    let start = json!({ "session_id": "s", "source": "startup" });
    hook(&mut agent, "SessionStart", start, &now);
    let size = coop_api::Size::new(80, 24).expect("a size");
    let mut screen = coop_term::Screen::new(size);
    screen.feed(b"\x1b[?2004h");
    agent.look(&screen.snapshot(), &now);
    hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &now);
    let status = json!({ "sessionId": "s", "status": "idle", "statusUpdatedAt": now.millis() + 1 });
    assert_eq!(told(&agent.observe(&Observation::StatusFile(&status), &now)), [""; 0]);
    let failure = json!({ "error": "auth", "last_assistant_message": "API Error: 401 no" });
    assert_eq!(told(&hook(&mut agent, "StopFailure", failure, &now)), [""; 0]);
    let mut line = says("API Error: 401 no");
    line["isApiErrorMessage"] = json!(true);
    let told_then = agent.observe(&Observation::LogLine { line: &line, past: false }, &now);
    assert_eq!(told(&told_then), ["message", "fault", "turn", "error"]);
}

#[test]
fn over_pipes_the_protocol_ends_a_turn_and_not_the_hook() {
    let (mut agent, now) = agent(Runtime::Pipe);
    let began = hook(&mut agent, "UserPromptSubmit", json!({ "prompt": "go" }), &now);
    assert_eq!(told(&began), ["turn", "working", "message"]);
    assert_eq!(told(&hook(&mut agent, "Stop", json!({ "last_assistant_message": "done" }), &now)), ["stop"]);
    assert_eq!(told(&agent.observe(&Observation::Control(&says("done")), &now)), ["message"]);
    let result = json!({ "type": "result", "subtype": "success", "is_error": false });
    assert_eq!(told(&agent.observe(&Observation::Control(&result), &now)), ["turn", "idle"]);
}

/// Without an answer to wait for, a mode that the agent refuses was said to be set.
#[test]
fn a_setting_is_done_once_the_agent_says_so() {
    let (mut agent, now) = agent(Runtime::Pipe);
    let screen = coop_term::Screen::new(coop_api::Size::new(80, 24).expect("a size")).snapshot();
    let settings = coop_api::Configure { mode: Some("plan".into()), model: Some("opus".into()) };
    let (reply, mut answer) = oneshot::channel();
    let sent = |effects: Vec<Effect>| match &effects[..] {
        [Effect::Say(Say::Message(message))] => (message["request_id"].clone(), message["request"]["subtype"].clone()),
        other => panic!("{other:?}"),
    };
    let (mode, subtype) = sent(agent.configure(&settings, reply, &screen, &now));
    assert_eq!(subtype, "set_permission_mode");
    let respond = |agent: &mut Agent, response: Value| {
        agent.observe(&Observation::Control(&json!({ "type": "control_response", "response": response })), &now);
        agent.go_on(&screen, &now)
    };
    assert!(respond(&mut agent, json!({ "subtype": "success", "request_id": "another" })).is_empty());
    let (model, subtype) = sent(respond(&mut agent, json!({ "subtype": "success", "request_id": mode })));
    assert_eq!(subtype, "set_model");
    assert!(answer.try_recv().is_err(), "it is not done yet");
    respond(&mut agent, json!({ "subtype": "error", "request_id": model, "error": "no such model" }));
    let error = answer.try_recv().expect("an answer").expect_err("refused");
    assert_eq!(error.message, "the agent refuses: no such model; what was sent before it is done");
}
