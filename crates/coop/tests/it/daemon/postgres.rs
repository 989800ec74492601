//! A daemon whose store is in PostgreSQL.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;

use coop_testkit::PostgresServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::chaos;
use super::lab::{Lab, is};
use crate::tool;

const CREW: &str = "[agents.fixer]\nSIM\nkind = \"crew\"\nprompt = \"[[text:hello]]\"\n";

/// Makes a database for a daemon. The password is one that no log and no command line may show.
fn store_on(server: &PostgresServer) -> String {
    server.create_database() + "&password=s3cret"
}

fn health(lab: &Lab) -> Value {
    lab.ask("GET", "/api/v1/health", "").1["store"].take()
}

#[test]
fn a_server_that_goes_away_is_told_of_and_nothing_is_lost() {
    let Some(server) = PostgresServer::start() else { return };
    let mut lab = Lab::with_store(CREW, &store_on(&server));
    assert_eq!(health(&lab)["kind"], "postgres");
    lab.wait_until("it is fine", || health(&lab)["condition"] == "fine");
    lab.ok(&["spawn", "fixer"]);
    let known = lab.until(0, "idleness", |entry| is(entry, "idle") && entry["input"]["last_message"].is_string());
    server.crash();
    // Its sidecar is told, and the daemon cannot write down what follows.
    let socket = lab.state().join("agents/fixer/coop.sock");
    lab.nudge(&socket, "[[text:again]]");
    lab.wait_until("the store is lost", || health(&lab)["condition"] == "lost");
    let (_, said, _) = lab.run(&["status"]);
    assert!(said.contains("its store is lost for"), "{said}");
    let (status, refused) = lab.ask("GET", "/api/v1/agents", "");
    assert_eq!((status, &refused["error"]["code"]), (503, &"NOT_READY".into()), "{refused}");
    // What needs no store works.
    assert_eq!(lab.ask("GET", "/api/v1/agents/fixer/screen", "").0, 200);
    server.recover();
    lab.until(known, "what it could not write down", |entry| entry["input"]["last_message"] == "again");
    lab.wait_until("it is fine", || health(&lab)["condition"] == "fine");
    // Killed and started again, it knows all of it once.
    lab.kill();
    lab.up();
    lab.check_events(&lab.entries(), "fixer");
    lab.ok(&["kill", "fixer"]);
    // Nobody can read the password off it.
    let daemon = lab.daemon.as_ref().expect("it runs").id();
    let line = fs::read_to_string(format!("/proc/{daemon}/cmdline")).expect("there");
    assert!(!line.contains("s3cret") && !lab.log().contains("s3cret"), "{line} {}", lab.log());
}

#[test]
fn there_is_one_daemon_for_a_store_and_the_second_is_told_who_it_is() {
    let Some(server) = PostgresServer::shared() else { return };
    let lab = Lab::with_store(CREW, &store_on(server));
    let other = tempfile::tempdir().expect("a folder");
    let state = other.path().to_str().expect("UTF-8");
    let (code, _, said) = lab.run(&["up", "--state", state]);
    let daemon = lab.daemon.as_ref().expect("it runs").id();
    assert_eq!(code, 1, "{said}");
    let expected = format!("postgres://coop@{}/", server.folder().display());
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains(&format!(" is used by the coop of process {daemon} on ")), "{said}");
    let (code, _, said) = lab.run(&["db", "backup", "copy"]);
    assert_eq!(code, 1);
    assert!(said.contains("pg_dump --format=custom --file=copy postgres://coop@"), "{said}");
    let checked = lab.ok(&["db", "check"]);
    assert!(checked.starts_with("every row of postgres://coop@"), "{checked}");
    let wrong = "postgres://ann:s3cret@localhost:nowhere/coop";
    let (code, out, said) = lab.run(&["db", "check", "--store", wrong]);
    assert_eq!(code, 1, "{out}{said}");
    assert!(!said.contains("s3cret") && said.contains("names no PostgreSQL database"), "{said}");
}

/// A server that takes the connection and never says a word.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("postgres://ann:s3cret@{}/coop", listener.local_addr().expect("it is bound"));
    (listener, url)
}

#[test]
fn a_password_is_taken_off_the_command_line_of_whoever_looks_at_the_store_too() {
    let home = tempfile::tempdir().expect("a folder");
    let (listener, url) = silent();
    let mut command = tool::coop(home.path());
    let mut child = command.args(["db", "check", "--store", &url]).stderr(Stdio::null()).spawn().expect("it runs");
    let _connection = listener.accept().expect("it connects");
    let line = fs::read_to_string(format!("/proc/{}/cmdline", child.id())).expect("there");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert!(line.contains("check") && !line.contains("s3cret"), "{line}");
}

/// It could not be ended while it waited for its store, because the thread that hears signals did the waiting.
#[test]
fn a_daemon_that_waits_for_its_store_can_be_ended() {
    let home = tempfile::tempdir().expect("a folder");
    let (listener, url) = silent();
    let mut command = tool::coop(home.path());
    command.args(["up", "--state"]).arg(home.path().join("s")).env("COOP_STORE", &url);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let _connection = listener.accept().expect("it connects");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("small")).expect("a process");
    kill_process(pid, Signal::TERM).expect("it lives");
    assert_eq!(tool::wait_for(&mut child), 1);
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("coop: it was ended before postgres://ann@127.0.0.1:"), "{said}");
    assert!(last.ends_with("/coop was open") && !said.contains("s3cret"), "{said}");
}

/// As the same test with a file, with fewer kills.
#[test]
fn a_daemon_that_is_killed_at_any_moment_loses_and_doubles_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    chaos::withstand(Lab::with_store(&chaos::project(), &store_on(server)), 8);
}
