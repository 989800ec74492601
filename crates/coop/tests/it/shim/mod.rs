//! `coop shim`, driven only over its protocol. Every frame and every answer is held against the schemas.

mod agents;
mod backend;
mod bodies;
mod briefs;
mod client;
mod mock;
mod steering;
mod trust;
mod world;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, LazyLock};
use std::thread;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;

use crate::tool::{LIMIT, coop, request};

static SCHEMAS: LazyLock<HashMap<&str, jsonschema::Validator>> = LazyLock::new(|| {
    let schemas = coop_server::shim::types::schemas().into_iter();
    schemas.map(|(name, schema)| (name, jsonschema::validator_for(&schema).expect("a schema"))).collect()
});

/// Checks a value against a schema of the protocol.
fn check(schema: &str, value: &Value) {
    let errors: Vec<_> = SCHEMAS[schema].iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "not a {schema}: {errors:?}\n{value:#}");
}

/// A running shim, killed when dropped.
pub(crate) struct Shim {
    child: Child,
    port: u16,
    _home: Arc<tempfile::TempDir>,
}

impl Shim {
    /// Starts a shim on a free port, in a folder of its own.
    fn start(args: &[&str]) -> Self {
        let home = Arc::new(tempfile::tempdir().expect("a folder"));
        let work = home.path().join("work");
        std::fs::create_dir(&work).expect("a folder");
        Self::start_in(home, &work, args, |command| command)
    }

    fn start_in(
        home: Arc<tempfile::TempDir>,
        work: &Path,
        args: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = coop(home.path());
        command.args(["shim", "--log-level", "warn", "--workspace"]).arg(work).env("AGENT_PORT", "0");
        // After the other words: what follows `--` is the agent's.
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = change(&mut command).spawn().expect("coop runs");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdout.read_line(&mut line).expect("it says where it is");
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut errors = String::new();
            let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
            panic!("no port in {line:?}: {errors}")
        });
        let port = told["port"].as_u64().and_then(|port| port.try_into().ok()).expect("a port");
        Self { child, port, _home: home }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        request(self.connect(), method, path, body, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, &body.to_string())
    }

    /// Asks for something that has to work, and is as the schema says.
    pub(crate) fn done(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        let schema = match path {
            "/spawn" | "/resume" => Some("AgentHandle"),
            "/pause" | "/checkpoint" => Some("SerializedAgentState"),
            "/kill" => Some("KillResponse"),
            _ => None,
        };
        schema.into_iter().for_each(|schema| check(schema, &answer));
        answer
    }

    pub(crate) fn health(&self) -> Value {
        let (status, health) = self.ask("GET", "/health", "");
        assert_eq!(status, 200);
        check("SandboxHealthResponse", &health);
        health
    }

    /// Follows the events, from the oldest that is kept on.
    pub(crate) fn follow(&self) -> Events {
        let stream = self.connect();
        let (mut socket, _) =
            tungstenite::client(format!("ws://127.0.0.1:{}/events", self.port), stream).expect("a WebSocket");
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            while let Ok(message) = socket.read() {
                if let tungstenite::Message::Text(text) = message
                    && sender.send(serde_json::from_str(&text).expect("JSON")).is_err()
                {
                    return;
                }
            }
        });
        Events { events, past: Vec::new() }
    }

    fn resolve(&self, id: &Value, resolution: &Value) -> Value {
        self.done("/resolve", &json!({ "handle": { "id": "x" }, "decisionId": id, "resolution": resolution }))
    }

    /// Ends it without a chance to clean up.
    fn kill_9(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is ours");
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.child.kill();
            let mut errors = String::new();
            let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
            let _ = std::io::Write::write_all(&mut std::io::stderr(), errors.as_bytes());
        }
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = crate::tool::wait_for(&mut self.child);
    }
}

/// What a client of `/events` sees. Every frame is checked; within a run numbers have no gaps.
pub(crate) struct Events {
    events: Receiver<Value>,
    pub(crate) past: Vec<Value>,
}

impl Events {
    pub(crate) fn next(&mut self) -> Value {
        let event = self.events.recv_timeout(LIMIT).unwrap_or_else(|_| {
            let past: Vec<_> = self.past.iter().map(|event| event["event"].to_string()).collect();
            panic!("no further event came after\n{}", past.join("\n"))
        });
        check("AdapterEvent", &event);
        // The schemas are made of the types that are sent; this table is not.
        assert_eq!(coop_fleet::shim::check(&event.to_string()), Ok(()), "{event:#}");
        let expected = match self.past.last() {
            Some(last) if last["runId"] == event["runId"] => last["sourceSequence"].as_u64().expect("a number") + 1,
            _ => 1,
        };
        assert_eq!(event["sourceSequence"], expected, "{event:#}");
        self.past.push(event.clone());
        event["event"].clone()
    }

    /// Waits for an event of a type.
    pub(crate) fn of(&mut self, kind: &str) -> Value {
        self.of_any(&[kind])
    }

    fn of_any(&mut self, kinds: &[&str]) -> Value {
        loop {
            let event = self.next();
            if kinds.iter().any(|kind| event["type"] == *kind) {
                return event;
            }
            let is_end = event["type"] == "completion" || event["action"] == "crashed";
            assert!(!is_end, "the end came before any {kinds:?}: {:#?}", self.told());
        }
    }

    fn told(&self) -> Vec<Value> {
        self.past.iter().map(|event| event["event"].clone()).collect()
    }

    fn decision(&mut self) -> Value {
        self.of("decision")
    }
}

/// Returns a brief that tells the agent this.
pub(crate) fn brief(description: &str) -> Value {
    json!({
        "agentId": "a1", "role": "coder", "description": description, "workstream": "core",
        "readableWorkstreams": [], "constraints": [], "allowedTools": [],
        "escalationProtocol": { "alwaysEscalate": [], "escalateWhen": [], "neverEscalate": [] },
        "controlMode": "orchestrator",
        "projectBrief": { "title": "Demo", "description": "d", "goals": ["ship"], "checkpoints": ["done"] },
        "knowledgeSnapshot": {
            "version": 0, "generatedAt": "2026-01-01T00:00:00Z", "workstreams": [], "pendingDecisions": [],
            "recentCoherenceIssues": [], "artifactIndex": [], "activeAgents": [], "estimatedTokens": 0,
        },
    })
}

fn approval(action: &str) -> Value {
    json!({ "type": "tool_approval", "action": action, "actionKind": "update" })
}
