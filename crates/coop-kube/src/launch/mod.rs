//! A fleet's sidecars in a cluster: an `Agent` for each, whose pod an operator makes.
//!
//! ```text
//! start ─► Agent, Secret with its settings ─► operator ─► pod ready ─► connection through the API server
//! ```
//!
//! One resource of a fleet's has one pod. When that has ended the fleet is told, and decides: another resource of the same
//! name is another sidecar. What a fleet makes has its label, and one of another fleet is left alone. Agents that others applied
//! are seen too, and can be told and asked everything; their pods are the operator's, so ending one suspends it, and going on
//! with it waits for the operator's next pod. Neither is done unless a person wants it.

mod actions;
mod cluster;
mod forward;
mod pods;
mod run;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coop_api::AgentId;
use coop_fleet::launcher::{LaunchError, RunOwner, Running};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::Api;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use self::cluster::{Cluster, Stage};
pub use self::template::Template;
use crate::manifest::FLEET;
use crate::resource::{Agent, Manager};
use crate::trouble::Troubles;
use crate::way::{NoWay, Reached, Way};

/// How long an API server may take to say what there is.
const HEARD: Duration = Duration::from_secs(30);
/// The same where somebody waits who wants to know other things too.
const SOON: Duration = Duration::from_secs(5);
/// How long a pod may take to be ready: its image may have to be fetched.
const READY: Duration = Duration::from_secs(300);
/// How long a pod may wait for what it cannot have, and for an operator that takes it up, before nobody waits any longer.
const STUCK: Duration = Duration::from_secs(30);
const TAKEN_UP: Duration = Duration::from_secs(90);
/// How long an agent may take to go: its pod's grace, and some.
const GONE: Duration = Duration::from_secs(60);
/// Where agents work in their pods.
const FOLDER: &str = "/data/workspace";

/// Where the cluster is, and what is made there.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The namespace; without it that of the configuration's context, or of the service account.
    pub namespace: Option<String>,
    /// Which cluster.
    pub way: Way,
    /// How sidecars are reached.
    pub reach: Reach,
    /// What agents have in common.
    pub template: Template,
    /// Whose they are: something that no other fleet is called, made of letters and digits.
    pub fleet: String,
}

/// How sidecars are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Through the API server, from wherever that can be reached.
    Forward,
    /// By the pod's own address, from within the cluster.
    Direct,
}

/// Has sidecars in a cluster.
#[derive(Clone)]
pub struct ClusterLauncher {
    agents: Api<Agent>,
    pods: Api<Pod>,
    secrets: Api<Secret>,
    cluster: Arc<Cluster>,
    troubles: Troubles,
    namespace: String,
    reach: Reach,
    template: Template,
    fleet: String,
    /// Agents that are being started, and how they are told that nobody wants them any more.
    starting: Starting,
    /// Which Agents of others we have suspended ourselves.
    suspended: Arc<Mutex<BTreeMap<String, Suspended>>>,
}

/// Whether a cluster can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usable {
    /// It has told what is there.
    Yes,
    /// It does not answer, or cannot just now.
    Later(String),
    /// Not before somebody has changed something in it.
    Never(String),
}

/// How those are told that are being started.
type Starting = Arc<Mutex<BTreeMap<String, Arc<Notify>>>>;

/// How far it is with a suspension of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspended {
    /// It is being written.
    Asked,
    /// It is what this generation of the resource says.
    Since(i64),
}

/// Whose an Agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// This fleet has made it.
    Ours,
    /// Somebody has applied it, and the operator sees to it. A fleet shows it, and steers it when it is asked to.
    Applied,
    /// Another fleet has made it, and alone decides about it.
    AnotherFleet,
}

impl Whose {
    /// Tells who decides whether it runs.
    fn run_owner(self) -> RunOwner {
        match self {
            Self::Ours => RunOwner::Fleet,
            Self::Applied | Self::AnotherFleet => RunOwner::Others,
        }
    }
}

/// An Agent that somebody has applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What it runs.
    pub running: Running,
    /// What a definition says of what is done about it, as its resource has it.
    pub actions: String,
    /// The uid of its pod, if that can be reached.
    pub pod: Option<String>,
    /// Whether somebody else has suspended or deleted it.
    pub is_stopped: bool,
}

