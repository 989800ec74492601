//! `coop wrap opencode`: the interface of the server that runs, or the conversation that was left; and `coop ws env`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::servers::{Server, definition, listener};
use crate::tool;
use crate::workspaces::Lab;
use crate::wrap::{StandIns, words};

/// An agent with a server in a workspace, to which something was said. Returns the workspace and the conversation.
fn workspace(lab: &Lab, repository: &Path) -> (PathBuf, String) {
    // It is not to come back by itself.
    let text = definition(lab.home.path(), "server").replace("on_dead = \"resume\"", "on_dead = \"escalate\"");
    fs::write(repository.join("open.toml"), text).expect("written");
    let made = lab.json(repository, &["ws", "create", "w"]);
    lab.json(repository, &["ws", "spawn", "w", "open", "--file", "open.toml", "--prompt", "hello [[text:one]]"]);
    let (code, _, err) = lab.run(repository, &["wait", "open", "--for", "idle", "--timeout", "170"]);
    assert_eq!(code, 0, "{err}{}", lab.log());
    let id = lab.json(repository, &["ws", "env", "w"])["COOP_OPENCODE_SESSION_ID"].as_str().expect("one").to_owned();
    (PathBuf::from(made["path"].as_str().expect("a path")), id)
}

#[test]
fn a_persons_own_opencode_comes_to_the_server_and_the_conversation() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let stand_ins = StandIns::new(lab.home.path());
    let (path, id) = workspace(&lab, &repository);
    let server = Server::of(&lab, "open");
    let url = format!("http://127.0.0.1:{}", server.port);
    let (code, err, noted) = stand_ins.wrap(&lab, &path, &["opencode"], "exit 6");
    assert_eq!((code, err.as_str(), noted.len()), (6, "", 1));
    assert_eq!(noted[0].words, words(&["attach", &url, "--session", &id]));
    assert_eq!((&noted[0].password, Path::new(&noted[0].folder)), (&server.password, path.as_path()));
    // Two at once are no harm: the server has many clients.
    let first = staying(&stand_ins, &lab, &path);
    assert_eq!(stand_ins.noted()[0].words, words(&["attach", &url, "--session", &id]));
    let (code, _, noted) = stand_ins.wrap(&lab, &path, &["opencode", "-s", &id], "exit 0");
    assert_eq!((code, &noted[0].words), (0, &words(&["attach", &url, "-s", &id])));
    end(first);
    // What its interface cannot be told is run as it is, unless it would write there beside the server.
    let (code, _, noted) = stand_ins.wrap(&lab, &path, &["opencode", "--prompt", "fix"], "exit 0");
    assert_eq!((code, &noted[0].words), (0, &words(&["--prompt", "fix"])));
    let (code, err, noted) = stand_ins.wrap(&lab, &path, &["opencode", "--prompt", "fix", "-s", &id], "exit 0");
    assert!(code == 1 && noted.is_empty() && err.contains("is open in the agent open"), "{code} {err} {noted:?}");
    // It has ended: the conversation is one person's, and the next begins another.
    lab.json(&repository, &["kill", "open"]);
    let first = staying(&stand_ins, &lab, &path);
    assert_eq!(stand_ins.noted()[0].words, words(&["--session", &id]));
    let (code, err, noted) = stand_ins.wrap(&lab, &path, &["opencode"], "exit 0");
    assert_eq!((code, &noted[0].words), (0, &words(&[])));
    assert!(err.contains(&format!("a person's own opencode (process {}", first.id())), "{err}");
    let (code, _, err) = lab.run(&repository, &["resume", "open"]);
    assert!(code == 1 && err.contains(&format!("process {}", first.id())), "{err}");
    end(first);
}

/// The server's process is stopped: it has the port, and says nothing. A second process beside it would write into its
/// conversation, so there is none.
#[test]
fn a_server_that_runs_and_does_not_answer_is_told_of() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let stand_ins = StandIns::new(lab.home.path());
    let (path, id) = workspace(&lab, &repository);
    let server = Server::of(&lab, "open");
    let pid = listener(server.port);
    kill_process(pid, Signal::STOP).expect("it is ours");
    let (code, err, noted) = stand_ins.wrap(&lab, &path, &["opencode"], "exit 0");
    kill_process(pid, Signal::CONT).expect("it is ours");
    assert!(code == 1 && noted.is_empty(), "{code} {noted:?}");
    assert!(err.contains("its server does not answer: `coop resume open` restarts it"), "{err}");
    let (code, err, noted) = stand_ins.wrap(&lab, &path, &["opencode"], "exit 0");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(noted[0].words.last(), Some(&id));
}

#[test]
fn a_terminal_gets_its_variables_and_the_wrappers() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let (path, id) = workspace(&lab, &repository);
    let told = lab.json(&repository, &["ws", "env", "w"]);
    let (code, script, err) = lab.run(&repository, &["ws", "env", "w"]);
    assert_eq!(code, 0, "{err}");
    let show = format!("{script}command -v claude; command -v opencode; env");
    let (code, out, err) = tool::run(Command::new("sh").args(["-c", &show]).env_clear().env("PATH", "/usr/bin:/bin"));
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<_> = out.lines().collect();
    let bin = lab.home.path().join("s/bin");
    assert_eq!(lines[..2], [bin.join("claude"), bin.join("opencode")].map(|file| file.display().to_string()));
    for (name, value) in told.as_object().expect("a table") {
        assert!(lines.contains(&format!("{name}={}", value.as_str().expect("text")).as_str()), "{name} {out}");
    }
    let port = Server::of(&lab, "open").port.to_string();
    let path = path.to_str().expect("UTF-8");
    for (name, value) in [
        ("COOP_WORKSPACE_PATH", path),
        ("COOP_OPENCODE_SESSION_ID", &id),
        ("COOP_OPENCODE_PORT", &port),
        ("COOP_OPENCODE_AGENT_ID", "open"),
    ] {
        assert_eq!(told[name], Value::from(value));
    }
}

/// Starts one that stays until its input ends, and waits until it has noted how it is run.
fn staying(stand_ins: &StandIns, lab: &Lab, at: &Path) -> Child {
    let mut command = stand_ins.command(lab, at, &["wrap", "opencode"]);
    command.env("STAND_IN", "echo; exec cat").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it runs");
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    tool::wait_for(&mut child);
}
