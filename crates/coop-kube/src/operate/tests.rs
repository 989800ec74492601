//! The operator against an API server, a node and sidecars that are simulated.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use coop_sim::cluster::{Cluster, Sidecars};
use hyper::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::testing::{Fate, client, client_with, reached};

const AGENTS: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents";
const AGENT: &str = "/apis/coop.dev/v1alpha1/namespaces/team/agents/fixer";
const PODS: &str = "/api/v1/namespaces/team/pods";
const LIMIT: Duration = Duration::from_secs(60);

struct Lab {
    cluster: Cluster,
    sidecars: Sidecars,
    reached: Reached,
    _tasks: JoinSet<()>,
}

impl Lab {
    async fn new(cluster: Cluster, client: kube::Client) -> Self {
        let reached = reached(client);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let sidecars = Sidecars::new(&cluster);
        let images = Images { coop: "coop:1".to_owned(), pull_policy: None };
        let mut operator = Operator::new(reached.clone(), "team", images, read_brief);
        operator.world.port = listener.local_addr().expect("an address").port();
        let mut tasks = JoinSet::new();
        tasks.spawn(cluster.clone().run_pods("127.0.0.1"));
        let served = sidecars.clone().serve(listener);
        tasks.spawn(async move { served.await.expect("it is served") });
        tasks.spawn(operator.run());
        Self { cluster, sidecars, reached, _tasks: tasks }
    }

    fn apply(&self, more: Value) {
        let spec = json!({ "driver": "claude", "image": "agent:1" });
        self.cluster.create(AGENTS, json!({ "metadata": { "name": "fixer" }, "spec": spec })).expect("made");
        self.change(more);
    }

    fn change(&self, spec: Value) {
        self.cluster.patch(AGENT, &json!({ "spec": spec })).expect("changed");
    }

    async fn until(&self, state: &str, starts: u64) -> Value {
        let is_so = |agent: &Value| agent["status"]["state"] == state && agent["status"]["starts"] == starts;
        match tokio::time::timeout(LIMIT, self.cluster.until(AGENT, is_so)).await {
            Ok(agent) => agent["status"].clone(),
            Err(_) => panic!("{state} {starts}: {:?} {:?}", self.cluster.get(AGENT), self.cluster.list(PODS)),
        }
    }

    fn pods(&self) -> usize {
        self.cluster.list(PODS).expect("a list").len()
    }
}

/// Stands for the shim's own, which is not known to this crate.
fn read_brief(brief: &Value, driver: &str) -> Result<String, String> {
    let description = brief["description"].as_str().ok_or("brief.description is missing")?;
    Ok(format!("{driver}: {description}"))
}

async fn limited(test: impl Future<Output = ()>) {
    tokio::time::timeout(4 * LIMIT, test).await.expect("in time");
}

