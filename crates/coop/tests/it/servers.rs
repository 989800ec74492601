//! Servers of agents: they keep their port, and whoever was attached finds them again.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::tool::{self, COOP, LIMIT};
use crate::workspaces::{Lab, agent_type};

/// Where an agent's server is, as its sidecar has written it down.
#[derive(Debug, PartialEq)]
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) password: String,
}

impl Server {
    pub(crate) fn of(lab: &Lab, agent: &str) -> Self {
        let file = lab.home.path().join("s/agents").join(agent).join("session.json");
        let record: Value = serde_json::from_slice(&fs::read(file).expect("it is there")).expect("JSON");
        let url = record["server"]["url"].as_str().expect("a server");
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Self { port, password: record["server"]["password"].as_str().expect("a password").to_owned() }
    }

    pub(crate) fn get(&self, path: &str, password: &str) -> (u16, Value) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let pair = BASE64_STANDARD.encode(format!("opencode:{password}"));
        tool::request(stream, "GET", path, "", &format!("authorization: Basic {pair}\r\n"))
    }
}

/// Returns the process that listens on a port, and is the only one that was told to.
pub(crate) fn listener(port: u16) -> Pid {
    let found = listeners(port);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

fn listeners(port: u16) -> Vec<Pid> {
    let wanted = format!("--port\0{port}\0");
    let runs_it = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(&wanted) && !line.contains("--agent-config")
    };
    let found = fs::read_dir("/proc").expect("/proc").flatten().filter(runs_it);
    let pid =
        |entry: fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
    found.map(|entry| pid(entry).expect("a process")).collect()
}

pub(crate) fn definition(home: &Path, runtime: &str) -> String {
    let home = home.to_str().expect("UTF-8");
    format!(
        "[agents.open]\ndriver = \"opencode\"\nruntime = {runtime:?}\nisolate = true\nkind = \"crew\"\non_dead = \"resume\"\n\
         command = [{COOP:?}, \"sim\", \"opencode\"]\n\
         env = {{ HOME = {home:?}, XDG_RUNTIME_DIR = {home:?}, XDG_STATE_HOME = {home:?} }}\n"
    )
}

#[test]
fn a_server_that_is_killed_comes_back_on_its_port_and_the_status_is_right() {
    for runtime in ["server", "pty"] {
        let lab = Lab::new(&[]);
        let repository = lab.repository("one");
        fs::write(repository.join("open.toml"), definition(lab.home.path(), runtime)).expect("written");
        let made = lab.json(&repository, &["ws", "create", "w"]);
        let path = made["path"].as_str().expect("a path");
        let mut told = lab.follow();
        let spawn = ["ws", "spawn", "w", "open", "--file", "open.toml", "--prompt", "hello [[text:one]]"];
        lab.json(&repository, &spawn);
        agent_type(&mut told, "idle");
        let idle = |turns: u64| {
            let (code, _, err) = lab.run(&repository, &["wait", "open", "--for", "idle", "--timeout", "170"]);
            assert_eq!(code, 0, "{err}{}", lab.log());
            let shown = lab.json(&repository, &["show", "open"]);
            assert_eq!((&shown["turn"], &shown["phase"]), (&json!(turns), &json!("idle")), "{shown:#}");
        };
        idle(1);
        let before = Server::of(&lab, "open");
        let token = lab.token("open");
        let session = lab.call(&token, "workspace_get_agent_session", json!({})).expect("known");
        assert_eq!(session["port"], before.port);
        assert_eq!(before.get("/session/status", &before.password).0, 200);
        assert_eq!(before.get("/session/status", "wrong").0, 401);
        // The server is killed: nobody is there any more, and then it is, where it was.
        kill_process(listener(before.port), Signal::KILL).expect("it is ours");
        agent_type(&mut told, "none");
        agent_type(&mut told, "idle");
        idle(2);
        assert_eq!(Server::of(&lab, "open"), before);
        assert_eq!(before.get("/session/status", &before.password).0, 200);
        let again = lab.call(&token, "workspace_get_agent_session", json!({})).expect("known");
        assert_eq!(again, session, "it goes on with the same conversation");
        // An agent asks for the same.
        let pid = listener(before.port);
        let restarted = lab.call(&token, "workspace_restart_agent_server", json!({})).expect("begun");
        assert_eq!(restarted, json!({ "port": before.port, "agents": [{ "agentId": "open", "port": before.port }] }));
        agent_type(&mut told, "none");
        agent_type(&mut told, "idle");
        assert_ne!(listener(before.port), pid);
        assert_eq!(Server::of(&lab, "open"), before);
        assert_eq!(lab.call(&token, "workspace_get_agent_session", json!({})).expect("known"), session);
        // It is gone with its agent, and nobody has its port.
        lab.json(&repository, &["ws", "rm", "w"]);
        assert!(!Path::new(path).exists());
        assert_eq!(listeners(before.port), []);
    }
}

/// Many want the same server, when it has ended and while it runs: there is one, started once, and all are told that it is there.
#[test]
fn fifty_that_want_a_server_at_once_get_one() {
    let lab = Lab::new(&[]);
    let repository = lab.repository("one");
    fs::write(repository.join("open.toml"), definition(lab.home.path(), "server")).expect("written");
    lab.json(&repository, &["ws", "create", "w"]);
    lab.json(&repository, &["ws", "spawn", "w", "open", "--file", "open.toml", "--prompt", "hello [[text:one]]"]);
    let idle = || {
        let (code, _, err) = lab.run(&repository, &["wait", "open", "--for", "idle", "--timeout", "170"]);
        assert_eq!(code, 0, "{err}{}", lab.log());
    };
    idle();
    let before = Server::of(&lab, "open");
    lab.json(&repository, &["kill", "open"]);
    assert_eq!(listeners(before.port), []);
    let runs = || lab.json(&repository, &["show", "open"])["run"].as_u64().expect("a number");
    let mut begun = runs();
    for _ in 0..2 {
        let connect = || UnixStream::connect(lab.home.path().join("s/fleet.sock")).expect("it listens");
        let mut streams: Vec<_> = (0..50).map(|_| connect()).collect();
        let ask = "POST /api/v1/agents/open/revive HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                   content-length: 2\r\nconnection: close\r\n\r\n{}";
        streams.iter_mut().for_each(|stream| stream.write_all(ask.as_bytes()).expect("sent"));
        for mut stream in streams {
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}{}", lab.log());
        }
        idle();
        begun += 1;
        assert_eq!(runs(), begun, "{}", lab.log());
        assert_eq!(Server::of(&lab, "open"), before);
        listener(before.port);
        assert_eq!(before.get("/session/status", &before.password).0, 200);
    }
    lab.json(&repository, &["kill", "open"]);
    assert_eq!(listeners(before.port), []);
}
