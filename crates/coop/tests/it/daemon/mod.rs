//! `coop up` and the commands that ask it, with simulated agents in sidecars of their own.

mod actions;
mod api;
mod chaos;
mod commands;
mod demo;
mod faults;
mod golden;
pub(crate) mod lab;
pub(crate) mod launch;
mod past;
mod postgres;
mod secrets;
mod sentences;
mod shims;
mod stops;
mod unseen;

use std::fs;

use rustix::process::Pid;
use serde_json::Value;

use self::lab::{Following, Lab, is};
use self::launch::{Launch, by_each_launcher};
use crate::tool::{self, COOP};

by_each_launcher! {
    an_ask_outlives_the_daemon_and_is_answered_once_by_name,
    there_is_one_daemon_for_a_folder_and_mistakes_are_told,
    a_daemon_in_the_background_is_ended_by_a_command,
}

fn an_ask_outlives_the_daemon_and_is_answered_once_by_name(launch: Launch) {
    let mut lab = Lab::by(launch, "[agents.asker]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch made]]\"\n");
    assert_eq!(lab.ok(&["spawn", "asker"]), "asker\n");
    let asked = lab.until(0, "an ask", |entry| is(entry, "prompt"));
    // What is told an agent that asks is refused, and not typed.
    let (code, _, refused) = lab.run(&["send", "asker", "go on"]);
    assert_eq!(code, 1, "{refused}");
    assert!(refused.contains("ask"), "{refused}");
    let sidecar = lab.sidecar("asker");
    lab.kill();
    assert!(lab.runs("asker"), "the agent goes on");
    let (code, _, nobody) = lab.run(&["ls"]);
    assert_eq!(code, 1, "{nobody}");
    lab.up();
    assert_eq!(lab.sidecar("asker"), sidecar, "it is the same");
    let asks = lab.json(&["asks"]);
    assert_eq!(asks["asks"].as_array().map(Vec::len), Some(1), "{asks}");
    assert_eq!(asks["asks"][0]["agent"], "asker");
    // A part of the name is enough, and the sidecar's own API is there.
    lab.wait_until("it is found again", || lab.ask("GET", "/api/v1/agents/ask/agent", "").1["name"] == "prompt");
    // Whoever waits is told at once if it is so, and when the time is over.
    assert_eq!(lab.run(&["wait", "asker", "--for", "ask"]).0, 0);
    assert_eq!(lab.run(&["wait", "asker", "--for", "idle", "--timeout", "0.1"]).0, 4);
    let first = lab.upgraded("/api/v1/agents/asker/ws?subscribe=log&after=0");
    assert!(first.contains("\"kind\":\"lifecycle\""), "{first}");
    let (code, _, short) = lab.run(&["respond", "ask", "yes", "--ask", "ask-1"]);
    assert!(code == 1 && short.contains("is short for asker"), "{short}");
    lab.ok(&["respond", "asker", "yes", "--ask", "ask-1"]);
    let closed = lab.until(asked, "its end", |entry| is(entry, "ask_closed"));
    let (code, _, again) = lab.run(&["respond", "asker", "yes"]);
    assert_eq!(code, 1, "{again}");
    lab.until(closed, "idleness", |entry| is(entry, "idle"));
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    let decisions = audit["decisions"].as_array().expect("a list");
    assert_eq!(decisions.len(), 1, "{audit}");
    assert_eq!((&decisions[0]["by"]["name"], &decisions[0]["accept"]), (&"ann".into(), &true.into()), "{audit}");
    // The prompt was told once, and the agent started once.
    let shown = lab.json(&["show", "asker"]);
    let done: Vec<_> = shown["done"].as_array().expect("a list").iter().map(|deed| &deed["effect"]["effect"]).collect();
    assert_eq!(done.iter().filter(|effect| **effect == "spawn").count(), 1, "{shown}");
    assert_eq!(done.iter().filter(|effect| **effect == "send").count(), 1, "{shown}");
    assert_eq!(shown["run"], 1);
    // One who follows through a restart hears everything once.
    let following = Following::start(&mut lab.command(&["events", "--after", "0"]));
    let mut numbers = Vec::new();
    let mut read = |part: &str| {
        let lines = following.until(part);
        numbers.extend(lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].as_u64()));
    };
    read("\"what\":\"ordered\"");
    lab.kill();
    lab.up();
    lab.ok(&["kill", "asker"]);
    assert_eq!(lab.run(&["wait", "asker", "--for", "exit"]).0, 0);
    read("\"what\":\"gone\"");
    let (_, log) = lab.ask("GET", "/api/v1/log", "");
    let kept: Vec<_> = log.as_array().expect("a page").iter().map(|entry| entry["id"].as_u64()).collect();
    assert_eq!(numbers, kept[..numbers.len()]);
    assert_eq!(lab.run(&["wait", "asker", "--for", "idle"]).0, 3);
    lab.ok(&["down", "--kill"]);
    assert_eq!(tool::wait_for(lab.daemon.as_mut().expect("it runs")), 0);
    lab.nothing_is_left("asker");
}

