//! Agents that people run themselves in workspaces: they report to one server, and count in the status.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::tool::{self, LIMIT};
use crate::workspaces::{Lab, agent_type, command};

const GUESTS: usize = 50;
/// So many hooks a second, for so long, by each.
const RATE: u32 = 100;
const TICKS: u32 = 200;

/// A `claude` that tells how it is run and lives until its input ends.
pub(crate) struct Guest {
    pub(crate) child: Child,
    settings: PathBuf,
    /// What it was given beside its settings.
    pub(crate) words: String,
}

impl Guest {
    fn start(lab: &Lab, at: &Path) -> Self {
        Self::with(lab, at, &[])
    }

    pub(crate) fn with(lab: &Lab, at: &Path, words: &[&str]) -> Self {
        Self::told(Self::command(lab, at, words).spawn().expect("it runs"))
    }

    pub(crate) fn command(lab: &Lab, at: &Path, words: &[&str]) -> Command {
        let bin = lab.home.path().join("stand-in");
        if !bin.exists() {
            fs::create_dir(&bin).expect("made");
            tool::write_program(&bin.join("claude"), "#!/bin/sh\necho \"$@\"\nexec cat\n");
        }
        let mut command = command(lab.home.path(), &[&["wrap", "claude"], words].concat());
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
        command.env("PATH", path).current_dir(at).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Waits until it has told how it is run.
    pub(crate) fn told(mut child: Child) -> Self {
        let mut told = Vec::new();
        let stdout = child.stdout.as_mut().expect("piped");
        let mut byte = [0];
        while stdout.read(&mut byte).expect("readable") == 1 && byte[0] != b'\n' {
            told.push(byte[0]);
        }
        let told = String::from_utf8(told).expect("UTF-8");
        let (settings, words) = told.split_once(' ').unwrap_or((&told, ""));
        let settings = settings.strip_prefix("--settings=").unwrap_or_else(|| panic!("no settings: {told:?}")).into();
        Self { child, settings, words: words.to_owned() }
    }

    /// Returns the socket and the token of its hooks.
    fn pass(&self) -> (PathBuf, String) {
        let pass = self.settings.with_file_name("guest.json");
        let pass: Value = serde_json::from_slice(&fs::read(pass).expect("there")).expect("JSON");
        let text = |name: &str| pass[name].as_str().expect("text").to_owned();
        (text("socket").into(), text("token"))
    }

    fn hook(&self, event: &str) {
        self.hook_with(event, "");
    }

    /// Runs a hook, which is told something.
    pub(crate) fn hook_with(&self, event: &str, payload: &str) {
        let settings: Value = serde_json::from_slice(&fs::read(&self.settings).expect("there")).expect("JSON");
        let line = settings["hooks"][event][0]["hooks"][0]["command"].as_str().expect("a command");
        let mut command = std::process::Command::new("sh");
        let line = format!("printf %s \"$1\" | {line}");
        command.args(["-c", &line, "sh", payload]).env_clear().stdin(Stdio::null());
        assert_eq!(tool::run(&mut command), (0, String::new(), String::new()));
    }

    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        tool::wait_for(&mut self.child);
    }
}

/// Posts hooks over one connection, so many a second, and returns how many were taken in.
fn report(socket: &Path, token: &str, began: Instant) -> u64 {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut taken = 0;
    for tick in 0..TICKS {
        let due = began + Duration::from_secs(1) * tick / RATE;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let event = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"][tick as usize % 4];
        let head = format!("POST /api/v1/hooks/{event} HTTP/1.1\r\nhost: localhost\r\nx-coop-hook-token: {token}\r\n");
        write!(stream, "{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}").expect("sent");
        let mut answer = Vec::new();
        let mut piece = [0; 1024];
        while !answer.ends_with(b"{}") {
            let read = stream.read(&mut piece).expect("an answer");
            assert!(read > 0, "it hung up");
            answer.extend_from_slice(&piece[..read]);
        }
        taken += u64::from(answer.starts_with(b"HTTP/1.1 200"));
    }
    taken
}

