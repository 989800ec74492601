//! What OpenCode was seen to do, and what the driver makes of it. What is expected stands beside each recording in
//! `recordings/opencode`: a line for each event that means something, with the state after it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use coop_api::{AgentState, Answer, Ask, TurnOutcome};
use coop_drivers::{Call, Known, Launch, Meaning, Observation, Reach, Runtime, Say, Signal, Step, View};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use serde_json::{Value, json};

use crate::mimic::Mimic;
use crate::screens::screen;

static ALL: LazyLock<Vec<(String, String)>> = LazyLock::new(all);
/// The session of the first recording.
const SESSION: &str = "ses_e2220268dffe0O8nKZ0WuFMr4s";

#[expect(clippy::disallowed_methods, reason = "the recordings are found by looking")]
fn all() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/opencode");
    let names = std::fs::read_dir(&folder).expect("the recordings");
    let mut all: Vec<_> = names
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| name.ends_with(".jsonl") || name.ends_with(".txt"))
        .map(|name| (name.clone(), std::fs::read_to_string(folder.join(&name)).expect("a text")))
        .collect();
    all.sort();
    assert!(all.len() >= 14, "only {} recordings", all.len());
    all
}

fn by_name(name: &str) -> &'static str {
    ALL.iter().find(|(of, _)| of == name).map(|(_, text)| text).expect("the recording")
}

fn launch(runtime: Runtime, words: &[&str]) -> Launch {
    Launch {
        runtime,
        command: words.iter().map(|&word| word.to_owned()).collect(),
        session_id: "run".into(),
        secret: "secret".into(),
        port: 4096,
        ..Launch::default()
    }
}

/// Returns one that nothing is known of yet.
fn new(words: &[&str]) -> Mimic {
    of(&launch(Runtime::Server, words))
}

/// Returns one that somebody else has started, so that its screen is all there is to go by.
fn alone() -> Mimic {
    of(&Launch { secret: String::new(), ..launch(Runtime::Pty, &["opencode"]) })
}

fn of(launch: &Launch) -> Mimic {
    let known = Known::by_name("opencode").expect("a known agent");
    Mimic::of((known.new)(known.rules().expect("rules"), launch))
}

/// Answers what the driver reads when the stream begins.
fn answer_reads(mimic: &mut Mimic, status: &Value, permissions: &Value, questions: &Value) -> Vec<Signal> {
    let calls = mimic.driver.say();
    let mut signals = Vec::new();
    for say in calls {
        let Say::Call(Call { name, path, method, .. }) = say else { panic!("{say:?}") };
        assert_eq!(method, "GET", "{path}");
        let body = match path.split('?').next() {
            Some("/session/status") => status.clone(),
            Some("/permission") => permissions.clone(),
            Some("/question") => questions.clone(),
            _ => json!([]),
        };
        signals.extend(mimic.observe(&Observation::Reply { name: &name, status: Some(200), body: &body }, 0));
    }
    signals
}

/// Returns one whose stream has begun, with nothing going on.
fn ready() -> Mimic {
    let mut mimic = new(&["opencode"]);
    mimic.observe(&Observation::Link { up: true }, 0);
    answer_reads(&mut mimic, &json!({}), &json!([]), &json!([]));
    assert_eq!(mimic.describe(), "idle");
    mimic
}

/// Returns the event of a line, if it is one, and when it came.
fn event(line: &str) -> Option<(u64, Value)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let at = (value["t"].as_f64().unwrap_or(0.0) * 1000.0) as u64;
    match value["dir"].as_str() {
        Some("<-") => Some((1_794_723_796_247 + at, value["msg"].clone())),
        Some(_) => None,
        // What other ways of running it print is none of ours, and does no harm.
        None => Some((at, value)),
    }
}

fn see(mimic: &mut Mimic, event: &Value) -> Vec<Signal> {
    mimic.observe(&Observation::Control(event), 0)
}

fn story(mimic: &mut Mimic, text: &str) -> String {
    let mut story = String::new();
    for (at, event) in text.lines().filter_map(event) {
        let before = mimic.describe();
        let signals = mimic.observe(&Observation::Control(&event), at);
        if signals.is_empty() && before == mimic.describe() {
            continue;
        }
        let meanings: Vec<_> = signals
            .iter()
            .map(|signal| match &signal.meaning {
                Meaning::Idle(TurnOutcome::Interrupted) => "idle, interrupted",
                meaning => meaning.name(),
            })
            .collect();
        let label = signals.first().map_or("", |signal| &signal.detail);
        let line = format!("{label:<40} {:<52} {}", mimic.describe(), meanings.join(", "));
        writeln!(story, "{}", line.trim_end()).expect("a string");
    }
    story
}

