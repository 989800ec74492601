//! What the plan wants done, done.

use std::fmt;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::manifest::{self, FINALIZER, child};
use crate::plan::Step;
use crate::resource::{Agent, AgentStatus, PromptStatus};
use crate::sidecar::{Delivery, Sidecar, SidecarError};
use crate::way::cause;

/// How often it is tried to write down what became of a message.
const TRIES: u32 = 5;

/// Whoever does it.
#[derive(Clone)]
pub(super) struct Performer {
    agents: Api<Agent>,
    pods: Api<Pod>,
    secrets: Api<Secret>,
    policies: Api<NetworkPolicy>,
    claims: Api<PersistentVolumeClaim>,
}

/// What became of it, with what the API server answered.
#[derive(Default)]
pub(super) struct Done {
    pub(super) name: String,
    pub(super) agent: Option<Agent>,
    pub(super) pod: Option<Pod>,
    pub(super) secret: Option<Secret>,
    pub(super) policy: Option<NetworkPolicy>,
    pub(super) failed: Option<Failed>,
}

impl Done {
    /// Nobody knows how far it went: everything is looked at anew.
    pub(super) fn broken_off(name: String) -> Self {
        Self { name, failed: Some(Failed::Panicked), ..Self::default() }
    }
}

/// Why it was not done.
#[derive(Debug)]
pub(super) enum Failed {
    Api(Box<kube::Error>),
    Manifest(serde_json::Error),
    Prompt(String),
    /// There is something of this kind and its name that is not known to be its.
    Taken(&'static str),
    /// A fault of ours.
    Panicked,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(error) => match &**error {
                kube::Error::Api(status) => write!(f, "{}", status.message),
                error => write!(f, "{}", cause(error)),
            },
            Self::Prompt(why) => write!(f, "its prompt was not taken: {why}"),
            Self::Taken(kind) => write!(f, "there is a {kind} of its name that is not known to be its"),
            Self::Panicked => write!(f, "it broke off, by a fault of coop's"),
            Self::Manifest(error) => write!(f, "a manifest of ours cannot be read: {error}"),
        }
    }
}

