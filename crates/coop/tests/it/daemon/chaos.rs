//! A daemon that is killed at any moment.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::tool::LIMIT;

by_each_launcher! { a_daemon_that_is_killed_at_any_moment_loses_and_doubles_nothing }

/// How often the daemon is killed here; `make chaos` kills it 200 times.
const KILLS: u64 = 25;
/// And with agents elsewhere, which have to be found again each time.
const KILLS_ELSEWHERE: u64 = 8;
/// Agents that the daemon sends on and on.
const TALKERS: [&str; 2] = ["one", "two"];
/// An agent that asks again and again.
const ASKER: &str = "asker";

/// Numbers that only look like chance: the same seed gives the same.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

pub(super) fn project() -> String {
    let on_idle = |message: &str| {
        format!("on_idle = {{ action = \"nudge\", attempts = \"forever\", message = \"{message}\" }}\n")
    };
    // Each message has one letter more than the one before, so that no two are the same.
    let talker = |name: &str| {
        format!("[agents.{name}]\nSIM\nprompt = \"[[text:begin]]\"\n{}", on_idle("[[text:{last_message}x]]"))
    };
    let bash = "[[bash:echo ran >> ran]] [[text:ok]]";
    let asker = format!("[agents.{ASKER}]\nSIM\nprompt = \"{bash}\"\n{}", on_idle(bash));
    format!("{}{asker}", TALKERS.map(talker).concat())
}

/// The daemon is killed again and again while agents work, it tells them to go on, and a person answers what they ask. In
/// the end every agent exists once, every event of its is kept once and in order, nothing was told twice, and every ask is
/// open or answered as it really is.
fn a_daemon_that_is_killed_at_any_moment_loses_and_doubles_nothing(launch: Launch) {
    let kills = match launch {
        Launch::Local => KILLS,
        Launch::Container | Launch::Kubernetes => KILLS_ELSEWHERE,
    };
    withstand(Lab::by(launch, &project()), kills);
}

#[expect(clippy::print_stderr, reason = "whoever sees it fail needs the seed")]
pub(super) fn withstand(mut lab: Lab, kills: u64) {
    let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.subsec_nanos().into());
    let seed = set("COOP_SEED").unwrap_or_else(clock);
    let kills = set("COOP_CHAOS").unwrap_or(kills);
    eprintln!("COOP_SEED={seed} COOP_CHAOS={kills}");
    let mut chance = Chance(seed);
    for name in TALKERS.iter().chain([&ASKER]) {
        lab.ok(&["spawn", name]);
    }
    for round in 0..kills {
        // The instant is what is tried here; nothing waits for it.
        std::thread::sleep(Duration::from_millis(chance.below(250)));
        lab.kill();
        lab.up();
        for name in TALKERS.iter().chain([&ASKER]) {
            send_on(&lab, name, round);
        }
        match chance.below(3) {
            0 => drop(lab.respond(ASKER, "yes")),
            1 => drop(lab.run(&["respond", ASKER, "no"])),
            _ => {}
        }
    }
    // However soon the kills came, each has something to say in the end.
    for name in TALKERS {
        let begin = Instant::now();
        for round in kills.. {
            if messages(&lab.entries(), name).len() > 2 {
                break;
            }
            assert!(begin.elapsed() < LIMIT, "{name} is not sent on: {}", lab.json(&["show", name]));
            send_on(&lab, name, round);
        }
    }
    check_asks(&lab);
    for name in TALKERS.iter().chain([&ASKER]) {
        lab.ok(&["kill", name]);
        lab.until(0, "its end", |entry| is(entry, "gone") && entry["agent"] == *name);
        let shown = lab.json(&["show", name]);
        assert_eq!((&shown["run"], &shown["outcome"]["outcome"]), (&1.into(), &"dismissed".into()), "{shown}");
    }
    let entries = lab.entries();
    for name in TALKERS.iter().chain([&ASKER]) {
        lab.check_events(&entries, name);
        check_intents(&lab, &entries, name);
    }
    for name in TALKERS {
        let mut told = messages(&entries, name);
        let all = told.len();
        told.sort();
        told.dedup();
        assert_eq!(told.len(), all, "{name}: nothing is told twice");
    }
    let accepted = |entry: &&Value| {
        let body = &entry["event"]["body"];
        entry["agent"] == ASKER && body["what"] == "answered" && body["answer"].to_string().contains("true")
    };
    let ran = fs::read_to_string(lab.workspace(ASKER).join("ran")).unwrap_or_default().lines().count();
    assert_eq!(entries.iter().filter(accepted).count(), ran, "what was allowed was done, once, and nothing else");
    assert_eq!(lab.json(&["ls"])["agents"].as_array().map(Vec::len), Some(3), "each exists once");
    assert_eq!(lab.json(&["ls", "--orphans"])["orphans"].as_array().map(Vec::len), Some(0));
}

