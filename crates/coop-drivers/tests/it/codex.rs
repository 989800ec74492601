//! What the real Codex was seen to do, and what its driver makes of it. What is expected stands beside each recording in
//! `recordings/codex`. Whatever of them arrives, and in whatever order: nothing panics, nobody is said to be idle without
//! a sign, and no denial allows anything.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::LazyLock;

use coop_api::{AgentState, Answer, Ask, OptionKind, TurnOutcome};
use coop_drivers::{Known, Launch, Meaning, Observation, Reach, Runtime, Say, Signal, Step, View};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::mimic::{Mimic, Seen, ask, says_no};
use crate::screens::screen;

static ALL: LazyLock<Vec<Recording>> = LazyLock::new(all);

struct Recording {
    name: String,
    text: String,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[expect(clippy::disallowed_methods, reason = "the recordings are found by looking")]
fn all() -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/codex");
    let entries = std::fs::read_dir(&folder).expect("the recordings");
    let mut recordings: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| !name.ends_with(".snap") && !name.ends_with(".snap.new"))
        .map(|name| Recording { text: std::fs::read_to_string(folder.join(&name)).expect("a text"), name })
        .collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(recordings.len() >= 20, "only {} recordings", recordings.len());
    recordings
}

impl Recording {
    fn mimic(&self) -> Mimic {
        match self.name.as_str() {
            "A6_appserver.jsonl" => mimic(Runtime::Pipe, "codex"),
            "A4_resume.jsonl" => mimic(Runtime::Pipe, "codex exec --json resume T hello"),
            name if name.starts_with(['A', 'F']) && !name.starts_with("A7") => {
                mimic(Runtime::Pipe, "codex exec --json hello")
            }
            _ => mimic(Runtime::Pty, "codex"),
        }
    }

    fn seen(&self) -> Vec<Seen> {
        seen_in(&self.name, &self.text)
    }
}

fn mimic(runtime: Runtime, line: &str) -> Mimic {
    let codex = Known::by_name("codex").expect("a known agent");
    let command = line.split_whitespace().map(str::to_owned).collect();
    let version = Some("codex-cli 0.166.0".to_owned());
    let launch = Launch { runtime, command, version, cwd: "/home/dev/project".into(), ..Launch::default() };
    Mimic::of((codex.new)(codex.rules().expect("the rules"), &launch))
}

fn seen_in(name: &str, text: &str) -> Vec<Seen> {
    if name.starts_with('B') {
        return vec![Seen::Screen(text.lines().map(str::to_owned).collect())];
    }
    // The replies in a recording are to requests that had other names than ours have.
    let mut names = HashMap::new();
    let begins = name.starts_with("A7").then_some(Seen::Link(true));
    let lines = text.lines().map(|line| match serde_json::from_str::<Value>(line) {
        Ok(value) if value["dir"] == "->" => {
            let message = &value["msg"];
            let ours = match message["method"].as_str() {
                Some("initialize") => "coop-hello",
                Some("thread/start") => "coop-thread",
                Some("thread/resume") => "coop-join",
                Some("turn/start") => "coop-turn",
                _ => "other",
            };
            names.insert(message["id"].to_string(), ours);
            None
        }
        Ok(value) if value["dir"] == "<-" => {
            let mut message = value["msg"].clone();
            if message["method"].is_null() {
                message["id"] = json!(names.get(&message["id"].to_string()).copied().unwrap_or("other"));
            }
            Some(Seen::Control(message))
        }
        Ok(value) if name.starts_with('C') => {
            let event = value["event"].as_str().unwrap_or_default().to_owned();
            Some(Seen::Hook { event, payload: value["stdin"].clone() })
        }
        Ok(value) if name.starts_with('D') => Some(Seen::Log(value)),
        Ok(value) => Some(Seen::Control(value)),
        Err(_) => Some(Seen::Control(json!(line))),
    });
    begins.into_iter().chain(lines.flatten()).collect()
}

fn label(seen: &Seen) -> String {
    match seen {
        Seen::Control(message) => {
            let params = &message["params"];
            let name =
                message["method"].as_str().or_else(|| message["type"].as_str()).or_else(|| message["id"].as_str());
            let item = if params["item"].is_object() { &params["item"] } else { &message["item"] };
            let more = [&params["status"]["type"], &params["turn"]["status"], &item["type"], &item["status"]];
            let more = more.into_iter().filter_map(Value::as_str);
            [name.unwrap_or("?")].into_iter().chain(more).collect::<Vec<_>>().join(" ")
        }
        Seen::Hook { event, .. } => event.clone(),
        Seen::Log(line) => format!("{} {}", line["type"], line["payload"]["type"]).replace('"', ""),
        Seen::LinkLost => "link lost".to_owned(),
        Seen::Link(up) => format!("link {}", if *up { "up" } else { "down" }),
        Seen::Screen(rows) => format!("a screen of {} rows", rows.len()),
        Seen::Title(_) | Seen::Sent(_) | Seen::Status(_) | Seen::Answered { .. } => String::new(),
    }
}

