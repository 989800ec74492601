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

/// What a cluster cannot have is refused before anything is written down or made; a daemon that was told no image shows and steers
/// what is there all the same.
#[test]
fn what_a_cluster_cannot_have_is_refused_at_once() {
    let home = tempfile::tempdir().expect("a folder");
    let cluster = super::FakeCluster::start(home.path());
    let env = vec![("COOP_LAUNCHER", "kubernetes".into()), ("COOP_KUBECONFIG", cluster.kubeconfig.clone())];
    let mut lab = Lab::with_env("", env);
    let refused = |lab: &Lab, name: &str| {
        let (code, _, said) = lab.run(&["spawn", name, "--agent", "claude"]);
        assert_eq!(code, 1, "{said}");
        said
    };
    let bad_name =
        "coop: Bad_Name: that cannot be a name in a cluster: use lower-case letters, digits and -, 48 at most\n";
    assert_eq!(refused(&lab, "Bad_Name"), bad_name);
    let no_image =
        "coop: writer: no image is said that it could run in: begin the daemon with `coop up --image IMAGE`\n";
    assert_eq!(refused(&lab, "writer"), no_image);
    super::apply(&cluster, "sim1");
    lab.until(0, "idleness", |entry| is(entry, "idle"));
    let shown = lab.json(&["ls"]);
    let ids: Vec<_> = shown["agents"].as_array().into_iter().flatten().map(|agent| &agent["id"]).collect();
    assert_eq!(ids, ["sim1"], "nothing else was written down");
    lab.kill();
    lab.up_with(&["--image", "agent:1"]);
    assert_eq!(refused(&lab, "Bad_Name"), bad_name);
    assert_eq!(cluster.get("agents", "Bad_Name"), None);
}
