//! Agents behind shims in a fleet: asked about, answered and spoken to like all others.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::lab::{Lab, is};
use crate::tool::COOP;

#[test]
fn an_agent_behind_a_shim_is_one_of_the_fleet() {
    let shim = format!("[agents.foreign]\ndriver = \"shim\"\ncommand = [{COOP:?}, \"shim\", \"--mock\"]\n");
    let mut lab = Lab::new(&format!("{shim}kind = \"crew\"\nprompt = \"Make a pipeline\"\n"));
    assert_eq!(lab.ok(&["spawn", "foreign"]), "foreign\n");
    let asked = lab.until(0, "an ask", |entry| is(entry, "prompt"));
    let (code, _, busy) = lab.run(&["send", "foreign", "and more"]);
    assert_eq!((code, busy.contains("when it is done with this one")), (1, true), "{busy}");
    // The daemon is not needed for it to go on, and what it asks is answered by the next one.
    lab.kill();
    lab.up();
    // It has to be found again first, and to tell once more what it asks.
    let state = || lab.ask("GET", "/api/v1/agents/foreign/agent", "").1;
    lab.wait_until("it is found", || state()["name"] == "prompt");
    assert_eq!(state()["agent"], "shim");
    let (code, _, said) = lab.respond("foreign", "3");
    assert_eq!(code, 0, "{said}");
    let closed = lab.until(asked, "its end", |entry| is(entry, "ask_closed"));
    let idle = lab.until(closed, "idleness", |entry| is(entry, "idle"));
    let (_, audit) = lab.ask("GET", "/api/v1/audit", "");
    assert_eq!(audit["decisions"].as_array().map(Vec::len), Some(1), "{audit}");
    // It has no terminal; that is said, and not guessed.
    let (status, screen) = lab.ask("GET", "/api/v1/agents/foreign/screen", "");
    assert_eq!((status, &screen["error"]["code"]), (501, &json!("UNSUPPORTED")), "{screen}");
    lab.ok(&["send", "foreign", "another"]);
    lab.until(idle, "an ask", |entry| is(entry, "prompt"));
    lab.ok(&["kill", "foreign"]);
    assert_eq!(lab.run(&["wait", "foreign", "--for", "exit"]).0, 0);
}

#[test]
fn a_shim_that_is_killed_goes_on_in_another() {
    let sim = format!("command = [{COOP:?}, \"shim\", \"--agent\", \"acp\", \"--\", {COOP:?}, \"sim\", \"acp\"]");
    let lab = Lab::new(&format!("[agents.foreign]\ndriver = \"shim\"\n{sim}\nkind = \"crew\"\non_dead = \"resume\"\n"));
    lab.ok(&["spawn", "foreign"]);
    let mut at = lab.until(0, "idleness", |entry| is(entry, "idle"));
    lab.ok(&["send", "foreign", "one [[text:First.]]"]);
    at = lab.until(at, "its end", |entry| is(entry, "idle"));
    let state = lab.state().join("agents/foreign");
    let wait = std::time::Instant::now();
    while !state.join("state.json").exists() {
        assert!(wait.elapsed() < crate::tool::LIMIT, "nothing is kept of it");
        crate::tool::pause();
    }
    let kept: Value = serde_json::from_slice(&std::fs::read(state.join("shim.json")).expect("read")).expect("JSON");
    let pid = i32::try_from(kept["identity"]["pid"].as_i64().expect("a number")).expect("small");
    kill_process(rustix::process::Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it lives");
    at = lab.until(at, "its end", |entry| is(entry, "gone"));
    at = lab.until(at, "another", |entry| is(entry, "spawned"));
    lab.until(at, "idleness", |entry| is(entry, "idle"));
    lab.ok(&["kill", "foreign"]);
}
