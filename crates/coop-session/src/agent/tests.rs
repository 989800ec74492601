//! What is done to an agent, without one: screens and signs go in, effects come out.

use coop_api::{Answer, NudgeRequest, Size, When};
use coop_drivers::{Claude, Launch};
use serde_json::json;

use super::*;

const RULE: &str = "────────────────────────────────────────";

fn now() -> Now {
    Now { instant: Instant::now(), wall: SystemTime::now(), screen: Seq(1) }
}

fn after(now: &Now, time: Duration) -> Now {
    Now { instant: now.instant + time, wall: now.wall + time, ..*now }
}

/// Returns an agent without hooks.
fn agent(now: &Now) -> Agent {
    let launch =
        Launch { command: vec!["claude".into(), "--bare".into()], session_id: "S".into(), ..Launch::default() };
    let driver = Box::new(Claude::new(Claude::rules().expect("rules"), &launch));
    Agent::new(driver, Runtime::Pty, Duration::ZERO, StopConfig::default(), None, now)
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
fn told(effects: &[Effect]) -> Vec<&'static str> {
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
    let mut agent = agent(now);
    agent.look(&input(""), now);
    status(&mut agent, "busy", None, now);
    status(&mut agent, "waiting", Some("permission prompt"), now);
    assert_eq!(told(&agent.look(&screen(rows), now)), ["opened"]);
    let answer: Answer = serde_json::from_str(answer).expect("an answer");
    let (reply, answered) = oneshot::channel();
    let mut effects = agent.respond(&answer, reply, &screen(rows), now);
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
    assert_eq!(told(&effects), ["answered"]);
    assert!(matches!(answered.try_recv(), Ok(Ok(Reply::Answered(_)))));

    let (mut agent, mut answered, mut effects) = answering(PERMISSION, r#"{"accept":false}"#, &now);
    effects.extend(agent.exited(Some(1), None, &later));
    assert_eq!(told(&effects), ["withdrawn"]);
    assert!(matches!(answered.try_recv(), Ok(Err(_))));
}

fn nudged(text: &str, now: &Now) -> (Agent, oneshot::Receiver<Result<Reply, Error>>) {
    let mut agent = agent(now);
    agent.look(&input(""), now);
    status(&mut agent, "idle", None, now);
    let (reply, receipt) = oneshot::channel();
    let request = NudgeRequest { message: text.to_owned(), when: When::Now, wait: false };
    let pasted = agent.nudge(request, reply, &input(""), now);
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
    let too_late = after(&sent, Duration::from_secs(4));
    assert_eq!(typed(&agent.tick(&dialog, &too_late)), [""; 0], "Enter would choose a model");
    assert!(matches!(receipt.try_recv(), Ok(Ok(Reply::Receipt(receipt))) if !receipt.delivered));

    let (mut agent, _receipt) = nudged("hello", &now);
    agent.tick(&input("hello"), &sent);
    assert_eq!(typed(&agent.tick(&input("hello"), &too_late)), ["\r"], "it is still there");

    let (mut agent, mut receipt) = nudged("hello", &now);
    let help = screen(&format!("{RULE}\n  Help\n\n  Esc to cancel"));
    assert_eq!(typed(&agent.tick(&help, &sent)), [""; 0], "somebody opened a dialog meanwhile");
    assert_eq!(typed(&agent.tick(&help, &too_late)), [""; 0]);
    let Ok(Ok(Reply::Receipt(receipt))) = receipt.try_recv() else { panic!("no receipt") };
    assert_eq!((receipt.delivered, receipt.reason.as_deref()), (false, Some("not_shown")));
}

#[test]
fn a_conversation_that_is_resumed_counts_and_is_not_told_again() {
    let now = Now { instant: Instant::now(), wall: SystemTime::now(), screen: Seq(1) };
    let mut agent = agent(&now);
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
