//! What a daemon stands on breaks: its sidecars, its agents, their sockets, its store, the disk.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::tool::{self, COOP, SCRIPT_LIMIT};

const CREW: &str = "[agents.fixer]\nSIM\nkind = \"crew\"\nprompt = \"[[text:hello]]\"\n";

by_each_launcher! {
    a_sidecar_that_is_killed_ends_its_agent_once_and_the_conversation_goes_on_in_another,
    an_agent_that_is_killed_is_gone_with_its_signal,
}

fn idle(lab: &Lab, after: u64) -> u64 {
    lab.until(after, "idleness", |entry| is(entry, "idle") && entry["input"]["last_message"].is_string())
}

fn pid(value: &Value) -> Pid {
    Pid::from_raw(i32::try_from(value.as_i64().expect("a number")).expect("small")).expect("a process")
}

fn a_sidecar_that_is_killed_ends_its_agent_once_and_the_conversation_goes_on_in_another(launch: Launch) {
    let lab = Lab::by(launch, &format!("{CREW}on_dead = \"resume\"\n"));
    lab.ok(&["spawn", "fixer"]);
    let known = idle(&lab, 0);
    let before = lab.sidecar("fixer");
    lab.kill_sidecar("fixer");
    let gone = lab.until(known, "its end", |entry| is(entry, "gone"));
    let again = lab.until(gone, "another", |entry| is(entry, "spawned"));
    lab.until(again, "idleness", |entry| is(entry, "idle"));
    assert_ne!(lab.sidecar("fixer"), before);
    let entries = lab.entries();
    assert_eq!(entries.iter().filter(|entry| is(entry, "gone")).count(), 1);
    let shown = lab.json(&["show", "fixer"]);
    assert_eq!((&shown["run"], &shown["exit"]["code"]), (&2.into(), &Value::Null), "nobody invents a code: {shown}");
    let session = |entry: &Value| entry["event"]["body"]["what"] == "session";
    let sessions: Vec<_> =
        entries.iter().filter(|entry| session(entry)).map(|entry| &entry["event"]["body"]["id"]).collect();
    assert!(sessions.iter().all(|id| *id == sessions[0]), "it is one conversation: {sessions:?}");
    lab.check_events(&entries, "fixer");
    lab.ok(&["kill", "fixer"]);
}

fn an_agent_that_is_killed_is_gone_with_its_signal(launch: Launch) {
    let mut lab = Lab::by(launch, CREW);
    lab.ok(&["spawn", "fixer"]);
    let known = idle(&lab, 0);
    let (_, status) = lab.ask("GET", "/api/v1/agents/fixer/status", "");
    kill_process(pid(&status["pid"]), Signal::KILL).expect("killed");
    lab.until(known, "its end", |entry| is(entry, "gone"));
    let shown = lab.json(&["show", "fixer"]);
    assert_eq!((&shown["phase"], &shown["exit"]["signal"]), (&"dead".into(), &9.into()), "{shown}");
    assert!(shown["needs"].is_string(), "a person is called: {shown}");
    // A daemon that comes later knows the same, and tells it once.
    lab.kill();
    lab.up();
    assert_eq!(lab.json(&["show", "fixer"])["exit"]["signal"], 9);
    assert_eq!(lab.entries().iter().filter(|entry| is(entry, "gone")).count(), 1);
    assert_eq!(lab.run(&["wait", "fixer", "--for", "exit"]).0, 0);
    lab.ok(&["kill", "fixer"]);
}

#[test]
fn an_agent_whose_socket_is_deleted_is_out_of_reach_and_not_dead() {
    let mut lab = Lab::new(CREW);
    lab.ok(&["spawn", "fixer"]);
    let known = idle(&lab, 0);
    let sidecar = lab.sidecar("fixer");
    fs::remove_file(lab.state().join("agents/fixer/coop.sock")).expect("removed");
    lab.kill();
    lab.up();
    lab.until(known, "that it cannot be reached", |entry| is(entry, "unreachable"));
    let shown = lab.json(&["show", "fixer"]);
    assert_ne!(shown["phase"], "dead", "{shown}");
    let (code, _, said) = lab.run(&["send", "fixer", "hello"]);
    assert_eq!(code, 1);
    assert!(said.contains("cannot be reached"), "{said}");
    // It can be ended all the same.
    lab.ok(&["kill", "fixer"]);
    lab.until(known, "its end", |entry| is(entry, "gone"));
    // Nobody may have waited for it yet; but of one that has ended there is no command line.
    let line = fs::read(format!("/proc/{}/cmdline", sidecar.as_raw_nonzero())).unwrap_or_default();
    assert!(line.is_empty(), "it has ended");
}

