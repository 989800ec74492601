//! Agents as resources of a cluster.

mod cluster;
mod examples;
pub(crate) mod fleet;
mod inside;
mod lab;
mod load;
pub(crate) mod nodes;

use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The image's name stands in several files, because Kustomize cannot put it into a variable.
#[test]
fn the_manifests_name_one_image() {
    let folder = Path::new(ROOT).join("deploy/kubernetes");
    let wanted = format!("localhost/coop:{}", env!("CARGO_PKG_VERSION"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
    for name in [
        "operator.yaml",
        "fleet/fleet.yaml",
        "examples/agent.yaml",
        "examples/sidecar.yaml",
        "examples/standalone.yaml",
    ] {
        let text = read(name);
        let named: Vec<_> = text.match_indices("localhost/coop:").map(|(at, _)| &text[at..]).collect();
        assert!(!named.is_empty() && named.iter().all(|rest| rest.starts_with(&wanted)), "{name}");
    }
    assert!(read("kustomization.yaml").contains(&format!("newTag: {}\n", env!("CARGO_PKG_VERSION"))));
}
