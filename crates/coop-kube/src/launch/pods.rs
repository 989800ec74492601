//! From a resource to a sidecar that can be reached.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coop_api::Token;
use coop_fleet::adapter::AgentConfig;
use coop_fleet::launcher::{Address, LaunchError, Sidecar, Watch, portable_settings};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::cluster::{Objects, Stage};
use super::forward::ToPod;
use super::{ClusterLauncher, READY, Reach, STUCK, Starting, Suspended, TAKEN_UP, Template, failed, template};
use crate::manifest::{CONFIG, TOKEN, child};
use crate::own::{OwnImageError, own_image};
use crate::resource::Agent;

/// How often an API server that is away is asked again, and the pause between.
const TRIES: u32 = 5;
const AWAY: Duration = Duration::from_secs(2);

impl ClusterLauncher {
    /// Makes the resource, and its settings after it, so that they go with it.
    pub(super) async fn make(&self, config: &AgentConfig, folder: &Path) -> Result<Agent, LaunchError> {
        let name = format!("{}-{}", child(&config.agent.0), &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let template = self.template().await?;
        let wanted = template::agent(&template, &self.fleet, config, &name).map_err(LaunchError::Failed)?;
        let settings = portable_settings(folder).map_err(|error| failed("its settings", error))?;
        let made = match self.agents.create(&PostParams::default(), &wanted).await {
            Ok(made) => made,
            Err(kube::Error::Api(status)) if status.is_already_exists() => return Err(LaunchError::Exists),
            Err(error) => return Err(self.failed("its Agent cannot be made", "agents", &error)),
        };
        self.cluster.note(made.clone());
        let secret = json!({
            "metadata": {
                "name": name,
                "labels": template::labels(&self.fleet),
                "ownerReferences": [made.controller_owner_ref(&())],
            },
            "stringData": { CONFIG: settings },
        });
        let secret: Secret = serde_json::from_value(secret).map_err(|wrong| failed("its settings", wrong))?;
        match self.secrets.create(&PostParams::default(), &secret).await {
            Ok(_) => Ok(made),
            Err(error) => {
                self.unmake(&made).await;
                Err(self.failed("the Secret with its settings cannot be made", "secrets", &error))
            }
        }
    }

    /// Returns what agents have in common, with an image if there is one: within the cluster that of our own pod.
    async fn template(&self) -> Result<Template, LaunchError> {
        let mut template = self.template.clone();
        if template.image.is_none() && self.reach == Reach::Direct {
            let own = own_image(&self.pods, "fleet").await.map_err(|error| match error {
                OwnImageError::Unheard(error) => self.failed("the image of this pod is not known", "pods", &error),
                OwnImageError::Silent => LaunchError::Failed(self.troubles.silence().text),
                nobody => LaunchError::Failed(format!("{}: {nobody}", template::NO_IMAGE)),
            });
            template.image = Some(own?);
        }
        Ok(template)
    }

    /// Deletes this resource, and no other that has its name by now.
    pub(super) async fn delete(&self, agent: &Agent) -> Result<(), kube::Error> {
        let which = Preconditions { uid: agent.uid(), resource_version: None };
        match self.agents.delete(&agent.name_any(), &DeleteParams::default().preconditions(which)).await {
            Ok(deleted) => {
                // Others may hold it for a while; that it goes is known from now on.
                deleted.map_left(|agent| self.cluster.note(agent));
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes back what could not be begun.
    pub(super) async fn unmake(&self, agent: &Agent) {
        if let Err(error) = self.delete(agent).await {
            let error = self.troubles.trouble("agents", &error).text;
            tracing::error!(agent = agent.name_any(), error, "an Agent that did not start cannot be deleted");
        }
    }

    /// Waits until an agent's pod can be reached, and returns its uid.
    pub(super) async fn ready(
        &self,
        agent: &Agent,
        others: Others,
        unwanted: &Unwanted,
    ) -> Result<String, LaunchError> {
        let name = agent.name_any();
        let is_so = |objects: &Objects| match objects.stage(agent) {
            Stage::Ready { uid } => Some(Ok(uid)),
            Stage::Over { why, .. } if others == Others::None => Some(Err(LaunchError::Failed(why))),
            Stage::Over { .. } | Stage::Waiting(_) => match objects.agents.get(&name).map(ResourceExt::uid) {
                Some(uid) if uid == agent.uid() => None,
                _ => Some(Err(LaunchError::Failed("its Agent was deleted".to_owned()))),
            },
        };
        let stage = || self.cluster.look(|objects| objects.stage(agent));
        tokio::select! {
            found = self.cluster.until(is_so) => found,
            error = unwanted.told() => Err(error),
            why = self.stuck(agent) => Err(LaunchError::Failed(why)),
            () = sleep(READY) => {
                let why = match stage() {
                    Stage::Waiting(Some(why)) | Stage::Over { why, .. } => why,
                    Stage::Waiting(None) => "no operator has made its pod, or the pod does not run".to_owned(),
                    Stage::Ready { uid } => return Ok(uid),
                };
                Err(LaunchError::Failed(format!("it was not ready within {} s: {why}", READY.as_secs())))
            }
        }
    }

    /// Waits until it is sure enough that the agent's pod will not run, and says why.
    async fn stuck(&self, agent: &Agent) -> String {
        sleep(STUCK).await;
        let stuck = self.cluster.until(|objects| objects.stuck(agent));
        if let Ok(why) = timeout(TAKEN_UP - STUCK, stuck).await {
            return why;
        }
        if self.cluster.look(|objects| objects.is_untouched(agent)) {
            let namespace = &self.namespace;
            return format!(
                "no operator sees to the Agents of the namespace {namespace}: apply deploy/kubernetes for it, or look why its operator does not run"
            );
        }
        self.cluster.until(|objects| objects.stuck(agent)).await
    }

    /// Returns the way to the sidecar in a pod.
    async fn sidecar_at_once(&self, resource: &Agent, uid: &str) -> Result<Sidecar, LaunchError> {
        let agent = &resource.name_any();
        let secret = self.secrets.get(&child(agent)).await;
        let secret = secret.map_err(|error| self.failed("its token cannot be had", "secrets", &error))?;
        let token = secret.data.as_ref().and_then(|data| data.get(TOKEN)).map(|bytes| bytes.0.clone());
        let token = token.and_then(|bytes| Token::new(String::from_utf8(bytes).ok()?).ok());
        let token = token.ok_or_else(|| LaunchError::Failed("its Secret has no token".to_owned()))?;
        let (pods, name, reach) = (self.pods.clone(), child(agent), self.reach);
        let dial = Arc::new(ToPod { pods, name, uid: uid.to_owned(), reach });
        let ended = self.watch(agent, uid);
        Ok(Sidecar { name: uid.to_owned(), address: Address::Elsewhere { dial, token }, ended })
    }

    /// The same, though the API server may be away for a moment.
    pub(super) async fn sidecar(&self, agent: &Agent, uid: &str) -> Result<Sidecar, LaunchError> {
        let mut tries = 1;
        loop {
            match self.sidecar_at_once(agent, uid).await {
                Err(_) if tries < TRIES => {
                    tries += 1;
                    sleep(AWAY).await;
                }
                told => return told,
            }
        }
    }

    fn watch(&self, agent: &str, uid: &str) -> Watch {
        let (sender, receiver) = watch::channel(None);
        let (cluster, agent, uid) = (self.cluster.clone(), agent.to_owned(), uid.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                end = cluster.until(|objects| objects.ended(&agent, &uid)) => drop(sender.send_replace(Some(end))),
                () = sender.closed() => {}
            }
        });
        receiver
    }

    /// Goes on with an agent that others applied, because a person wants that: once the operator has made its next pod.
    pub(super) async fn join(&self, agent: Agent, unwanted: &Unwanted) -> Result<Sidecar, LaunchError> {
        let name = agent.name_any();
        if agent.spec.suspend {
            self.suspend(&name, false).await.map_err(|error| self.failed("it cannot be resumed", "agents", &error))?;
        }
        match self.ready(&agent, Others::MayFollow, unwanted).await {
            Ok(uid) => self.sidecar(&agent, &uid).await,
            Err(error) => {
                // As it was before: nobody here sees it run.
                if agent.spec.suspend
                    && let Err(error) = self.suspend(&name, true).await
                {
                    let error = self.troubles.trouble("agents", &error).text;
                    tracing::error!(agent = name, error, "an Agent that was not resumed cannot be suspended again");
                }
                Err(error)
            }
        }
    }

    /// Suspends an agent that others applied, or ends that. One that is gone is left alone.
    pub(super) async fn suspend(&self, name: &str, suspend: bool) -> Result<(), kube::Error> {
        // Whoever sees it before we are answered has to know whose doing it is.
        self.note_suspended(name, suspend.then_some(Suspended::Asked));
        let patch = Patch::Merge(json!({ "spec": { "suspend": suspend } }));
        match self.agents.patch(name, &PatchParams::default(), &patch).await {
            Ok(agent) => {
                let since = Suspended::Since(agent.metadata.generation.unwrap_or_default());
                self.note_suspended(name, suspend.then_some(since));
                self.cluster.note(agent);
                Ok(())
            }
            Err(error) => {
                self.note_suspended(name, None);
                match error {
                    kube::Error::Api(status) if status.is_not_found() => Ok(()),
                    error => Err(error),
                }
            }
        }
    }

    fn note_suspended(&self, name: &str, how: Option<Suspended>) {
        let mut suspended = self.suspended.lock().unwrap_or_else(PoisonError::into_inner);
        match how {
            Some(how) => drop(suspended.insert(name.to_owned(), how)),
            None => drop(suspended.remove(name)),
        }
    }
}

/// Whether another pod may follow one that has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    None,
    MayFollow,
}

/// A start that can be given up, for as long as it lasts.
pub(super) struct Unwanted {
    starting: Starting,
    name: String,
    start: Arc<Notify>,
}

impl Unwanted {
    pub(super) fn new(starting: &Starting, name: &str) -> Self {
        let start = Arc::new(Notify::new());
        starting.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), start.clone());
        Self { starting: starting.clone(), name: name.to_owned(), start }
    }

    /// Waits until nobody wants it any more; that it was said before counts too.
    pub(super) async fn told(&self) -> LaunchError {
        self.start.notified().await;
        LaunchError::Failed("it was ended before it ran".to_owned())
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}