fn expect(name: &str, told: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../recordings/opencode");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, told));
}

#[test]
fn every_recording_tells_the_states_the_agent_was_in() {
    for (name, text) in ALL.iter() {
        let told = match name.starts_with('B') {
            true => {
                let signals = alone().observe(&Observation::Screen(&screen(text.lines())), 0);
                signals.iter().map(|signal| format!("{}: {}\n", signal.detail, signal.meaning.name())).collect()
            }
            false => story(&mut ready(), text),
        };
        expect(name, &told);
    }
}

/// What was said to the real one's server, the driver says too.
#[test]
fn answers_are_those_that_the_real_one_took() {
    let mut mimic = ready();
    let mut compared = Vec::new();
    for line in by_name("A5_serve_events.jsonl").lines() {
        let value: Value = serde_json::from_str(line).expect("a line");
        let http = value["msg"]["http"].as_str().unwrap_or_default();
        if http.contains("/reply") || http.contains("/reject") {
            let (ask, reach) = mimic.asks().first().expect("an ask").clone();
            let sent = &value["msg"]["body"];
            let answer = match (sent["reply"].as_str(), sent["answers"].as_array()) {
                (Some("once"), _) => json!({ "accept": true }),
                (Some(_), _) => json!({ "accept": false, "text": sent["message"] }),
                (None, Some(_)) => json!({ "answers": [{ "option": 2 }, { "option": 1 }] }),
                (None, None) => json!({ "accept": false }),
            };
            let call = first_call(&steps(&mimic, &ask, &reach, &answer).expect("steps"));
            assert_eq!((format!("POST {}", call.path), call.body.as_ref()), (http.to_owned(), Some(sent)));
            compared.push(ask.kind.as_str());
        }
        if let Some((at, event)) = event(line) {
            mimic.observe(&Observation::Control(&event), at);
        }
    }
    assert_eq!(compared, ["permission", "permission", "question", "question"]);
}

fn steps(mimic: &Mimic, ask: &Ask, reach: &Reach, answer: &Value) -> Result<Vec<Step>, coop_drivers::Refusal> {
    let answer: Answer = serde_json::from_value(answer.clone()).expect("an answer");
    let screen = screen([]);
    mimic.driver.answer(ask, reach, &answer, &View { runtime: Runtime::Server, screen: &screen })
}

fn first_call(steps: &[Step]) -> Call {
    let Some(Step::Call(call)) = steps.first() else { panic!("{steps:?}") };
    call.clone()
}

/// No denial allows anything: nothing is typed, and the one call that is made refuses.
#[test]
fn a_denial_of_any_ask_refuses_and_types_nothing() {
    let mut denied = 0;
    for (_, text) in ALL.iter().filter(|(name, _)| !name.starts_with('B')) {
        let mut mimic = ready();
        for (at, event) in text.lines().filter_map(event) {
            mimic.observe(&Observation::Control(&event), at);
            for (ask, reach) in mimic.asks() {
                let reject = ask.options.iter().position(|option| option.kind == coop_api::OptionKind::Reject);
                let mut answers = vec![
                    json!({ "accept": false }),
                    json!({ "accept": false, "text": "no" }),
                    json!({ "accept": false, "always": true }),
                ];
                answers.extend(reject.map(|at| json!({ "option": at + 1 })));
                for answer in answers {
                    let Ok(steps) = steps(&mimic, ask, reach, &answer) else { continue };
                    denied += 1;
                    let calls = steps.iter().filter_map(|step| match step {
                        Step::Call(call) => Some(call),
                        Step::Expect { retry: None, .. } => None,
                        other => panic!("{other:?} for {answer}"),
                    });
                    let calls: Vec<_> = calls.collect();
                    let [call] = calls[..] else { panic!("{calls:?}") };
                    let body = call.body.clone().unwrap_or_default();
                    assert!(call.path.ends_with("/reject") || body["reply"] == "reject", "{call:?} for {answer}");
                }
            }
            let view = screen([]);
            for step in mimic.driver.interrupt(&View { runtime: Runtime::Server, screen: &view }) {
                let Step::Call(call) = step else { continue };
                let refuses = call.path.ends_with("/abort") || call.path.ends_with("/reject");
                assert!(refuses || call.body.is_some_and(|body| body["reply"] == "reject"));
            }
        }
    }
    assert!(denied > 50, "only {denied} denials");
}