#[test]
fn what_an_agent_runs_may_look_at_the_fleet_and_not_steer_it() {
    let script = format!("read go; {COOP} ls && {COOP} kill victim; echo code $?");
    let insider = format!(
        "[agents.insider]\ndriver = \"unknown\"\ncommand = [\"sh\", \"-c\", {script:?}]\non_dead = \"escalate\"\n"
    );
    let mut lab = Lab::new(&format!("[agents.victim]\nSIM\nkind = \"crew\"\n{insider}@@"));
    // Settings of coop are not for agents, so it has to find the daemon where every command looks for it.
    let path = lab.home.path().join("coop.toml");
    let home = lab.home.path().display();
    let env = format!("env = {{ HOME = \"{home}\", XDG_STATE_HOME = \"{home}/x\" }}\n");
    fs::write(&path, fs::read_to_string(&path).expect("read").replace("@@", &env)).expect("written");
    fs::create_dir(lab.home.path().join("x")).expect("made");
    std::os::unix::fs::symlink(lab.state(), lab.home.path().join("x/coop")).expect("made");
    lab.ok(&["spawn", "victim"]);
    lab.ok(&["spawn", "insider"]);
    // Its sidecar is no child of the daemon any more.
    lab.kill();
    lab.up();
    let (status, typed) = lab.ask("POST", "/api/v1/agents/insider/input", r#"{"text": "go", "enter": true}"#);
    assert_eq!(status, 200, "{typed}");
    lab.until(0, "its end", |entry| is(entry, "gone") && entry["agent"] == "insider");
    let (status, screen) = lab.ask("GET", "/api/v1/agents/insider/screen/text", "");
    let screen = screen.as_str().unwrap_or_default();
    assert_eq!(status, 200);
    assert!(screen.contains("victim") && screen.contains("may look but not steer"), "{screen}");
    assert!(screen.contains("code 1"), "{screen}");
    assert_eq!(lab.json(&["show", "victim"])["outcome"], Value::Null);
    assert!(lab.runs("victim"), "it lives");
}

fn there_is_one_daemon_for_a_folder_and_mistakes_are_told(launch: Launch) {
    let lab = Lab::by(launch, "[agents.a]\nSIM\ncolour = 1\n");
    let (code, _, second) = lab.run(&["up"]);
    assert_eq!(code, 1);
    assert!(second.contains("a daemon runs already in"), "{second}");
    let (code, _, wrong) = lab.run(&["spawn", "a"]);
    assert_eq!(code, 1);
    assert!(wrong.contains("coop.toml: line 6, column 1"), "{wrong}");
    let (code, _, nobody) = lab.run(&["kill", "nobody"]);
    assert_eq!((code, nobody.as_str()), (1, "coop: there is no agent nobody\n"));
    assert_eq!(lab.ok(&["ls"]), "AGENT  STATE  TURN  NEEDS  SAYS\n");
    assert_eq!(lab.json(&["status"])["agents"], 0);
    let (status, _) = lab.ask("GET", "/api/v1/nothing", "");
    assert_eq!(status, 404);
}

fn a_daemon_in_the_background_is_ended_by_a_command(launch: Launch) {
    let mut lab = Lab::by(launch, "");
    lab.ok(&["down"]);
    assert_eq!(tool::wait_for(lab.daemon.as_mut().expect("it runs")), 0);
    let (code, _, nobody) = lab.run(&["status"]);
    assert_eq!((code, nobody.as_str()), (1, "coop: no daemon runs; start one with `coop up --detach`\n"));
    let out = lab.ok(&["up", "--detach"]);
    assert!(out.ends_with("ready\n"), "{out}");
    let pid = lab.json(&["status"])["pid"].as_i64().expect("a number");
    let pid = Pid::from_raw(i32::try_from(pid).expect("small")).expect("a process");
    let watch = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("it runs");
    lab.ok(&["down"]);
    // Not a moment later: the command waits for it.
    let mut fds = [rustix::event::PollFd::new(&watch, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&now)).expect("poll"), 1, "it has ended");
}