#[tokio::test]
async fn a_suspended_agent_ends_and_goes_on_when_it_may() {
    limited(async {
        let cluster = Cluster::default();
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        lab.apply(json!({}));
        lab.until("idle", 1).await;
        lab.change(json!({ "suspend": true }));
        let status = lab.until("suspended", 1).await;
        assert_eq!((lab.pods(), &status["needs"]), (0, &Value::Null));
        lab.change(json!({ "suspend": false }));
        lab.until("idle", 2).await;
        assert_eq!(lab.pods(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_agent_whose_budget_is_used_up_waits_for_more() {
    limited(async {
        let cluster = Cluster::default();
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        lab.apply(json!({ "budget": { "costUsd": 2.0 } }));
        lab.until("idle", 1).await;
        lab.sidecars.say("fixer", |said| (said.state, said.cost_usd) = ("working".to_owned(), Some(1.5)));
        lab.until("working", 1).await;
        lab.sidecars.say("fixer", |said| said.cost_usd = Some(2.0));
        let status = lab.until("suspended", 1).await;
        assert_eq!((lab.pods(), &status["needs"]), (0, &json!("its budget is used up")));
        lab.change(json!({ "budget": { "costUsd": 9.0 } }));
        lab.until("working", 2).await;
    })
    .await;
}

#[tokio::test]
async fn a_change_of_state_costs_one_write() {
    limited(async {
        let cluster = Cluster::default();
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        lab.apply(json!({}));
        lab.until("idle", 1).await;
        let before = cluster.calls();
        for state in ["working", "prompt", "working", "idle"] {
            lab.sidecars.say("fixer", |said| state.clone_into(&mut said.state));
            lab.until(state, 1).await;
        }
        let mut wanted = before;
        *wanted.get_mut("PUT agents/status").expect("some were made") += 4;
        assert_eq!(cluster.calls(), wanted);
    })
    .await;
}

/// Somebody else ends the pod, as a drain does: another follows, and the prompt is not given again.
#[tokio::test]
async fn an_agent_whose_pod_is_ended_goes_on_in_another() {
    limited(async {
        let cluster = Cluster::default();
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        lab.apply(json!({ "prompt": "Fix it." }));
        cluster.until(AGENT, |agent| agent["status"]["prompt"] == "Delivered").await;
        cluster.delete(&format!("{PODS}/agent-fixer")).expect("told to end");
        lab.until("idle", 2).await;
        assert_eq!((lab.pods(), lab.sidecars.said("fixer").messages), (1, vec!["Fix it.".to_owned()]));
    })
    .await;
}

/// What makes no sense is not begun, says why, and is begun when it is mended; a brief is told once, as a prompt is.
#[tokio::test]
async fn a_brief_is_told_once_it_makes_sense() {
    limited(async {
        let cluster = Cluster::default();
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        let spec = json!({ "driver": "claude", "image": "agent:1", "brief": { "role": "coder" } });
        cluster.create(AGENTS, json!({ "metadata": { "name": "fixer" }, "spec": spec })).expect("made");
        let status = lab.until("pending", 0).await;
        let conditions = status["conditions"].as_array().expect("some");
        let valid = conditions.iter().find(|one| one["type"] == "Valid").expect("it is told");
        assert_eq!((&valid["status"], &valid["message"]), (&json!("False"), &json!("brief.description is missing")));
        assert_eq!((&status["needs"], lab.pods()), (&json!("brief.description is missing"), 0));
        lab.change(json!({ "brief": { "role": "coder", "description": "Fix it." } }));
        cluster.until(AGENT, |agent| agent["status"]["prompt"] == "Delivered").await;
        let status = lab.until("idle", 1).await;
        assert!(!status["conditions"].as_array().expect("some").iter().any(|one| one["type"] == "Valid"));
        assert_eq!(lab.sidecars.said("fixer").messages, ["claude: Fix it."]);
        // What runs is not ended for what makes no sense.
        lab.change(json!({ "prompt": "Or this." }));
        let has_both =
            |agent: &Value| agent["status"]["needs"].as_str().is_some_and(|why| why.contains("prompt and a brief"));
        let agent = cluster.until(AGENT, has_both).await;
        assert_eq!((&agent["status"]["starts"], lab.pods()), (&json!(1), 1));
        lab.change(json!({ "prompt": null }));
        cluster.until(AGENT, |agent| agent["status"]["needs"].is_null()).await;
        assert_eq!(lab.sidecars.said("fixer").messages.len(), 1);
    })
    .await;
}

/// The bug this keeps away: what is left of an agent of the same name is taken for the new one's, with a token that others know,
/// and is then deleted from under it.
#[tokio::test]
async fn what_an_earlier_agent_has_left_is_waited_out() {
    limited(async {
        let cluster = Cluster::default();
        let owners = json!([{ "apiVersion": "coop.dev/v1alpha1", "kind": "Agent", "name": "fixer", "uid": "earlier" }]);
        let labels = json!({ "app.kubernetes.io/managed-by": "coop" });
        let metadata = json!({ "name": "agent-fixer", "labels": labels, "ownerReferences": owners });
        let secrets = "/api/v1/namespaces/team/secrets";
        let old = json!({ "metadata": metadata, "stringData": { "token": "old" } });
        let old = cluster.create(secrets, old).expect("made");
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        lab.apply(json!({}));
        let says =
            |agent: &Value| agent["status"]["evidence"]["detail"].as_str().unwrap_or_default().contains("earlier");
        cluster.until(AGENT, says).await;
        assert_eq!(lab.pods(), 0);
        // As the cluster does with what has no owner any more.
        cluster.delete(&format!("{secrets}/agent-fixer")).expect("collected");
        lab.until("idle", 1).await;
        let new = cluster.get(&format!("{secrets}/agent-fixer")).expect("made");
        assert_ne!(new["data"], old["data"]);
    })
    .await;
}

/// The bug this keeps away: a task that panics leaves its agent busy, and nobody looks at it again.
#[tokio::test]
async fn a_panic_while_something_is_done_is_not_the_end() {
    limited(async {
        let cluster = Cluster::default();
        let is_first = AtomicBool::new(true);
        let client = client_with(&cluster, move |request| {
            let makes_pod = request.method() == Method::POST && request.uri().path() == PODS;
            if makes_pod && is_first.swap(false, Ordering::Relaxed) { Fate::Panic } else { Fate::Answer }
        });
        let lab = Lab::new(cluster, client).await;
        lab.apply(json!({}));
        lab.until("idle", 1).await;
    })
    .await;
}

/// The bug this keeps away: an operator that may not see the nodes does nothing for anybody, and looks healthy.
#[tokio::test]
async fn an_operator_that_may_not_see_something_says_so() {
    let cluster = Cluster::default();
    let may_see = Arc::new(AtomicBool::new(false));
    let allowed = may_see.clone();
    let client = client_with(&cluster, move |request| match request.uri().path() {
        "/api/v1/nodes" if !allowed.load(Ordering::Relaxed) => Fate::Refuse(403),
        _ => Fate::Answer,
    });
    let lab = Lab::new(cluster, client).await;
    lab.apply(json!({}));
    let trouble = tokio::time::timeout(LIMIT, lab.reached.troubles.lasting()).await.expect("in time");
    assert!(trouble.text.contains("does not allow it"), "{trouble:?}");
    assert_eq!((lab.reached.trouble(), lab.pods()), (Some(trouble.text), 0));
    may_see.store(true, Ordering::Relaxed);
    lab.until("idle", 1).await;
    assert_eq!(lab.reached.trouble(), None);
}

/// Whoever sets the image of the Deployment need not say it again.
#[tokio::test]
async fn pods_bring_coop_from_the_operators_own_image_unless_another_is_named() {
    limited(async {
        let cluster = Cluster::default();
        let reached = reached(client(&cluster));
        let said = |image: Result<String, OperateError>| image.map_err(|error| error.to_string());
        assert_eq!(said(image(&reached, "team", Some("coop:1".to_owned())).await).as_deref(), Ok("coop:1"));
        let none = said(image(&reached, "team", None).await).expect_err("this is no pod");
        assert!(
            none.starts_with("say with --image which image has coop, for agents' pods to bring it from: "),
            "{none}"
        );
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let containers = json!([{ "name": "operator", "image": "registry.example/coop:2" }]);
        let pod = json!({ "metadata": { "name": host.trim() }, "spec": { "containers": containers } });
        cluster.create(PODS, pod).expect("made");
        assert_eq!(said(image(&reached, "team", None).await).as_deref(), Ok("registry.example/coop:2"));
    })
    .await;
}

/// A second operator waits for the lease and watches nothing: what was in its way is over when that is.
#[tokio::test(start_paused = true)]
async fn what_kept_an_operator_from_its_image_passes() {
    let cluster = Cluster::default();
    let refusals = Arc::new(AtomicU16::new(2));
    let left = refusals.clone();
    let client = client_with(&cluster, move |_| {
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if before.is_ok() { Fate::Refuse(403) } else { Fate::Answer }
    });
    let reached = reached(client);
    let image = image(&reached, "team", None);
    tokio::pin!(image);
    let trouble = tokio::select! {
        trouble = reached.troubles.lasting() => trouble,
        _ = &mut image => panic!("it was refused"),
    };
    assert_eq!(reached.trouble(), Some(trouble.text));
    assert!(image.await.is_err(), "this is no pod");
    assert_eq!(reached.trouble(), None);
}

/// Also the policy of an earlier operator, which knew no egress, becomes today's while the agent works.
#[tokio::test]
async fn another_egress_is_another_policy_at_once() {
    limited(async {
        let cluster = Cluster::default();
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        lab.apply(json!({}));
        lab.until("idle", 1).await;
        let path = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies/agent-fixer";
        let rules = |policy: &Value| policy["spec"]["egress"].as_array().map(Vec::len);
        assert_eq!(cluster.get(path).ok().as_ref().and_then(rules), Some(2), "DNS, and the internet");
        lab.sidecars.say("fixer", |said| "working".clone_into(&mut said.state));
        lab.until("working", 1).await;
        lab.change(json!({ "egress": { "internet": false } }));
        cluster.until(path, |policy| rules(policy) == Some(1)).await;
        let old =
            json!({ "metadata": { "annotations": null }, "spec": { "policyTypes": ["Ingress"], "egress": null } });
        cluster.patch(path, &old).expect("changed");
        let policy = cluster.until(path, |policy| rules(policy) == Some(1)).await;
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        cluster.delete(path).expect("deleted");
        cluster.until(path, |policy| rules(policy) == Some(1)).await;
        assert_eq!(lab.pods(), 1, "the agent is not taken from its work");
    })
    .await;
}

/// The attack: an Agent names the volume of the fleet's store. Whoever may write claims decides which are for agents.
#[tokio::test]
async fn a_claim_is_mounted_once_it_has_the_label() {
    limited(async {
        let cluster = Cluster::default();
        let claims = "/api/v1/namespaces/team/persistentvolumeclaims";
        cluster.create(claims, json!({ "metadata": { "name": "coop-fleet" } })).expect("made");
        let lab = Lab::new(cluster.clone(), client(&cluster)).await;
        let workspace = json!({ "existingClaim": "coop-fleet" });
        let spec = json!({ "driver": "claude", "image": "agent:1", "workspace": workspace });
        cluster.create(AGENTS, json!({ "metadata": { "name": "fixer" }, "spec": spec })).expect("made");
        let status = lab.until("pending", 0).await;
        assert!(
            status["needs"].as_str().is_some_and(|why| why.contains("lacks the label coop.dev/agents")),
            "{status}"
        );
        assert_eq!(lab.pods(), 0);
        let label = json!({ "metadata": { "labels": { "coop.dev/agents": "true" } } });
        cluster.patch(&format!("{claims}/coop-fleet"), &label).expect("labelled");
        lab.until("idle", 1).await;
        let pod = cluster.get(&format!("{PODS}/agent-fixer")).expect("made");
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "coop-fleet");
    })
    .await;
}
