//! The same agents by every launcher: in containers of an engine, and in pods of a cluster, whose sidecars are processes here.

mod actions;
mod applied;
mod cluster;
mod daemon;
mod engine;
mod left;
mod process;

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use coop_api::{AgentId, AgentState};
use coop_fleet::adapter::{
    AgentAdapter, AgentAdapterError, AgentConfig, AgentReconnectConfig, SidecarAdapter, conformance,
};
use coop_fleet::definition::Start;
use coop_fleet::engine::{Input, StopMode};
use coop_fleet::launcher::RunOwner;
use coop_fleet::shim::Ports;
use coop_fleet::{ContainerLauncher, Containers, Fact};
use coop_kube::{ClusterLauncher, ClusterOptions, Reach, Template, Way};
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub(crate) use self::cluster::FakeCluster;
pub(crate) use self::engine::FakeEngine;
use crate::tool::{COOP, LIMIT};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(LIMIT * 2, test).await.expect("it ends in time");
    });
}

fn home() -> tempfile::TempDir {
    let home = tempfile::Builder::new().prefix("coop-launch-").tempdir().expect("a folder");
    fs::create_dir(home.path().join("work")).expect("made");
    home
}

fn agent() -> AgentId {
    AgentId("fixer".to_owned())
}

fn config(home: &Path) -> AgentConfig {
    AgentConfig {
        agent: agent(),
        driver: "claude".to_owned(),
        command: [COOP, "sim", "claude"].map(str::to_owned).to_vec(),
        folder: home.join("work"),
        env: BTreeMap::from([("COOP_SIM_SCENARIO".to_owned(), "plain".to_owned())]),
        runtime: None,
        settings: None,
        isolate: true,
        trust: false,
        permission_mode: None,
        ask_first: false,
        stop: StopMode::Allow,
        ask_user: false,
        start: Start::default(),
        resume: None,
        record: None,
        sandbox: None,
        asks_before: 0,
        run_owner: RunOwner::Fleet,
    }
}

async fn in_cluster(cluster: &FakeCluster, home: &Path) -> (ClusterLauncher, SidecarAdapter) {
    let launcher = ClusterLauncher::new(ClusterOptions {
        namespace: None,
        way: Way { kubeconfig: Some(cluster.kubeconfig.clone()), context: None },
        reach: Reach::Forward,
        template: Template { image: Some("agent:1".to_owned()), claim: Some("1Gi".to_owned()), ..Template::default() },
        fleet: "f1".to_owned(),
    });
    let launcher = launcher.await.expect("a cluster");
    (launcher.clone(), SidecarAdapter::new(Arc::new(launcher), &home.join("state")))
}

fn in_containers(engine: &FakeEngine, home: &Path) -> SidecarAdapter {
    let containers = Containers {
        engine: engine.socket.clone(),
        fleet: "f1".to_owned(),
        image: "agent:1".to_owned(),
        image_has_coop: false,
        coop: COOP.into(),
        mounts: vec!["/opt:/opt:ro".to_owned()],
        memory: Some(1 << 30),
        nano_cpus: Some(500_000_000),
        ports: Ports::Any,
    };
    SidecarAdapter::new(Arc::new(ContainerLauncher::new(containers).expect("a launcher")), &home.join("state"))
}

/// What is heard of the agent.
struct Heard {
    facts: mpsc::Receiver<Fact>,
    past: Vec<Fact>,
}

impl Heard {
    async fn until(&mut self, what: &str, is_it: impl Fn(&Input) -> bool) -> Input {
        loop {
            let next = tokio::time::timeout(LIMIT, self.facts.recv()).await;
            let Ok(Some(fact)) = next else { panic!("{what} never came; before:\n{:#?}", self.past) };
            self.past.push(fact.clone());
            if let Some(input) = fact.input.filter(&is_it) {
                return input;
            }
        }
    }

    async fn idle(&mut self) {
        self.until("idleness", |input| matches!(input, Input::Idle { .. })).await;
    }

    async fn gone(&mut self) -> Input {
        self.until("the end", |input| matches!(input, Input::Gone { .. })).await
    }
}

fn channel() -> (mpsc::Sender<Fact>, Heard) {
    let (sender, facts) = mpsc::channel(1024);
    (sender, Heard { facts, past: Vec::new() })
}

