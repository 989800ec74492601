//! A daemon with a project of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, client};

use super::launch::{Launch, Place};
use crate::tool::{self, LIMIT};

/// A folder with a project and a daemon's state in it. All that runs there is ended with it.
pub(crate) struct Lab {
    /// It ends before its files go.
    pub(super) place: Place,
    pub(crate) home: tempfile::TempDir,
    pub(crate) daemon: Option<Child>,
    /// Where the store is, if it is not in a file.
    store: Option<String>,
    /// What else stands in the environment of all that is run.
    env: Vec<(&'static str, PathBuf)>,
}

impl Lab {
    /// Writes the project's `coop.toml` and starts the daemon, with agents as processes.
    pub(crate) fn new(agents: &str) -> Self {
        Self::by(Launch::Local, agents)
    }

    /// The same with agents by this launcher.
    pub(crate) fn by(launch: Launch, agents: &str) -> Self {
        Self::start(launch, &std::env::temp_dir(), agents, None, Vec::new())
    }

    /// The same as [`Self::new`] in a folder that agents in a sandbox see, unlike that for temporary files.
    pub(crate) fn outside_of_tmp(agents: &str) -> Self {
        Self::start(Launch::Local, Path::new(env!("CARGO_TARGET_TMPDIR")), agents, None, Vec::new())
    }

