//! What agents that speak ACP were seen to do, and what the driver makes of it. What is expected stands beside each
//! recording in `recordings/acp`, one line for each message.

mod answers;
mod cuts;
mod requests;

use std::fmt::Write as _;
use std::path::PathBuf;

use coop_drivers::{Allowed, Driver, Known, Launch, Runtime, Variables};
use serde_json::{Value, json};

use crate::mimic::{Mimic, Seen};

/// The greeting, and what else the driver asks for, has ids of its own; prompts have those after this.
const PROMPTS: i64 = 1000;

/// Returns a driver for one that is launched like this.
fn driver(launch: &Launch) -> Box<dyn Driver> {
    let acp = Known::by_name("acp").expect("a known agent");
    (acp.new)(acp.rules().expect("rules"), launch)
}

fn launch() -> Launch {
    Launch {
        runtime: Runtime::Pipe,
        command: vec!["agent".into()],
        cwd: "/home/dev/project".into(),
        variables: Variables::default(),
        allowed: Allowed::default(),
        ..Launch::default()
    }
}

/// A recording, with the ids that the driver would have given.
#[derive(Debug)]
struct Recording {
    name: String,
    /// The earlier conversation it goes on with.
    resume: Option<String>,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    at: u64,
    is_ours: bool,
    message: Value,
}

impl Recording {
    fn mimic(&self) -> Mimic {
        Mimic::of(driver(&Launch { resume: self.resume.clone(), ..launch() }))
    }

    /// Returns what is seen of all of it, in order.
    fn seen(&self) -> Vec<(u64, Seen)> {
        self.lines.iter().flat_map(|line| line.seen().into_iter().map(|seen| (line.at, seen))).collect()
    }
}

