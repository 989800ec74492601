//! What is left of agents that have ended.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use coop_fleet::adapter::SidecarAdapter;
use serde_json::{Value, json};

use super::lab::{Lab, is};
use super::launch::{Launch, by_each_launcher};
use crate::record::replayed;

const TOML: &str = "[agents.talker]\nSIM\nkind = \"crew\"\nprompt = \"[[text:The Bridge is built.]]\"\n\
                    [agents.secret]\nSIM\nkind = \"crew\"\nrecord = false\nprompt = \"[[text:Nothing.]]\"\n";

by_each_launcher! {
    agents_that_have_ended_are_found_and_replayed,
    a_recording_goes_on_with_its_agent_and_each_run_is_in_the_history,
}

/// Nobody has the terminal of an agent in a cluster recorded.
fn records(launch: Launch) -> bool {
    match launch {
        Launch::Local | Launch::Container => true,
        Launch::Kubernetes => false,
    }
}

fn history(lab: &Lab, query: &str) -> Vec<Value> {
    let (status, found) = lab.ask("GET", &format!("/api/v1/history{query}"), "");
    assert_eq!(status, 200, "{found}");
    found["runs"].as_array().expect("a list").clone()
}

fn names(runs: &[Value]) -> Vec<&str> {
    runs.iter().filter_map(|agent| agent["id"].as_str()).collect()
}

fn agents_that_have_ended_are_found_and_replayed(launch: Launch) {
    let mut lab = Lab::by(launch, TOML);
    for agent in ["talker", "secret"] {
        lab.ok(&["spawn", agent]);
        lab.ok(&["wait", agent, "--for", "idle"]);
    }
    assert!(history(&lab, "").is_empty(), "both run");
    let (status, live) = lab.ask("GET", "/api/v1/agents/talker/recording", "");
    assert_eq!(status, if records(launch) { 200 } else { 404 }, "{live}");
    for agent in ["talker", "secret"] {
        lab.ok(&["kill", agent]);
        lab.until(0, "its end", |entry| is(entry, "gone") && entry["agent"] == agent);
    }
    // Their sidecars are gone, and so is the daemon that knew them.
    lab.kill();
    lab.up();
    if records(launch) {
        let (status, cast) = lab.ask("GET", "/api/v1/agents/talker/recording", "");
        assert_eq!(status, 200, "{cast}");
        let rows = replayed(cast.as_str().expect("text"));
        assert!(rows.iter().any(|row| row.contains("The Bridge is built.")), "{rows:#?}");
        let path = SidecarAdapter::recording(&lab.state().join("agents/talker"));
        assert_eq!(fs::metadata(path).expect("it is there").permissions().mode() & 0o777, 0o600);
    }
    let (status, none) = lab.ask("GET", "/api/v1/agents/secret/recording", "");
    assert_eq!((status, &none["error"]["code"]), (404, &json!("NOT_FOUND")), "{none}");
    assert_eq!(lab.ask("GET", "/api/v1/agents/nobody/recording", "").0, 404);

    let gone = lab.entries().into_iter().filter(|entry| is(entry, "gone")).count();
    assert_eq!(gone, 2, "each is gone once, also after a restart");
    let all = history(&lab, "");
    assert_eq!(names(&all), ["secret", "talker"], "the last that ended comes first");
    assert_eq!((&all[0]["recorded"], all[1]["recorded"].is_u64()), (&Value::Null, records(launch)), "{all:#?}");
    assert_eq!(all[1]["prompt"], "[[text:The Bridge is built.]]");
    // By what was said, whatever its case, and by the name; signs that mean something to the store mean themselves.
    let said = history(&lab, "?text=bridge%20IS");
    assert_eq!((names(&said), &said[0]["found"]), (vec!["talker"], &json!("The Bridge is built.")));
    assert_eq!(names(&history(&lab, "?text=secr")), ["secret"]);
    assert!(history(&lab, "?text=%25").is_empty() && history(&lab, "?text=b_idge").is_empty());
    let (_, cut) = lab.ask("GET", "/api/v1/history?limit=1", "");
    assert_eq!((cut["runs"].as_array().map(Vec::len), &cut["more"]), (Some(1), &json!(1)));
}

/// One file for all processes of an agent; each is in the history, also while the next one runs.
fn a_recording_goes_on_with_its_agent_and_each_run_is_in_the_history(launch: Launch) {
    let lab = Lab::by(launch, "[agents.talker]\nSIM\nkind = \"crew\"\nprompt = \"[[text:Stone bridge.]]\"\n");
    lab.ok(&["spawn", "talker"]);
    lab.ok(&["wait", "talker", "--for", "idle"]);
    lab.ok(&["kill", "talker"]);
    let gone = lab.until(0, "its end", |entry| is(entry, "gone"));
    lab.ok(&["resume", "talker"]);
    lab.until(gone, "its return", |entry| is(entry, "idle"));
    let earlier = history(&lab, "");
    assert_eq!(earlier.len(), 1, "the one that runs has not ended: {earlier:#?}");
    let first = &earlier[0];
    assert_eq!(
        (&first["run"], &first["runs"], &first["resumed"], &first["outcome"]["outcome"]),
        (&json!(1), &json!(2), &json!(false), &json!("dismissed"))
    );
    assert_eq!(first["recorded"].is_u64(), records(launch), "{first}");
    assert!(first["ended"].as_u64() > first["began"].as_u64(), "{first}");
    lab.ok(&["send", "talker", "[[text:Wooden ferry.]]", "--when", "idle"]);
    let said = lab.until(gone, "its answer", |entry| entry["input"]["last_message"] == "Wooden ferry.");
    lab.ok(&["kill", "talker"]);
    lab.until(said, "its end again", |entry| is(entry, "gone"));
    if records(launch) {
        let (_, cast) = lab.ask("GET", "/api/v1/agents/talker/recording", "");
        let cast = cast.as_str().expect("text");
        let has = |part: &str| cast.lines().filter(|line| line.contains(part)).count();
        assert_eq!((has("\"version\""), has("coop: another process"), has(",\"x\",")), (1, 1, 2), "{cast}");
    }
    // Each is found by what was said in it, and both by their agent's name.
    let found = |text: &str| -> Vec<u64> {
        history(&lab, &format!("?text={text}")).iter().filter_map(|run| run["run"].as_u64()).collect()
    };
    assert_eq!((found("wooden"), found("talk")), (vec![2], vec![2, 1]));
    assert_eq!(found("ferry%20boat"), Vec::<u64>::new());
    let both = history(&lab, "");
    assert_eq!(
        (&both[0]["outcome"]["outcome"], &both[1]["outcome"]["outcome"]),
        (&json!("dismissed"), &json!("dismissed"))
    );
    assert_eq!((&both[0]["turns"], &both[1]["turns"], &both[0]["resumed"]), (&json!(1), &json!(1), &json!(true)));
}
