//! Commands of a fleet: what they do, and that they go on through a restart of the daemon.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::lab::{Following, Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::tool::{self, COOP, SCRIPT_LIMIT, Sidecar, Terminal};

const ASKER: &str = "[agents.asker]\nSIM\nkind = \"crew\"\nprompt = \"[[bash:touch made]] [[text:made it]]\"\n";

by_each_launcher! {
    an_agent_without_a_file_is_started_and_at_its_ask_a_message_is_refused_without_a_byte,
    who_waits_and_who_reads_along_goes_on_through_a_restart,
    the_list_is_live,
    the_store_is_saved_while_it_is_in_use,
    sidecars_that_nobody_knows_are_listed_and_can_be_taken_over,
    an_id_that_leads_elsewhere_is_not_written_down,
    an_agent_of_the_file_takes_another_prompt_and_nothing_else,
}

/// Starts a simulated agent that no file defines.
fn spawn(lab: &Lab, options: &[&str], prompt: &str) -> String {
    let home = lab.home.path().display();
    let variables =
        ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "COOP_SIM_STATE"].map(|name| format!("{name}={home}"));
    let mut args = vec!["spawn", "--agent", "claude", "--isolate", "--prompt", prompt];
    variables.iter().for_each(|variable| args.extend(["--env", variable]));
    args.extend(["--env", "COOP_SIM_SCENARIO=plain"]);
    args.extend(options);
    args.extend(["--", COOP, "sim", "claude"]);
    lab.ok(&args).trim_end().to_owned()
}

/// The bug this keeps away: a message typed into a dialog answers it.
fn an_agent_without_a_file_is_started_and_at_its_ask_a_message_is_refused_without_a_byte(launch: Launch) {
    let lab = Lab::by(launch, "");
    assert_eq!(spawn(&lab, &[], "[[bash:touch made]]"), "claude");
    assert_eq!(spawn(&lab, &["other", "--kind", "job"], "[[text:done]]"), "other", "it has a name");
    assert_eq!(lab.run(&["wait", "claude", "--for", "ask"]).0, 0);
    let trace = || fs::read(lab.home.path().join("trace.bin")).expect("the simulator keeps it");
    lab.until(0, "its end", |entry| is(entry, "gone") && entry["agent"] == "other");
    let before = trace();
    let (code, out, said) = lab.run(&["send", "claude", "yes", "--json"]);
    assert_eq!(code, 1);
    let refused: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(refused["error"]["code"], "AGENT_BUSY", "{out}");
    assert_eq!(said, format!("coop: {}\n", refused["error"]["message"].as_str().expect("a sentence")));
    assert_eq!(trace(), before, "no byte was sent");
    assert!(!lab.workspace("claude").join("made").exists());
    assert_eq!(lab.json(&["show", "other"])["outcome"]["outcome"], "done");
    lab.ok(&["respond", "claude", "no"]);
    assert_eq!(lab.run(&["wait", "claude", "--for", "idle"]).0, 0);
    assert!(!lab.workspace("claude").join("made").exists());
}

fn who_waits_and_who_reads_along_goes_on_through_a_restart(launch: Launch) {
    let mut lab = Lab::by(launch, ASKER);
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let log = Following::start(&mut lab.command(&["logs", "-f", "asker"]));
    // Which of the two comes first is not said.
    let began = log.until("touch made");
    let is_asked = began.iter().any(|line| line.contains("asks: Bash touch made"));
    log.until(if is_asked { "> [[bash:touch made]]" } else { "asks: Bash touch made" });
    let mut waiting = Following::start(&mut lab.command(&["wait", "asker", "--for", "idle", "--timeout", "170"]));
    let attach = format!("COOP_STATE={} exec {COOP} attach asker", lab.state().display());
    let terminal = Terminal::start(&["sh", "-c", &attach], lab.home.path());
    terminal.see("touch made");
    for _ in 0..2 {
        lab.kill();
        lab.up();
    }
    lab.ok(&["respond", "asker", "yes", "--ask", "ask-1"]);
    assert_eq!(waiting.wait(), 0);
    log.until("made it");
    terminal.see("made it");
    let whole = lab.ok(&["logs", "asker"]);
    assert_eq!(whole.matches("asks: Bash touch made").count(), 1, "{whole}");
    lab.ok(&["kill", "asker"]);
    log.until("dismissed by ann");
}

fn the_list_is_live(launch: Launch) {
    let lab = Lab::by(launch, ASKER);
    let list = Following::start(&mut lab.command(&["ls", "--watch"]));
    list.until("AGENT  STATE");
    lab.ok(&["spawn", "asker"]);
    list.until("asking");
    lab.ok(&["respond", "asker", "yes", "--ask", "ask-1"]);
    list.until("made it");
    // On a terminal it stays in its place, and has colours.
    let watch = format!("COOP_STATE={} exec {COOP} ls --watch", lab.state().display());
    let terminal = Sidecar::start(&["--", "sh", "-c", &watch]);
    terminal.see("made it");
    lab.ok(&["kill", "asker"]);
    let screen = terminal.see("dismissed");
    assert_eq!(screen.matches("AGENT").count(), 1, "{screen}");
    let (_, styled) = terminal.ask("GET", "/api/v1/screen?format=ansi", "");
    assert!(styled["lines"][0].to_string().contains("u001b[0;2mAGENT"), "{styled}");
}

