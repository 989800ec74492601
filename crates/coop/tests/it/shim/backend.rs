//! The backend that `AGENT_BOOTSTRAP` names.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::brief;
use super::world::{Agent, with_both};
use crate::tool::{LIMIT, coop, run};

/// A request: path, token, body.
type Asked = (String, String, Value);

/// Serves a backend that takes every file and renews every token, and tells what it was asked.
fn backend() -> (u16, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let (sender, asked) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).to_lowercase();
            let header = |name: &str| head.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
            let mut body = vec![0; header("content-length:").map_or(0, |length| length.parse().expect("a number"))];
            stream.read_exact(&mut body).expect("a body");
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, answer) = match path.as_str() {
                "/api/token/renew" => ("200 OK", json!({ "backendToken": "new", "tokenExpiresAt": in_time(3600) })),
                _ => ("201 Created", json!({ "backendUri": "artifact://a1/x", "stored": true })),
            };
            let answer = answer.to_string();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
            stream.write_all(answer.as_bytes()).expect("it reads");
            if sender.send((path, header("authorization:").unwrap_or_default(), body)).is_err() {
                return;
            }
        }
    });
    (port, asked)
}

fn in_time(secs: u64) -> String {
    humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(secs)).to_string()
}

fn bootstrap(port: u16, secs: u64) -> String {
    json!({ "backendUrl": format!("http://127.0.0.1:{port}"), "backendToken": "old", "tokenExpiresAt": in_time(secs),
            "agentId": "a1", "artifactUploadEndpoint": format!("http://127.0.0.1:{port}/upload") })
    .to_string()
}

#[test]
fn what_an_agent_writes_reaches_the_backend() {
    with_both(Agent::Claude, |world| {
        let (port, asked) = backend();
        let shim = world.start_with(&[], |command| command.env("AGENT_BOOTSTRAP", bootstrap(port, 3600)));
        let mut events = shim.follow();
        let mut task = brief("x [[write:notes.md|hello]] [[bash:cat /proc/self/environ > env.txt]]");
        task["controlMode"] = json!("ecosystem");
        shim.done("/spawn", &task);
        let artifact = events.of("artifact");
        assert_eq!(artifact["uri"], "artifact://a1/x");
        let (path, token, body) = asked.recv_timeout(LIMIT).expect("it is brought");
        assert_eq!((path.as_str(), token.as_str()), ("/upload", "bearer old"));
        assert_eq!(
            body,
            json!({ "agentId": "a1", "artifactId": artifact["artifactId"], "content": "hello", "mimeType": "text/markdown" })
        );
        events.of("completion");
        let seen = std::fs::read_to_string(world.work.join("env.txt")).expect("it ran");
        assert!(!seen.contains("BOOTSTRAP"), "the agent sees the backend's token");
        assert_eq!(shim.done("/kill", &json!({}))["artifactsExtracted"], 1);
    });
}

#[test]
fn a_token_is_renewed_before_it_ends() {
    with_both(Agent::Acp, |world| {
        let (port, asked) = backend();
        let shim = world.start_with(&[], |command| command.env("AGENT_BOOTSTRAP", bootstrap(port, 2)));
        let (path, _, body) = asked.recv_timeout(LIMIT).expect("it is asked for");
        assert_eq!((path.as_str(), body), ("/api/token/renew", json!({ "agentId": "a1", "currentToken": "old" })));
        shim.done("/spawn", &{
            let mut task = brief("x [[write:notes.md|hello]]");
            task["controlMode"] = json!("ecosystem");
            task
        });
        assert_eq!(asked.recv_timeout(LIMIT).expect("it is brought").1, "bearer new");
    });
}

#[test]
fn a_bootstrap_that_makes_no_sense_is_refused_and_not_shown() {
    let home = tempfile::tempdir().expect("a folder");
    for wrong in ["secret", &bootstrap(1, 10).replace("http:", "https:")] {
        let (code, out, err) =
            run(coop(home.path()).args(["shim", "--mock", "--port", "0"]).env("AGENT_BOOTSTRAP", wrong));
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("AGENT_BOOTSTRAP") || err.contains("https"), "{err}");
        assert!(!err.contains("secret") && !err.contains("old"), "{err}");
    }
}
