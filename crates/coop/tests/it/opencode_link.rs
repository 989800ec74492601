//! An OpenCode server that somebody else runs, and that breaks off under a sidecar: it comes back, as itself or anew, and
//! what the sidecar says is right again soon, with nothing lost and nothing told twice.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::driven::{Agent, Model};
use crate::opencode::{Which, folder, prepare, told, with_both};
use crate::tool::{LIMIT, Sidecar, pause};

const PASSWORD: &str = "a-password-for-loopback";

/// A server of somebody else, killed when dropped.
struct Server {
    child: Child,
}

impl Server {
    fn start(which: &Which, work: &Path, model: Option<&Model>, port: u16) -> Self {
        let program = which.program();
        let mut command = std::process::Command::new(&program[0]);
        command.args(&program[1..]).args(["serve", "--port", &port.to_string()]).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", work);
        command.env("OPENCODE_SERVER_PASSWORD", PASSWORD).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = prepare(&mut command, work, model).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (listens, heard) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok).filter(|line| line.contains("listening on")) {
                let _ = listens.send(line);
            }
        });
        heard.recv_timeout(LIMIT).expect("it listens");
        // It is back when it answers.
        call(port, "GET", "/global/health", &Value::Null);
        Self { child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A way to the server that can be cut off.
struct Wire {
    port: u16,
    /// Whether it lets anybody through, and what goes through it.
    open: Arc<Mutex<(bool, Vec<TcpStream>)>>,
}

impl Wire {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let wire = Self {
            port: listener.local_addr().expect("an address").port(),
            open: Arc::new(Mutex::new((true, Vec::new()))),
        };
        let open = Arc::clone(&wire.open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let mut open = open.lock().expect("no panic");
                if open.0 {
                    for (from, to) in [(&client, &server), (&server, &client)] {
                        let (mut from, mut to) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
                        thread::spawn(move || {
                            let _ = std::io::copy(&mut from, &mut to);
                            let _ = to.shutdown(Shutdown::Both);
                        });
                    }
                    open.1.extend([client, server]);
                }
            }
        });
        wire
    }

    fn cut(&self) {
        let mut open = self.open.lock().expect("no panic");
        open.0 = false;
        for stream in open.1.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.open.lock().expect("no panic").0 = true;
    }
}

/// Returns a port that stays free while no process listens there: the system hands out none of these, and each test process
/// has sixteen of its own.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 500) as u16 * 16;
    let mut ports = (0..16).map(|_| 20_000 + first + NEXT.fetch_add(1, Ordering::Relaxed) % 16);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port")
}

/// Calls the server itself.
fn call(port: u16, method: &str, path: &str, body: &Value) -> Value {
    use base64::Engine as _;
    let user = base64::prelude::BASE64_STANDARD.encode(format!("opencode:{PASSWORD}"));
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Basic {user}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 2"), "{head}");
    let start = body.find(['[', '{']).unwrap_or(body.len());
    let end = body.rfind([']', '}']).map_or(start, |end| end + 1);
    serde_json::from_str(body.get(start..end).unwrap_or_default()).unwrap_or(Value::Null)
}

struct Scene {
    agent: Agent,
    work: PathBuf,
    port: u16,
    wire: Wire,
    server: Option<Server>,
    model: Option<Model>,
}

impl Scene {
    /// A server, a wire to it, and a sidecar with an interface that is attached over the wire.
    fn start(which: &Which) -> Self {
        let (work, port) = (folder(), free_port());
        let model = which.model();
        let server = Server::start(which, &work, model.as_ref(), port);
        let wire = Wire::to(port);
        let url = format!("http://127.0.0.1:{}", wire.port);
        let program = which.program();
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let all = [&["--log-level", "error", "--"], &program[..], &["attach", &url]].concat();
        let sidecar = Sidecar::with(&all, |command| {
            prepare(command, &work, model.as_ref()).env("OPENCODE_SERVER_PASSWORD", PASSWORD)
        });
        let agent = Agent::of(sidecar, work.clone(), None);
        Self { agent, work, port, wire, server: Some(server), model }
    }

    fn asks(&self) -> usize {
        self.agent.get("/api/v1/agent/asks")["asks"].as_array().map_or(0, Vec::len)
    }

