//! The permission mode of an agent is told, and with `--ask-first` it asks about each tool in any mode.

use serde_json::{Value, json};

use crate::daemon::lab::{Lab, is};
use crate::driven::{Agent, Runtime, Which, with_both};

fn is_mode(mode: &'static str) -> impl Fn(&Value) -> bool {
    move |body| body["what"] == "permission_mode" && body["mode"] == mode
}

#[test]
fn the_permission_mode_is_told_with_its_changes() {
    with_both(|which| {
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            let mut agent = Agent::start(which, runtime, &["--permission-mode", "accept-edits"], &[]);
            agent.event("its mode at the start", is_mode("accept-edits"));
            agent.state("idle");
            let path = agent.work.join("made.txt");
            agent.turn(&format!("one [[write:{}|x]] [[text:made]]", path.display()), &[]);
            assert!(path.exists(), "it changes files of its folder without asking");
            assert_eq!(agent.get("/api/v1/agent")["permission_mode"], "accept-edits", "{which:?} {runtime:?}");
            assert_eq!(agent.get("/api/v1/agent/explain")["permission_mode"], "accept-edits");
            match (runtime, which) {
                (Runtime::Pipe, _) => drop(agent.post("/api/v1/agent/configure", &json!({ "mode": "plan" }))),
                (Runtime::Pty, Which::Real(_)) => {
                    drop(agent.post("/api/v1/input/keys", &json!({ "keys": ["Shift-Tab"] })));
                }
                // Its interface has no key for it.
                (Runtime::Pty, Which::Scripted) => continue,
            }
            agent.event("another mode", is_mode("plan"));
        }
    });
}

#[test]
fn with_ask_first_a_denied_tool_does_not_run_in_any_mode() {
    with_both(|which| {
        let mode = match which {
            Which::Scripted => "accept-edits",
            Which::Real(_) => "auto",
        };
        for runtime in [Runtime::Pty, Runtime::Pipe] {
            let mut agent = Agent::start(which, runtime, &["--permission-mode", mode, "--ask-first"], &[]);
            agent.state("idle");
            let write = |name: &str, work: &std::path::Path| format!("[[write:{}|x]]", work.join(name).display());
            let work = agent.work.clone();
            agent.turn(&format!("one {} [[text:well]]", write("denied.txt", &work)), &[json!({ "accept": false })]);
            agent.turn(&format!("two {} [[text:well]]", write("allowed.txt", &work)), &[json!({ "accept": true })]);
            let is_there = ["denied.txt", "allowed.txt"].map(|name| work.join(name).exists());
            assert_eq!(is_there, [false, true], "{which:?} {runtime:?}");
        }
    });
}

#[test]
fn a_fleet_starts_agents_in_a_mode_and_warns_where_nobody_is_asked() {
    let lab = Lab::new(
        "[agents.quick]\nSIM\nkind = \"crew\"\npermission_mode = \"accept-edits\"\nprompt = \"[[text:hello]]\"\n\
         [agents.asked]\nSIM\nkind = \"crew\"\npermission_mode = \"accept-edits\"\nask_first = true\n\
         prompt = \"[[write:asked.txt|x]]\"\n",
    );
    lab.ok(&["spawn", "quick"]);
    lab.until(0, "it is idle", |entry| is(entry, "idle"));
    assert!(lab.ok(&["ls"]).contains("idle (accept-edits)"), "{}", lab.ok(&["ls"]));
    let shown = lab.ok(&["show", "quick"]);
    assert!(shown.contains("accept-edits: it changes files of its folder without asking"), "{shown}");
    assert!(shown.contains("set ask_first = true"), "{shown}");
    lab.ok(&["spawn", "asked"]);
    lab.until(0, "it asks", |entry| entry["agent"] == "asked" && is(entry, "prompt"));
    let shown = lab.json(&["show", "asked"]);
    assert_eq!((&shown["permission_mode"], shown["warnings"].is_array()), (&json!("accept-edits"), false), "{shown:#}");
    let shown = lab.ok(&["show", "asked"]);
    assert!(shown.contains("accept-edits, but it asks before each tool"), "{shown}");
    assert!(lab.ok(&["ls"]).contains("asking  "), "{}", lab.ok(&["ls"]));
    let (code, _, err) = lab.run(&["spawn", "--ask-first", "stranger", "--", "cat"]);
    assert!(code != 0 && err.contains("--ask-first and --permission-mode are for agents that coop knows"), "{err}");
    let (code, _, err) = lab.run(&["spawn", "--agent", "opencode", "--permission-mode", "auto"]);
    assert!(code != 0 && err.contains("opencode has no permission mode auto; it has plan, bypass"), "{err}");
    lab.ok(&["down", "--kill"]);
}
