//! What the real agent was seen to do, and what the driver makes of it. What is expected stands beside each recording
//! in `recordings/claude`, one line for each observation: what was seen, the state after it, what it was said to mean.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use coop_api::{Answer, AskKind};
use coop_drivers::{Runtime, Step, View};
use serde_json::Value;

use crate::mimic::{Mimic, SESSION, Seen};
use crate::screens::screen;

/// When the log of the recordings says it is, in milliseconds.
type Millis = u64;

/// A recording.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Recording {
    /// Returns what a line shows; nothing for what was said to the agent.
    pub(crate) fn seen(&self, line: &str) -> Option<(Millis, Seen)> {
        let value: Value = serde_json::from_str(line).ok()?;
        match self.name.as_bytes()[0] {
            b'A' | b'F' => control(value).map(|seen| (0, seen)),
            b'C' => {
                let at = (value["t"].as_f64()? * 1000.0).round() as Millis;
                Some((at, Seen::Hook { event: value["event"].as_str()?.to_owned(), payload: value["stdin"].clone() }))
            }
            b'D' if self.name.ends_with(".json") => {
                Some((value["statusUpdatedAt"].as_u64().unwrap_or(0), Seen::Status(value)))
            }
            b'D' => Some((written_at(&value), Seen::Log(value))),
            _ => None,
        }
    }

    /// Returns what is seen of all of it, in order.
    pub(crate) fn all_seen(&self) -> Vec<(Millis, Seen)> {
        match self.name.as_bytes()[0] {
            b'B' => vec![(0, Seen::Screen(self.text.lines().map(str::to_owned).collect()))],
            _ => self.text.lines().filter_map(|line| self.seen(line)).collect(),
        }
    }

    /// Returns a session that is where the recording begins.
    pub(crate) fn mimic(&self) -> Mimic {
        match self.name.as_str() {
            name if name.starts_with(['A', 'F']) => Mimic::new(Runtime::Pipe, &["claude"]),
            "C_hooks_print.jsonl" => Mimic::new(Runtime::Pty, &["claude", "-p", "go"]),
            name if name.starts_with('B') => Mimic::new(Runtime::Pty, &["claude"]),
            _ => Mimic::ready(),
        }
    }
}

/// Returns all recordings, by name.
#[expect(clippy::disallowed_methods, reason = "the recordings are found by looking")]
pub(crate) fn all() -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/claude");
    let entries = std::fs::read_dir(&folder).expect("the recordings");
    let mut recordings: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| !name.ends_with(".snap") && !name.ends_with(".snap.new"))
        .map(|name| Recording { text: read(folder.join(&name)), name })
        .collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(recordings.len() >= 32, "only {} recordings", recordings.len());
    recordings
}

pub(crate) fn by_name(name: &str) -> Recording {
    all().into_iter().find(|recording| recording.name == name).expect("the recording")
}

#[expect(clippy::disallowed_methods, reason = "the recordings are found by looking")]
pub(crate) fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).expect("a text")
}

fn control(value: Value) -> Option<Seen> {
    match value["dir"].as_str() {
        Some("->") => {
            let request = value["msg"]["response"]["request_id"].as_str()?.to_owned();
            Some(Seen::Answered { request })
        }
        Some(_) => Some(Seen::Control(value["msg"].clone())),
        None => Some(Seen::Control(value)),
    }
}

fn written_at(line: &Value) -> Millis {
    let time = line["timestamp"].as_str().and_then(|time| humantime::parse_rfc3339(time).ok());
    time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |since| since.as_millis() as Millis)
}