/// A sidecar that is killed is gone once, without a code that nobody knows, also to who looks for it later; and the agent
/// can be started again.
async fn killed(first: &SidecarAdapter, later: &SidecarAdapter, home: &Path, kill: impl FnOnce()) {
    let (sender, mut heard) = channel();
    first.spawn(config(home), sender).await.expect("it starts");
    heard.idle().await;
    kill();
    assert_eq!(heard.gone().await, Input::Gone { code: None, signal: None });
    assert_eq!(first.get_state(&agent()).await, Err(AgentAdapterError::NotFound(agent())));
    let (sender, mut late) = channel();
    let known = heard.past.iter().rev().find_map(|fact| fact.told.clone());
    let wanted = AgentReconnectConfig { agent: agent(), known, resumed: false, run_owner: RunOwner::Fleet };
    assert_eq!(later.reconnect(wanted, sender).await, Err(AgentAdapterError::NotFound(agent())));
    assert_eq!(late.facts.recv().await.as_ref(), heard.past.last(), "the same under the same number");
    let (sender, mut heard) = channel();
    first.spawn(config(home), sender).await.expect("it starts again");
    heard.idle().await;
    first.kill(&agent()).await.expect("killed");
    heard.gone().await;
    assert!(heard.facts.recv().await.is_none(), "nothing comes after the end");
}

#[test]
fn agents_in_a_cluster_conform() {
    let home = home();
    let cluster = FakeCluster::start(home.path());
    run(async {
        let (_, adapter) = in_cluster(&cluster, home.path()).await;
        conformance::life(&adapter, config(home.path())).await.expect("it conforms");
        assert_eq!(cluster.get("agents", "fixer"), None, "the resource is gone with the agent");
        for stop in [StopMode::Allow, StopMode::Gate, StopMode::Auto] {
            let config = AgentConfig { stop, ..config(home.path()) };
            conformance::table(&adapter, config).await.unwrap_or_else(|wrong| panic!("{stop:?}: {wrong}"));
        }
    });
}

#[test]
fn agents_in_containers_conform() {
    let home = home();
    run(async {
        let engine = FakeEngine::start(home.path());
        let adapter = in_containers(&engine, home.path());
        conformance::life(&adapter, config(home.path())).await.expect("it conforms");
        for stop in [StopMode::Allow, StopMode::Gate, StopMode::Auto] {
            let config = AgentConfig { stop, ..config(home.path()) };
            conformance::table(&adapter, config).await.unwrap_or_else(|wrong| panic!("{stop:?}: {wrong}"));
        }
    });
}

#[test]
fn a_pod_that_is_lost_is_an_agent_that_is_gone_once() {
    let home = home();
    let cluster = FakeCluster::start(home.path());
    run(async {
        let (_, first) = in_cluster(&cluster, home.path()).await;
        let (_, later) = in_cluster(&cluster, home.path()).await;
        killed(&first, &later, home.path(), || cluster.kill_sidecar("fixer")).await;
    });
}

#[test]
fn a_container_that_is_killed_is_an_agent_that_is_gone_once() {
    let home = home();
    run(async {
        let engine = FakeEngine::start(home.path());
        let (first, later) = (in_containers(&engine, home.path()), in_containers(&engine, home.path()));
        killed(&first, &later, home.path(), || engine.kill_sidecar("fixer")).await;
    });
}

#[test]
fn a_container_has_its_limits_and_cannot_reach_the_socket_that_steers_it() {
    let home = home();
    run(async {
        let engine = FakeEngine::start(home.path());
        let adapter = in_containers(&engine, home.path());
        let (sender, mut heard) = channel();
        let config = AgentConfig { record: Some(1 << 20), ..config(home.path()) };
        adapter.spawn(config, sender).await.expect("it starts");
        heard.idle().await;
        let body = engine.body();
        let (work, folder) = (home.path().join("work"), home.path().join("state/agents/fixer"));
        let bind = |path: &Path| format!("{0}:{0}", path.display());
        let binds = json!([bind(&folder.join("inside")), bind(&work), format!("{COOP}:/coop/coop:ro"), "/opt:/opt:ro"]);
        let host = &body["HostConfig"];
        assert_eq!(host["Binds"], binds);
        assert_eq!((&host["Memory"], &host["NanoCpus"]), (&json!(1_u64 << 30), &json!(500_000_000)));
        assert_eq!((&host["CapDrop"], &host["SecurityOpt"]), (&json!(["ALL"]), &json!(["no-new-privileges"])));
        assert_eq!((&host["PidsLimit"], &host["ReadonlyRootfs"]), (&json!(4096), &json!(true)));
        assert_eq!(host["PortBindings"]["9200/tcp"][0]["HostIp"], "127.0.0.1");
        assert!(folder.join("coop.sock").exists() && !folder.join("inside/coop.sock").exists());
        assert!(fs::read_to_string(folder.join("inside/terminal.cast")).expect("a recording").contains("\"version\""));
        let wanted = adapter.running().await;
        assert_eq!((wanted.len(), &wanted[0].agent, &wanted[0].folder), (1, &agent(), &work));
        adapter.kill(&agent()).await.expect("killed");
        heard.gone().await;
    });
}

