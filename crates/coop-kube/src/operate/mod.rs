//! The operator: one task knows everything and decides, others do it.

mod perform;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use futures_util::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use self::perform::{Done, Performer};
use crate::lead::Candidate;
use crate::manifest::{Images, MANAGED, PORT};
use crate::own::{OwnImageError, own_image};
use crate::plan::{NodeFate, Plan, Seen, plan};
use crate::resource::Agent;
use crate::sidecar::Heard;
use crate::trouble::told;
use crate::way::Reached;
use crate::world::{World, claim_part, existing_claim, part, policy_part};

/// An agent's status is written this often at most, unless something is done about the agent too.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);
/// The pauses after something could not be done.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);
/// The pause before an API server that is away is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(2);
const PODS: &str = "pods";
/// How much followers may tell before they wait.
const HEARD: usize = 256;

/// Reads an agent's brief for its driver: returns its first message, or in one sentence why it cannot be used. Briefs are of the
/// shim's protocol, which is not known here.
pub type ReadBrief = fn(&Value, &str) -> Result<String, String>;

/// How the operator is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace it sees to; without it the one of its own service account or of the configuration's context.
    pub namespace: Option<String>,
    /// The image with coop that pods bring it from; without it that of the pod that this runs in.
    pub image: Option<String>,
    /// When that is fetched, as Kubernetes has it.
    pub pull_policy: Option<String>,
    /// The name of the Lease.
    pub lease: String,
    /// Who this is, to other operators.
    pub identity: String,
    /// Who reads briefs.
    pub read_brief: ReadBrief,
}

/// Why the operator has ended.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// Nobody has said which image has coop.
    #[error("say with --image which image has coop, for agents' pods to bring it from: {0}")]
    Image(OwnImageError),
    /// Another is the one now.
    #[error("the lease is lost; another operator sees to the agents")]
    Lost,
}

/// What a watch tells.
#[expect(clippy::large_enum_variant, reason = "one is alive at a time, and is moved into the world at once")]
enum Change {
    Agent(Event<Agent>),
    Pod(Event<Pod>),
    Secret(Event<Secret>),
    Policy(Event<NetworkPolicy>),
    Claim(Event<PersistentVolumeClaim>),
    Node(Event<Node>),
}

/// Sees to the agents of a namespace until it is told to stop, or cannot go on.
pub async fn operate(reached: Reached, options: Options, stop: impl Future<Output = ()>) -> Result<(), OperateError> {
    let namespace = options.namespace.clone().unwrap_or_else(|| reached.client.default_namespace().to_owned());
    let candidate = Candidate {
        api: Api::namespaced(reached.client.clone(), &namespace),
        name: options.lease.clone(),
        identity: options.identity.clone(),
        troubles: reached.troubles.clone(),
    };
    tokio::pin!(stop);
    let coop = tokio::select! {
        image = image(&reached, &namespace, options.image.clone()) => image?,
        () = &mut stop => return Ok(()),
    };
    let images = Images { coop, pull_policy: options.pull_policy.clone() };
    let lease = tokio::select! {
        lease = candidate.win() => lease,
        () = &mut stop => return Ok(()),
    };
    tracing::info!(namespace, identity = options.identity, "this operator sees to the agents");
    let ended = tokio::select! {
        () = Operator::new(reached, &namespace, images, options.read_brief).run() => Ok(()),
        () = candidate.keep(lease) => Err(OperateError::Lost),
        () = stop => Ok(()),
    };
    if ended.is_ok() {
        candidate.release().await;
    }
    ended
}

/// Returns the image with coop. It waits while the API server is away, as whoever wants the lease does.
async fn image(reached: &Reached, namespace: &str, said: Option<String>) -> Result<String, OperateError> {
    if let Some(said) = said {
        return Ok(said);
    }
    let pods = Api::namespaced(reached.client.clone(), namespace);
    let troubles = &reached.troubles;
    loop {
        let trouble = match own_image(&pods, "operator").await {
            Err(OwnImageError::Unheard(error)) => troubles.trouble(PODS, &error),
            Err(OwnImageError::Silent) => troubles.silence(),
            told => {
                troubles.note(PODS, None);
                return told.map_err(OperateError::Image);
            }
        };
        troubles.note(PODS, Some(trouble));
        sleep(ASK_AGAIN).await;
    }
}

