//! Agents as resources of a cluster.

mod cluster;
mod examples;
pub(crate) mod fleet;
mod inside;
mod lab;
mod load;
pub(crate) mod nodes;
mod operator;

use std::path::Path;
use std::time::SystemTime;

use coop_kube::{Agent, ExistingClaim, Images, NodeFate, Part, Seen, Step, plan};
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where Kustomize sets it, it stands nowhere else.
#[test]
fn the_manifests_name_one_image() {
    let folder = Path::new(ROOT).join("deploy/kubernetes");
    let wanted = format!("localhost/coop:{}", env!("CARGO_PKG_VERSION"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
    for name in ["examples/agent.yaml", "examples/sidecar.yaml", "examples/standalone.yaml"] {
        let text = read(name);
        let named: Vec<_> = text.match_indices("localhost/coop:").map(|(at, _)| &text[at..]).collect();
        assert!(!named.is_empty() && named.iter().all(|rest| rest.starts_with(&wanted)), "{name}");
    }
    for name in ["operator.yaml", "fleet/fleet.yaml"] {
        assert!(!read(name).contains("localhost/"), "{name}");
    }
    for name in ["kustomization.yaml", "fleet/kustomization.yaml", "../overlays/second-namespace/kustomization.yaml"] {
        assert!(read(name).contains(&format!("newTag: {}\n", env!("CARGO_PKG_VERSION"))), "{name}");
    }
}

/// The attack: any pod of the cluster asks the fleet or the operator, or has them ask the cloud for credentials.
#[test]
fn the_operator_and_the_fleet_have_a_policy_each() {
    let folder = Path::new(ROOT).join("deploy/kubernetes");
    for (file, list, name, callers) in [
        ("network.yaml", "kustomization.yaml", "coop-operator", 0),
        ("fleet/network.yaml", "fleet/kustomization.yaml", "coop-fleet", 1),
    ] {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
        assert!(read(list).contains("  - network.yaml\n"), "{list}");
        let policy: Value = serde_saphyr::from_str(&read(file)).expect("YAML");
        let spec = &policy["spec"];
        assert_eq!(spec["podSelector"]["matchLabels"]["app.kubernetes.io/name"], name);
        assert_eq!(spec["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
        assert_eq!(spec["ingress"].as_array().map(Vec::len), Some(callers), "{name}");
        for rule in spec["egress"].as_array().expect("rules") {
            let to = rule["to"].as_array().expect("a rule without `to` is for everything");
            assert!(!to.is_empty() && rule["ports"].is_array(), "{name}: {rule}");
            for block in to
                .iter()
                .map(|peer| &peer["ipBlock"])
                .filter(|block| block["cidr"].as_str().is_some_and(|cidr| cidr.ends_with("/0")))
            {
                let except = block["except"].as_array().cloned().unwrap_or_default();
                let denied = if block["cidr"] == "::/0" { "fd00:ec2::/32" } else { "169.254.0.0/16" };
                assert!(except.contains(&denied.into()), "{name}: {block}");
            }
        }
    }
}

/// Nothing stands in an example that is not read, and the operator has nothing against it.
#[test]
fn the_examples_of_agents_make_sense() {
    for name in ["agent", "claude"] {
        let path = Path::new(ROOT).join(format!("deploy/kubernetes/examples/{name}.yaml"));
        let text = std::fs::read_to_string(path).expect("it is there");
        let mut written: Value = serde_saphyr::from_str(&text).expect("YAML");
        let cost = &mut written["spec"]["budget"]["costUsd"];
        *cost = cost.as_f64().into();
        let mut agent: Agent = serde_saphyr::from_str(&text).expect("an Agent");
        let read = serde_json::to_value(&agent).expect("JSON");
        let mut both = read.clone();
        coop_drivers::merge(&mut both, &written);
        assert_eq!(both, read, "{name}");
        agent.metadata.finalizers = Some(vec!["coop.dev/stop".to_owned()]);
        let images = Images { coop: "coop:1".to_owned(), pull_policy: None };
        let seen = Seen {
            pod: None,
            node: NodeFate::Unassigned,
            heard: None,
            brief: None,
            secret: Part::Its,
            policy: Part::Its,
            claim: Part::Missing,
            existing_claim: ExistingClaim::Unnamed,
            now: SystemTime::now(),
        };
        let plan = plan(&agent, &images, &seen);
        let is_to_run = plan.steps.iter().any(|step| matches!(step, Step::MakePod(_)));
        assert!(is_to_run && plan.status.needs.is_none(), "{name}: {plan:?}");
    }
}
