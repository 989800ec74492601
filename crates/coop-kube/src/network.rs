//! An agent's NetworkPolicy: which pods connect to the agent, and where the agent connects to.
//!
//! The operator and fleets reach the sidecar's port, nothing else reaches the pod. The agent reaches DNS, public addresses
//! unless `egress.internet` is false, and what `egress.allow` names. Addresses at which clouds hand out credentials are left
//! out of every block. A cluster whose network heeds no policies enforces none of this.

#[cfg(test)]
mod tests;

use coop_api::lasting_hash;
use ipnet::IpNet;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::manifest::{AGENT, Goes, PORT, metadata};
use crate::names::{is_namespace, is_pod_label};
use crate::resource::{Agent, Destination, Egress};

/// Annotation of a policy: which policy it is. The operator replaces a policy whose hash differs from that of a new one.
pub(crate) const POLICY_HASH: &str = "coop.dev/policy-hash";

/// Addresses that hand out credentials or settings of a node. No policy of an agent allows them.
const METADATA: [&str; 8] = [
    // AWS, Google, Azure, DigitalOcean, OpenStack and others are at 169.254.169.254; containers of AWS at 169.254.170.2.
    "169.254.0.0/16",
    // Alibaba Cloud.
    "100.100.100.200/32",
    // Azure's WireServer.
    "168.63.129.16/32",
    // Oracle Cloud, before it moved to 169.254.169.254.
    "192.0.0.192/32",
    // AWS over IPv6: instances at ::254, pods at ::23.
    "fd00:ec2::/32",
    // Google over IPv6.
    "fd20:ce::/32",
    "fe80::/10",
    // 169.254.0.0/16 through NAT64.
    "64:ff9b::a9fe:0/112",
];

/// IPv4 addresses that are not public: those of clusters, of companies, and of no use to an agent.
const PRIVATE: [&str; 10] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// Public addresses. Of IPv6 only those that are handed out to the public.
const PUBLIC: [&str; 2] = ["0.0.0.0/0", "2000::/3"];

/// Where Kubernetes' own DNS cache listens on each node, if there is one.
const NODE_DNS: &str = "169.254.20.10/32";
const DNS_PORT: u16 = 53;

/// Returns the policy of an agent's network.
pub(crate) fn policy(agent: &Agent) -> Value {
    let named = |name: &str| json!({ "podSelector": { "matchLabels": { "app.kubernetes.io/name": name } } });
    let spec = json!({
        "podSelector": { "matchLabels": { AGENT: agent.name_any() } },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "from": [named("coop-operator"), named("coop-fleet")], "ports": [{ "protocol": "TCP", "port": PORT }] }],
        "egress": egress(&agent.spec.egress),
    });
    let mut metadata = metadata(agent, Goes::WithAgent);
    metadata["annotations"] = json!({ POLICY_HASH: format!("{:016x}", lasting_hash(spec.to_string().as_bytes())) });
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec })
}

fn egress(egress: &Egress) -> Vec<Value> {
    let dns = json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kube-system" } },
        "podSelector": { "matchLabels": { "k8s-app": "kube-dns" } },
    });
    let mut rules = vec![json!({ "to": [dns, { "ipBlock": { "cidr": NODE_DNS } }], "ports": ports(&[DNS_PORT]) })];
    if egress.internet {
        let blocks = PUBLIC.iter().filter_map(|block| Some(block_without(block.parse().ok()?, &PRIVATE)));
        rules.push(json!({ "to": blocks.collect::<Vec<_>>() }));
    }
    rules.extend(egress.allow.iter().filter_map(|to| {
        let peer = peer(to)?;
        Some(if to.ports.is_empty() {
            json!({ "to": [peer] })
        } else {
            json!({ "to": [peer], "ports": ports(&to.ports) })
        })
    }));
    rules
}

/// Returns what a rule says of one destination; nothing of one that [`check`] refuses.
fn peer(to: &Destination) -> Option<Value> {
    if let Some(cidr) = &to.cidr {
        return Some(block_without(cidr.parse().ok()?, &[]));
    }
    let mut peer = json!({});
    if let Some(namespace) = &to.namespace {
        peer["namespaceSelector"] = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    }
    if !to.pods.is_empty() {
        peer["podSelector"] = json!({ "matchLabels": to.pods });
    }
    peer.as_object().is_some_and(|peer| !peer.is_empty()).then_some(peer)
}

/// Returns a block of addresses without those that are never allowed, and without some more. Blocks lie one in the other or
/// apart, and Kubernetes takes only exceptions that lie in the block.
fn block_without(block: IpNet, more: &[&str]) -> Value {
    let without = METADATA.iter().chain(more).filter_map(|other| other.parse::<IpNet>().ok());
    let inside: Vec<String> = without.filter(|other| block.contains(other)).map(|other| other.to_string()).collect();
    match inside.is_empty() {
        true => json!({ "ipBlock": { "cidr": block.to_string() } }),
        false => json!({ "ipBlock": { "cidr": block.to_string(), "except": inside } }),
    }
}

/// Says each port for TCP and for UDP.
fn ports(ports: &[u16]) -> Vec<Value> {
    let each = |port: &u16| ["TCP", "UDP"].map(|protocol| json!({ "protocol": protocol, "port": port }));
    ports.iter().flat_map(each).collect()
}

/// Refuses destinations that no policy could name, or that would hand an agent the credentials of its node.
pub(crate) fn check(egress: &Egress) -> Result<(), String> {
    for (number, to) in egress.allow.iter().enumerate() {
        check_destination(to).map_err(|wrong| format!("egress.allow[{number}]: {wrong}"))?;
    }
    Ok(())
}

/// Refuses one such destination.
pub fn check_destination(to: &Destination) -> Result<(), String> {
    if to.ports.contains(&0) {
        return Err("ports: 0 is no port; leave out ports to allow all of them".to_owned());
    }
    let is_inside = to.namespace.is_some() || !to.pods.is_empty();
    let cidr = match (&to.cidr, is_inside) {
        (Some(cidr), false) => cidr,
        (None, true) => return check_labels(to),
        (Some(_), true) => return Err("it has a cidr, and a namespace or pods: make two entries of it".to_owned()),
        (None, false) => return Err("it names nothing: say a cidr, a namespace or pods".to_owned()),
    };
    let wrong = || format!("cidr: {cidr:?} is not a block of addresses; use one such as 10.1.0.0/16 or 10.1.2.3/32");
    let block: IpNet = cidr.parse().map_err(|_| wrong())?;
    if block.trunc() != block {
        return Err(format!("cidr: {cidr} has bits beyond its prefix; say {}", block.trunc()));
    }
    let mut metadata = METADATA.iter().filter_map(|denied| denied.parse::<IpNet>().ok());
    match metadata.find(|denied| denied.contains(&block)) {
        Some(denied) => Err(format!(
            "cidr: {cidr} is within {denied}, where clouds hand out credentials of nodes: no agent may reach it"
        )),
        None => Ok(()),
    }
}

fn check_labels(to: &Destination) -> Result<(), String> {
    if let Some(namespace) = to.namespace.as_ref().filter(|namespace| !is_namespace(namespace)) {
        return Err(format!("namespace: {namespace:?} cannot be the name of a namespace"));
    }
    match to.pods.iter().find(|(name, value)| !is_pod_label(name, value)) {
        Some((name, value)) => Err(format!("pods: {name}: {value} cannot be a label of a pod")),
        None => Ok(()),
    }
}