impl From<kube::Error> for Failed {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl Performer {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self {
            agents: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client.clone(), namespace),
            policies: Api::namespaced(client.clone(), namespace),
            claims: Api::namespaced(client, namespace),
        }
    }

    /// Tells the news, then does the steps in order, up to the first that fails.
    pub(super) async fn perform(
        self,
        agent: Agent,
        news: Option<AgentStatus>,
        steps: Vec<Step>,
        sidecar: Option<Sidecar>,
    ) -> Done {
        let mut done = Done { name: agent.name_any(), ..Done::default() };
        done.failed = self.try_all(agent, news, steps, sidecar, &mut done).await.err();
        done
    }

    async fn try_all(
        &self,
        mut agent: Agent,
        news: Option<AgentStatus>,
        steps: Vec<Step>,
        sidecar: Option<Sidecar>,
        done: &mut Done,
    ) -> Result<(), Failed> {
        let name = agent.name_any();
        if let Some(status) = news {
            agent.status = Some(status);
            // Refused if somebody has changed the agent meanwhile: then it is looked at anew.
            agent = self.agents.replace_status(&name, &PostParams::default(), &agent).await?;
            done.agent = Some(agent.clone());
        }
        for step in steps {
            match step {
                Step::Hold => done.agent = Some(self.finalizers(&agent, &[FINALIZER]).await?),
                Step::Release => {
                    // The answer may be an agent that is gone already; the watch tells.
                    if let Err(error) = self.finalizers(&agent, &[]).await
                        && !is_gone(&error)
                    {
                        return Err(error.into());
                    }
                }
                Step::MakeSecret => {
                    let token = uuid::Uuid::new_v4().simple().to_string();
                    let made = make(&self.secrets, &manifest::secret(&agent, &token)).await?;
                    // Its token is not ours to use: nobody knows who made it. If it was we, the watch tells soon.
                    done.secret = Some(made.ok_or(Failed::Taken("Secret"))?);
                }
                Step::MakePolicy(policy) => {
                    // The same: one that somebody else has made may let everybody in.
                    let made = make(&self.policies, &policy).await?;
                    done.policy = Some(made.ok_or(Failed::Taken("NetworkPolicy"))?);
                }
                Step::UpdatePolicy(policy) => {
                    let patch = json!({ "metadata": { "annotations": policy["metadata"]["annotations"] }, "spec": policy["spec"] });
                    let patch = Patch::Merge(patch);
                    done.policy = Some(self.policies.patch(&child(&name), &PatchParams::default(), &patch).await?);
                }
                Step::MakeClaim(claim) => drop(make(&self.claims, &claim).await?),
                Step::MakePod(pod) => done.pod = make(&self.pods, &pod).await?,
                Step::EndPod { uid } => self.delete(&name, uid, DeleteParams::default()).await?,
                Step::ForgetPod { uid } => self.delete(&name, uid, DeleteParams::default().grace_period(0)).await?,
                Step::Prompt(message) => {
                    if let Some(sidecar) = &sidecar {
                        let given = self.prompt(&mut agent, sidecar, &message).await;
                        done.agent = Some(agent.clone());
                        given?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives the first message: it is written down before, and what became of it after.
    async fn prompt(&self, agent: &mut Agent, sidecar: &Sidecar, prompt: &str) -> Result<(), Failed> {
        let name = agent.name_any();
        agent.status.get_or_insert_default().prompt = Some(PromptStatus::Sending);
        // Refused if we do not know the newest: then another operator may have given it.
        *agent = self.agents.replace_status(&name, &PostParams::default(), agent).await?;
        let (outcome, refused) = match sidecar.tell(prompt).await {
            Ok(Delivery::Done) => (Some(PromptStatus::Delivered), None),
            Ok(Delivery::Busy) => (None, Some("the agent is busy".to_owned())),
            Err(SidecarError::Refused(why)) => (None, Some(why)),
            Err(SidecarError::Unsure(error)) => {
                tracing::warn!(agent = name, error, "nobody knows whether it has its prompt");
                (Some(PromptStatus::Unsure), None)
            }
        };
        let mut tries = 0;
        loop {
            agent.status.get_or_insert_default().prompt = outcome;
            tries += 1;
            match self.agents.replace_status(&name, &PostParams::default(), agent).await {
                Ok(written) => {
                    *agent = written;
                    return refused.map_or(Ok(()), |why| Err(Failed::Prompt(why)));
                }
                Err(kube::Error::Api(status)) if status.is_conflict() && tries < TRIES => {
                    *agent = self.agents.get(&name).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn finalizers(&self, agent: &Agent, ours: &[&str]) -> Result<Agent, kube::Error> {
        let others = agent.finalizers().iter().map(String::as_str).filter(|one| *one != FINALIZER);
        let all: Vec<&str> = others.chain(ours.iter().copied()).collect();
        let metadata = json!({ "finalizers": all, "resourceVersion": agent.metadata.resource_version });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.agents.patch(&agent.name_any(), &PatchParams::default(), &patch).await
    }

    /// Deletes this pod, and no other that has its name by now.
    async fn delete(&self, agent: &str, uid: String, how: DeleteParams) -> Result<(), kube::Error> {
        let how = how.preconditions(Preconditions { uid: Some(uid), resource_version: None });
        match self.pods.delete(&child(agent), &how).await {
            Ok(_) => Ok(()),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Makes something, or finds that it is there.
async fn make<K>(api: &Api<K>, manifest: &Value) -> Result<Option<K>, Failed>
where
    K: Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(manifest.clone()).map_err(Failed::Manifest)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(made) => Ok(Some(made)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// It is gone, or another has its name.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found() || status.is_conflict())
}