fn changes(Reached { client, troubles }: &Reached, namespace: &str) -> impl Stream<Item = Change> + use<> {
    let all = watcher::Config::default;
    let ours = || all().labels(&format!("{}={}", MANAGED.0, MANAGED.1));
    let agents = told(Api::<Agent>::namespaced(client.clone(), namespace), all(), troubles.clone());
    let pods = told(Api::<Pod>::namespaced(client.clone(), namespace), ours(), troubles.clone());
    let secrets = told(Api::<Secret>::namespaced(client.clone(), namespace), ours(), troubles.clone());
    let policies = told(Api::<NetworkPolicy>::namespaced(client.clone(), namespace), ours(), troubles.clone());
    // Also those of others: an agent may name one.
    let claims = told(Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace), all(), troubles.clone());
    let nodes = told(Api::<Node>::all(client.clone()), all(), troubles.clone());
    futures_util::stream::select_all([
        agents.map(Change::Agent).boxed(),
        pods.map(Change::Pod).boxed(),
        secrets.map(Change::Secret).boxed(),
        policies.map(Change::Policy).boxed(),
        claims.map(Change::Claim).boxed(),
        nodes.map(Change::Node).boxed(),
    ])
}

struct Operator {
    changes: Pin<Box<dyn Stream<Item = Change> + Send>>,
    world: World,
    images: Images,
    read_brief: ReadBrief,
    performer: Performer,
    heard: BTreeMap<String, Heard>,
    followers: BTreeMap<String, Follower>,
    /// Agents to look at, and those to look at later.
    dirty: BTreeSet<String>,
    later: BTreeMap<String, Instant>,
    /// Agents for which something is being done; nothing else is until that is over.
    busy: BTreeSet<String>,
    /// When an agent's status was written last, and how often in a row something failed.
    written: BTreeMap<String, Instant>,
    failures: BTreeMap<String, u32>,
    /// What was last known of each node.
    node_fates: BTreeMap<String, NodeFate>,
    under_way: JoinSet<Done>,
}

