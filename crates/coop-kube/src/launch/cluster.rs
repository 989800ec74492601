//! What the watches have told a fleet, and who waits for more.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use tokio::sync::watch;

use crate::manifest::{MANAGED, child};
use crate::pod::{self, containers, waits_for};
use crate::resource::Agent;
use crate::trouble::{Told, Troubles, told};
use crate::world::{Known, is_owned};

/// A process that a signal has ended says nothing about what its agent ended with.
const BY_SIGNAL: i32 = 128;

/// What a node says of a container that does not come to run before somebody changes something.
const HOPELESS: [&str; 5] =
    ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError"];

/// The agents of a namespace and their pods.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) agents: Known<Agent>,
    pub(super) pods: Known<Pod>,
}

/// How far an agent's pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none, or it does not run yet; why, if anybody knows.
    Waiting(Option<String>),
    /// Its sidecar can be reached.
    Ready { uid: String },
    /// It has ended, or is being ended.
    Over { uid: String, why: String },
}

impl Objects {
    /// Tells whether everything was told once.
    pub(super) fn is_whole(&self) -> bool {
        self.agents.is_whole() && self.pods.is_whole()
    }

    /// Returns the agent that the pod with this uid was made for, if both are there.
    pub(super) fn owner(&self, agent: &str, uid: &str) -> Option<&Agent> {
        let pod = self.pods.get(&child(agent)).filter(|pod| pod.uid().as_deref() == Some(uid))?;
        self.agents.get(agent).filter(|agent| is_owned(pod, agent))
    }

    /// Returns how far the pod of this agent is, and of no earlier one of the same name.
    pub(super) fn stage(&self, agent: &Agent) -> Stage {
        let is_its = |pod: &&Pod| is_owned(*pod, agent);
        let Some(pod) = self.pods.get(&child(&agent.name_any())).filter(is_its) else { return Stage::Waiting(None) };
        let uid = pod.uid().unwrap_or_default();
        if end(pod).is_some() {
            return Stage::Over { uid, why: last_words(pod).unwrap_or_else(|| "its pod has ended".to_owned()) };
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return Stage::Over { uid, why: "its pod is being ended".to_owned() };
        }
        let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
        match conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True") {
            true => Stage::Ready { uid },
            false => Stage::Waiting(waits_for(pod)),
        }
    }

    /// Returns why this agent's pod will not run as things are, if its node has tried.
    pub(super) fn stuck(&self, agent: &Agent) -> Option<String> {
        let pod = self.pods.get(&child(&agent.name_any())).filter(|pod| is_owned(*pod, agent))?;
        let waiting = containers(pod)
            .filter_map(|(_, state)| state.waiting.as_ref())
            .find(|waiting| waiting.reason.as_deref().is_some_and(|reason| HOPELESS.contains(&reason)))?;
        let (reason, message) = (waiting.reason.as_deref()?, waiting.message.as_deref().unwrap_or_default());
        Some(format!("its pod cannot run: {reason}: {message}"))
    }

    /// Tells whether nobody has done anything about this agent.
    pub(super) fn is_untouched(&self, agent: &Agent) -> bool {
        let name = agent.name_any();
        let is_same = |known: &&Agent| known.uid() == agent.uid();
        !self.has_pod(agent) && self.agents.get(&name).filter(is_same).is_some_and(|known| known.status.is_none())
    }

    /// Tells whether this agent has a pod that has not ended.
    pub(super) fn has_pod(&self, agent: &Agent) -> bool {
        let pod = self.pods.get(&child(&agent.name_any()));
        pod.is_some_and(|pod| is_owned(pod, agent) && end(pod).is_none())
    }

    /// Tells whether the pod with this uid has really ended, and with which code if that is known. A pod that the API
    /// server has struck from its books has: it does so at its node's word.
    pub(super) fn ended(&self, agent: &str, uid: &str) -> Option<Option<i32>> {
        match self.pods.get(&child(agent)).filter(|pod| pod.uid().as_deref() == Some(uid)) {
            Some(pod) => end(pod),
            None => Some(None),
        }
    }
}

/// Returns what a pod has ended with, if it has ended.
fn end(pod: &Pod) -> Option<Option<i32>> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded")).then(|| {
        let terminated = states(pod).find_map(|state| state.terminated.as_ref());
        terminated.map(|end| end.exit_code).filter(|code| (0..BY_SIGNAL).contains(code))
    })
}

fn states(pod: &Pod) -> impl Iterator<Item = &ContainerState> {
    containers(pod).filter(|(name, _)| *name == "agent").map(|(_, state)| state)
}

fn last_words(pod: &Pod) -> Option<String> {
    let message = states(pod).find_map(|state| state.terminated.as_ref()?.message.as_deref())?;
    pod::last_words(message).map(|line| line.strip_prefix("coop: ").unwrap_or(line).to_owned())
}

/// What is known, and that it changes.
#[derive(Debug)]
pub(super) struct Cluster {
    known: Mutex<Objects>,
    changed: watch::Sender<u64>,
}

impl Cluster {
    /// Follows a namespace for as long as somebody holds what is returned.
    pub(super) fn follow(client: &Client, namespace: &str, troubles: &Troubles) -> Arc<Self> {
        let cluster = Arc::new(Self { known: Mutex::default(), changed: watch::Sender::new(0) });
        let agents: Api<Agent> = Api::namespaced(client.clone(), namespace);
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let ours = watcher::Config::default().labels(&format!("{}={}", MANAGED.0, MANAGED.1));
        let agents = told(agents, watcher::Config::default(), troubles.clone());
        hear(&cluster, agents, |objects, event| drop(objects.agents.hear(event)));
        hear(&cluster, told(pods, ours, troubles.clone()), |objects, event| drop(objects.pods.hear(event)));
        cluster
    }

    /// Looks at what is known.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes an agent that we have made, or were answered with.
    pub(super) fn note(&self, agent: Agent) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).agents.note(agent);
        self.changed.send_modify(|version| *version += 1);
    }

    /// Waits until something is so; never before everything was told once.
    pub(super) async fn until<T>(&self, mut is_so: impl FnMut(&Objects) -> Option<T>) -> T {
        let mut changes = self.changed.subscribe();
        loop {
            if let Some(found) = self.look(|objects| if objects.is_whole() { is_so(objects) } else { None }) {
                return found;
            }
            // It is ours to close.
            let _ = changes.changed().await;
        }
    }

    /// Returns a channel that says when something has changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

fn hear<K: Send + 'static>(cluster: &Arc<Cluster>, mut events: Told<K>, note: fn(&mut Objects, Event<K>)) {
    let cluster = Arc::downgrade(cluster);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let Some(cluster) = cluster.upgrade() else { return };
            note(&mut cluster.known.lock().unwrap_or_else(PoisonError::into_inner), event);
            cluster.changed.send_modify(|version| *version += 1);
        }
    });
}
