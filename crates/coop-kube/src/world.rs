//! What the watches have told: everything the operator knows of the cluster.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

use crate::manifest::{AGENT, FOR_AGENTS, TOKEN, child};
use crate::network::{POLICY_HASH, policy};
use crate::plan::{ExistingClaim, NodeFate, Part};
use crate::resource::Agent;
use crate::sidecar::Sidecar;

/// The taint that says that a node is down for sure.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// How many objects that are gone are remembered: more than can go while one answer is on its way.
const GONE: usize = 1024;

/// Objects of one kind, by name.
#[derive(Debug)]
pub(crate) struct Known<K> {
    objects: BTreeMap<String, K>,
    /// What a list has told so far that is under way.
    listed: BTreeMap<String, K>,
    /// What we have written since that list was begun. The list may be older.
    noted: BTreeSet<String>,
    /// The objects that went last, by their uids. What we are answered may come after that.
    gone: VecDeque<Option<String>>,
    /// Whether there was ever a whole list.
    is_whole: bool,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        let (objects, listed) = (BTreeMap::new(), BTreeMap::new());
        Self { objects, listed, noted: BTreeSet::new(), gone: VecDeque::new(), is_whole: false }
    }
}

impl<K: Resource> Known<K> {
    pub(crate) fn get(&self, name: &str) -> Option<&K> {
        self.objects.get(name)
    }

    /// Tells whether there was ever a whole list.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    #[cfg(test)]
    fn names(&self) -> impl Iterator<Item = &String> {
        self.objects.keys()
    }

    /// Notes what a watch tells, and returns which objects it is about.
    pub(crate) fn hear(&mut self, event: Event<K>) -> Vec<String> {
        match event {
            Event::Apply(object) => vec![self.take(object)],
            Event::Delete(object) => {
                let name = object.name_any();
                // Another of that name may be there already.
                if self.objects.get(&name).is_some_and(|known| known.uid() == object.uid()) {
                    self.objects.remove(&name);
                }
                self.gone.push_back(object.uid());
                if self.gone.len() > GONE {
                    self.gone.pop_front();
                }
                vec![name]
            }
            Event::Init => {
                self.listed.clear();
                self.noted.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(object.name_any(), object);
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let mut before = std::mem::take(&mut self.objects);
                let noted = std::mem::take(&mut self.noted);
                self.gone.clear();
                for (name, object) in listed {
                    // The list is what there is, whatever the numbers: in a cluster that was restored they begin anew. Only
                    // what we wrote while it was made can be later.
                    let known = before.get(&name).filter(|known| known.uid() == object.uid());
                    let is_later = known.is_some_and(|known| version(known) > version(&object));
                    let is_later = is_later && noted.contains(&name);
                    let object = if is_later { before.remove(&name).unwrap_or(object) } else { object };
                    self.objects.insert(name, object);
                }
                self.is_whole = true;
                let gone = before.into_keys().filter(|name| !self.objects.contains_key(name)).collect::<Vec<_>>();
                self.objects.keys().cloned().chain(gone).collect()
            }
        }
    }

    /// Notes what we were answered when we wrote, which comes by another way than what the watch tells.
    pub(crate) fn note(&mut self, object: K) -> String {
        let name = object.name_any();
        if self.gone.contains(&object.uid()) {
            return name;
        }
        self.noted.insert(name);
        self.take(object)
    }

    /// Takes an object, unless a later version of it is known.
    fn take(&mut self, object: K) -> String {
        let name = object.name_any();
        let known = self.objects.get(&name).filter(|known| known.uid() == object.uid());
        if known.is_none_or(|known| version(known) <= version(&object)) {
            self.objects.insert(name.clone(), object);
        }
        name
    }
}

/// Versions of objects of one kind can be compared: they are numbers that grow. Kubernetes promises that since 1.35 (KEP 5504); before
/// it was so, for they are etcd's. What is no number is taken as it comes.
fn version(object: &impl Resource) -> u128 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Tells whether something was made for this very agent, and for no earlier one of its name.
pub(crate) fn is_owned(object: &impl Resource, agent: &Agent) -> bool {
    let owners = object.meta().owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == agent.metadata.uid.as_ref())
}

/// Tells whether an agent has what is called after it.
pub(crate) fn part<K: Resource>(known: &Known<K>, agent: &Agent) -> Part {
    match known.get(&child(&agent.name_any())) {
        None => Part::Missing,
        Some(object) if object.meta().deletion_timestamp.is_some() => Part::Left,
        Some(object) if is_owned(object, agent) => Part::Its,
        Some(object) if object.owner_references().is_empty() => Part::Taken,
        Some(_) => Part::Left,
    }
}

