//! A daemon and the agents that others apply in its cluster. All else of a daemon is told in `daemon`, by each launcher.

use crate::daemon::lab::{Lab, is};
use crate::daemon::launch::Launch;

/// Agents that somebody applies with `kubectl` are shown and steered like the others, without anybody's doing.
#[test]
fn agents_that_others_apply_are_shown_and_steered() {
    let lab = Lab::by(Launch::Kubernetes, "");
    let cluster = lab.cluster();
    super::apply(cluster, "sim1");
    let idle = lab.until(0, "idleness", |entry| is(entry, "idle"));
    assert!(lab.ok(&["ls"]).contains("sim1"));
    lab.ok(&["send", "sim1", "[[bash:touch made]]"]);
    let asked = lab.until(idle, "an ask", |entry| is(entry, "prompt"));
    // Any fleet can answer, and all hear of it.
    crate::kube::fleet::answers(&cluster.kubeconfig, "team", "sim1", &["sim1".to_owned()]);
    let idle = lab.until(asked, "idleness", |entry| is(entry, "idle"));
    // Its pod is lost; the operator makes another, and the fleet goes on with that.
    lab.kill_sidecar("sim1");
    let gone = lab.until(idle, "its end", |entry| is(entry, "gone"));
    lab.until(gone, "its next pod", |entry| is(entry, "spawned"));
    assert_eq!(lab.run(&["wait", "sim1", "--for", "idle"]).0, 0);
    lab.ok(&["kill", "sim1"]);
    assert_eq!(cluster.get("agents", "sim1").expect("it is there")["spec"]["suspend"], true);
}
