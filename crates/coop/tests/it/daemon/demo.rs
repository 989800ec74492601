//! `make run`, without the making.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::tool::{self, COOP, SCRIPT_LIMIT, Sidecar};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/run.sh");

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("coop-m-").tempdir().expect("a folder")
}

/// Nothing of the demo runs any more, and none of its files are there.
fn check_nothing_is_left(folder: &Path) {
    let left: Vec<_> = fs::read_dir(folder).expect("it is ours").flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
    let named = folder.to_str().expect("UTF-8");
    for process in fs::read_dir("/proc").expect("Linux").flatten() {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&environment).contains(&format!("COOP_STATE={named}"));
        assert!(!is_ours, "{:?} is left", process.path());
    }
}

#[test]
fn the_demo_shows_three_agents_and_answers_what_one_asks() {
    let folder = folder();
    let mut command = Command::new(SCRIPT);
    command.arg(COOP).env("TMPDIR", folder.path()).stdin(std::process::Stdio::null());
    let (code, out, err) = tool::run_within(&mut command, SCRIPT_LIMIT);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("three simulated agents runs at http://127.0.0.1:"), "{out}");
    let tables: Vec<_> = out.split("AGENT ").collect();
    let (before, after) = (tables[1], tables[3]);
    for (agent, state) in [("porter", "working"), ("reader", "idle"), ("tester", "asking")] {
        assert!(row(before, agent).contains(state), "{agent}: {out}");
    }
    assert!(row(after, "tester").contains("idle") && after.contains("The test is written."), "{out}");
    check_nothing_is_left(folder.path());
}

fn row<'a>(table: &'a str, agent: &str) -> &'a str {
    table.lines().find(|line| line.contains(agent)).unwrap_or_default()
}

/// On a terminal, which here is that of a sidecar.
#[test]
fn the_demo_goes_on_until_ctrl_c_and_leaves_nothing() {
    let folder = folder();
    let mut demo = Sidecar::with(&["--rows", "50", "--", SCRIPT, COOP], |command| command.env("TMPDIR", folder.path()));
    let screen = demo.see_within("Ctrl-C here ends all of it.", SCRIPT_LIMIT);
    assert!(screen.contains("coop respond tester yes"), "{screen}");
    let (status, _) = demo.ask("POST", "/api/v1/input/keys", &json!({ "keys": ["ctrl-c"] }).to_string());
    assert_eq!(status, 200);
    assert_eq!(demo.wait().0, 0);
    check_nothing_is_left(folder.path());
}