#[test]
fn an_old_ask_is_answered_in_the_old_way() {
    let mut mimic = ready();
    see(
        &mut mimic,
        &json!({ "id": "evt_1dde00bbf001Hfu", "type": "session.created",
        "properties": { "sessionID": "ses_1", "info": { "id": "ses_1" } } }),
    );
    see(
        &mut mimic,
        &json!({ "type": "message.updated",
        "properties": { "sessionID": "ses_1", "info": { "id": "msg_1", "role": "user", "sessionID": "ses_1" } } }),
    );
    see(
        &mut mimic,
        &json!({ "type": "permission.updated", "properties": { "id": "per_1", "sessionID": "ses_1",
        "type": "bash", "pattern": "ls *", "metadata": { "command": "ls -l" }, "title": "ls -l" } }),
    );
    assert_eq!(mimic.describe(), "permission ask-1: ls -l");
    let (ask, reach) = mimic.asks()[0].clone();
    let call = first_call(&steps(&mimic, &ask, &reach, &json!({ "accept": false })).expect("steps"));
    assert_eq!(
        (&call.path[..], call.body),
        ("/session/ses_1/permissions/per_1", Some(json!({ "response": "reject" })))
    );
    see(
        &mut mimic,
        &json!({ "type": "permission.replied",
        "properties": { "sessionID": "ses_1", "permissionID": "per_1", "response": "reject" } }),
    );
    assert_eq!(mimic.describe(), "working");
}

/// What the server lists of a turn that was stopped is no ask, and what it no longer lists is none any more.
#[test]
fn what_is_asked_is_read_again_when_the_stream_comes_back() {
    let mut mimic = ready();
    let recording = by_name("A5_serve_events.jsonl");
    let asked = |text: &str| text.contains("\"permission.asked\"");
    let end = recording.lines().position(asked).expect("an ask") + 1;
    for (at, event) in recording.lines().take(end).filter_map(event) {
        mimic.observe(&Observation::Control(&event), at);
    }
    assert_eq!(mimic.describe(), "permission ask-1: echo hi");
    let listed = json!([event(recording.lines().nth(end - 1).expect("it")).expect("an event").1["properties"]]);
    let busy = json!({ SESSION: { "type": "busy" } });
    mimic.observe(&Observation::Link { up: false }, 0);
    mimic.observe(&Observation::Link { up: true }, 0);
    assert_eq!(answer_reads(&mut mimic, &busy, &listed, &json!([])), [], "it is the same");
    assert_eq!(mimic.describe(), "permission ask-1: echo hi");

    mimic.observe(&Observation::Link { up: true }, 0);
    answer_reads(&mut mimic, &json!({}), &listed, &json!([]));
    assert_eq!((mimic.describe(), mimic.asks().len()), ("idle".into(), 0));

    mimic.observe(&Observation::Link { up: true }, 0);
    answer_reads(&mut mimic, &busy, &listed, &json!([]));
    assert_eq!(mimic.describe(), "permission ask-2: echo hi");
}

/// A server that cannot answer yet takes nothing back, and is asked again with the next event.
#[test]
fn what_could_not_be_read_is_read_again() {
    let mut mimic = ready();
    let recording = by_name("A5_serve_events.jsonl");
    let end = recording.lines().position(|text| text.contains("\"permission.asked\"")).expect("an ask") + 1;
    for (at, event) in recording.lines().take(end).filter_map(event) {
        mimic.observe(&Observation::Control(&event), at);
    }
    mimic.driver.say();
    let listed = json!([event(recording.lines().nth(end - 1).expect("it")).expect("an event").1["properties"]]);
    mimic.observe(&Observation::Link { up: true }, 0);
    for status in [None, Some(503), Some(200)] {
        for say in mimic.driver.say() {
            let Say::Call(Call { name, .. }) = say else { panic!("{say:?}") };
            // With 200 too: a text is no list.
            mimic.observe(&Observation::Reply { name: &name, status, body: &json!("starting") }, 0);
        }
        assert_eq!(mimic.describe(), "permission ask-1: echo hi");
        assert_eq!(mimic.driver.say(), [], "there is no use in asking at once");
        see(&mut mimic, &json!({ "type": "server.heartbeat", "properties": {} }));
    }
    answer_reads(&mut mimic, &json!({ SESSION: { "type": "busy" } }), &listed, &json!([]));
    assert_eq!(mimic.describe(), "permission ask-1: echo hi");
    see(&mut mimic, &json!({ "type": "server.heartbeat", "properties": {} }));
    assert_eq!(mimic.driver.say(), [], "all was read");
}

