use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;

use super::*;
use crate::resource::AgentSpec;

/// Where clouds hand out credentials of a node or a pod.
const CREDENTIALS: [&str; 9] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
];

fn agent(egress: Egress) -> Agent {
    let mut agent = Agent::new("fixer", AgentSpec { egress, ..AgentSpec::default() });
    agent.metadata.namespace = Some("team".to_owned());
    agent.metadata.uid = Some("uid-1".to_owned());
    agent
}

fn read(policy: &Value) -> NetworkPolicy {
    serde_json::from_value(policy.clone()).expect("a policy")
}

fn to(cidr: &str) -> Destination {
    Destination { cidr: Some(cidr.to_owned()), ..Destination::default() }
}

fn allowing(allow: impl IntoIterator<Item = Destination>) -> Egress {
    Egress { allow: allow.into_iter().collect(), ..Egress::default() }
}

/// Tells whether a policy lets the agent connect to an address outside of the cluster, as Kubernetes reads policies.
fn lets_out(policy: &NetworkPolicy, address: &str, port: u16) -> bool {
    let address: IpAddr = address.parse().expect("an address");
    let holds = |block: &str| block.parse::<IpNet>().expect("a block").contains(&address);
    let is_port = |one: &NetworkPolicyPort| one.port == Some(IntOrString::Int(i32::from(port)));
    let spec = policy.spec.as_ref().expect("a spec");
    assert!(spec.policy_types.as_ref().is_some_and(|types| types.iter().any(|one| one == "Egress")));
    spec.egress.iter().flatten().any(|rule| {
        let blocks = rule.to.as_ref().expect("a rule without `to` is for everything").iter();
        let mut blocks = blocks.filter_map(|peer| peer.ip_block.as_ref());
        rule.ports.as_ref().is_none_or(|ports| ports.iter().any(is_port))
            && blocks.any(|block| holds(&block.cidr) && !block.except.iter().flatten().any(|except| holds(except)))
    })
}

#[test]
fn kubernetes_knows_every_field_of_a_policy() {
    let inside = Destination {
        namespace: Some("models".into()),
        pods: [("app".to_owned(), "proxy".to_owned())].into(),
        ports: vec![8080],
        cidr: None,
    };
    let manifest = policy(&agent(allowing([to("10.1.0.0/16"), inside])));
    assert_eq!(serde_json::to_value(read(&manifest)).expect("JSON"), manifest);
}

#[test]
fn an_agent_reaches_the_internet_and_nothing_private_by_default() {
    let policy = read(&policy(&agent(Egress::default())));
    for public in ["1.1.1.1", "140.82.112.3", "2606:4700::1111"] {
        assert!(lets_out(&policy, public, 443), "{public}");
    }
    // The API server, nodes and pods of usual clusters, and neighbours of other kinds.
    for private in ["10.96.0.1", "10.0.0.7", "172.16.3.4", "192.168.1.1", "100.64.0.1", "127.0.0.1", "fd12::1", "::1"] {
        assert!(!lets_out(&policy, private, 443) && !lets_out(&policy, private, 53), "{private}");
    }
    for address in CREDENTIALS {
        for port in [53, 80, 443] {
            assert!(!lets_out(&policy, address, port), "{address}:{port}");
        }
    }
}

/// Returns the egress rules of an agent's policy, a line each.
fn rules(egress: Egress) -> String {
    let policy = policy(&agent(egress));
    policy["spec"]["egress"].as_array().expect("rules").iter().map(|rule| format!("{rule}\n")).collect()
}

