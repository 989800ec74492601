use serde_json::json;

use super::*;

const PODS: &str = "/api/v1/namespaces/team/pods";
const AGENTS: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents";

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

#[test]
fn a_write_over_what_has_changed_is_refused() {
    let cluster = Cluster::default();
    let first = cluster.create(AGENTS, named("a")).expect("made");
    assert_eq!(cluster.create(AGENTS, named("a")).expect_err("it is there").reason, "AlreadyExists");
    let path = format!("{AGENTS}/a");
    let version = first["metadata"]["resourceVersion"].clone();
    let patch = json!({ "spec": { "x": 1 }, "metadata": { "resourceVersion": version } });
    assert_eq!(cluster.patch(&path, &patch).expect("it is the newest")["metadata"]["generation"], 2);
    assert_eq!(cluster.patch(&path, &patch).expect_err("it is old").code, 409);
}

#[test]
fn what_is_held_or_runs_goes_later() {
    let cluster = Cluster::default();
    cluster.create(AGENTS, json!({ "metadata": { "name": "a", "finalizers": ["x"] } })).expect("made");
    let path = format!("{AGENTS}/a");
    assert!(cluster.delete(&path).expect("marked")["metadata"]["deletionTimestamp"].is_string());
    cluster.patch(&path, &json!({ "metadata": { "finalizers": [] } })).expect("let go");
    assert_eq!(cluster.get(&path).expect_err("gone").code, 404);
    cluster.create(PODS, json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n" } })).expect("made");
    cluster.delete(&format!("{PODS}/p")).expect("marked");
    assert!(cluster.get(&format!("{PODS}/p")).expect("there")["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_watch_tells_what_came_after_and_says_when_that_is_gone() {
    let cluster = Cluster::default();
    let place = Place::parse(PODS).expect("a path");
    for number in 0..10_002 {
        cluster.create(PODS, named(&format!("p{number}"))).expect("made");
    }
    let store = cluster.lock();
    let names = |since| {
        let events = store.since(&place, "", since)?;
        Ok(events.iter().map(|event| text(&event["object"]["metadata"]["name"]).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(names(10_000), Ok(vec!["p10000".to_owned(), "p10001".to_owned()]));
    assert_eq!(names(1), Err(Refusal::expired()));
}