struct Follower {
    pod: String,
    task: AbortHandle,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Operator {
    fn new(reached: Reached, namespace: &str, images: Images, read_brief: ReadBrief) -> Self {
        Self {
            changes: Box::pin(changes(&reached, namespace)),
            world: World::with_port(PORT),
            images,
            read_brief,
            performer: Performer::new(reached.client, namespace),
            heard: BTreeMap::new(),
            followers: BTreeMap::new(),
            dirty: BTreeSet::new(),
            later: BTreeMap::new(),
            busy: BTreeSet::new(),
            written: BTreeMap::new(),
            failures: BTreeMap::new(),
            node_fates: BTreeMap::new(),
            under_way: JoinSet::new(),
        }
    }

    async fn run(mut self) {
        let (teller, mut told) = mpsc::channel::<(String, Heard)>(HEARD);
        loop {
            let next = self.later.values().min().copied();
            tokio::select! {
                change = self.changes.next() => match change {
                    Some(change) => self.note(change),
                    None => return,
                },
                Some((agent, heard)) = told.recv() => {
                    self.heard.insert(agent.clone(), heard);
                    self.dirty.insert(agent);
                }
                Some(done) = self.under_way.join_next() => match done {
                    Ok(done) => self.finish(done),
                    // Nobody cancels it, and a panic is caught.
                    Err(error) => tracing::error!(%error, "what was to be done broke off"),
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    let now = Instant::now();
                    let due: Vec<_> = self.later.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
                    self.later.retain(|_, at| *at > now);
                    self.dirty.extend(due);
                }
            }
            if self.world.is_whole() {
                for agent in std::mem::take(&mut self.dirty) {
                    if self.busy.contains(&agent) {
                        self.dirty.insert(agent);
                    } else if !self.is_put_off(&agent) {
                        self.settle(agent, &teller);
                    }
                }
            }
        }
    }

    /// After something failed, nothing is tried before its time.
    fn is_put_off(&self, agent: &str) -> bool {
        self.failures.contains_key(agent) && self.later.get(agent).is_some_and(|at| *at > Instant::now())
    }

    /// Takes in what a watch tells.
    fn note(&mut self, change: Change) {
        let agents = |children: Vec<String>| {
            children.into_iter().filter_map(|name| name.strip_prefix("agent-").map(str::to_owned)).collect::<Vec<_>>()
        };
        let world = &mut self.world;
        let about = match change {
            Change::Agent(event) => world.agents.hear(event),
            Change::Pod(event) => agents(world.pods.hear(event)),
            Change::Secret(event) => agents(world.secrets.hear(event)),
            Change::Policy(event) => agents(world.policies.hear(event)),
            Change::Claim(event) => {
                let claims = world.claims.hear(event);
                world.with_claims(&claims)
            }
            Change::Node(event) => {
                // A node tells of itself every few seconds; only what becomes of it counts.
                let nodes = world.hear_of_nodes(event);
                let mut about = Vec::new();
                for node in nodes {
                    let fate = world.node(&node);
                    if self.node_fates.insert(node.clone(), fate) != Some(fate) {
                        about.extend(world.on_node(&node));
                    }
                }
                about
            }
        };
        self.dirty.extend(about);
    }

    /// Looks at an agent and has done what follows.
    fn settle(&mut self, name: String, teller: &mpsc::Sender<(String, Heard)>) {
        let Some(agent) = self.world.agents.get(&name) else {
            self.followers.remove(&name);
            self.heard.remove(&name);
            self.written.remove(&name);
            self.failures.remove(&name);
            return;
        };
        let sidecar = self.world.sidecar(agent);
        let followed = self.followers.get(&name).map(|follower| follower.pod.clone());
        if followed.as_ref() != sidecar.as_ref().map(|sidecar| &sidecar.pod) {
            self.followers.remove(&name);
            if let Some(sidecar) = sidecar.clone() {
                let pod = sidecar.pod.clone();
                let task = tokio::spawn(sidecar.follow(name.clone(), teller.clone())).abort_handle();
                self.followers.insert(name.clone(), Follower { pod, task });
            }
        }
        let pod = self.world.pod(&name);
        let brief = agent.spec.brief.clone().map(|brief| (self.read_brief)(&Value::Object(brief), &agent.spec.driver));
        let seen = Seen {
            pod,
            node: pod.map_or(NodeFate::Unassigned, |pod| self.world.node_of(pod)),
            heard: self.heard.get(&name).filter(|heard| pod.and_then(Pod::uid).as_ref() == Some(&heard.pod)),
            brief: brief.as_ref(),
            secret: part(&self.world.secrets, agent),
            policy: policy_part(&self.world.policies, agent),
            claim: claim_part(&self.world.claims, agent),
            existing_claim: existing_claim(&self.world.claims, agent),
            now: SystemTime::now(),
        };
        let Plan { steps, status, again } = plan(agent, &self.images, &seen);
        if let Some(again) = again {
            self.later.insert(name.clone(), Instant::now() + again);
        }
        let is_news = agent.status.clone().unwrap_or_default() != status;
        if !is_news && steps.is_empty() {
            // What failed before is as it should be by now.
            self.failures.remove(&name);
            return;
        }
        let now = Instant::now();
        if let Some(at) =
            self.written.get(&name).map(|at| *at + BETWEEN_WRITES).filter(|at| steps.is_empty() && *at > now)
        {
            self.later.insert(name, at);
            return;
        }
        if is_news {
            self.written.insert(name.clone(), now);
        }
        let news = is_news.then_some(status);
        let work = self.performer.clone().perform(agent.clone(), news, steps, sidecar);
        self.busy.insert(name.clone());
        // Whatever becomes of it, the agent is looked at again.
        let work = AssertUnwindSafe(work).catch_unwind();
        self.under_way.spawn(async move { work.await.unwrap_or_else(|_| Done::broken_off(name)) });
    }

    /// Takes in what became of what was to be done.
    fn finish(&mut self, done: Done) {
        self.busy.remove(&done.name);
        if let Some(agent) = done.agent {
            self.world.agents.note(agent);
        }
        if let Some(pod) = done.pod {
            self.world.pods.note(pod);
        }
        if let Some(secret) = done.secret {
            self.world.secrets.note(secret);
        }
        if let Some(policy) = done.policy {
            self.world.policies.note(policy);
        }
        match done.failed {
            // What was changed comes back by a watch.
            None => drop(self.failures.remove(&done.name)),
            Some(error) => {
                let failures = self.failures.entry(done.name.clone()).or_default();
                let pause = (RETRY * (1 << (*failures).min(10))).min(LONGEST);
                *failures += 1;
                tracing::warn!(agent = done.name, %error, "not done; it is tried again");
                self.later.insert(done.name, Instant::now() + pause);
            }
        }
    }
}