#[test]
fn a_store_that_another_program_locks_is_waited_for_and_then_the_daemon_says_so() {
    let mut lab = Lab::new(CREW);
    lab.ok(&["spawn", "fixer"]);
    let known = idle(&lab, 0);
    let lock = rusqlite::Connection::open(lab.state().join("fleet.db")).expect("opened");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    // Its sidecar is asked, because the daemon cannot write down what it is told.
    lab.nudge(&lab.state().join("agents/fixer/coop.sock"), "[[text:again]]");
    assert_eq!(tool::wait_for(lab.daemon.as_mut().expect("it runs")), 1, "it does not go on without its store");
    assert!(lab.log().contains("another program has"), "{}", lab.log());
    lock.execute_batch("ROLLBACK").expect("let go");
    drop(lock);
    lab.up();
    lab.until(known, "what it missed", |entry| entry["input"]["last_message"] == "again");
    lab.check_events(&lab.entries(), "fixer");
    lab.ok(&["kill", "fixer"]);
}

/// Whoever asked the daemon something waited for the disk, because one thread did both.
#[test]
fn a_slow_store_holds_up_nobody_who_asks() {
    let mut lab = Lab::new(CREW);
    lab.kill();
    // However long this machine takes for what follows.
    lab.up_with(&["--store-patience", "3600"]);
    lab.ok(&["spawn", "fixer"]);
    let known = idle(&lab, 0);
    let lock = rusqlite::Connection::open(lab.state().join("fleet.db")).expect("opened");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    lab.nudge(&lab.state().join("agents/fixer/coop.sock"), "[[text:again]]");
    // It waits to write, and says so; the lock is ours all the while, so whatever is answered did not wait for it.
    let slow = || lab.ask("GET", "/api/v1/health", "").1["store"]["condition"] == "slow";
    lab.wait_until("the store is slow", slow);
    for path in ["agents", "asks", "log", "stats", "agents/fixer", "agents/fixer/screen", "agents/fixer/agent"] {
        assert_eq!(lab.ask("GET", &format!("/api/v1/{path}"), "").0, 200, "{path}");
    }
    assert!(slow(), "it still waits");
    lock.execute_batch("ROLLBACK").expect("let go");
    lab.until(known, "what waited", |entry| entry["input"]["last_message"] == "again");
    lab.wait_until("it is fine", || lab.ask("GET", "/api/v1/health", "").1["store"]["condition"] == "fine");
    lab.check_events(&lab.entries(), "fixer");
    lab.ok(&["kill", "fixer"]);
}

/// In a namespace of its own, on a disk of two megabytes that fills up while an agent works.
#[test]
fn a_full_disk_ends_the_daemon_with_a_clear_message_and_nothing_is_lost() {
    if !coop_testkit::has_user_namespaces() {
        return;
    }
    let home = tempfile::Builder::new().prefix("coop-f-").tempdir().expect("a folder");
    let script = r#"
set -eu
mkdir disk && mount -t tmpfs -o size=2m,mode=700 tmpfs disk
export HOME=$PWD XDG_RUNTIME_DIR=$PWD XDG_STATE_HOME=$PWD COOP_STATE=$PWD/disk
mkfifo lines
trap '"$COOP_BIN" down --kill >/dev/null 2>&1 || true' EXIT
begin() { "$COOP_BIN" up >lines 2>>log & daemon=$!; while read -r line; do [ "$line" = ready ] && break; done <lines; }
begin
# A fifo of which nobody reads any more; what is printed after ready goes nowhere.
"$COOP_BIN" spawn --agent claude --isolate --env HOME=$PWD --env XDG_STATE_HOME=$PWD --env XDG_RUNTIME_DIR=$PWD \
  --env COOP_SIM_SCENARIO=plain --prompt '[[text:hello]]' -- "$COOP_BIN" sim claude
"$COOP_BIN" wait claude --for idle --timeout 170
dd if=/dev/zero of=disk/filler bs=4096 2>/dev/null || true
# It answers as long as it can write down; then it ends.
n=0
while kill -0 $daemon 2>/dev/null && [ $n -lt 200 ]; do
  "$COOP_BIN" send claude "[[text:answer $n]]" --when idle >/dev/null 2>&1 || true
  n=$((n + 1))
done
code=0; wait $daemon || code=$?
echo "ended with $code"
rm disk/filler
begin
"$COOP_BIN" wait claude --for idle --timeout 170
"$COOP_BIN" db check
"$COOP_BIN" events --after 0 >entries & follower=$!
"$COOP_BIN" kill claude
while ! grep -q '"what":"gone"' entries; do sleep 0.1; done
kill $follower
"#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", script]).current_dir(home.path());
    command.env("COOP_BIN", COOP);
    let (code, out, err) = tool::run_within(&mut command, SCRIPT_LIMIT);
    let log = fs::read_to_string(home.path().join("log")).unwrap_or_default();
    assert_eq!(code, 0, "{out}{err}{log}");
    assert!(out.contains("ended with 1"), "{out}{err}{log}");
    assert!(log.contains("there is no room for"), "{log}");
    let entries = fs::read_to_string(home.path().join("entries")).expect("they were followed");
    let entries: Vec<Value> = entries.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers: Vec<_> = entries.iter().filter_map(|entry| entry["event"]["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "each once, in order");
}
