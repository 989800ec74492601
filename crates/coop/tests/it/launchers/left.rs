//! What is left of sidecars elsewhere, and how they are reached.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coop_fleet::adapter::{AgentAdapter, AgentAdapterError, AgentReconnectConfig, SidecarAdapter};
use coop_fleet::engine::Input;
use coop_fleet::launcher::RunOwner;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

use super::engine::FakeEngine;
use super::{Heard, agent, channel, config, home, in_containers, run};
use crate::daemon::lab::{Lab, is};
use crate::daemon::launch::Launch;
use crate::tool::LIMIT;

/// Starts an agent in a container, and waits until it is idle.
async fn started(engine: &FakeEngine, home: &Path) -> (SidecarAdapter, Heard) {
    let adapter = in_containers(engine, home);
    let (sender, mut heard) = channel();
    adapter.spawn(config(home), sender).await.expect("it starts");
    heard.idle().await;
    (adapter, heard)
}

/// A container that ends while no daemon runs has ended with its code. Whoever finds it may be killed before that is written down,
/// so it is there until somebody is done with it.
#[test]
fn a_container_that_ended_unseen_has_its_code_and_goes() {
    let home = home();
    let engine = FakeEngine::start(home.path());
    run(async {
        let (adapter, mut heard) = started(&engine, home.path()).await;
        adapter.send(&agent(), "[[exit:3]]").await.ok();
        heard.gone().await;
    });
    // Nobody of ours is left; its sidecar is, with what its agent ended with.
    engine.end(&agent().0);
    assert_eq!(engine.count(), 1);
    run(async {
        let later = in_containers(&engine, home.path());
        let (sender, mut heard) = channel();
        for _ in 0..2 {
            let wanted =
                AgentReconnectConfig { agent: agent(), known: None, resumed: false, run_owner: RunOwner::Fleet };
            assert_eq!(later.reconnect(wanted, sender.clone()).await, Err(AgentAdapterError::NotFound(agent())));
            assert_eq!(heard.gone().await, Input::Gone { code: Some(3), signal: None });
        }
        assert_eq!(later.kill(&agent()).await, Err(AgentAdapterError::NotFound(agent())));
        assert_eq!(engine.count(), 0);
    });
}

/// A container that runs and whose agent nobody could reach is ended again.
#[test]
fn what_cannot_be_reached_does_not_run_on() {
    let home = home();
    let engine = FakeEngine::start(home.path());
    run(async {
        let adapter = in_containers(&engine, home.path());
        let in_the_way = home.path().join("state/agents/fixer/coop.sock/in-the-way");
        fs::create_dir_all(in_the_way).expect("made");
        match adapter.spawn(config(home.path()), channel().0).await {
            Err(AgentAdapterError::SpawnFailed { why, .. }) => assert!(why.contains("its socket"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(engine.count(), 0);
    });
}

/// Makes a call of gRPC by an agent's socket; returns the answer and its status.
async fn call(socket: &Path, method: &str) -> (Bytes, String) {
    let stream = UnixStream::connect(socket).await.expect("somebody listens");
    let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::post(format!("http://localhost/coop.v1.Coop/{method}"));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    // A message that is empty: not compressed, no bytes.
    let request = request.body(Full::new(Bytes::from_static(&[0; 5]))).expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body");
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = trailers.get("grpc-status").or(parts.headers.get("grpc-status")).expect("a status");
    let status = status.to_str().expect("text").to_owned();
    (body.to_bytes(), status)
}

/// The socket of an agent elsewhere speaks gRPC as that of any other, until the sidecar ends; then nobody listens there.
#[test]
fn an_agent_elsewhere_has_grpc_as_long_as_its_sidecar_runs() {
    let home = home();
    let engine = FakeEngine::start(home.path());
    run(async {
        let (adapter, mut heard) = started(&engine, home.path()).await;
        let socket = home.path().join("state/agents/fixer/coop.sock");
        let (answer, status) = call(&socket, "GetHealth").await;
        assert!(String::from_utf8_lossy(&answer).contains("running"), "{answer:?}");
        assert_eq!(status, "0");
        adapter.kill(&agent()).await.expect("killed");
        heard.gone().await;
        let begin = Instant::now();
        while UnixStream::connect(&socket).await.is_ok() {
            assert!(begin.elapsed() < LIMIT, "somebody listens for an agent that has ended");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        adapter.kill(&agent()).await.expect("what is gone already can be let go");
    });
}

/// An agent that has failed with its pod is over, and its resource goes.
#[test]
fn a_failed_agent_leaves_no_resource() {
    let lab = Lab::by(Launch::Kubernetes, "[agents.once]\nSIM\nkind = \"crew\"\non_dead = \"fail\"\n");
    lab.ok(&["spawn", "once"]);
    let idle = lab.until(0, "idleness", |entry| is(entry, "idle"));
    lab.kill_sidecar("once");
    lab.until(idle, "its end", |entry| is(entry, "gone"));
    lab.nothing_is_left("once");
    assert_eq!(lab.json(&["show", "once"])["outcome"]["outcome"], "failed");
}

/// Agents that run in one place are not looked for in another.
#[test]
fn another_launcher_is_refused_while_agents_run() {
    let mut lab = Lab::new("[agents.once]\nSIM\nkind = \"crew\"\n");
    let engine = FakeEngine::start(lab.home.path());
    let socket = engine.socket.to_str().expect("UTF-8").to_owned();
    let other = ["--launcher", "container", "--image", "agent:1", "--engine", &socket];
    lab.ok(&["spawn", "once"]);
    lab.kill();
    let (code, out, refused) = lab.run(&[&["up"], other.as_slice()].concat());
    assert_eq!((code, out.as_str()), (1, ""), "{refused}");
    let said = "coop: once runs with --launcher local, not container: ";
    assert!(refused.lines().last().is_some_and(|line| line.starts_with(said)), "{refused}");
    lab.up();
    lab.ok(&["kill", "once"]);
    lab.kill();
    lab.up_with(&other);
}