/// The race: a message right after the end of a turn that failed is kept, and no turn begins with it.
#[test]
fn a_message_that_was_kept_and_not_run_is_sent_once_more_under_the_same_name() {
    let mut mimic = ready();
    let event =
        |kind: &str, properties: Value| json!({ "id": "evt_1dde05d67001rql", "type": kind, "properties": properties });
    let info = |id: &str| json!({ "sessionID": "ses_1", "info": { "id": id, "role": "user", "sessionID": "ses_1" } });
    see(&mut mimic, &event("session.created", json!({ "sessionID": "ses_1", "info": { "id": "ses_1" } })));
    see(&mut mimic, &event("message.updated", info("msg_1dde05000001abc")));
    let status = |kind: &str| event("session.status", json!({ "sessionID": "ses_1", "status": { "type": kind } }));
    see(&mut mimic, &status("busy"));
    let failed = json!({ "sessionID": "ses_1", "error": { "name": "APIError", "data": { "statusCode": 401 } } });
    see(&mut mimic, &event("session.error", failed));
    see(&mut mimic, &status("idle"));
    assert!(matches!(mimic.state(), AgentState::Blocked { .. }));

    let view = screen([]);
    let sent = mimic.driver.deliver("again", &View { runtime: Runtime::Server, screen: &view }).expect("steps");
    let call = first_call(&sent);
    let body = call.body.clone().expect("a body");
    let message = body["messageID"].as_str().expect("a name").to_owned();
    see(&mut mimic, &event("message.updated", info(&message)));
    let part = json!({ "id": body["parts"][0]["id"], "type": "text", "text": "again", "messageID": message,
        "sessionID": "ses_1" });
    see(&mut mimic, &event("message.part.updated", json!({ "sessionID": "ses_1", "part": part })));
    assert_eq!(mimic.driver.say(), []);
    see(&mut mimic, &status("idle"));
    let check = mimic.driver.say();
    let [Say::Call(check)] = &check[..] else { panic!("{check:?}") };
    assert_eq!((check.method, &check.path[..]), ("GET", "/session/status"));

    // If it is busy, the message was run after all.
    let reply = |body: &Value, mimic: &mut Mimic| {
        mimic.observe(&Observation::Reply { name: &check.name, status: Some(200), body }, 0);
        mimic.driver.say()
    };
    assert_eq!(reply(&json!({ "ses_1": { "type": "busy" } }), &mut mimic), []);
    assert_eq!(reply(&json!({}), &mut mimic), [Say::Call(call)], "the same message");
    see(&mut mimic, &status("idle"));
    assert_eq!(reply(&json!({}), &mut mimic), [], "once only");
    let began = see(&mut mimic, &status("busy"));
    assert_eq!((began.len(), mimic.describe()), (1, "working".into()));
}

#[test]
fn a_message_without_a_conversation_makes_one_and_shows_it() {
    let mut mimic = ready();
    see(&mut mimic, &json!({ "id": "evt_1dde05d67001rql", "type": "server.heartbeat", "properties": {} }));
    let view = screen([]);
    let steps = mimic.driver.deliver("hi", &View { runtime: Runtime::Server, screen: &view }).expect("steps");
    let calls = steps.iter().filter_map(|step| match step {
        Step::Call(call) => Some(format!("{} {} {}", call.method, call.path, call.body.clone().unwrap_or_default())),
        _ => None,
    });
    insta::assert_snapshot!(calls.collect::<Vec<_>>().join("\n"));
}

