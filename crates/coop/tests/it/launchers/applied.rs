//! Agents that others apply in a cluster, and a daemon that follows them: it starts and ends none of them by itself.

use std::net::TcpStream;

use serde_json::{Value, json};

use super::cluster::FakeCluster;
use crate::daemon::lab::{Lab, is};
use crate::daemon::launch::Launch;
use crate::tool::{LIMIT, request};

const AGENT: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents/sim1";

/// Asks the API server for something, as `kubectl` does.
fn kubectl(cluster: &FakeCluster, method: &str, body: &Value) {
    let stream = TcpStream::connect(cluster.address()).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    assert_eq!(request(stream, method, AGENT, &body.to_string(), "").0, 200);
}

fn suspend(cluster: &FakeCluster, suspend: bool) {
    kubectl(cluster, "PATCH", &json!({ "spec": { "suspend": suspend } }));
}

fn is_suspended(cluster: &FakeCluster) -> bool {
    cluster.get("agents", "sim1").expect("it is there")["spec"]["suspend"] == true
}

/// Returns what was done about the agent, by name.
fn deeds(lab: &Lab) -> Vec<String> {
    let shown = lab.json(&["show", "sim1"]);
    let deeds = shown["done"].as_array().expect("a list").iter();
    deeds.map(|deed| deed["effect"]["effect"].as_str().expect("a name").to_owned()).collect()
}

fn followed() -> (Lab, u64) {
    let lab = Lab::by(Launch::Kubernetes, "");
    super::apply(lab.cluster(), "sim1");
    let idle = lab.until(0, "idleness", |entry| is(entry, "idle"));
    (lab, idle)
}

/// What others suspend stays so until they, or a person here, resume it; and its next pod is told nothing.
#[test]
fn a_suspension_is_ended_by_people_alone() {
    let (lab, idle) = followed();
    let cluster = lab.cluster();
    suspend(cluster, true);
    let ended = lab.until(idle, "its end", |entry| is(entry, "dismissed"));
    assert!(is_suspended(cluster));
    let gone = lab.until(idle, "that it is gone", |entry| is(entry, "gone")).max(ended);
    suspend(cluster, false);
    let spawned = lab.until(gone, "its next pod", |entry| is(entry, "spawned"));
    let idle = lab.until(spawned, "idleness", |entry| is(entry, "idle"));
    assert_eq!(deeds(&lab), [] as [&str; 0], "neither ended, resumed nor told anything");
    assert_eq!(lab.json(&["show", "sim1"])["outcome"], Value::Null);
    // A person here ends it, and wants it again.
    lab.ok(&["kill", "sim1"]);
    assert!(is_suspended(cluster));
    lab.ok(&["resume", "sim1"]);
    let spawned = lab.until(idle, "its next pod", |entry| is(entry, "spawned"));
    lab.until(spawned, "idleness", |entry| is(entry, "idle"));
    assert!(!is_suspended(cluster));
    assert_eq!(deeds(&lab), ["finish", "restart"]);
}

/// One that is deleted while no daemon runs is over, and is not made anew.
#[test]
fn what_is_deleted_while_no_daemon_runs_does_not_come_back() {
    let (mut lab, idle) = followed();
    lab.kill();
    kubectl(lab.cluster(), "DELETE", &json!({}));
    lab.wait_until("it is gone", || lab.cluster().get("agents", "sim1").is_none());
    lab.up();
    let cluster = lab.cluster();
    lab.until(idle, "its end", |entry| is(entry, "dismissed"));
    let (code, _, refused) = lab.run(&["resume", "sim1"]);
    assert_eq!((code, refused.contains("whoever applied the Agent sim1 has deleted it")), (1, true), "{refused}");
    assert_eq!(cluster.get("agents", "sim1"), None);
    // It is shown again when it is applied again.
    let before = lab.entries().iter().filter_map(|entry| entry["id"].as_u64()).max().expect("some");
    super::apply(cluster, "sim1");
    let spawned = lab.until(before, "its first pod", |entry| is(entry, "spawned"));
    lab.until(spawned, "idleness", |entry| is(entry, "idle"));
}