impl Line {
    fn seen(&self) -> Vec<Seen> {
        let message = self.message.clone();
        match self.is_ours {
            false => vec![Seen::Control(message)],
            true if message["result"]["outcome"].is_object() => {
                vec![Seen::Answered { request: message["id"].to_string() }, Seen::Sent(message)]
            }
            true => vec![Seen::Sent(message)],
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the recordings are found by looking")]
fn all() -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/acp");
    let entries = std::fs::read_dir(&folder).expect("the recordings");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut recordings: Vec<_> = names
        .filter(|name| name.ends_with(".jsonl"))
        .map(|name| recording(&name, &crate::recordings::read(folder.join(&name))))
        .collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(recordings.len() >= 6, "only {} recordings", recordings.len());
    recordings
}

fn recording(name: &str, text: &str) -> Recording {
    let mut ids = std::collections::HashMap::new();
    let (mut prompts, mut resume) = (PROMPTS, None);
    let mut lines = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line");
        let (mut message, is_ours) = (line["msg"].clone(), line["dir"] == "->");
        let is_request = message["method"].is_string();
        if is_ours && is_request && message["id"].is_i64() {
            let id = match message["method"].as_str() {
                Some("initialize") => 1,
                Some("authenticate") => 2,
                Some("session/new" | "session/load" | "session/resume") => {
                    resume = message["params"]["sessionId"].as_str().map(str::to_owned);
                    3
                }
                Some("session/set_mode") => 4,
                Some("session/set_model") => 5,
                Some("session/prompt") => {
                    prompts += 1;
                    prompts
                }
                _ => 99,
            };
            ids.insert(message["id"].as_i64(), id);
            message["id"] = id.into();
        } else if !is_ours && !is_request {
            message["id"] = ids.get(&message["id"].as_i64()).copied().expect("it was asked").into();
        }
        lines.push(Line { at: (line["t"].as_f64().expect("a time") * 1000.0) as u64, is_ours, message });
    }
    Recording { name: name.to_owned(), resume, lines }
}

/// Says in a few words what was seen.
fn label(seen: &Seen) -> String {
    let (arrow, message) = match seen {
        Seen::Sent(message) => ("→", message),
        Seen::Control(message) => ("←", message),
        _ => return "(answered)".to_owned(),
    };
    let update = &message["params"]["update"];
    let telling = [
        &update["status"],
        &update["content"]["text"],
        &message["params"]["prompt"][0]["text"],
        &message["params"]["toolCall"]["title"],
        &message["result"]["stopReason"],
        &message["result"]["outcome"]["optionId"],
        &message["error"]["code"],
    ];
    let telling = telling.into_iter().find(|value| !value.is_null()).map(ToString::to_string).unwrap_or_default();
    let what = update["sessionUpdate"].as_str().or(message["method"].as_str()).unwrap_or("reply");
    format!("{arrow} {what} {}", telling.chars().take(40).collect::<String>())
}

#[test]
fn every_recording_tells_the_states_the_agent_was_in() {
    for recording in all() {
        let mut mimic = recording.mimic();
        let mut story = String::new();
        for (at, seen) in recording.seen() {
            let signals = mimic.see(&seen, at);
            let meanings: Vec<_> = signals.iter().map(|signal| signal.meaning.name()).collect();
            let said: Vec<_> = mimic.driver.say().iter().map(said).collect();
            let line =
                format!("{:<70} {:<44} {} {}", label(&seen), mimic.describe(), meanings.join(", "), said.join(", "));
            writeln!(story, "{}", line.trim_end()).expect("a string");
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../recordings/acp");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(recording.name.clone(), story));
    }
}

/// Says in a few words what the driver says by itself.
fn said(say: &coop_drivers::Say) -> String {
    match say {
        coop_drivers::Say::Message(message) => match message["method"].as_str() {
            Some(method) => format!("says {method}"),
            None => format!("says {}", message["error"]["message"]),
        },
        other => format!("{other:?}"),
    }
}

#[test]
fn the_whole_of_what_was_said_and_done_is_told() {
    let recordings = all();
    let list = recordings.iter().find(|recording| recording.name == "opencode_list.jsonl").expect("the recording");
    let mut mimic = list.mimic();
    let signals: Vec<_> = list.seen().iter().flat_map(|(at, seen)| mimic.see(seen, *at)).collect();
    let told = |kind: &str| -> Vec<Value> {
        let meanings = signals.iter().map(|signal| &signal.meaning);
        meanings
            .filter_map(|meaning| match meaning {
                coop_drivers::Meaning::Tool(tool) if kind == "tool" => serde_json::to_value(tool).ok(),
                coop_drivers::Meaning::Wrote(artifact) if kind == "artifact" => serde_json::to_value(artifact).ok(),
                coop_drivers::Meaning::Said(message) if kind == "message" => serde_json::to_value(message).ok(),
                coop_drivers::Meaning::Used { usage, .. } if kind == "usage" => serde_json::to_value(usage).ok(),
                _ => None,
            })
            .collect()
    };
    let tools = told("tool");
    let phases: Vec<_> =
        tools.iter().map(|tool| format!("{} {}", tool["tool"], tool["phase"]).replace('"', "")).collect();
    assert_eq!(
        phases,
        [
            "execute requested",
            "execute failed",
            "execute requested",
            "execute completed",
            "edit requested",
            "edit completed",
            "read requested",
            "read completed",
            "edit requested",
            "edit completed"
        ]
    );
    assert_eq!(tools[0]["input"]["command"], "touch denied.txt");
    assert_eq!(tools[3]["output"]["output"], "(no output)");
    assert!(tools[3]["duration_ms"].as_u64().is_some_and(|ms| ms < 1000), "{}", tools[3]);
    let paths: Vec<_> = told("artifact").iter().map(|artifact| artifact["path"].clone()).collect();
    assert_eq!(paths, ["/home/dev/project/made.txt", "made.txt"]);
    let messages = told("message");
    assert_eq!(messages[1]["text"], "Hello from the mock model.", "the pieces are one message");
    assert_eq!(
        told("usage")[0],
        json!({ "input_tokens": 1500, "output_tokens": 42, "cache_read_tokens": 5000,
        "cache_write_tokens": 0, "cost_usd": 0.0 })
    );
}