#[test]
fn what_does_not_start_says_why_and_leaves_nothing() {
    let home = home();
    let cluster = FakeCluster::start(home.path());
    run(async {
        let engine = FakeEngine::start(home.path());
        let wrong = || AgentConfig { command: vec!["/no/such/claude".to_owned()], ..config(home.path()) };
        for adapter in [in_containers(&engine, home.path()), in_cluster(&cluster, home.path()).await.1] {
            match adapter.spawn(wrong(), channel().0).await {
                Err(AgentAdapterError::SpawnFailed { why, .. }) => assert!(why.contains("/no/such/claude"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(engine.count(), 0);
        let deleted =
            cluster.get("agents", "fixer").is_none_or(|agent| !agent["metadata"]["deletionTimestamp"].is_null());
        assert!(deleted, "its resource is not left behind");
    });
}

/// Somebody else's Agent is followed and steered; the end of its pod is told, its next pod is gone on with, and to end it is
/// to suspend it: the resource is not ours to delete.
#[test]
fn an_agent_that_others_applied_is_followed_from_pod_to_pod() {
    let home = home();
    let cluster = FakeCluster::start(home.path());
    apply(&cluster, "sim1");
    run(async {
        let (launcher, adapter) = in_cluster(&cluster, home.path()).await;
        let id = AgentId("sim1".to_owned());
        let mut changes = launcher.changes();
        while launcher.applied().is_empty() {
            changes.changed().await.expect("it goes on");
        }
        let (sender, mut heard) = channel();
        let known =
            AgentReconnectConfig { agent: id.clone(), known: None, resumed: false, run_owner: RunOwner::Others };
        adapter.reconnect(known, sender).await.expect("it runs");
        heard.idle().await;
        adapter.send(&id, "[[text:from the fleet]]").await.expect("sent");
        heard.idle().await;
        cluster.kill_sidecar("sim1");
        assert_eq!(heard.gone().await, Input::Gone { code: None, signal: None });
        let (sender, mut heard) = channel();
        let resume = Some("any".to_owned());
        let again = AgentConfig { agent: id.clone(), resume, run_owner: RunOwner::Others, ..config(home.path()) };
        adapter.spawn(again, sender).await.expect("its next pod runs");
        heard.idle().await;
        assert_eq!(adapter.get_state(&id).await, Ok(AgentState::Idle));
        adapter.kill(&id).await.expect("ended");
        heard.gone().await;
        let left = cluster.get("agents", "sim1").expect("it is there");
        assert_eq!(left["spec"]["suspend"], true);
        assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null);
    });
}

/// Applies an Agent as `kubectl` does.
fn apply(cluster: &FakeCluster, name: &str) {
    apply_with(cluster, name, &json!({}));
}

/// The same with more in its `spec`.
fn apply_with(cluster: &FakeCluster, name: &str, more: &Value) {
    let mut agent = json!({ "apiVersion": "coop.dev/v1alpha1", "kind": "Agent", "metadata": { "name": name },
        "spec": { "driver": "claude", "image": "agent:1", "command": [COOP, "sim", "claude"],
            "env": { "COOP_SIM_SCENARIO": "plain" } } });
    coop_drivers::merge(&mut agent["spec"], more);
    let body = agent.to_string();
    let mut stream = TcpStream::connect(cluster.address()).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let path = "/apis/coop.dev/v1alpha1/namespaces/team/agents";
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}
