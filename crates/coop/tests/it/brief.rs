//! `--brief`: a sidecar whose agent is set up as a shim would. The shim's own tests show what each agent makes of that.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::driven::Agent;
use crate::tool::{COOP, Sidecar, coop, run};

fn write(path: &Path, always_escalate: &[&str]) {
    let brief = json!({
        "agentId": "a1", "role": "coder", "workstream": "core", "description": "Make it.", "controlMode": "ecosystem",
        "escalationProtocol": { "alwaysEscalate": always_escalate, "neverEscalate": [] },
        "projectBrief": { "title": "t", "description": "d", "goals": [], "checkpoints": [] },
        "knowledgeSnapshot": { "version": 0, "generatedAt": "2026-01-01T00:00:00Z", "workstreams": [], "pendingDecisions": [],
            "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [], "estimatedTokens": 0 },
    });
    fs::write(path, brief.to_string()).expect("written");
}

fn codex(always_escalate: &[&str]) -> Agent {
    let work = work();
    let brief = work.join("brief.json");
    write(&brief, always_escalate);
    start(work, "codex", &["--brief", brief.to_str().expect("UTF-8")])
}

fn work() -> PathBuf {
    tempfile::Builder::new().prefix("coop-work-").tempdir().expect("a folder").keep()
}

fn start(work: PathBuf, agent: &str, options: &[&str]) -> Agent {
    let words =
        [&["--agent", agent, "--isolate", "--log-level", "warn"], options, &["--", COOP, "sim", "codex"]].concat();
    let sidecar = Sidecar::with(&words, |command| {
        command.env("XDG_STATE_HOME", work.join(".state")).env("COOP_SIM_SCENARIO", "plain").current_dir(&work)
    });
    let mut agent = Agent::of(sidecar, work, None);
    agent.state("idle");
    agent
}

/// What it does not ask about by itself it asks about if the brief wants to know, and it is run by its protocol.
#[test]
fn an_agent_asks_what_its_brief_says() {
    let task = r#"one [[tool exec_command {"cmd":"touch a.txt"}]] [[text:Done.]]"#;
    let mut free = codex(&[]);
    let happened = free.turn(task, &[]);
    assert!(!happened.iter().any(|body| body["kind"] == "ask"), "{happened:#?}");
    assert!(free.work.join("a.txt").exists());
    let mut asking = codex(&["Bash"]);
    let answer = json!({ "accept": true });
    let happened = asking.turn(task, &[answer]);
    assert!(happened.iter().any(|body| body["next"]["state"] == "waiting"), "{happened:#?}");
    assert!(asking.work.join("a.txt").exists());
}

/// The bug this keeps away: the second sidecar of an agent whose driver did not heed its conversation never started.
#[test]
fn an_agent_goes_on_with_what_its_session_file_names() {
    for (agent, with_brief) in [("codex", false), ("codex", true), ("auto", false)] {
        let work = work();
        let (brief, file) = (work.join("brief.json"), work.join("session"));
        write(&brief, &[]);
        let mut options = vec!["--session-file", file.to_str().expect("UTF-8")];
        if with_brief {
            options.extend(["--brief", brief.to_str().expect("UTF-8")]);
        }
        let mut first = start(work.clone(), agent, &options);
        first.turn("one [[text:I was here.]]", &[]);
        let conversation = first.get("/api/v1/agent")["session_id"].clone();
        first.post("/api/v1/shutdown", &json!({}));
        first.sidecar.wait();
        let mut second = start(work, agent, &options);
        second.turn("two [[text:And again.]]", &[]);
        assert_eq!(second.get("/api/v1/agent")["session_id"], conversation);
        assert!(conversation.is_string() && second.transcript().contains("I was here."), "{}", second.transcript());
    }
}

#[test]
fn a_brief_that_makes_no_sense_is_told_before_anything_runs() {
    let home = tempfile::tempdir().expect("a folder");
    let brief = home.path().join("brief.json");
    fs::write(&brief, json!({ "agentId": "a1" }).to_string()).expect("written");
    let path = brief.to_str().expect("UTF-8");
    let words = ["--agent", "claude", "--brief", path, "--", COOP, "sim", "claude"];
    let (code, _, said) = run(coop(home.path()).args(words));
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cannot be used: brief.role is missing"), "{said}");
    let (code, _, said) = run(coop(home.path()).args(["--brief", path, "--", "sh"]));
    assert!(
        code == 1 && said.contains("give --agent claude (or codex, opencode, gemini, acp or api), not auto"),
        "{said}"
    );
    write(&brief, &[]);
    let mut misspelt: serde_json::Value = serde_json::from_slice(&fs::read(&brief).expect("read")).expect("JSON");
    misspelt["allowed_tools"] = json!(["Read"]);
    fs::write(&brief, misspelt.to_string()).expect("written");
    let (code, _, said) = run(coop(home.path()).args(words));
    assert!(
        code == 1 && said.contains("brief.allowed_tools: coop knows no such key here; did you mean allowedTools?"),
        "{said}"
    );
}