#[test]
fn every_recording_of_codex_tells_the_states_it_was_in() {
    for recording in all() {
        let mut mimic = recording.mimic();
        let mut story = String::new();
        for seen in recording.seen() {
            let signals = mimic.see(&seen, 0);
            let meanings: Vec<_> = signals.iter().map(|signal| signal.meaning.name()).collect();
            let line = format!("{:<58} {:<48} {}", label(&seen), mimic.describe(), meanings.join(", "));
            writeln!(story, "{}", line.trim_end()).expect("a string");
            if let Some((ask, reach)) = mimic.asks().first().filter(|_| meanings.contains(&"ask")) {
                story.push_str(&answers(&mimic, ask, reach, &recording.text));
            }
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../recordings/codex");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(recording.name.clone(), story));
    }
}

/// Tells what would be done for each answer.
fn answers(mimic: &Mimic, ask: &Ask, reach: &Reach, text: &str) -> String {
    let mut told = String::new();
    let answers = [r#"{"accept":true}"#, r#"{"accept":true,"always":true}"#, r#"{"accept":false}"#, r#"{"option":2}"#];
    for answer in answers {
        let parsed: Answer = serde_json::from_str(answer).expect("an answer");
        let screen = screen(text.lines());
        let steps = match mimic.driver.answer(ask, reach, &parsed, &View { runtime: Runtime::Pty, screen: &screen }) {
            Ok(steps) => steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join(", "),
            Err(refusal) => format!("{refusal:?}"),
        };
        writeln!(told, "    {answer} => {steps}").expect("a string");
    }
    told
}

/// What was said to the real server, the driver says too.
#[test]
fn answers_to_the_server_are_those_that_it_took() {
    let mut compared = Vec::new();
    for recording in all().into_iter().filter(|recording| recording.text.contains("requestApproval")) {
        let mut mimic = recording.mimic();
        let mut text = String::new();
        for line in recording.text.lines() {
            let value: Value = serde_json::from_str(line).expect("a line");
            let sent = &value["msg"];
            if value["dir"] == "->" && sent["result"].is_object() {
                let (ask, reach) = mimic.asks().first().expect("an ask");
                let answer = match (&sent["result"]["decision"], &sent["result"]["answers"]) {
                    (Value::String(decision), _) if decision == "accept" => json!({ "accept": true }),
                    // To deny and interrupt at once is something coop does in two steps.
                    (Value::String(decision), _) if decision == "cancel" => json!({}),
                    (Value::String(_), _) => json!({ "accept": false }),
                    (_, answers) => {
                        let given = answers.as_object().into_iter().flatten();
                        json!({ "answers": given.map(|(_, given)| json!({ "text": given["answers"][0] })).collect::<Vec<_>>() })
                    }
                };
                if answer != json!({}) {
                    let answer: Answer = serde_json::from_value(answer).expect("an answer");
                    let screen = screen([]);
                    let view = View { runtime: Runtime::Pipe, screen: &screen };
                    let steps = mimic.driver.answer(ask, reach, &answer, &view).expect("steps");
                    assert_eq!(steps.first(), Some(&Step::Send(sent.clone())));
                    compared.push(ask.tool.clone().unwrap_or_default());
                }
            }
            text.push_str(line);
            text.push('\n');
            // Names of requests are those of all lines so far.
            let all = seen_in(&recording.name, &text);
            if value["dir"] == "<-" || all.len() == 1 {
                mimic.see(all.last().expect("something"), 0);
            }
        }
    }
    compared.sort();
    compared.dedup();
    assert_eq!(compared, ["command_execution", "file_change", "request_user_input"]);
}

/// Tells whether something is a sign that no turn is under way.
fn is_sign_of_idleness(seen: &Seen) -> bool {
    let Seen::Control(message) = seen else { return false };
    let (params, result) = (&message["params"], &message["result"]);
    let idle = |thread: &Value| thread["status"]["type"] == "idle";
    match message["method"].as_str() {
        Some("turn/completed") => true,
        Some("thread/status/changed") => idle(params),
        Some("thread/started") => idle(&params["thread"]),
        Some(_) => false,
        None => message["type"] == "turn.completed" || idle(&result["thread"]),
    }
}

/// Tells whether something settles an ask. An agent that rested before it rests again.
fn settles_ask(seen: &Seen) -> bool {
    matches!(seen, Seen::Control(message) if message["method"] == "serverRequest/resolved")
}

fn check(mimic: &mut Mimic, seen: &[Seen]) {
    let mut was_idle = false;
    for seen in seen {
        let before = mimic.state().clone();
        mimic.see(seen, 0);
        was_idle |= is_sign_of_idleness(seen);
        if *mimic.state() == AgentState::Idle && before != AgentState::Idle {
            assert!(is_sign_of_idleness(seen) || settles_ask(seen) && was_idle, "idle after {seen:?}");
        }
        was_idle &= !matches!(mimic.state(), AgentState::Working { .. });
    }
}

fn recording() -> impl Strategy<Value = &'static Recording> {
    (0..ALL.len()).prop_map(|at| &ALL[at])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_recording_of_codex_may_be_cut_at_any_byte(recording in recording(), at in any::<Index>()) {
        let at = at.index(recording.text.len() + 1);
        let text = String::from_utf8_lossy(&recording.text.as_bytes()[..at]).into_owned();
        check(&mut recording.mimic(), &seen_in(&recording.name, &text));
    }

    #[test]
    fn what_is_recorded_of_codex_may_come_in_any_order(
        picked in proptest::collection::vec((recording(), any::<Index>()), 0..80),
        line in select(vec!["codex", "codex exec --json x", "codex login", "codex fix"]),
        runtime in select(vec![Runtime::Pty, Runtime::Pipe]),
    ) {
        let seen: Vec<_> = picked.into_iter().filter_map(|(recording, at)| {
            let all = recording.seen();
            (!all.is_empty()).then(|| all[at.index(all.len())].clone())
        }).collect();
        check(&mut mimic(runtime, line), &seen);
    }
}

/// Returns every ask that was ever seen, and one of each kind that was not, with the screen it was seen on.
fn every_ask() -> Vec<(Ask, Reach, Vec<String>)> {
    let mut asks = Vec::new();
    for recording in all() {
        let mut mimic = recording.mimic();
        for seen in recording.seen() {
            let rows = match &seen {
                Seen::Screen(rows) => rows.clone(),
                _ => Vec::new(),
            };
            mimic.see(&seen, 0);
            asks.extend(mimic.asks().iter().map(|(ask, reach)| (ask.clone(), reach.clone(), rows.clone())));
        }
    }
    let field =
        json!({ "type": "object", "properties": { "name": { "type": "string" }, "sure": { "type": "boolean" } } });
    let unseen = [
        ("item/permissions/requestApproval", json!({ "permissions": { "network": { "enabled": true } } })),
        ("mcpServer/elicitation/request", json!({ "mode": "form", "message": "Sure?", "requestedSchema": {} })),
        ("mcpServer/elicitation/request", json!({ "mode": "form", "message": "Who?", "requestedSchema": field })),
        ("mcpServer/elicitation/request", json!({ "mode": "openai/userVerification", "title": "You?" })),
        (
            "item/commandExecution/requestApproval",
            json!({ "command": "x", "availableDecisions": ["acceptForSession"] }),
        ),
        ("item/commandExecution/requestApproval", json!({})),
    ];
    for (method, params) in unseen {
        let request = json!({ "id": 7, "method": method, "params": params });
        let mut driver = mimic(Runtime::Pipe, "codex").driver;
        for signal in driver.observe(&Observation::Control(&request), 0) {
            if let Meaning::Ask(draft) = signal.meaning {
                asks.push((ask("ask-1", &draft), draft.reach.clone(), Vec::new()));
            }
        }
    }
    assert!(asks.len() > 12, "only {} asks", asks.len());
    asks
}

/// Tells whether a step could allow something, or is a key that could.
fn could_allow(step: &Step, ask: &Ask) -> bool {
    match step {
        Step::Type(keys) => {
            let rejects = |key: u8| {
                let option = ask.options.iter().find(|option| option.id.as_bytes() == [key]);
                // By the words a person reads, not by what the driver makes of them.
                option.is_some_and(|option| says_no(&option.label))
            };
            keys.iter().any(|&key| key.is_ascii_alphabetic() || key == b'\r' || key == b'\n' || !rejects(key))
        }
        Step::Send(message) => {
            let result = &message["result"];
            let decides = message["method"].is_null();
            let declines = result["decision"] == "decline"
                || result["action"] == "decline"
                || result["permissions"] == json!({})
                || result["answers"] == json!({});
            decides && !declines
        }
        Step::Call(_) | Step::Reply(_) => true,
        Step::Pause(_) => false,
        Step::Expect { retry, .. } => retry.is_some(),
    }
}

#[test]
fn no_denial_of_codex_allows_anything() {
    let mut denied = 0;
    for (ask, reach, rows) in every_ask() {
        // A conversation with a turn, so that there is something to answer about.
        let mut mimic = mimic(Runtime::Pipe, "codex");
        let thread = json!({ "id": "T", "status": { "type": "idle" } });
        mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
        mimic.see(&Seen::Control(json!({ "id": "coop-thread", "result": { "thread": thread } })), 0);
        let began = json!({ "method": "turn/started", "params": { "threadId": "T", "turn": { "id": "U" } } });
        mimic.see(&Seen::Control(began), 0);
        let rejecting = ask.options.iter().zip(1..).filter(|(option, _)| option.kind == OptionKind::Reject);
        let by_number = rejecting.map(|(_, number)| json!({ "option": number }));
        let screen = screen(rows.iter().map(String::as_str));
        let words = [json!({ "accept": false }), json!({ "accept": false, "text": "yes\r" })];
        for answer in words.into_iter().chain(by_number) {
            let parsed: Answer = serde_json::from_value(answer.clone()).expect("an answer");
            let view = View { runtime: Runtime::Pty, screen: &screen };
            // To be refused is safe too: then nothing is sent.
            if let Ok(steps) = mimic.driver.answer(&ask, &reach, &parsed, &view) {
                assert!(!steps.iter().any(|step| could_allow(step, &ask)), "{answer} to {ask:?} does {steps:?}");
                denied += 1;
            }
        }
    }
    assert!(denied > 20, "only {denied} denials");
}

/// Returns the methods of what the driver has to say.
fn said(mimic: &mut Mimic) -> Vec<String> {
    let said = mimic.driver.say().into_iter().map(|say| match say {
        Say::Message(message) => message["method"].as_str().unwrap_or("?").to_owned(),
        other => format!("{other:?}"),
    });
    said.collect()
}

#[test]
fn after_a_break_of_the_link_everything_is_read_again_and_asked_once() {
    let mut mimic = mimic(Runtime::Pty, "codex");
    let tell = |mimic: &mut Mimic, message: Value| drop(mimic.see(&Seen::Control(message), 0));
    // At first all that are loaded, then the one that is known.
    for reads in [2, 1] {
        mimic.see(&Seen::Link(true), 0);
        assert_eq!(said(&mut mimic), ["initialize"]);
        tell(&mut mimic, json!({ "id": "coop-hello", "result": {} }));
        assert_eq!(said(&mut mimic), ["initialized", "thread/loaded/list"]);
        tell(&mut mimic, json!({ "id": "coop-loaded", "result": { "data": ["title", "T"] } }));
        assert_eq!(said(&mut mimic), vec!["thread/read"; reads]);
        let title = json!({ "id": "title", "ephemeral": true, "status": { "type": "idle" } });
        tell(&mut mimic, json!({ "id": "coop-read", "result": { "thread": title } }));
        let thread = json!({ "id": "T", "status": { "type": "active", "activeFlags": ["waitingOnApproval"] } });
        tell(&mut mimic, json!({ "id": "coop-read", "result": { "thread": thread } }));
        assert_eq!((mimic.describe().as_str(), said(&mut mimic)), ("working", vec!["thread/resume".to_owned()]));
        tell(&mut mimic, json!({ "id": "coop-join", "result": { "thread": thread } }));
        let params = json!({ "threadId": "T", "turnId": "U", "command": "ls" });
        let request = json!({ "id": 3, "method": "item/commandExecution/requestApproval", "params": params });
        tell(&mut mimic, request.clone());
        tell(&mut mimic, request);
        assert_eq!((mimic.asks().len(), said(&mut mimic)), (1, Vec::new()));
        mimic.see(&Seen::Link(false), 0);
        assert_eq!((mimic.asks().len(), mimic.describe().as_str()), (0, "working"));
    }
}

/// Returns a driver in the terminal that has one conversation, `T`, in which nothing happens yet.
fn at_rest() -> Mimic {
    let mut mimic = mimic(Runtime::Pty, "codex");
    mimic.see(&Seen::Link(true), 0);
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    let thread = json!({ "id": "T", "status": { "type": "idle" } });
    mimic.see(&Seen::Control(json!({ "method": "thread/started", "params": { "thread": thread } })), 0);
    said(&mut mimic);
    mimic
}

/// Returns a driver in the terminal that has one conversation, `T`, with a turn under way.
fn in_turn() -> Mimic {
    let mut mimic = at_rest();
    let began = json!({ "method": "turn/started", "params": { "threadId": "T", "turn": { "id": "U" } } });
    mimic.see(&Seen::Control(began), 0);
    said(&mut mimic);
    mimic
}

/// On a busy machine a short turn was over before the server counted coop among those who hear of it.
#[test]
fn a_turn_that_was_over_before_coop_had_joined_is_read() {
    let mut mimic = at_rest();
    status(&mut mimic, "T", "active");
    // What it used may be told to those who have not joined; it does not say what it was told.
    let tokens = json!({ "totalTokens": 9, "inputTokens": 5, "outputTokens": 4 });
    let used = json!({ "threadId": "T", "turnId": "U", "tokenUsage": { "last": tokens, "total": tokens } });
    let early = json!({ "method": "thread/tokenUsage/updated", "params": used });
    assert!(mimic.see(&Seen::Control(early), 0).is_empty());
    status(&mut mimic, "T", "idle");
    assert_eq!(
        (said(&mut mimic), mimic.describe().as_str()),
        (vec!["thread/resume".into(), "thread/resume".into()], "working")
    );
    mimic.see(&Seen::Control(json!({ "id": "coop-join-late", "result": {} })), 0);
    assert_eq!(said(&mut mimic), ["thread/read"]);
    let items = json!([
        { "type": "userMessage", "id": "1", "content": [{ "type": "text", "text": "x" }] },
        { "type": "agentMessage", "id": "2", "text": "hello" },
    ]);
    let turns = json!([{ "id": "old", "items": [], "status": "completed" }, { "id": "U", "items": items, "status": "interrupted" }]);
    let thread = json!({ "id": "T", "status": { "type": "idle" }, "turns": turns });
    let missed = json!({ "id": "coop-missed", "result": { "thread": thread } });
    let told = mimic.see(&Seen::Control(missed.clone()), 0);
    let began = told.iter().find_map(|signal| match &signal.meaning {
        Meaning::TurnBegan { prompt } => prompt.as_deref(),
        _ => None,
    });
    let messages = told.iter().filter(|signal| matches!(signal.meaning, Meaning::Said(_))).count();
    let ended = told.last().is_some_and(|signal| signal.meaning == Meaning::Idle(TurnOutcome::Interrupted));
    assert_eq!((began, messages, ended), (Some("x"), 2, true), "{told:?}");
    assert_eq!(told.iter().filter(|signal| matches!(signal.meaning, Meaning::Used { .. })).count(), 1, "{told:?}");
    assert_eq!((mimic.see(&Seen::Control(missed), 0).len(), mimic.describe().as_str()), (0, "idle"));
    // A server that cannot say leaves what is known.
    status(&mut mimic, "T", "active");
    status(&mut mimic, "T", "idle");
    mimic.see(&Seen::Control(json!({ "id": "coop-missed", "error": { "message": "no" } })), 0);
    assert_eq!(mimic.describe(), "idle");
}

/// The first turn cannot be joined before it is written down: that was tried once, and nothing was heard of a long one.
#[test]
fn a_turn_is_joined_as_soon_as_that_is_possible() {
    let mut mimic = at_rest();
    status(&mut mimic, "T", "active");
    for _ in 0..3 {
        assert_eq!(said(&mut mimic), ["thread/resume"]);
        mimic.see(&Seen::Screen(vec![]), 0);
        assert_eq!(said(&mut mimic), Vec::<String>::new(), "one at a time");
        mimic.see(&Seen::Control(json!({ "id": "coop-join", "error": { "message": "no rollout found" } })), 0);
        mimic.see(&Seen::Screen(vec![]), 0);
    }
    said(&mut mimic);
    let items = json!([
        { "type": "userMessage", "id": "1", "content": [{ "type": "text", "text": "x" }] },
        { "type": "agentMessage", "id": "2", "text": "tick" },
    ]);
    let thread = json!({ "id": "T", "turns": [{ "id": "U", "items": items, "status": "inProgress" }] });
    let told = mimic.see(&Seen::Control(json!({ "id": "coop-join", "result": { "thread": thread } })), 0);
    let began = |signal: &Signal| signal.meaning == Meaning::TurnBegan { prompt: Some("x".into()) };
    assert!(told.iter().any(began), "{told:?}");
    assert!(!told.iter().any(|signal| matches!(signal.meaning, Meaning::Said(ref said) if said.text == "tick")));
    mimic.see(&Seen::Screen(vec![]), 0);
    assert_eq!((said(&mut mimic), mimic.describe().as_str()), (Vec::new(), "working"));
}

fn usage_update(turn: &str, total: u64, last: u64) -> Seen {
    let tokens = |count: u64| json!({ "inputTokens": count, "outputTokens": 0 });
    let usage = json!({ "total": tokens(total), "last": tokens(last) });
    let params = json!({ "threadId": "T", "turnId": turn, "tokenUsage": usage });
    Seen::Control(json!({ "method": "thread/tokenUsage/updated", "params": params }))
}

fn counted(signals: &[Signal]) -> Vec<u64> {
    let used = signals.iter().filter_map(|signal| match &signal.meaning {
        Meaning::Used { usage, .. } => Some(usage.input_tokens),
        _ => None,
    });
    used.collect()
}

/// On a busy machine coop joined a turn after its requests to the model, and never counted them.
#[test]
fn usage_before_a_join_is_counted_by_the_growth_of_the_sum() {
    let mut mimic = in_turn();
    let item = json!({ "type": "userMessage", "id": "1", "content": [{ "type": "text", "text": "x" }] });
    let params = json!({ "threadId": "T", "turnId": "U", "item": item });
    mimic.see(&Seen::Control(json!({ "method": "item/completed", "params": params })), 0);
    assert_eq!(counted(&mimic.see(&usage_update("U", 50, 20), 0)), [30, 20]);
    assert_eq!(counted(&mimic.see(&usage_update("U", 50, 20), 0)), [0; 0], "the same sum again");
    assert_eq!(counted(&mimic.see(&usage_update("U", 60, 10), 0)), [10]);
}

#[test]
fn usage_of_a_resumed_conversation_is_counted_as_used_before() {
    let mut mimic = mimic(Runtime::Pty, "codex resume T");
    mimic.see(&Seen::Link(true), 0);
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    let thread = json!({ "id": "T", "preview": "hello", "status": { "type": "idle" } });
    mimic.see(&Seen::Control(json!({ "method": "thread/started", "params": { "thread": thread } })), 0);
    let requests = said(&mut mimic);
    assert_eq!(requests.last().map(String::as_str), Some("thread/resume"), "{requests:?}");
    let earlier = mimic.see(&usage_update("old", 50, 20), 0);
    let is_before =
        |signal: &Signal| matches!(&signal.meaning, Meaning::UsedBefore { usage, .. } if usage.input_tokens == 50);
    assert!(earlier.iter().any(is_before), "{earlier:?}");
    let began = json!({ "method": "turn/started", "params": { "threadId": "T", "turn": { "id": "U" } } });
    mimic.see(&Seen::Control(began), 0);
    let item = json!({ "type": "userMessage", "id": "1", "content": [{ "type": "text", "text": "x" }] });
    let params = json!({ "threadId": "T", "turnId": "U", "item": item });
    mimic.see(&Seen::Control(json!({ "method": "item/completed", "params": params })), 0);
    assert_eq!(counted(&mimic.see(&usage_update("U", 57, 7), 0)), [7]);
}

/// On a busy machine the agent's last message was complete when coop joined the turn, and was never told.
#[test]
fn message_that_was_complete_before_the_join_is_told_once_at_the_end_of_the_turn() {
    for is_told_again in [false, true] {
        let mut mimic = at_rest();
        status(&mut mimic, "T", "active");
        let message = json!({ "type": "agentMessage", "id": "2", "text": "done" });
        let items =
            json!([{ "type": "userMessage", "id": "1", "content": [{ "type": "text", "text": "x" }] }, message]);
        let thread = json!({ "id": "T", "turns": [{ "id": "U", "items": items, "status": "inProgress" }] });
        let mut told = mimic.see(&Seen::Control(json!({ "id": "coop-join", "result": { "thread": thread } })), 0);
        if is_told_again {
            let params = json!({ "threadId": "T", "turnId": "U", "item": message });
            told.extend(mimic.see(&Seen::Control(json!({ "method": "item/completed", "params": params })), 0));
        }
        let params = json!({ "threadId": "T", "turn": { "id": "U", "status": "completed" } });
        told.extend(mimic.see(&Seen::Control(json!({ "method": "turn/completed", "params": params })), 0));
        let is_message = |signal: &&Signal| matches!(&signal.meaning, Meaning::Said(said) if said.text == "done");
        assert_eq!(told.iter().filter(is_message).count(), 1, "{told:?}");
        assert!(matches!(told.last().expect("an end").meaning, Meaning::Idle(_)), "{told:?}");
    }
}

/// It was opened, as one of any conversation, and stayed open: its end was heard only of the person's own.
/// The agent worked for ever after a command had ended that outlived its turn.
#[test]
fn what_an_earlier_turn_still_tells_changes_no_state() {
    let mut mimic = mimic(Runtime::Pipe, "codex");
    let tell = |mimic: &mut Mimic, method: &str, params: Value| {
        mimic.see(&Seen::Control(json!({ "method": method, "params": params })), 0)
    };
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    let thread = json!({ "id": "T", "status": { "type": "idle" } });
    mimic.see(&Seen::Control(json!({ "id": "coop-thread", "result": { "thread": thread } })), 0);
    let command = |status: &str| json!({ "type": "commandExecution", "id": "c", "command": "x", "status": status });
    let turn = |id: &str, status: &str| json!({ "threadId": "T", "turn": { "id": id, "status": status } });
    let item = |id: &str, status: &str| json!({ "threadId": "T", "turnId": id, "item": command(status) });
    tell(&mut mimic, "turn/started", turn("U", "inProgress"));
    tell(&mut mimic, "item/started", item("U", "inProgress"));
    assert_eq!(mimic.describe(), "working: command_execution");
    tell(&mut mimic, "turn/completed", turn("U", "completed"));
    assert_eq!(mimic.describe(), "idle");
    let ended = tell(&mut mimic, "item/completed", item("U", "completed"));
    assert_eq!(ended.iter().map(|signal| signal.meaning.name()).collect::<Vec<_>>(), ["tool"]);
    assert_eq!(mimic.describe(), "idle");
    tell(&mut mimic, "turn/started", turn("V", "inProgress"));
    tell(&mut mimic, "turn/completed", turn("U", "completed"));
    assert_eq!(mimic.describe(), "working", "the end of another turn");
    tell(&mut mimic, "turn/completed", turn("V", "completed"));
    // A sub-agent in the background asks between turns.
    let asks = json!({ "method": "item/commandExecution/requestApproval", "id": 7,
        "params": { "threadId": "S", "turnId": "W", "itemId": "d", "command": "ls" } });
    mimic.see(&Seen::Control(asks), 0);
    assert!(mimic.describe().starts_with("permission"), "{}", mimic.describe());
    tell(&mut mimic, "serverRequest/resolved", json!({ "threadId": "S", "requestId": 7 }));
    assert_eq!(mimic.describe(), "idle");
}

#[test]
fn what_a_sub_agent_asks_ends_too() {
    let mut mimic = in_turn();
    let params = json!({ "threadId": "child", "turnId": "V", "command": "ls" });
    let request = json!({ "id": 3, "method": "item/commandExecution/requestApproval", "params": params });
    mimic.see(&Seen::Control(request), 0);
    assert_eq!(mimic.asks().len(), 1);
    let params = json!({ "threadId": "child", "requestId": 3 });
    mimic.see(&Seen::Control(json!({ "method": "serverRequest/resolved", "params": params })), 0);
    assert_eq!((mimic.asks().len(), mimic.describe().as_str()), (0, "working"));
}

/// It was `starting` for ever: the first message was refused, and nothing else was going to be heard.
#[test]
fn a_first_message_that_is_refused_leaves_it_blocked() {
    let mut mimic = mimic(Runtime::Pipe, "codex fix");
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    let thread = json!({ "id": "T", "status": { "type": "idle" } });
    mimic.see(&Seen::Control(json!({ "id": "coop-thread", "result": { "thread": thread } })), 0);
    assert_eq!(said(&mut mimic), ["initialized", "thread/start", "turn/start"]);
    assert_eq!(mimic.describe(), "starting");
    let error = json!({ "code": -32600, "message": "no such model" });
    mimic.see(&Seen::Control(json!({ "id": "coop-turn", "error": error })), 0);
    assert_eq!(mimic.describe(), "blocked: request None no such model");
    // The next one is taken, and the end of its turn counts.
    let began = json!({ "method": "turn/started", "params": { "threadId": "T", "turn": { "id": "U" } } });
    mimic.see(&Seen::Control(began), 0);
    let ended = json!({ "method": "turn/completed", "params": { "threadId": "T", "turn": { "status": "completed" } } });
    mimic.see(&Seen::Control(ended), 0);
    assert_eq!(mimic.describe(), "idle");
}

fn status(mimic: &mut Mimic, thread: &str, status: &str) {
    let params = json!({ "threadId": thread, "status": { "type": status } });
    mimic.see(&Seen::Control(json!({ "method": "thread/status/changed", "params": params })), 0);
}

fn read(mimic: &mut Mimic, request: &str, thread: &str, status: &str) -> Vec<Signal> {
    let thread = json!({ "id": thread, "status": { "type": status } });
    mimic.see(&Seen::Control(json!({ "id": request, "result": { "thread": thread } })), 0)
}

fn conversation(signals: &[Signal]) -> Option<&str> {
    signals.iter().find_map(|signal| match &signal.meaning {
        Meaning::Session { id, .. } => Some(id.as_str()),
        _ => None,
    })
}

/// Whichever conversation was read last was the person's: the one they had left came back with its next sign of life.
#[test]
fn the_person_is_in_the_conversation_they_began_last() {
    let mut mimic = in_turn();
    let thread = json!({ "id": "new", "status": { "type": "idle" } });
    let began = json!({ "method": "thread/started", "params": { "thread": thread } });
    assert_eq!(conversation(&mimic.see(&Seen::Control(began), 0)), Some("new"));
    assert_eq!(mimic.describe(), "idle");
    // The turn in the old one goes on, asks, and ends.
    status(&mut mimic, "T", "active");
    status(&mut mimic, "T", "idle");
    assert_eq!((said(&mut mimic), mimic.describe().as_str()), (Vec::new(), "idle"));
    // Both are still loaded when the link comes up anew.
    mimic.see(&Seen::Link(false), 0);
    mimic.see(&Seen::Link(true), 0);
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    said(&mut mimic);
    mimic.see(&Seen::Control(json!({ "id": "coop-loaded", "result": { "data": ["T", "new"] } })), 0);
    assert_eq!(said(&mut mimic), ["thread/read"]);
    assert_eq!(conversation(&read(&mut mimic, "coop-read", "T", "active")), None);
    read(&mut mimic, "coop-read", "new", "idle");
    assert_eq!(mimic.describe(), "idle");
}

/// Codex was seen to tell nothing of `/resume` but the turns that follow.
#[test]
fn the_person_may_go_on_with_an_earlier_conversation() {
    let mut mimic = in_turn();
    status(&mut mimic, "earlier", "active");
    assert_eq!(said(&mut mimic), [""; 0], "the person is here, in a turn");
    let ended = json!({ "method": "turn/completed", "params": { "threadId": "T", "turn": { "status": "completed" } } });
    mimic.see(&Seen::Control(ended), 0);
    status(&mut mimic, "earlier", "idle");
    assert_eq!(said(&mut mimic), [""; 0], "that is no turn that begins");
    status(&mut mimic, "earlier", "active");
    assert_eq!(said(&mut mimic), ["thread/read"]);
    assert_eq!(conversation(&read(&mut mimic, "coop-moved", "earlier", "active")), Some("earlier"));
    assert_eq!(mimic.describe(), "working");
}

/// Of several that are loaded when coop connects, the newest is the person's.
#[test]
fn the_newest_conversation_is_read_first() {
    let mut mimic = mimic(Runtime::Pty, "codex");
    mimic.see(&Seen::Link(true), 0);
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    said(&mut mimic);
    mimic.see(&Seen::Control(json!({ "id": "coop-loaded", "result": { "data": ["01", "03", "02"] } })), 0);
    let asked = mimic.driver.say().into_iter().filter_map(|say| match say {
        Say::Message(message) => message["params"]["threadId"].as_str().map(str::to_owned),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), ["03", "02", "01"]);
    assert_eq!(conversation(&read(&mut mimic, "coop-read", "03", "idle")), Some("03"));
    assert_eq!(conversation(&read(&mut mimic, "coop-read", "02", "active")), None);
    assert_eq!(mimic.describe(), "idle");
}

/// Its server died, its interface lived on, and it was `working` for ever. The interface was seen to show a spinner in its
/// title as long as it looks for its server.
#[test]
fn what_codex_does_is_not_known_once_its_server_is_gone_for_long() {
    let mut mimic = in_turn();
    mimic.see(&Seen::Link(false), 0);
    assert_eq!(mimic.describe(), "working", "it may be back in a moment");
    mimic.see(&Seen::LinkLost, 0);
    assert_eq!(mimic.describe(), "unknown");
    mimic.see(&Seen::Title("⠙ project".into()), 0);
    mimic.see(&Seen::Screen(vec!["• Reconnecting to server… (25s)".into(), "› Ask Codex".into()]), 0);
    assert_eq!(mimic.describe(), "unknown");

    mimic.see(&Seen::Link(true), 0);
    mimic.see(&Seen::Control(json!({ "id": "coop-hello", "result": {} })), 0);
    mimic.see(&Seen::Control(json!({ "id": "coop-loaded", "result": { "data": ["T"] } })), 0);
    read(&mut mimic, "coop-read", "T", "idle");
    assert_eq!(mimic.describe(), "idle");
}

/// Without a server the prompt is on the screen also while it works: after the grace it was said to be idle.
#[test]
fn a_prompt_below_a_title_that_shows_work_is_no_sign_of_quiet() {
    let codex = Known::by_name("codex").expect("a known agent");
    let launch = Launch { command: vec!["codex".into()], version: None, ..Launch::default() };
    let mut mimic = Mimic::of((codex.new)(codex.rules().expect("the rules"), &launch));
    let working = ALL.iter().find(|recording| recording.name == "B05_working.txt").expect("a recording");
    let rows = Seen::Screen(working.text.lines().map(str::to_owned).collect());
    let meanings = |signals: Vec<Signal>| signals.iter().map(|signal| signal.meaning.name()).collect::<Vec<_>>();
    assert_eq!(meanings(mimic.see(&rows, 0)), ["quiet"]);
    mimic.see(&Seen::Title("⠙ project".into()), 0);
    assert_eq!(meanings(mimic.see(&rows, 0)), ["working"]);
    mimic.see(&Seen::Title("project".into()), 0);
    assert_eq!(meanings(mimic.see(&rows, 0)), ["quiet"]);
}

/// The title lost its spinner a moment before the dialog was drawn: Codex was said to be idle in between.
#[test]
fn a_title_without_a_spinner_is_idleness_only_once_the_screen_had_time_to_show_a_dialog() {
    let codex = Known::by_name("codex").expect("a known agent");
    let launch = Launch { command: vec!["codex".into()], version: None, ..Launch::default() };
    let recorded = |name: &str| {
        let recording = ALL.iter().find(|recording| recording.name == name).expect("a recording");
        Seen::Screen(recording.text.lines().map(str::to_owned).collect())
    };
    let (prompt, approval) = (recorded("B02_idle.txt"), recorded("B03_approval.txt"));
    let meanings = |signals: Vec<Signal>| signals.iter().map(|signal| signal.meaning.name()).collect::<Vec<_>>();
    for dialog_at in [Some(249), None] {
        let mut mimic = Mimic::of((codex.new)(codex.rules().expect("the rules"), &launch));
        mimic.see(&Seen::Title("⠙ project".into()), 0);
        assert_eq!(meanings(mimic.see(&Seen::Title("project".into()), 1000)), [""; 0]);
        assert_eq!(meanings(mimic.see(&prompt, 1000)), ["quiet"]);
        if let Some(later) = dialog_at {
            assert_eq!(meanings(mimic.see(&approval, 1000 + later)), ["ask"]);
            assert_eq!(meanings(mimic.see(&prompt, 2000)), ["ask gone", "quiet"], "it goes on");
        } else {
            assert_eq!(meanings(mimic.see(&prompt, 1250)), ["idle"]);
            assert_eq!(meanings(mimic.see(&prompt, 1300)), ["quiet"], "once");
        }
    }
}