/// Whether an agent was told something may be for a person to say; then it goes on with something new.
fn send_on(lab: &Lab, name: &str, round: u64) {
    let shown = lab.json(&["show", name]);
    if shown["needs"].is_string() && shown["phase"] == "idle" {
        // The blank before the brackets tells it from what the daemon makes of it.
        lab.run(&["send", name, &format!("[[text:round {round} ]]")]);
    }
}

/// What the daemon says is asked is what the agent asks.
fn check_asks(lab: &Lab) {
    // Once it asks, or is left to a person, nothing moves any more.
    let settled = |entry: &Value| entry["agent"] == ASKER && (is(entry, "prompt") || is(entry, "idle"));
    let begin = Instant::now();
    loop {
        let before = lab.json(&["status"])["newest"].as_u64().expect("a number");
        let (_, theirs) = lab.ask("GET", &format!("/api/v1/agents/{ASKER}/agent/asks"), "");
        let ours = lab.json(&["asks"]);
        let shown = lab.json(&["show", ASKER]);
        let is_quiet = lab.json(&["status"])["newest"].as_u64() == Some(before);
        let rests = shown["phase"] == "asking" || shown["phase"] == "idle" && shown["needs"].is_string();
        if is_quiet && rests {
            let theirs: Vec<_> = theirs["asks"].as_array().expect("a list").iter().map(|ask| &ask["id"]).collect();
            let ours: Vec<_> = ours["asks"].as_array().expect("a list").iter().map(|open| &open["ask"]["id"]).collect();
            if ours == theirs {
                return;
            }
            // What it told last may be on its way.
            assert!(begin.elapsed() < LIMIT, "it asks {theirs:?}, and is said to ask {ours:?}");
        }
        if !rests {
            lab.until(before, "that it rests", settled);
        }
    }
}

/// Every intent has a name of its own, and was done at most once: what was told is what was to be told, but for what
/// people told and for what nobody knows.
fn check_intents(lab: &Lab, entries: &[Value], name: &str) {
    let shown = lab.json(&["show", name]);
    let deeds = shown["done"].as_array().expect("a list");
    let mut ids: Vec<_> = deeds.iter().map(|deed| deed["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), deeds.len(), "{name}: {shown}");
    let count = |effect: &str, states: &[&str]| {
        let is_one = |deed: &&Value| {
            deed["effect"]["effect"] == effect && deed["state"].as_str().is_some_and(|state| states.contains(&state))
        };
        deeds.iter().filter(is_one).count()
    };
    assert_eq!(count("spawn", &["done"]), 1, "{name}: {shown}");
    let told = messages(entries, name).iter().filter(|text| !text.ends_with(" ]]")).count();
    let (least, most) = (count("send", &["done"]), count("send", &["done", "unsure", "failed"]));
    assert!((least..=most).contains(&told), "{name}: told {told} times, of {least} to {most}");
}

fn messages(entries: &[Value], name: &str) -> Vec<String> {
    let of_it = entries.iter().filter(|entry| entry["agent"] == name).map(|entry| &entry["event"]["body"]);
    let of_people = of_it.filter(|body| body["kind"] == "message" && body["role"] == "user");
    of_people.map(|body| body["text"].as_str().unwrap_or_default().to_owned()).collect()
}
