//! What is done to an agent, without one: screens and signs go in, effects come out.

use coop_api::{Answer, NudgeRequest, Size, When};
use coop_drivers::{Known, Launch};
use serde_json::{Value, json};

use super::*;

mod hooked;
mod linked;
mod stalled;

const RULE: &str = "────────────────────────────────────────";

fn now() -> Now {
    Now { instant: Instant::now(), wall: SystemTime::now(), screen: Seq(1), lock: None }
}

fn after(now: &Now, time: Duration) -> Now {
    Now { instant: now.instant + time, wall: now.wall + time, ..*now }
}

fn launched(launch: &Launch, now: &Now) -> Agent {
    known("claude", launch, now)
}

fn known(name: &str, launch: &Launch, now: &Now) -> Agent {
    let known = Known::by_name(name).expect("a known agent");
    let driver = (known.new)(known.rules().expect("rules"), launch);
    Agent::new(driver, launch.runtime, Duration::ZERO, StopConfig::default(), None, now)
}

fn agent(runtime: Runtime) -> (Agent, Now) {
    let now = now();
    (launched(&Launch { runtime, ..Launch::default() }, &now), now)
}

/// Returns an agent without hooks.
fn hookless(now: &Now) -> Agent {
    let command = vec!["claude".into(), "--bare".into()];
    launched(&Launch { command, session_id: "S".into(), ..Launch::default() }, now)
}

fn screen(rows: &str) -> std::sync::Arc<Screen> {
    let mut screen = coop_term::Screen::new(Size::DEFAULT);
    screen.feed(b"\x1b[?2004h");
    screen.feed(rows.replace('\n', "\r\n").as_bytes());
    screen.snapshot()
}

fn input(text: &str) -> std::sync::Arc<Screen> {
    screen(&format!("{RULE}\n❯ {text}\n{RULE}\n  ? for shortcuts"))
}

fn status(agent: &mut Agent, status: &str, waiting_for: Option<&str>, now: &Now) -> Vec<Effect> {
    let file = json!({ "sessionId": "S", "pid": 1, "status": status, "waitingFor": waiting_for,
                       "statusUpdatedAt": now.millis() });
    agent.observe(&Observation::StatusFile(&file), now)
}

fn typed(effects: &[Effect]) -> Vec<String> {
    let keys = effects.iter().filter_map(|effect| match effect {
        Effect::Type(keys) => Some(String::from_utf8_lossy(keys).into_owned()),
        _ => None,
    });
    keys.collect()
}

/// Returns what is told of asks.
fn asks_told(effects: &[Effect]) -> Vec<&'static str> {
    let asks = effects.iter().filter_map(|effect| match effect {
        Effect::Record(EventBody::Ask(AskChange::Opened { .. })) => Some("opened"),
        Effect::Record(EventBody::Ask(AskChange::Answered { .. })) => Some("answered"),
        Effect::Record(EventBody::Ask(AskChange::Withdrawn { .. })) => Some("withdrawn"),
        _ => None,
    });
    asks.collect()
}

const PERMISSION: &str =
    " Bash command\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend";
const PLAN: &str = " Would you like to proceed?\n ❯ 1. Yes\n   2. Tell Claude what to change\n\n Esc to cancel";

/// Returns an agent that asks, and how it is answered.
fn answering(rows: &str, answer: &str, now: &Now) -> (Agent, oneshot::Receiver<Result<Reply, Error>>, Vec<Effect>) {
    let mut agent = hookless(now);
    agent.look(&input(""), now);
    status(&mut agent, "busy", None, now);
    status(&mut agent, "waiting", Some("permission prompt"), now);
    assert_eq!(asks_told(&agent.look(&screen(rows), now)), ["opened"]);
    let answer: Answer = serde_json::from_str(answer).expect("an answer");
    let (reply, answered) = oneshot::channel();
    let mut effects = agent.respond(WriterId::default(), &answer, reply, &screen(rows), now);
    effects.extend(agent.tick(&screen(rows), &after(now, Duration::from_millis(200))));
    (agent, answered, effects)
}