impl std::fmt::Debug for ClusterLauncher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterLauncher").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl ClusterLauncher {
    /// Returns a launcher for a cluster, and begins to look at what is there.
    pub async fn new(options: ClusterOptions) -> Result<Self, NoWay> {
        let reached = options.way.reach().await?;
        let namespace = options.namespace.clone().unwrap_or_else(|| reached.client.default_namespace().to_owned());
        Ok(Self::with(reached, &namespace, options))
    }

    fn with(Reached { client, troubles }: Reached, namespace: &str, options: ClusterOptions) -> Self {
        Self {
            agents: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            cluster: Cluster::follow(&client, namespace, &troubles),
            troubles,
            namespace: namespace.to_owned(),
            reach: options.reach,
            template: options.template,
            fleet: options.fleet,
            starting: Arc::default(),
            suspended: Arc::default(),
        }
    }

    /// Returns where the agents are.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Waits until everything was told once. Before that nothing may be concluded from what is not there.
    pub async fn told(&self) {
        self.cluster.until(|_| Some(())).await;
    }

    /// Looks for a moment whether the cluster can be used at all.
    pub async fn check(&self) -> Usable {
        // One that was just started may say no at first.
        if timeout(SOON, self.told()).await.is_ok() {
            return Usable::Yes;
        }
        let trouble = self.troubles.worst().unwrap_or_else(|| self.troubles.silence());
        if trouble.is_lasting { Usable::Never(trouble.text) } else { Usable::Later(trouble.text) }
    }

    /// Returns what is wrong with the way to the cluster, if something is.
    pub fn trouble(&self) -> Option<String> {
        let is_silent = self.cluster.look(|objects| !objects.is_whole());
        self.troubles.worst().map(|trouble| trouble.text).or_else(|| is_silent.then(|| self.troubles.silence().text))
    }

    /// Returns the API server's address.
    pub fn address(&self) -> &str {
        self.troubles.address()
    }

    /// Waits until everything was told once, and says why that does not happen.
    async fn told_or_not(&self) -> Result<(), LaunchError> {
        let why = tokio::select! {
            biased;
            () = self.told() => return Ok(()),
            trouble = self.troubles.lasting() => trouble,
            () = sleep(HEARD) => self.troubles.worst().unwrap_or_else(|| self.troubles.silence()),
        };
        Err(LaunchError::Failed(why.text))
    }

    /// Says why something was not done.
    fn failed(&self, what: &str, about: &str, error: &kube::Error) -> LaunchError {
        LaunchError::Failed(format!("{what}: {}", self.troubles.trouble(about, error).text))
    }

    /// Returns a channel that says when there may be other agents than before.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.cluster.changes()
    }

    /// Returns the agents that others have applied.
    pub fn applied(&self) -> Vec<Applied> {
        self.cluster.look(|objects| {
            let applied = |agent: &Agent| Applied {
                running: running(agent, RunOwner::Others),
                actions: actions::lines(&agent.spec),
                pod: match objects.stage(agent) {
                    Stage::Ready { uid } => Some(uid),
                    Stage::Waiting(_) | Stage::Over { .. } => None,
                },
                is_stopped: agent.metadata.deletion_timestamp.is_some() || self.is_suspended_by_others(agent),
            };
            objects.agents.all().filter(|agent| self.whose(agent) == Whose::Applied).map(applied).collect()
        })
    }

    fn whose(&self, agent: &Agent) -> Whose {
        match agent.spec.managed_by {
            Manager::Operator => Whose::Applied,
            Manager::Fleet if agent.labels().get(FLEET) == Some(&self.fleet) => Whose::Ours,
            Manager::Fleet => Whose::AnotherFleet,
        }
    }

    fn is_suspended_by_others(&self, agent: &Agent) -> bool {
        let mut suspended = self.suspended.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, now) = (agent.name_any(), agent.metadata.generation.unwrap_or_default());
        match suspended.get(&name) {
            // Somebody has ended it since.
            Some(Suspended::Since(then)) if !agent.spec.suspend && now > *then => {
                suspended.remove(&name);
                false
            }
            Some(_) => false,
            None => agent.spec.suspend,
        }
    }
}

fn running(agent: &Agent, run_owner: RunOwner) -> Running {
    Running {
        agent: AgentId(agent.name_any()),
        pid: None,
        driver: agent.spec.driver.clone(),
        command: match agent.spec.command.as_slice() {
            [] => vec![agent.spec.driver.clone()],
            command => command.to_vec(),
        },
        folder: FOLDER.into(),
        isolate: false,
        sandbox: None,
        permission_mode: None,
        ask_first: false,
        run_owner,
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> LaunchError {
    LaunchError::Failed(format!("{what}: {error}"))
}
