//! Seed 000's table of `on_idle` and stop modes, with the scripted agent and with the real one where there is one.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::driven::{Model, Which, prepare, with_both};
use crate::tool::{COOP, sandbox_setting};

by_each_launcher! { on_idle_decides_how_a_turn_ends_and_what_is_done_then }

/// One row of the table.
struct Row {
    on_idle: &'static str,
    /// What the sidecar is told.
    mode: &'static str,
    /// What comes at the end of the first turn: whether the agent is held, and what is done about it, in order.
    then: &'static [&'static str],
    /// What becomes of it.
    outcome: Option<&'static str>,
}

const ROWS: [Row; 7] = [
    Row { on_idle: "done", mode: "allow", then: &["allowed", "finish"], outcome: Some("done") },
    Row { on_idle: "fail", mode: "allow", then: &["allowed", "finish"], outcome: Some("failed") },
    Row {
        on_idle: "{ action = \"nudge\", message = \"[[text:two]]\" }",
        mode: "gate",
        then: &["held", "resolve_stop", "allowed", "send"],
        outcome: None,
    },
    Row {
        on_idle: "{ action = \"gate\", run = \"exit 1\", message = \"[[text:two]]\" }",
        mode: "gate",
        then: &["held", "resolve_stop", "allowed", "gate", "send"],
        outcome: None,
    },
    Row {
        on_idle: "{ action = \"resume\", message = \"[[text:two]]\" }",
        mode: "gate",
        then: &["held", "resolve_stop", "allowed", "resume", "send"],
        outcome: None,
    },
    Row { on_idle: "escalate", mode: "gate", then: &["held", "resolve_stop", "allowed", "escalate"], outcome: None },
    Row { on_idle: "auto", mode: "auto", then: &["sent back", "allowed"], outcome: None },
];

/// Returns an agent's settings for one of both.
fn settings(lab: &Lab, which: &Which, model: Option<&Model>) -> String {
    let command = match which {
        Which::Scripted => format!("[{COOP:?}, \"sim\", \"claude\"]"),
        Which::Real(path) => format!("[{path:?}]"),
    };
    let mut prepared = Command::new("true");
    prepare(&mut prepared, model.map(|model| model.url.as_str()));
    // The daemon's home is that of its agents.
    let own = prepared.get_envs().map(|(name, value)| format!("{} = {:?}", name.display(), value.unwrap_or_default()));
    let env: Vec<_> = own.collect();
    let sandbox = sandbox_setting(lab.home.path());
    // The folder of an agent in a sandbox is not its home.
    let folder = if sandbox.is_empty() { String::new() } else { format!("folder = {:?}\n", lab.folder("work")) };
    format!(
        "driver = \"claude\"\nisolate = true\ntrust = true\n{sandbox}{folder}command = {command}\nenv = {{ {} }}\n",
        env.join(", ")
    )
}

/// Returns what came after the first turn, in order: how it ended, and what was done.
fn story(lab: &Lab, id: &str) -> Vec<String> {
    let shown = lab.json(&["show", id]);
    let deeds = shown["done"].as_array().expect("a list").iter();
    let mut steps: Vec<(u64, u64, String)> = deeds
        .zip(1..)
        .map(|(deed, at)| {
            (
                deed["cause"].as_u64().expect("a number"),
                at,
                deed["effect"]["effect"].as_str().expect("a name").to_owned(),
            )
        })
        .collect();
    for entry in lab.entries().iter().filter(|entry| entry["agent"] == id) {
        let input = &entry["input"];
        let name = match input["what"].as_str() {
            Some("stop_allowed") => "allowed",
            Some("stop_blocked") if input["reason"].is_null() => "held",
            Some("stop_blocked") => "sent back",
            _ => continue,
        };
        steps.push((entry["id"].as_u64().expect("a number"), 0, name.to_owned()));
    }
    steps.sort();
    let steps = steps.into_iter().map(|(_, _, step)| step);
    steps.skip_while(|step| !matches!(step.as_str(), "allowed" | "held" | "sent back")).collect()
}

fn on_idle_decides_how_a_turn_ends_and_what_is_done_then(launch: Launch) {
    match launch {
        Launch::Local => with_both(|which| decide(launch, which)),
        Launch::Container | Launch::Kubernetes => decide(launch, &Which::Scripted),
    }
}

fn decide(launch: Launch, which: &Which) {
    let lab = Lab::by(launch, "");
    let model = match which {
        Which::Scripted => None,
        Which::Real(_) => Some(Model::start(lab.home.path())),
    };
    let settings = settings(&lab, which, model.as_ref());
    let agent = |(row, number): (&Row, usize)| {
        format!("[agents.a{number}]\n{settings}prompt = \"[[text:one]]\"\non_idle = {}\n", toml(row.on_idle))
    };
    let file = lab.home.path().join("coop.toml");
    fs::write(&file, ROWS.iter().zip(0..).map(agent).collect::<String>()).expect("written");
    for (row, number) in ROWS.iter().zip(0..) {
        let id = format!("a{number}");
        if launch == Launch::Container && row.on_idle.contains("run =") {
            // On the machine it would run what the agent in the container wrote.
            let (code, _, said) = lab.run(&["spawn", &id]);
            assert!(code == 1 && said.contains("outside of the container"), "{said}");
            continue;
        }
        lab.ok(&["spawn", &id]);
        let config = fs::read(lab.state().join("agents").join(&id).join("agent-config.json")).expect("it is there");
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        assert_eq!(config["stop"]["mode"], row.mode, "{}", row.on_idle);
        assert_eq!(config["stop"]["escalate"] == true, row.on_idle == "escalate", "{config}");
        lab.until(0, row.on_idle, |entry| {
            // What is done is written down with what it follows from; the story is whole a little later.
            entry["agent"] == id.as_str()
                && (is(entry, "idle") || is(entry, "gone") || is(entry, "stop_allowed"))
                && story(&lab, &id).len() >= row.then.len()
        });
        let story = story(&lab, &id);
        assert_eq!(story[..row.then.len()], *row.then, "{which:?} {}: {story:?}", row.on_idle);
        let shown = lab.json(&["show", &id]);
        assert_eq!(shown["outcome"]["outcome"].as_str(), row.outcome, "{}: {shown}", row.on_idle);
        if row.mode == "auto" {
            assert!(shown["needs"].is_null(), "nobody intervenes: {shown}");
        }
        lab.ok(&["kill", &id]);
    }
}

/// A name becomes a string; a table stays one.
fn toml(on_idle: &str) -> String {
    if on_idle.starts_with('{') { on_idle.to_owned() } else { format!("{on_idle:?}") }
}