/// The digit opens a field. If the screen does not show it, the text and the Enter after it would land elsewhere.
#[test]
fn nothing_more_is_typed_if_the_screen_does_not_show_what_a_key_did() {
    let now = now();
    let (mut agent, mut answered, effects) = answering(PLAN, r#"{"accept":false,"text":"smaller"}"#, &now);
    assert_eq!(typed(&effects), ["2"]);
    let later = after(&now, Duration::from_secs(1));
    assert_eq!(typed(&agent.tick(&screen(PLAN), &later)), [""; 0]);
    let open = PLAN.replace("❯ 1", "  1").replace("  2", "❯ 2");
    let at_the_end = after(&now, Duration::from_secs(60));
    assert_eq!(typed(&agent.tick(&screen(PLAN), &at_the_end)), [""; 0]);
    let error = answered.try_recv().expect("an answer").expect_err("an error");
    assert_eq!(error.code, coop_api::ErrorCode::Unconfirmed);
    assert_eq!(typed(&agent.tick(&screen(&open), &at_the_end)), [""; 0], "it is over");

    let (mut agent, _answered, _) = answering(PLAN, r#"{"accept":false,"text":"smaller"}"#, &now);
    assert_eq!(typed(&agent.tick(&screen(&open), &later)), ["\x1b[200~smaller\x1b[201~"]);
}

/// Words that are typed into a dialog change it: that was another ask, if the log told of the answer before the screen did.
#[test]
fn what_is_typed_into_a_dialog_does_not_make_it_another() {
    let now = now();
    let (mut agent, mut answered, _) = answering(PLAN, r#"{"accept":false,"text":"smaller"}"#, &now);
    let open = PLAN.replace("❯ 1", "  1").replace("  2", "❯ 2");
    let later = after(&now, Duration::from_millis(400));
    agent.tick(&screen(&open), &later);
    let filled = screen(&open.replace("Tell Claude what to change", "smaller"));
    let sent = after(&now, Duration::from_millis(800));
    assert_eq!(typed(&agent.tick(&filled, &sent)), ["\r"]);
    let mut effects = agent.look(&filled, &sent);
    effects.extend(agent.tick(&filled, &sent));
    assert!(answered.try_recv().is_err(), "nothing shows that it took");
    effects.extend(status(&mut agent, "busy", None, &after(&sent, Duration::from_millis(50))));
    effects.extend(agent.tick(&filled, &after(&sent, Duration::from_millis(50))));
    assert_eq!(asks_told(&effects), ["answered"]);
}

/// A no ends the turn, and the status file says so before the dialog is seen to be gone: it was told as withdrawn, and then
/// as answered.
#[test]
fn an_ask_ends_once() {
    let now = now();
    let (mut agent, mut answered, mut effects) = answering(PERMISSION, r#"{"accept":false}"#, &now);
    assert_eq!(typed(&effects), ["2"]);
    let later = after(&now, Duration::from_millis(400));
    effects.extend(status(&mut agent, "idle", None, &later));
    effects.extend(agent.tick(&input(""), &later));
    effects.extend(agent.look(&input(""), &later));
    effects.extend(agent.tick(&input(""), &later));
    assert_eq!(asks_told(&effects), ["answered"]);
    assert!(matches!(answered.try_recv(), Ok(Ok(Reply::Answered(_)))));

    let (mut agent, mut answered, mut effects) = answering(PERMISSION, r#"{"accept":false}"#, &now);
    effects.extend(agent.exited(Some(1), None, &later));
    assert_eq!(asks_told(&effects), ["withdrawn"]);
    assert!(matches!(answered.try_recv(), Ok(Err(_))));
}

fn nudged(text: &str, now: &Now) -> (Agent, oneshot::Receiver<Result<Reply, Error>>) {
    let mut agent = hookless(now);
    agent.look(&input(""), now);
    status(&mut agent, "idle", None, now);
    let (reply, receipt) = oneshot::channel();
    let request = NudgeRequest { message: text.to_owned(), when: When::Now, wait: false };
    let pasted = agent.nudge(WriterId::default(), request, reply, &input(""), now);
    assert_eq!(typed(&pasted), [format!("\x1b[200~{text}\x1b[201~")]);
    (agent, receipt)
}

#[test]
fn enter_is_pressed_only_where_the_message_is() {
    let now = now();
    let (mut agent, mut receipt) = nudged("/model", &now);
    let sent = after(&now, Duration::from_millis(200));
    assert_eq!(typed(&agent.tick(&input("/model"), &sent)), ["\r"]);
    let dialog = screen(&format!("{RULE}\n  Select model\n\n  ❯ 1. Default\n    2. Opus\n"));
    let too_late = after(&sent, Duration::from_secs(6));
    assert_eq!(typed(&agent.tick(&dialog, &too_late)), [""; 0], "Enter would choose a model");
    assert_eq!(typed(&agent.tick(&dialog, &after(&too_late, Duration::from_secs(6)))), [""; 0]);
    assert!(matches!(receipt.try_recv(), Ok(Ok(Reply::Receipt(receipt))) if !receipt.delivered));

    let (mut agent, _receipt) = nudged("hello", &now);
    agent.tick(&input("hello"), &sent);
    assert_eq!(typed(&agent.tick(&input("hello"), &too_late)), ["\r"], "it is still there");

    let (mut agent, mut receipt) = nudged("hello", &now);
    let help = screen(&format!("{RULE}\n  Help\n\n  Esc to cancel"));
    assert_eq!(typed(&agent.tick(&help, &sent)), [""; 0], "somebody opened a dialog meanwhile");
    assert_eq!(typed(&agent.tick(&help, &after(&too_late, Duration::from_secs(6)))), [""; 0]);
    let Ok(Ok(Reply::Receipt(receipt))) = receipt.try_recv() else { panic!("no receipt") };
    assert_eq!((receipt.delivered, receipt.reason.as_deref()), (false, Some("not_shown")));
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
    assert_eq!(told(&told_then), ["message"]);
    let prompt = json!({ "type": "user", "message": { "role": "user", "content": "go" } });
    let told_then = agent.observe(&Observation::LogLine { line: &prompt, past: false }, &now);
    assert_eq!(told(&told_then), ["message", "turn", "idle"], "the first lines of a new log come in any order");
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

#[test]
fn an_explanation_names_why_files_are_polled_while_they_are() {
    let (mut agent, now) = agent(Runtime::Pty);
    status(&mut agent, "busy", None, &now);
    agent.files_polled(Some("no instance is left"), &now);
    let polled = |agent: &Agent| agent.explain().signals.into_iter().find(|heard| heard.meaning == "polled");
    let heard = polled(&agent).expect("it is said");
    assert_eq!(
        (heard.source, &*heard.detail),
        (EvidenceSource::SessionLog, "the agent's files are polled, because no instance is left")
    );
    agent.files_polled(None, &now);
    assert_eq!(polled(&agent), None);
}

#[test]
fn an_agent_that_begins_again_may_have_another_status_file() {
    let (mut agent, now) = agent(Runtime::Pty);
    let forgets = |effects: Vec<Effect>| effects.iter().any(|effect| matches!(effect, Effect::ForgetStatus));
    let start = json!({ "session_id": "S", "source": "startup" });
    assert!(!forgets(hook(&mut agent, "SessionStart", start.clone(), &now)));
    assert!(forgets(hook(&mut agent, "SessionStart", start, &now)));
}

#[test]
fn an_agent_rests_when_nothing_is_expected_of_it() {
    let now = now();
    let mut agent = hookless(&now);
    assert!(!agent.is_resting(), "it starts");
    agent.observe(&Observation::Screen(&input("")), &now);
    status(&mut agent, "idle", None, &now);
    assert!(agent.is_resting(), "{:?}", agent.state());
    status(&mut agent, "busy", None, &after(&now, Duration::from_secs(1)));
    assert!(!agent.is_resting(), "it works");
}