fn the_store_is_saved_while_it_is_in_use(launch: Launch) {
    let mut lab = Lab::by(launch, ASKER);
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let copy = lab.home.path().join("copy.db");
    lab.ok(&["db", "check"]);
    lab.ok(&["db", "backup", copy.to_str().expect("UTF-8")]);
    assert_eq!(lab.run(&["db", "backup", copy.to_str().expect("UTF-8")]).0, 1, "nothing is written over");
    assert_eq!(fs::metadata(&copy).expect("there").mode() & 0o777, 0o600, "all that was said is in it");
    // The copy is as good as the file.
    lab.ok(&["kill", "asker"]);
    lab.kill();
    for file in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        let _ = fs::remove_file(lab.state().join(file));
    }
    fs::copy(&copy, lab.state().join("fleet.db")).expect("copied");
    lab.up();
    assert_eq!(lab.json(&["ls"])["agents"][0]["id"], "asker");
    lab.kill();
    fs::write(lab.state().join("fleet.db"), "this is no store, and long enough to be looked at").expect("written");
    let (code, _, damaged) = lab.run(&["db", "check"]);
    assert_eq!(code, 1, "{damaged}");
    let (code, _, damaged) = lab.run(&["up"]);
    assert_eq!(code, 1, "{damaged}");
    assert!(damaged.contains("fleet.db"), "{damaged}");
}

#[test]
fn shells_complete_every_command() {
    let lab = Lab::new("");
    for shell in ["bash", "zsh", "fish"] {
        let script = lab.ok(&["completions", shell]);
        for command in ["spawn", "logs", "respond", "completions", "watch"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

/// A store that was lost, or restored from before: the agents of it run on, and nobody knows them.
fn sidecars_that_nobody_knows_are_listed_and_can_be_taken_over(launch: Launch) {
    let mut lab = Lab::by(launch, ASKER);
    lab.ok(&["spawn", "asker"]);
    lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let sidecar = lab.sidecar("asker");
    assert_eq!(lab.json(&["ls", "--orphans"]), serde_json::json!({ "orphans": [] }));
    lab.kill();
    for file in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        let _ = fs::remove_file(lab.state().join(file));
    }
    lab.up();
    assert_eq!(lab.json(&["ls"])["agents"], serde_json::json!([]));
    let status = lab.ok(&["status"]);
    assert!(status.contains("1 more run that it does not know"), "{status}");
    let listed = lab.ok(&["ls", "--orphans"]);
    assert!(listed.contains("asker") && listed.contains("claude"), "{listed}");
    assert_eq!(lab.run(&["adopt", "nobody"]).0, 1);
    lab.ok(&["adopt", "asker"]);
    lab.until(0, "the ask", |entry| is(entry, "prompt"));
    assert_eq!(lab.sidecar("asker"), sidecar, "it is the same");
    assert_eq!(lab.json(&["ls", "--orphans"]), serde_json::json!({ "orphans": [] }));
    // It is one of ours from here on, with all that happened to it.
    lab.ok(&["respond", "asker", "yes", "--ask", "ask-1"]);
    assert_eq!(lab.run(&["wait", "asker", "--for", "idle"]).0, 0);
    assert!(lab.ok(&["logs", "asker"]).contains("> [[bash:touch made]]"));
    lab.kill();
    lab.up();
    assert_eq!(lab.sidecar("asker"), sidecar);
    lab.ok(&["kill", "asker"]);
}

/// With the simulator where people have the agent.
#[test]
fn the_five_commands_of_the_readme_lead_to_an_answered_ask() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).expect("it is there");
    let block = readme.split("```sh\n").find(|block| block.starts_with("coop up --detach")).expect("it is in there");
    let commands = block.split("```").next().expect("it ends");
    assert_eq!(commands.lines().count(), 5, "{commands}");
    let home = tempfile::Builder::new().prefix("coop-r-").tempdir().expect("a folder");
    let bin = home.path().join("bin");
    fs::create_dir(&bin).expect("made");
    std::os::unix::fs::symlink(COOP, bin.join("coop")).expect("linked");
    tool::write_program(&bin.join("claude"), &format!("#!/bin/sh\nexec {COOP} sim claude \"$@\"\n"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let script = format!(
        "set -e\ntrap 'coop down --kill >/dev/null' EXIT\n{commands}until coop logs writer | grep 'was answered'; do :; done\n"
    );
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).env_clear().env("PATH", path).env("USER", "ann").current_dir(home.path());
    shell.env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path()).env("XDG_STATE_HOME", home.path());
    let (code, out, err) = tool::run_within(&mut shell, SCRIPT_LIMIT);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("permission") && out.contains("\"accept\":true"), "{out}{err}");
}

/// The bug this keeps away: an id is the name of a folder, and that folder goes when the agent is forgotten.
fn an_id_that_leads_elsewhere_is_not_written_down(launch: Launch) {
    let lab = Lab::by(launch, ASKER);
    let elsewhere = lab.home.path().join("precious");
    for id in [elsewhere.to_str().expect("UTF-8"), "../evil", "..", "a/b", ""] {
        let (code, _, said) = lab.run(&["spawn", "--id", id, "asker"]);
        assert_eq!((code, said.contains("cannot be an agent's id")), (1, true), "{id}: {said}");
    }
    assert_eq!(lab.json(&["ls"])["agents"], serde_json::json!([]));
}

fn an_agent_of_the_file_takes_another_prompt_and_nothing_else(launch: Launch) {
    let lab = Lab::by(launch, ASKER);
    let (code, _, said) = lab.run(&["spawn", "asker", "--env", "A=b"]);
    assert_eq!((code, said.contains("--env is for agents that no file defines")), (1, true), "{said}");
    lab.ok(&["spawn", "asker", "--prompt", "[[text:Something else.]]"]);
    assert_eq!(lab.run(&["wait", "asker", "--for", "idle", "--timeout", "170"]).0, 0);
    lab.wait_until("what it says", || lab.ok(&["logs", "asker"]).contains("Something else."));
    lab.ok(&["kill", "asker"]);
}