/// The interface does not hear what it is to show while it starts. It is told again, and not for having been told.
#[test]
fn a_conversation_is_shown_until_it_is_on_the_screen() {
    let mut mimic = of(&launch(Runtime::Pty, &["opencode"]));
    let (home, conversation) = (screen(["  Ask anything…"]), screen(["  hi", "  Hello"]));
    mimic.observe(&Observation::Link { up: true }, 0);
    answer_reads(&mut mimic, &json!({}), &json!([]), &json!([]));
    mimic.observe(&Observation::Screen(&home), 0);
    assert_eq!(mimic.describe(), "idle");
    let session = "ses_1zzCOOP1";
    let event = |kind: &str, more: Value| {
        let mut properties = json!({ "sessionID": session });
        properties.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "id": "evt_1dde05d67001rql", "type": kind, "properties": properties })
    };
    let busy = event("session.status", json!({ "status": { "type": "busy" } }));
    see(&mut mimic, &event("session.created", json!({ "info": { "id": session } })));
    see(&mut mimic, &event("message.updated", json!({ "info": { "id": "m", "role": "user", "sessionID": session } })));
    assert_eq!(mimic.driver.say(), []);
    see(&mut mimic, &busy);
    let said = mimic.driver.say();
    assert!(matches!(&said[..], [Say::Call(call)] if call.path == "/tui/select-session"), "{said:?}");
    see(&mut mimic, &event("tui.session.select", json!({})));
    assert_eq!(mimic.driver.say(), []);
    mimic.observe(&Observation::Screen(&conversation), 0);
    mimic.observe(&Observation::Screen(&home), 0);
    see(&mut mimic, &busy);
    assert_eq!(mimic.driver.say(), [], "whoever goes elsewhere is not taken back");
}

/// Checks after each observation that idleness came with a sign of it, and that nothing but reading is ever said.
fn check(mimic: &mut Mimic, events: &[(u64, Value)]) {
    for (at, event) in events {
        let before = mimic.state().clone();
        mimic.observe(&Observation::Control(event), *at);
        if *mimic.state() == AgentState::Idle && before != AgentState::Idle {
            let status = event["properties"]["status"]["type"].as_str();
            assert!(event["type"] == "session.idle" || status == Some("idle"), "idle after {event}");
        }
        for said in mimic.driver.say() {
            assert!(matches!(said, Say::Call(Call { method: "GET", .. })), "{said:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_recording_may_be_cut_at_any_byte(which in any::<Index>(), at in any::<Index>()) {
        let (name, text) = &ALL[which.index(ALL.len())];
        let text = String::from_utf8_lossy(&text.as_bytes()[..at.index(text.len() + 1)]).into_owned();
        if name.starts_with('B') {
            alone().observe(&Observation::Screen(&screen(text.lines())), 0);
        } else {
            let mut events: Vec<_> = text.lines().filter_map(event).collect();
            let rest = text.lines().next_back().unwrap_or_default().to_owned();
            events.push((0, Value::String(rest)));
            check(&mut ready(), &events);
        }
    }

    #[test]
    fn any_events_may_come_in_any_order(
        order in subsequence((0..EVENTS.len()).collect::<Vec<_>>(), 0..150).prop_shuffle(),
        known in any::<bool>(),
    ) {
        let events: Vec<_> = order.into_iter().map(|at| EVENTS[at].clone()).collect();
        let mut mimic = if known { ready() } else { new(&["opencode", "-s", SESSION]) };
        check(&mut mimic, &events);
    }
}

static EVENTS: LazyLock<Vec<(u64, Value)>> =
    LazyLock::new(|| ALL.iter().flat_map(|(_, text)| text.lines().filter_map(event)).collect());

/// It was `working` for as long as its server was gone, and that may have been for ever.
#[test]
fn what_a_server_said_that_is_gone_for_long_is_not_known_any_more() {
    let busy = json!({ SESSION: { "type": "busy" } });
    for (status, then) in [(&busy, "working"), (&json!({}), "idle")] {
        let mut mimic = ready();
        let recording = by_name("A5_serve_events.jsonl");
        let works = |text: &str| text.contains("\"session.status\"") && text.contains("\"busy\"");
        let end = recording.lines().position(works).expect("work") + 1;
        for (at, event) in recording.lines().take(end).filter_map(event) {
            mimic.observe(&Observation::Control(&event), at);
        }
        assert_eq!(mimic.describe(), "working");
        mimic.observe(&Observation::Link { up: false }, 0);
        assert_eq!(mimic.describe(), "working", "it may be back in a moment");
        mimic.observe(&Observation::LinkLost, 0);
        assert_eq!(mimic.describe(), "unknown");
        mimic.driver.say();
        mimic.observe(&Observation::Link { up: true }, 0);
        answer_reads(&mut mimic, status, &json!([]), &json!([]));
        assert_eq!(mimic.describe(), then);
    }
}