/// The same of a claim: one that is nobody's was kept for it, or made for it by whoever has the volume.
pub(crate) fn claim_part(known: &Known<PersistentVolumeClaim>, agent: &Agent) -> Part {
    match part(known, agent) {
        Part::Taken => Part::Its,
        part => part,
    }
}

/// The same of a policy: what it says may be of an earlier resource, or of an earlier operator.
pub(crate) fn policy_part(known: &Known<NetworkPolicy>, agent: &Agent) -> Part {
    let now = policy(agent);
    let is_now = |known: &NetworkPolicy| {
        known.annotations().get(POLICY_HASH).map(String::as_str) == now["metadata"]["annotations"][POLICY_HASH].as_str()
    };
    match part(known, agent) {
        Part::Its if !known.get(&child(&agent.name_any())).is_some_and(is_now) => Part::Outdated,
        part => part,
    }
}

/// Returns what is known of the claim that an agent names.
pub(crate) fn existing_claim(known: &Known<PersistentVolumeClaim>, agent: &Agent) -> ExistingClaim {
    let Some(name) = &agent.spec.workspace.existing_claim else { return ExistingClaim::Unnamed };
    let (label, value) = FOR_AGENTS;
    match known.get(name) {
        None => ExistingClaim::Missing,
        Some(claim) if claim.labels().get(label).is_some_and(|is| is == value) => ExistingClaim::Allowed,
        Some(_) => ExistingClaim::Unlabelled,
    }
}

/// Everything.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) agents: Known<Agent>,
    pub(crate) pods: Known<Pod>,
    pub(crate) secrets: Known<Secret>,
    pub(crate) policies: Known<NetworkPolicy>,
    pub(crate) claims: Known<PersistentVolumeClaim>,
    nodes: Known<Node>,
    /// Nodes that were heard to go.
    gone: BTreeSet<String>,
    /// The sidecars' port.
    pub(crate) port: u16,
}

impl World {
    /// Returns a world of which nothing is known yet but the sidecars' port.
    pub(crate) fn with_port(port: u16) -> Self {
        Self { port, ..Self::default() }
    }

    /// Tells whether every watch has told everything once. Before that nothing may be concluded from what is not there.
    pub(crate) fn is_whole(&self) -> bool {
        self.agents.is_whole
            && self.pods.is_whole
            && self.secrets.is_whole
            && self.policies.is_whole
            && self.claims.is_whole
            && self.nodes.is_whole
    }

    pub(crate) fn pod(&self, agent: &str) -> Option<&Pod> {
        self.pods.get(&child(agent))
    }

    /// Returns what has become of the node that a pod is on.
    pub(crate) fn node_of(&self, pod: &Pod) -> NodeFate {
        let Some(name) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
            return NodeFate::Unassigned;
        };
        self.node(name)
    }

    /// Returns what has become of a node. One that was never heard of is not gone: the watch of pods may be ahead of that
    /// of nodes, and what runs there runs.
    pub(crate) fn node(&self, name: &str) -> NodeFate {
        match self.nodes.get(name) {
            Some(node) => fate(node),
            None if self.gone.contains(name) => NodeFate::Gone,
            None => NodeFate::Silent,
        }
    }

    /// Notes what the watch of nodes tells, and returns which it is about.
    pub(crate) fn hear_of_nodes(&mut self, event: Event<Node>) -> Vec<String> {
        let about = self.nodes.hear(event);
        for name in &about {
            match self.nodes.get(name) {
                Some(_) => drop(self.gone.remove(name)),
                None => drop(self.gone.insert(name.clone())),
            }
        }
        about
    }

    /// Returns the agents that have a pod on a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<String> {
        let is_there = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node));
        self.pods.objects.values().filter(is_there).filter_map(|pod| pod.labels().get(AGENT).cloned()).collect()
    }

    /// Returns the agents that claims are about: those called after them, and those that name them.
    pub(crate) fn with_claims(&self, claims: &[String]) -> Vec<String> {
        let names =
            |agent: &&Agent| agent.spec.workspace.existing_claim.as_ref().is_some_and(|name| claims.contains(name));
        let own = claims.iter().filter_map(|claim| claim.strip_prefix("agent-").map(str::to_owned));
        own.chain(self.agents.objects.values().filter(names).map(ResourceExt::name_any)).collect()
    }

    /// Returns the way to an agent's sidecar, if its pod runs.
    pub(crate) fn sidecar(&self, agent: &Agent) -> Option<Sidecar> {
        let name = agent.name_any();
        let pod = self.pod(&name).filter(|pod| is_owned(*pod, agent))?;
        let status = pod.status.as_ref()?;
        if status.phase.as_deref() != Some("Running") {
            return None;
        }
        let token = &self.secrets.get(&child(&name))?.data.as_ref()?.get(TOKEN)?.0;
        let ip = status.pod_ip.as_deref().filter(|ip| !ip.is_empty())?;
        let port = self.port;
        let address = if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
        Some(Sidecar { pod: pod.uid()?, address, token: String::from_utf8(token.clone()).ok()? })
    }
}