pub(crate) fn guests(lab: &Lab, folder: &Path) -> Value {
    let socket = UnixStream::connect(lab.home.path().join("s/fleet.sock")).expect("it listens");
    tool::request(socket, "GET", &format!("/api/v1/sessions?folder={}", folder.display()), "", "").1["guests"].take()
}

#[test]
fn a_persons_own_claude_counts_in_the_status_of_its_workspace() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let path = PathBuf::from(lab.json(&repository, &["ws", "create", "w"])["path"].as_str().expect("a path"));
    let mut told = lab.follow();
    let server = lab.home.path().join("s/hooks.sock");
    assert!(!server.exists());
    let (one, two) = (Guest::start(&lab, &path), Guest::start(&lab, &path));
    let started = told.find(|(name, _)| name.starts_with("agent-server:")).expect("told");
    assert_eq!(started.0, "agent-server:started");
    one.hook("SessionStart");
    assert_eq!(agent_type(&mut told, "idle")["agent"]["counts"], json!({ "idle": 1, "busy": 0, "total": 1 }));
    two.hook("UserPromptSubmit");
    assert_eq!(agent_type(&mut told, "mixed")["agent"]["counts"], json!({ "idle": 1, "busy": 1, "total": 2 }));
    assert_eq!(lab.json(&repository, &["ws", "show", "w"])["agent"]["type"], "mixed");
    // Nobody else may report.
    let stream = UnixStream::connect(&server).expect("it listens");
    let (status, _) = tool::request(stream, "POST", "/api/v1/hooks/Stop", "{}", "x-coop-hook-token: wrong\r\n");
    assert_eq!(status, 401);
    // With its process it is gone, and with the last of them the server.
    let left = two.settings.clone();
    two.end();
    agent_type(&mut told, "idle");
    one.end();
    // Either may be told first.
    let (mut is_none, mut is_stopped) = (false, false);
    while !(is_none && is_stopped) {
        let (name, data) = told.next().expect("told");
        is_none |= name == "workspace:status-changed" && data["agent"]["type"] == "none";
        is_stopped |= name == "agent-server:stopped";
    }
    assert!(!server.exists() && !left.exists());
    // The next is a first again.
    let again = Guest::start(&lab, &path);
    assert!(server.exists());
    again.end();
}

#[test]
fn no_hook_of_fifty_workspaces_is_lost() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    let made: Vec<_> = (0..GUESTS)
        .map(|number| {
            let made = lab.json(&repository, &["ws", "create", &format!("w{number}")]);
            PathBuf::from(made["path"].as_str().expect("a path"))
        })
        .collect();
    let started: Vec<_> = made.iter().map(|path| Guest::start(&lab, path)).collect();
    let began = Instant::now();
    let taken: Vec<u64> = thread::scope(|scope| {
        let reporting: Vec<_> = started
            .iter()
            .map(|guest| {
                let (socket, token) = guest.pass();
                scope.spawn(move || report(&socket, &token, began))
            })
            .collect();
        reporting.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(taken, [u64::from(TICKS); GUESTS]);
    for (path, guest) in made.iter().zip(&started) {
        let told = &guests(&lab, path)[0];
        let told = ["driver", "pid", "status", "hooks"].map(|name| &told[name]);
        let expected = [&json!("claude"), &json!(guest.child.id()), &json!("idle"), &json!(TICKS)];
        assert_eq!(told, expected);
    }
    let counts = json!({ "idle": GUESTS, "busy": 0, "total": GUESTS });
    let (expected, deadline) = (json!({ "type": "idle", "counts": counts }), Instant::now() + LIMIT);
    loop {
        let told = lab.json(&repository, &["ws", "ls"])["projects"][0]["agent"].take();
        if told == expected {
            break;
        }
        assert!(Instant::now() < deadline, "{told}");
    }
    started.into_iter().for_each(Guest::end);
}
