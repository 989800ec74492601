//! Agents that others applied, with what is to be done about them in the resource: the fleet that takes them in does it.

use serde_json::json;

use crate::daemon::lab::Lab;
use crate::daemon::launch::Launch;

/// Nobody answers but the fleet, and nobody tells the second message but the fleet.
#[test]
fn a_fleet_does_what_a_resource_says() {
    let lab = Lab::by(Launch::Kubernetes, "");
    let cluster = lab.cluster();
    let allow = json!({ "permission": [{ "action": "Allow" }] });
    let nudge = json!([{ "action": "Nudge", "attempts": 1, "message": "[[bash:touch nudged]]" }]);
    super::apply_with(cluster, "sim1", &json!({ "actions": { "onIdle": nudge, "onPrompt": allow } }));
    super::apply_with(cluster, "sim2", &json!({ "actions": { "onIdle": [{ "action": "Done" }] } }));
    for agent in ["sim1", "sim2"] {
        lab.wait_until("it is shown", || lab.ok(&["ls"]).contains(agent));
        assert_eq!(lab.run(&["wait", agent, "--for", "idle"]).0, 0, "{}", lab.log());
    }
    lab.ok(&["send", "sim1", "[[bash:touch made]]"]);
    lab.wait_until("what was asked was allowed", || lab.workspace("sim1").join("made").exists());
    lab.wait_until("it was told to go on", || lab.workspace("sim1").join("nudged").exists());
    // The list is used up: now a person is called.
    lab.wait_until("a person is called", || !lab.json(&["show", "sim1"])["needs"].is_null());
    lab.ok(&["send", "sim2", "[[text:I have done it.]]"]);
    let suspended = || cluster.get("agents", "sim2").expect("it is there")["spec"]["suspend"] == true;
    lab.wait_until("one that is done is suspended", suspended);
    let suspended = cluster.get("agents", "sim1").expect("it is there")["spec"]["suspend"] == true;
    assert!(!suspended, "the other goes on");
}

/// What makes no sense is not half done: a person is called for everything, as if nothing had been said.
#[test]
fn actions_that_make_no_sense_are_left_out() {
    let lab = Lab::by(Launch::Kubernetes, "");
    let cluster = lab.cluster();
    let never = json!([{ "action": "Done" }, { "action": "Nudge" }]);
    let allow = json!({ "permission": [{ "action": "Allow" }] });
    super::apply_with(cluster, "sim1", &json!({ "actions": { "onIdle": never, "onPrompt": allow } }));
    lab.wait_until("it is shown", || lab.ok(&["ls"]).contains("sim1"));
    assert_eq!(lab.run(&["wait", "sim1", "--for", "idle"]).0, 0, "{}", lab.log());
    lab.ok(&["send", "sim1", "[[bash:touch made]]"]);
    assert_eq!(lab.run(&["wait", "sim1", "--for", "ask"]).0, 0, "{}", lab.log());
    lab.wait_until("a person is called", || !lab.json(&["show", "sim1"])["needs"].is_null());
    lab.ok(&["respond", "sim1", "no"]);
}
