//! `coop operator` finds its cluster.

use std::fs;
use std::process::{Child, Stdio};

use coop_sim::cluster::Cluster;
use serde_json::json;
use tokio::net::TcpListener;

use crate::tool::{LIMIT, coop, run};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/team/leases/coop-operator";

/// Ended with the test.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As a fleet does: by this file, and by a context of it that is not the current one.
#[tokio::test]
async fn the_file_and_the_context_say_which_cluster_it_is() {
    let cluster = Cluster::default();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let served = tokio::spawn(cluster.clone().serve(listener));
    let home = tempfile::tempdir().expect("a folder");
    let context =
        |name: &str| json!({ "name": name, "context": { "cluster": name, "user": "own", "namespace": "team" } });
    let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "gone",
        "clusters": [{ "name": "own", "cluster": { "server": server } },
                     { "name": "gone", "cluster": { "server": "http://127.0.0.1:1" } }],
        "users": [{ "name": "own", "user": {} }], "contexts": [context("own"), context("gone")] });
    let file = home.path().join("clusters.json");
    fs::write(&file, config.to_string()).expect("written");
    let operator = |more: &[&str]| {
        let mut command = coop(home.path());
        command.args(["operator", "--log-level", "off", "--context", "own", "--kubeconfig"]).arg(&file).args(more);
        command
    };
    let mut without_image = operator(&[]);
    let (code, _, said) = tokio::task::spawn_blocking(move || run(&mut without_image)).await.expect("it ends");
    let wanted = "coop: say with --image which image has coop, for agents' pods to bring it from: this is not the pod ";
    assert!(code == 1 && said.starts_with(wanted) && said.matches("this is not").count() == 1, "{said}");
    let mut command = operator(&["--image", "coop:1"]);
    let _operator = Operator(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
    tokio::time::timeout(LIMIT, cluster.until(LEASE, |_| true)).await.expect("it has the lease");
    served.abort();
}

#[test]
fn a_cluster_that_is_not_in_the_file_is_told_of() {
    let home = tempfile::tempdir().expect("a folder");
    let operator = ["operator", "--image", "coop:1", "--log-level", "off", "--kubeconfig"];
    let (code, _, said) = run(coop(home.path()).args(operator).arg("missing.json"));
    assert!(code == 1 && said.contains("missing.json"), "{said}");
    let config = json!({ "apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [] });
    fs::write(home.path().join("clusters.json"), config.to_string()).expect("written");
    let (code, _, said) = run(coop(home.path()).args(operator).args(["clusters.json", "--context", "nobody"]));
    assert!(code == 1 && said.contains("nobody"), "{said}");
}
