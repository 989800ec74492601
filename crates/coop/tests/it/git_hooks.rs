//! What a repository or a workspace names as programs does not run when workspaces come, go and are looked at.

use std::fs;
use std::path::Path;

use crate::tool;
use crate::workspaces::{Lab, git};

/// Leaves a trace when it runs.
fn trap(program: &Path, trace: &Path) {
    fs::create_dir_all(program.parent().expect("a folder")).expect("made");
    tool::write_program(program, &format!("#!/bin/sh\n{{ echo \"$0\"; env; }} >> '{}'\nexit 1\n", trace.display()));
}

/// A hook that an agent writes into the repository would run as the daemon's child, which no sidecar takes for the agent's.
#[test]
fn hooks_of_a_repository_do_not_run() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let trace = lab.home.path().join("trace");
    for name in ["post-checkout", "reference-transaction", "post-index-change"] {
        trap(&repository.join(".git/hooks").join(name), &trace);
    }
    lab.json(&repository, &["ws", "create", "w"]);
    lab.json(&repository, &["ws", "rm", "w"]);
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}

/// The review's p13: `rm .git; git init; git config filter.x.clean ./f.sh`, and then a person looks at the workspace.
#[test]
fn a_filter_that_an_agent_puts_into_its_workspace_does_not_run() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let made = lab.json(&repository, &["ws", "create", "w"]);
    let workspace = Path::new(made["path"].as_str().expect("a path")).to_owned();
    let trace = lab.home.path().join("trace");
    trap(&workspace.join("f.sh"), &trace);
    fs::remove_file(workspace.join(".git")).expect("removed");
    git(&workspace, &["init", "--quiet"]);
    git(&workspace, &["add", "."]);
    git(&workspace, &["commit", "--quiet", "-m", "mine"]);
    for key in ["filter.x.clean", "core.fsmonitor"] {
        git(&workspace, &["config", key, "./f.sh"]);
    }
    fs::write(workspace.join(".gitattributes"), "* filter=x\n").expect("written");
    fs::write(workspace.join("coop.toml"), "changed").expect("written");
    let shown = lab.json(&repository, &["ws", "show", "w", "--refresh"]);
    assert_eq!(shown["isDirty"], true);
    let (code, _, err) = lab.run(&repository, &["ws", "rm", "w"]);
    assert!(code == 1 && err.contains("in no commit"), "{err}");
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}

/// The review's p14: an agent names an agent of another project, which a person has killed, in the repository's configuration.
#[test]
fn an_agent_wakes_no_agent_of_another_project() {
    let lab = Lab::new(&[]);
    let (one, other) = (lab.repository("one"), lab.repository("other"));
    lab.json(&one, &["ws", "create", "fa"]);
    lab.json(&other, &["ws", "create", "fb"]);
    let token = lab.agent(&one, "fa", "attacker");
    lab.agent(&other, "fb", "victim");
    lab.json(&other, &["kill", "victim"]);
    git(&one, &["config", "branch.fa.coop.hibernated.value", r#"["victim"]"#]);
    let woken = lab.call(&token, "workspace_wake", serde_json::json!({})).expect("an answer");
    assert_eq!(woken, serde_json::json!({ "agents": [], "failed": [] }));
    // Nor if coop's own note said so.
    let notes = lab.home.path().join("s/projects").read_dir().expect("there").flatten();
    for notes in notes.map(|entry| entry.path().join("notes.json")) {
        let mut told: serde_json::Value = serde_json::from_slice(&fs::read(&notes).expect("read")).expect("JSON");
        if told["fa"].is_object() {
            told["fa"]["hibernated"] = r#"["victim"]"#.into();
            fs::write(&notes, told.to_string()).expect("written");
        }
    }
    let woken = lab.call(&token, "workspace_wake", serde_json::json!({})).expect("an answer");
    assert_eq!(woken, serde_json::json!({ "agents": [], "failed": [] }));
    let agents = lab.json(&other, &["ls"]);
    let victim = agents["agents"].as_array().expect("a list").iter().find(|agent| agent["id"] == "victim");
    assert_eq!(victim.expect("there")["phase"], "dead");
}
