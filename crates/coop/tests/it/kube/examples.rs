//! The examples without an operator, seed 003's sidecar and standalone, on the cluster.

use serde_json::{Value, json};

use super::ROOT;
use super::lab::{Lab, NAMESPACE, limit};

const IMAGE: &str = concat!("localhost/coop:", env!("CARGO_PKG_VERSION"));
/// What stands in their Secrets, for people to replace.
const TOKEN: &str = "replace-me";

/// Their pods, each with a name that it answers to.
const PODS: [(&str, &str); 2] = [("standalone-0", "standalone:8080"), ("my-agent", "127.0.0.1")];

/// Applies them; what else is tested meanwhile does not wait for them.
pub(super) fn apply(lab: &Lab) {
    // As it is: its image is coop's own.
    lab.claimed("data-standalone-0");
    lab.apply(&read(lab, "standalone"));
    // Its agent's image is somebody's that is not here. The simulator takes its place, in an image that has coop by chance and does
    // not use it: the program is the one that the init container has brought.
    let mut sidecar = read(lab, "sidecar");
    let pod = sidecar["items"].as_array_mut().and_then(|all| all.iter_mut().find(|one| one["kind"] == "Pod"));
    let agent = &mut pod.expect("a pod")["spec"]["containers"][0];
    agent["image"] = json!(IMAGE);
    let args = agent["args"].as_array_mut().expect("words");
    assert_eq!(args.pop(), Some(json!("claude")));
    args.extend(["/usr/local/bin/coop", "sim", "claude"].map(Value::from));
    lab.apply(&sidecar);
}

/// Sees that they run and answer to nobody without their token.
pub(super) fn run(lab: &Lab) {
    for (pod, host) in PODS {
        lab.until_so(&format!("{pod} is there"), || lab.try_kubectl(&["get", "pod", "-n", NAMESPACE, pod]).0 == 0);
        lab.kubectl(&["wait", "-n", NAMESPACE, "--for=condition=Ready", &format!("pod/{pod}"), &limit()]);
        let found = lab.json(&["get", "pod", pod]);
        let url = format!("http://{}:8080/api/v1/agent", found["status"]["podIP"].as_str().expect("an address"));
        let ask = |token: &str| {
            lab.ask("GET", &url, &[format!("Host: {host}"), format!("Authorization: Bearer {token}")], None)
        };
        assert_eq!(ask("guess").0, 401, "{pod}");
        lab.until_so(&format!("{pod} is idle"), || ask(TOKEN).1["name"] == "idle");
    }
    for name in ["standalone", "sidecar"] {
        lab.kubectl(&["delete", "-n", NAMESPACE, "-f", &path(name), "--wait=false"]);
    }
}

fn path(name: &str) -> String {
    format!("{ROOT}/deploy/kubernetes/examples/{name}.yaml")
}

/// Reads an example's manifests, as a list.
fn read(lab: &Lab, name: &str) -> Value {
    let text = lab.kubectl(&["create", "--dry-run=client", "-n", NAMESPACE, "-f", &path(name), "-o", "json"]);
    let items: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().map(|one| one.expect("JSON")).collect();
    match items.as_slice() {
        [list] if list["kind"] == "List" => list.clone(),
        _ => json!({ "apiVersion": "v1", "kind": "List", "items": items }),
    }
}