    /// The same with more in the environment.
    pub(crate) fn with_env(agents: &str, env: Vec<(&'static str, PathBuf)>) -> Self {
        Self::start(Launch::Local, &std::env::temp_dir(), agents, None, env)
    }

    /// The same with a store in PostgreSQL.
    pub(crate) fn with_store(agents: &str, store: &str) -> Self {
        Self::start(Launch::Local, &std::env::temp_dir(), agents, Some(store.to_owned()), Vec::new())
    }

    fn start(
        launch: Launch,
        folder: &Path,
        agents: &str,
        store: Option<String>,
        mut env: Vec<(&'static str, PathBuf)>,
    ) -> Self {
        // Short, for the paths of sockets.
        let home = tempfile::Builder::new().prefix("coop-d-").tempdir_in(folder).expect("a folder");
        let place = Place::start(launch, home.path(), agents);
        let text = agents.replace("SIM", &place.sim(home.path()));
        fs::write(home.path().join("coop.toml"), text).expect("written");
        env.extend(place.env());
        let mut lab = Self { place, home, daemon: None, store, env };
        lab.up();
        lab
    }

    /// Makes a folder.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.home.path().join(name);
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("s")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = tool::coop(self.home.path());
        command.args(args).env("COOP_STATE", self.state()).env("USER", "ann").envs(self.env.iter().cloned());
        if let Some(store) = &self.store {
            command.env("COOP_STORE", store);
        }
        command
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) fn up(&mut self) {
        self.up_with(&[]);
    }

    /// Returns what it says about where it listens.
    pub(crate) fn up_with(&mut self, options: &[&str]) -> Vec<String> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.home.path().join("log")).expect("a log");
        let store = self.store.iter().flat_map(|store| ["--store", store]);
        let args: Vec<_> = ["up"].into_iter().chain(options.iter().copied()).chain(store).collect();
        let mut following = Following::start(self.command(&args).env_remove("COOP_STORE").stderr(log));
        let lines = following.until("ready");
        self.daemon = following.child.take();
        lines
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Ends the daemon at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        daemon.kill().expect("it is ours");
        daemon.wait().expect("it is ours");
    }

    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        tool::run(&mut self.command(args))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let (code, out, err) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {out}{err}{}", self.log());
        out
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?} is not JSON: {out}"))
    }

    /// Answers the oldest open ask of an agent, by its id.
    pub(crate) fn respond(&self, agent: &str, answer: &str) -> (i32, String, String) {
        let open = self.json(&["asks", agent]);
        let id = open["asks"][0]["ask"]["id"].as_str().unwrap_or("none").to_owned();
        self.run(&["respond", agent, answer, "--ask", &id])
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.state().join("fleet.sock")).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        tool::request(self.connect(), method, path, body, "")
    }

    /// Tells an agent something by its sidecar's own socket.
    pub(crate) fn nudge(&self, socket: &Path, message: &str) {
        let stream = UnixStream::connect(socket).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let body = serde_json::json!({ "message": message }).to_string();
        assert_eq!(tool::request(stream, "POST", "/api/v1/agent/nudge", &body, "").0, 200);
    }

    /// Asks until it is so; there is nothing that tells.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < LIMIT, "never: {what}; {}", self.log());
            crate::tool::pause();
        }
    }

    /// Follows the events from a number on until one is it; returns its number.
    pub(crate) fn until(&self, after: u64, what: &str, is_it: impl Fn(&Value) -> bool) -> u64 {
        let mut stream = self.connect();
        write!(stream, "GET /api/v1/events?after={after} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        let (begin, mut seen) = (Instant::now(), Vec::new());
        // The daemon says now and then that it is there, so that the connection alone never ends this.
        for line in BufReader::new(stream).lines().map_while(Result::ok).take_while(|_| begin.elapsed() < LIMIT) {
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let entry: Value = serde_json::from_str(data).expect("JSON");
            if is_it(&entry) {
                return entry["id"].as_u64().expect("a number");
            }
            seen.push(entry["input"].to_string());
        }
        panic!("{what} never came; {seen:#?} {}", self.log())
    }

    /// Opens a WebSocket and returns the first that comes over it.
    pub(crate) fn upgraded(&self, path: &str) -> String {
        let mut stream = self.connect();
        let head = "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n";
        let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{head}{key}\r\n\r\n").expect("sent");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        assert!(line.starts_with("HTTP/1.1 101"), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).expect("a header");
        }
        let mut frame = [0; 2];
        reader.read_exact(&mut frame).expect("a frame");
        let mut first = vec![0; 100];
        reader.read_exact(&mut first).expect("what is in it");
        String::from_utf8_lossy(&first).into_owned()
    }

    /// Opens the fleet's WebSocket and reads what comes over it.
    pub(crate) fn watch(&self, path: &str) -> impl Iterator<Item = Value> + use<> {
        let (mut socket, _) = client(format!("ws://localhost{path}"), self.connect()).expect("it is served");
        std::iter::from_fn(move || {
            loop {
                match socket.read().ok()? {
                    Message::Text(text) => return Some(serde_json::from_str(&text).expect("JSON")),
                    Message::Ping(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
    }

    /// Returns all that happened.
    pub(crate) fn entries(&self) -> Vec<Value> {
        let (mut after, mut entries) = (0, Vec::new());
        loop {
            let (_, page) = self.ask("GET", &format!("/api/v1/log?after={after}"), "");
            let page = page.as_array().expect("a page").clone();
            let Some(last) = page.last() else { return entries };
            after = last["id"].as_u64().expect("a number");
            entries.extend(page);
        }
    }

    /// Every event of an agent's is kept once and in order, and none is missing up to the last.
    pub(crate) fn check_events(&self, entries: &[Value], agent: &str) {
        let of_it = entries.iter().filter(|entry| entry["agent"] == agent);
        let numbers: Vec<_> = of_it.filter_map(|entry| entry["event"]["seq"].as_u64()).collect();
        assert!(!numbers.is_empty(), "{agent} was heard of");
        // A new process has a new sidecar, whose numbers begin anew.
        let mut expected = 0;
        for number in &numbers {
            expected = if *number == 1 { 1 } else { expected + 1 };
            assert_eq!(*number, expected, "{agent}: each once, in order: {numbers:?}");
        }
    }
}

/// A command that goes on, and what it prints.
pub(crate) struct Following {
    child: Option<Child>,
    lines: mpsc::Receiver<String>,
}

impl Following {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child: Some(child), lines }
    }

    /// Reads until a line has this in it; returns all that were read.
    pub(crate) fn until(&self, part: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => seen.push(line),
                Err(_) => panic!("{part:?} never came: {seen:#?}"),
            }
            if seen.last().is_some_and(|line| line.contains(part)) {
                return seen;
            }
        }
    }

    pub(crate) fn wait(&mut self) -> i32 {
        tool::wait_for(self.child.as_mut().expect("it runs"))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let agents = fs::read_dir(self.state().join("agents")).into_iter().flatten().flatten();
        for folder in agents.map(|entry| entry.path()) {
            end(&folder);
        }
    }
}

/// Ends a sidecar that a test has left, if it is still the one that was written down.
fn end(folder: &Path) {
    if let Ok(mut stream) = UnixStream::connect(folder.join("coop.sock")) {
        let _ = stream.set_read_timeout(Some(LIMIT));
        let _ = stream.write_all(b"POST /api/v1/shutdown HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 256]);
    }
}

pub(crate) fn is(entry: &Value, what: &str) -> bool {
    entry["input"]["what"] == what
}