#[test]
fn an_agent_without_the_internet_reaches_dns_alone() {
    insta::assert_snapshot!(rules(Egress { internet: false, allow: Vec::new() }), @r#"{"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}},{"ipBlock":{"cidr":"169.254.20.10/32"}}]}"#);
}

#[test]
fn the_policy_of_an_agent_is_this() {
    let inside = Destination { namespace: Some("models".into()), ports: vec![8080], ..Destination::default() };
    insta::assert_snapshot!(rules(allowing([to("10.0.0.0/8"), to("0.0.0.0/0"), inside])), @r#"
    {"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}},{"ipBlock":{"cidr":"169.254.20.10/32"}}]}
    {"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["169.254.0.0/16","100.100.100.200/32","168.63.129.16/32","192.0.0.192/32","0.0.0.0/8","10.0.0.0/8","100.64.0.0/10","127.0.0.0/8","172.16.0.0/12","192.0.0.0/24","192.168.0.0/16","198.18.0.0/15","224.0.0.0/4","240.0.0.0/4"]}},{"ipBlock":{"cidr":"2000::/3"}}]}
    {"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}
    {"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["169.254.0.0/16","100.100.100.200/32","168.63.129.16/32","192.0.0.192/32"]}}]}
    {"ports":[{"port":8080,"protocol":"TCP"},{"port":8080,"protocol":"UDP"}],"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"models"}}}]}
    "#);
    let policy = policy(&agent(Egress::default()));
    let from = |name: &str| json!({ "podSelector": { "matchLabels": { "app.kubernetes.io/name": name } } });
    let ports = json!([{ "protocol": "TCP", "port": 8080 }]);
    assert_eq!(
        policy["spec"]["ingress"],
        json!([{ "from": [from("coop-operator"), from("coop-fleet")], "ports": ports }])
    );
    assert_eq!(policy["spec"]["podSelector"], json!({ "matchLabels": { "coop.dev/agent": "fixer" } }));
}

#[test]
fn a_destination_that_hands_out_credentials_is_refused() {
    let refused = |cidr: &str| check(&allowing([to("10.0.0.0/8"), to(cidr)])).expect_err("refused");
    assert_eq!(
        refused("169.254.169.254/32"),
        "egress.allow[1]: cidr: 169.254.169.254/32 is within 169.254.0.0/16, where clouds hand out credentials of nodes: no agent may reach it"
    );
    for cidr in ["169.254.0.0/16", "169.254.128.0/17", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"] {
        assert!(refused(cidr).contains("hand out credentials"), "{cidr}");
    }
    for cidr in ["fd00:ec2::254/128", "fd20:ce::254/128", "fe80::/10", "64:ff9b::a9fe:a9fe/128"] {
        assert!(refused(cidr).contains("hand out credentials"), "{cidr}");
    }
}

#[test]
fn a_destination_that_no_policy_can_name_is_refused() {
    let refused = |to: Destination| check_destination(&to).expect_err("refused");
    assert!(refused(to("10.1.2.3")).starts_with("cidr: \"10.1.2.3\" is not a block"));
    assert_eq!(refused(to("10.1.2.3/16")), "cidr: 10.1.2.3/16 has bits beyond its prefix; say 10.1.0.0/16");
    assert!(refused(Destination::default()).starts_with("it names nothing"));
    assert!(refused(Destination { namespace: Some("a".into()), ..to("10.0.0.0/8") }).contains("make two entries"));
    assert!(refused(Destination { ports: vec![0], ..to("10.0.0.0/8") }).starts_with("ports: 0"));
    let inside = |namespace: &str, label: &str| Destination {
        namespace: Some(namespace.to_owned()),
        pods: [("app".to_owned(), label.to_owned())].into(),
        ..Destination::default()
    };
    assert_eq!(check_destination(&inside("models", "proxy")), Ok(()));
    assert!(refused(inside("Models", "proxy")).starts_with("namespace: "));
    assert!(refused(inside("models", "a b")).starts_with("pods: "));
}

/// One list of such addresses, also where no code writes the policy.
#[test]
fn the_policies_in_deploy_leave_out_the_same_addresses() {
    let files = [
        include_str!("../../../../deploy/kubernetes/network.yaml"),
        include_str!("../../../../deploy/kubernetes/fleet/network.yaml"),
    ];
    for (file, denied) in files.iter().flat_map(|file| METADATA.map(|denied| (file, denied))) {
        assert!(file.contains(denied), "{denied} is missing in {file}");
    }
}

fn block() -> impl Strategy<Value = IpNet> {
    let near = proptest::sample::select(CREDENTIALS.map(|one| one.parse::<IpAddr>().expect("an address")).to_vec());
    let address = prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from), near];
    (address, any::<u8>()).prop_map(|(address, length)| {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        IpNet::new(address, length % (longest + 1)).expect("a block").trunc()
    })
}

proptest! {
    /// Whatever is allowed: a policy lets nobody at credentials, and Kubernetes takes it, for which each exception has to lie in
    /// its block without being all of it.
    #[test]
    fn no_allowed_block_leads_to_credentials(blocks in prop::collection::vec(block(), 0..6), internet: bool) {
        let allow = blocks.iter().map(|block| to(&block.to_string()));
        let egress = Egress { internet, allow: allow.filter(|to| check_destination(to).is_ok()).collect() };
        let policy = read(&policy(&agent(egress.clone())));
        for address in CREDENTIALS {
            prop_assert!(!lets_out(&policy, address, 80), "{address}: {egress:?}");
        }
        let rules = policy.spec.expect("a spec").egress.expect("rules");
        for block in rules.into_iter().flat_map(|rule| rule.to.unwrap_or_default()).filter_map(|peer| peer.ip_block) {
            let all: IpNet = block.cidr.parse().expect("a block");
            for except in block.except.into_iter().flatten() {
                let except: IpNet = except.parse().expect("a block");
                prop_assert!(all.contains(&except) && all != except, "{all} {except}");
            }
        }
    }
}