    /// Waits until the server asks for so many permissions.
    fn server_asks(&self, count: usize) {
        let deadline = Instant::now() + LIMIT;
        while call(self.port, "GET", "/permission", &Value::Null).as_array().map(Vec::len) != Some(count) {
            assert!(Instant::now() < deadline, "it does not ask");
            pause();
        }
    }
}

#[test]
fn a_server_that_is_started_anew_is_known_again_soon() {
    with_both(|which| {
        let mut scene = Scene::start(which);
        scene.agent.state("idle");
        scene.agent.nudge("one [[bash:touch lost.txt]]");
        let ask = scene.agent.asked("permission");
        scene.server = None;
        // What it asked went with it. While it is away nobody can know; a new answer is refused and nothing is done.
        scene.server = Some(Server::start(which, &scene.work, scene.model.as_ref(), scene.port));
        let back = Instant::now();
        let gone = scene.agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
        assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &ask["id"]));
        // A server that is slow to start is away long enough that nobody knows any more.
        scene.agent.event("idle again", |body| body["kind"] == "state" && body["next"]["state"] == "idle");
        told(which, "pty", "server restarted", back);
        assert_eq!(scene.asks(), 0);
        assert!(!scene.agent.has("lost.txt"));

        scene.agent.nudge("two [[bash:touch found.txt]]");
        scene.agent.asked("permission");
        assert_eq!(scene.asks(), 1);
        scene.agent.respond(&json!({ "accept": true }));
        scene.agent.state("idle");
        assert!(scene.agent.has("found.txt"));
    });
}

#[test]
fn what_happens_while_the_wire_is_cut_is_known_again_soon() {
    with_both(|which| {
        let mut scene = Scene::start(which);
        scene.agent.state("idle");

        // What is asked before and after is one ask.
        scene.agent.nudge("one [[bash:touch one.txt]]");
        let ask = scene.agent.asked("permission");
        scene.wire.cut();
        scene.wire.mend();
        let session = scene.agent.get("/api/v1/agent")["session_id"].as_str().expect("a session").to_owned();
        let began = Instant::now();
        loop {
            // It is refused as long as nobody can be reached, and taken once.
            let (status, answered) =
                scene.agent.post("/api/v1/agent/respond", &json!({ "ask": ask["id"], "accept": true }));
            if status == 200 {
                break;
            }
            assert_eq!((status, &answered["error"]["code"]), (409, &json!("AGENT_BUSY")), "{answered}");
            assert!(began.elapsed() < LIMIT, "{answered}");
            pause();
        }
        scene.agent.state("idle");
        assert!(scene.agent.has("one.txt"));

        // A turn that begins and asks meanwhile is found, and its ask is told once.
        scene.wire.cut();
        let text = json!({ "parts": [{ "type": "text", "text": "two [[bash:mkdir two]]" }] });
        call(scene.port, "POST", &format!("/session/{session}/prompt_async"), &text);
        scene.server_asks(1);
        scene.wire.mend();
        let back = Instant::now();
        let second = scene.agent.asked("permission");
        told(which, "pty", "asked while the wire was cut", back);
        assert_ne!(second["id"], ask["id"]);
        assert_eq!((scene.asks(), &second["preview"]), (1, &json!("mkdir two")));

        // An answer that somebody else gives meanwhile settles it, and the end of the turn is known.
        scene.wire.cut();
        let pending = call(scene.port, "GET", "/permission", &Value::Null);
        let request = pending[0]["id"].as_str().expect("a request").to_owned();
        call(scene.port, "POST", &format!("/permission/{request}/reply"), &json!({ "reply": "once" }));
        let deadline = Instant::now() + LIMIT;
        while call(scene.port, "GET", "/session/status", &Value::Null) != json!({}) {
            assert!(Instant::now() < deadline, "the turn does not end");
            pause();
        }
        scene.wire.mend();
        let back = Instant::now();
        let gone = scene.agent.event("the ask's end", |body| body["kind"] == "ask" && body["what"] != "opened");
        assert_eq!((&gone["what"], &gone["ask"]), (&json!("withdrawn"), &second["id"]));
        let ended = scene.agent.event("the turn's end", |body| body["kind"] == "turn" && body["what"] == "ended");
        assert_eq!(ended["outcome"], "completed");
        scene.agent.state("idle");
        told(which, "pty", "answered while the wire was cut", back);
        assert!(scene.agent.has("two") && scene.asks() == 0);
    });
}