/// Says in a few words what was seen.
fn label(seen: &Seen) -> String {
    let block = |message: &Value| match &message["content"] {
        Value::String(text) => clip(text),
        Value::Array(blocks) => {
            let text = |block: &Value| {
                let telling = ["text", "name", "content"].iter().find_map(|key| block[*key].as_str());
                format!("{} {}", block["type"].as_str().unwrap_or_default(), clip(telling.unwrap_or_default()))
            };
            blocks.first().map(text).unwrap_or_default()
        }
        _ => String::new(),
    };
    let words: Vec<String> = match seen {
        Seen::Hook { event, payload } => {
            let telling = ["tool_name", "prompt", "source", "notification_type", "reason"];
            let word = telling.iter().find_map(|key| payload[*key].as_str()).unwrap_or_default();
            vec![event.clone(), clip(word)]
        }
        Seen::Log(line) | Seen::Control(line) => ["type", "subtype", "state"]
            .iter()
            .map(|key| line[*key].as_str().unwrap_or_default().to_owned())
            .chain([block(&line["message"])])
            .collect(),
        Seen::Status(file) => vec!["status".into(), file["status"].as_str().unwrap_or_default().to_owned()],
        Seen::LinkLost => vec!["link lost".to_owned()],
        Seen::Link(up) => vec![format!("link {}", if *up { "up" } else { "down" })],
        Seen::Screen(rows) => vec![format!("a screen of {} rows", rows.len())],
        Seen::Title(title) => vec!["title".into(), clip(title)],
        Seen::Sent(_) => vec!["(sent)".into()],
        Seen::Answered { .. } => vec!["(answered)".into()],
    };
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn clip(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(36).collect()
}

/// Tells the states that observations lead to.
pub(crate) fn story(mimic: &mut Mimic, seen: &[(Millis, Seen)]) -> String {
    let mut story = String::new();
    for (at, seen) in seen {
        let signals = mimic.see(seen, *at);
        let meanings: Vec<_> = signals.iter().map(|signal| signal.meaning.name()).collect();
        let line = format!("{:<58} {:<48} {}", label(seen), mimic.describe(), meanings.join(", "));
        writeln!(story, "{}", line.trim_end()).expect("a string");
    }
    story
}

/// Tells of a screen what is asked on it and which keys would answer that.
pub(crate) fn dialog(mimic: &Mimic, recording: &Recording) -> String {
    let mut told = String::new();
    let screen = screen(recording.text.lines());
    for (ask, reach) in mimic.asks() {
        writeln!(told, "\n{}", serde_json::to_string_pretty(ask).expect("an ask")).expect("a string");
        let answers = [
            r#"{"accept":true}"#,
            r#"{"accept":true,"always":true}"#,
            r#"{"accept":false}"#,
            r#"{"accept":false,"text":"smaller steps"}"#,
            r#"{"option":2}"#,
            r#"{"text":"Redis"}"#,
        ];
        for answer in answers {
            let parsed: Answer = serde_json::from_str(answer).expect("an answer");
            let view = View { runtime: Runtime::Pty, screen: &screen };
            let steps = match mimic.driver.answer(ask, reach, &parsed, &view) {
                Ok(steps) => steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join(", "),
                Err(refusal) => format!("{refusal:?}"),
            };
            writeln!(told, "{answer} => {steps}").expect("a string");
        }
    }
    told
}

fn expect(name: &str, told: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../recordings/claude");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, told));
}

#[test]
fn every_recording_tells_the_states_the_agent_was_in() {
    for recording in all() {
        let mut mimic = recording.mimic();
        if recording.name.ends_with(".json") {
            // It counts only for the conversation that is known.
            mimic.see(&session_start(), 0);
        }
        let mut told = story(&mut mimic, &recording.all_seen());
        told.push_str(&dialog(&mimic, &recording));
        expect(&recording.name, &told);
    }
}

/// There is no hook for an interrupt or a "No" at the keyboard; the log, written in the same minutes, has them.
#[test]
fn hooks_and_log_together_tell_what_hooks_alone_do_not() {
    let hooks = by_name("C_hooks_tui.jsonl").all_seen();
    let end_of_log = by_name("D_sessionlog_full.jsonl").all_seen();
    let mut both: Vec<_> = hooks.into_iter().chain(end_of_log).filter(|(at, _)| *at > 0).collect();
    both.sort_by_key(|(at, _)| *at);
    expect("C_and_D_together", &story(&mut Mimic::ready(), &both));
}

#[test]
fn the_status_file_of_another_conversation_says_nothing() {
    let recording = by_name("D_live_status_pidfile.json");
    let mut mimic = Mimic::ready();
    mimic.see(&session_start(), 0);
    let (at, Seen::Status(mut file)) = recording.all_seen().remove(0) else { panic!("a status file") };
    file["sessionId"] = "another".into();
    assert_eq!(mimic.see(&Seen::Status(file.clone()), at), []);
    assert_eq!(mimic.describe(), "idle");
    file["sessionId"] = SESSION.into();
    mimic.see(&Seen::Status(file), at);
    assert_eq!(mimic.describe(), "working");
}

/// Seen with the real agent: a turn that ends at once after an answer is over before its status says that it goes on.
#[test]
fn a_status_that_is_behind_the_hooks_starts_no_work() {
    let mut mimic = Mimic::ready();
    mimic.see(&session_start(), 0);
    let hook = |event: &str| Seen::Hook { event: event.into(), payload: serde_json::json!({ "session_id": SESSION }) };
    let status = |status: &str, at: u64| {
        Seen::Status(serde_json::json!({ "sessionId": SESSION, "status": status, "statusUpdatedAt": at }))
    };
    mimic.see(&hook("UserPromptSubmit"), 10);
    mimic.see(&status("busy", 20), 20);
    mimic.see(&status("waiting", 30), 30);
    mimic.see(&hook("Stop"), 40);
    mimic.see(&status("busy", 41), 50);
    let signals = mimic.see(&status("idle", 42), 51);
    assert_eq!(mimic.describe(), "idle");
    assert!(
        signals.iter().any(|signal| signal.meaning == coop_drivers::Meaning::Idle(coop_api::TurnOutcome::Completed))
    );
}

/// What was said to the real agent over its pipes, the driver says too.
#[test]
fn answers_over_pipes_are_those_that_the_real_agent_took() {
    let recording = by_name("A6_stdio_bidir.jsonl");
    let mut mimic = recording.mimic();
    let mut compared = Vec::new();
    for line in recording.text.lines() {
        let value: Value = serde_json::from_str(line).expect("a line");
        let Some(seen) = control(value.clone()) else { continue };
        if matches!(seen, Seen::Answered { .. }) {
            let (ask, reach) = mimic.asks().first().expect("an ask");
            let mut sent = value["msg"].clone();
            // To deny and interrupt at once is something coop does in two steps.
            sent["response"]["response"].as_object_mut().map(|fields| fields.remove("interrupt"));
            let answer = same_answer(ask.kind, &sent["response"]["response"]);
            let screen = screen([]);
            let steps = mimic.driver.answer(ask, reach, &answer, &View { runtime: Runtime::Pipe, screen: &screen });
            assert_eq!(steps, Ok(vec![Step::Send(sent)]));
            compared.push(ask.kind.as_str());
        }
        mimic.see(&seen, 0);
    }
    assert_eq!(
        compared,
        ["permission", "permission", "permission", "question", "plan", "plan", "permission"],
        "these were answered"
    );
}

/// Returns what a client of coop says for an answer of the recording.
fn same_answer(kind: AskKind, response: &Value) -> Answer {
    let text = match (kind, response["behavior"].as_str()) {
        (AskKind::Question, _) => r#"{"answers":[{"option":2},{"option":1}]}"#.to_owned(),
        (AskKind::Plan, Some("allow")) => r#"{"accept":true,"always":true}"#.to_owned(),
        (_, Some("allow")) => r#"{"accept":true}"#.to_owned(),
        _ => format!(r#"{{"accept":false,"text":{}}}"#, response["message"]),
    };
    serde_json::from_str(&text).expect("an answer")
}

fn session_start() -> Seen {
    let payload = serde_json::json!({ "session_id": SESSION, "source": "startup" });
    Seen::Hook { event: "SessionStart".into(), payload }
}