fn fate(node: &Node) -> NodeFate {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let is_ready = conditions.filter(|one| one.type_ == "Ready").any(|one| one.status == "True");
    let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref()).flatten();
    let is_down = taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE);
    match (is_ready, is_down) {
        (true, _) => NodeFate::Fine,
        (false, true) => NodeFate::Down,
        (false, false) => NodeFate::Silent,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::MANAGED;

    fn pod(name: &str, uid: &str, version: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": uid, "resourceVersion": version } }))
            .expect("a pod")
    }

    #[test]
    fn what_comes_late_does_not_undo_what_is_known() {
        let mut known = Known::default();
        known.note(pod("a", "1", "12"));
        known.hear(Event::Apply(pod("a", "1", "9")));
        assert_eq!(known.get("a").and_then(Pod::resource_version).as_deref(), Some("12"));
        known.hear(Event::Delete(pod("a", "0", "5")));
        assert!(known.get("a").is_some(), "the one that is gone is another");
        known.hear(Event::Apply(pod("a", "2", "3")));
        assert_eq!(known.get("a").and_then(Pod::uid).as_deref(), Some("2"), "another of that name");
    }

    /// In a cluster that was restored from a backup the numbers are smaller, and the same objects have them.
    #[test]
    fn a_list_is_right_also_if_its_numbers_are_smaller() {
        let of_a = |known: &Known<Pod>| known.get("a").and_then(Pod::resource_version);
        let mut known = Known::default();
        known.hear(Event::Apply(pod("a", "1", "50")));
        for event in [Event::Init, Event::InitApply(pod("a", "1", "7")), Event::InitDone] {
            known.hear(event);
        }
        assert_eq!(of_a(&known).as_deref(), Some("7"));
        known.hear(Event::Init);
        known.hear(Event::InitApply(pod("a", "1", "7")));
        known.note(pod("a", "1", "9"));
        known.hear(Event::InitDone);
        assert_eq!(of_a(&known).as_deref(), Some("9"), "what we wrote meanwhile is not unsaid");
    }

    /// The bug this keeps away: an answer that comes after the end makes an object that nobody ever removes.
    #[test]
    fn what_is_gone_does_not_come_back_by_a_late_answer() {
        let mut known = Known::default();
        known.hear(Event::Apply(pod("a", "1", "5")));
        known.hear(Event::Delete(pod("a", "1", "8")));
        known.note(pod("a", "1", "7"));
        assert!(known.get("a").is_none());
        known.note(pod("a", "2", "9"));
        assert_eq!(known.get("a").and_then(Pod::uid).as_deref(), Some("2"), "another of that name is there");
    }

    #[test]
    fn not_all_that_ever_went_is_remembered() {
        let mut known = Known::default();
        for number in 0..3 * GONE {
            known.hear(Event::Delete(pod("a", &number.to_string(), "8")));
        }
        assert_eq!(known.gone.len(), GONE);
        known.note(pod("a", &(3 * GONE - 1).to_string(), "7"));
        assert!(known.get("a").is_none(), "the last one is");
    }

    /// The bug this keeps away: a Secret whose token others know, or a policy that lets everybody in, is taken for the agent's own
    /// because nobody owns it.
    #[test]
    fn only_a_claim_may_be_nobodys() {
        let mut agent = Agent::new("a", crate::resource::AgentSpec::default());
        agent.metadata.uid = Some("u1".into());
        let metadata = |owners: serde_json::Value| json!({ "metadata": { "name": "agent-a", "uid": "x", "ownerReferences": owners } });
        let owner =
            |uid: &str| json!([{ "apiVersion": "coop.dev/v1alpha1", "kind": "Agent", "name": "a", "uid": uid }]);
        let secret = |owners| {
            let mut known = Known::<Secret>::default();
            known.note(serde_json::from_value(metadata(owners)).expect("a Secret"));
            part(&known, &agent)
        };
        let found = [json!([]), owner("u1"), owner("earlier")].map(secret);
        assert_eq!(found, [Part::Taken, Part::Its, Part::Left]);
        let claim = |owners| {
            let mut known = Known::default();
            known.note(serde_json::from_value(metadata(owners)).expect("a claim"));
            claim_part(&known, &agent)
        };
        let found = [json!([]), owner("u1"), owner("earlier")].map(claim);
        assert_eq!(found, [Part::Its, Part::Its, Part::Left]);
    }

    #[test]
    fn only_a_claim_with_the_label_is_one_for_agents() {
        let found = |name: Option<&str>, labels: serde_json::Value| {
            let mut agent = Agent::new("a", crate::resource::AgentSpec::default());
            agent.spec.workspace.existing_claim = name.map(str::to_owned);
            let mut known = Known::default();
            let claim = json!({ "metadata": { "name": "data", "uid": "x", "labels": labels } });
            known.note(serde_json::from_value(claim).expect("a claim"));
            existing_claim(&known, &agent)
        };
        let marked = || json!({ "coop.dev/agents": "true" });
        assert_eq!(found(None, json!({})), ExistingClaim::Unnamed);
        assert_eq!(found(Some("other"), marked()), ExistingClaim::Missing);
        assert_eq!(found(Some("data"), marked()), ExistingClaim::Allowed);
        // No label, one that says no, and those that coop's own claims have.
        for labels in [json!({}), json!({ "coop.dev/agents": "false" }), json!({ AGENT: "b", MANAGED.0: MANAGED.1 })] {
            assert_eq!(found(Some("data"), labels), ExistingClaim::Unlabelled);
        }
    }

    #[test]
    fn a_policy_of_an_earlier_resource_is_outdated() {
        let mut agent = Agent::new("a", crate::resource::AgentSpec::default());
        agent.metadata.uid = Some("u1".into());
        let mut made = policy(&agent);
        let found = |agent: &Agent, made: &serde_json::Value| {
            let mut known = Known::default();
            known.note(serde_json::from_value(made.clone()).expect("a policy"));
            policy_part(&known, agent)
        };
        assert_eq!(found(&agent, &made), Part::Its);
        agent.spec.egress.internet = false;
        assert_eq!(found(&agent, &made), Part::Outdated);
        made["metadata"]["annotations"] = json!({});
        assert_eq!(found(&agent, &made), Part::Outdated, "of an operator that knew no egress");
        made["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(found(&agent, &made), Part::Taken);
    }

    /// After a watch has expired (410) everything is listed anew; what is not in the list is gone.
    #[test]
    fn a_new_list_is_all_there_is() {
        let mut known = Known::default();
        known.note(pod("a", "1", "1"));
        known.note(pod("b", "2", "2"));
        known.hear(Event::Init);
        known.hear(Event::InitApply(pod("b", "2", "7")));
        assert_eq!(known.names().count(), 2, "nothing is forgotten before the list is whole");
        assert_eq!(known.hear(Event::InitDone), ["b", "a"]);
        assert_eq!(known.names().collect::<Vec<_>>(), ["b"]);
    }

    /// The bug this keeps away: a pod on a node that is new is taken for lost, and the agent runs twice.
    #[test]
    fn a_node_is_gone_only_when_it_was_heard_to_go() {
        let node = |name: &str| -> Node {
            let conditions = json!([{ "type": "Ready", "status": "True" }]);
            let metadata = json!({ "name": name, "uid": name });
            serde_json::from_value(json!({ "metadata": metadata, "status": { "conditions": conditions } }))
                .expect("a node")
        };
        let mut world = World::default();
        for event in [Event::Init, Event::InitApply(node("a")), Event::InitApply(node("b")), Event::InitDone] {
            world.hear_of_nodes(event);
        }
        assert_eq!(["a", "new"].map(|name| world.node(name)), [NodeFate::Fine, NodeFate::Silent]);
        world.hear_of_nodes(Event::Delete(node("a")));
        for event in [Event::Init, Event::InitDone] {
            world.hear_of_nodes(event);
        }
        assert_eq!(["a", "b", "new"].map(|name| world.node(name)), [NodeFate::Gone, NodeFate::Gone, NodeFate::Silent]);
        world.hear_of_nodes(Event::Apply(node("a")));
        assert_eq!(world.node("a"), NodeFate::Fine, "it is back");
    }

    #[test]
    fn a_node_is_down_only_when_it_is_not_ready_and_somebody_says_so() {
        let node = |ready: &str, taints: serde_json::Value| -> Node {
            let conditions = json!([{ "type": "Ready", "status": ready }]);
            serde_json::from_value(json!({ "spec": { "taints": taints }, "status": { "conditions": conditions } }))
                .expect("a node")
        };
        let down = json!([{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }]);
        let silent = json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }]);
        assert_eq!(fate(&node("True", json!([]))), NodeFate::Fine);
        assert_eq!(fate(&node("True", down.clone())), NodeFate::Fine, "it answers, so the taint is wrong");
        assert_eq!(fate(&node("Unknown", silent)), NodeFate::Silent);
        assert_eq!(fate(&node("Unknown", down)), NodeFate::Down);
    }
}
