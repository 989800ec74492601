//! What a fleet asks of a launcher.

use std::path::Path;
use std::sync::PoisonError;

use async_trait::async_trait;
use coop_api::AgentId;
use coop_fleet::adapter::AgentConfig;
use coop_fleet::launcher::{Dismissal, Found, LastSidecar, LaunchError, Launcher, RunOwner, Running, Sidecar};
use kube::ResourceExt;
use tokio::time::{sleep, timeout};

use super::cluster::{Objects, Stage};
use super::pods::{Others, Unwanted};
use super::{ClusterLauncher, GONE, READY, Reach, SOON, Whose, running, template};
use crate::resource::Agent;

impl ClusterLauncher {
    /// Deletes an Agent of ours, and waits until it is gone.
    async fn clear(&self, agent: &Agent, unwanted: &Unwanted) -> Result<(), LaunchError> {
        let deleted = self.delete(agent).await;
        deleted.map_err(|error| self.failed("the one before cannot be deleted", "agents", &error))?;
        let name = agent.name_any();
        let is_gone =
            |objects: &Objects| (objects.agents.get(&name).map(ResourceExt::uid) != Some(agent.uid())).then_some(());
        tokio::select! {
            () = self.cluster.until(is_gone) => Ok(()),
            error = unwanted.told() => Err(error),
            () = sleep(READY) => Err(LaunchError::Failed("the one before does not go".to_owned())),
        }
    }

    /// Waits for the pod of an Agent that we have made. Nothing stays that nobody could see.
    async fn begin(&self, agent: &Agent, unwanted: &Unwanted) -> Result<Sidecar, LaunchError> {
        let begun = match self.ready(agent, Others::None, unwanted).await {
            Ok(uid) => self.sidecar(agent, &uid).await,
            Err(error) => Err(error),
        };
        if begun.is_err() {
            self.unmake(agent).await;
        }
        begun
    }
}

#[async_trait]
impl Launcher for ClusterLauncher {
    fn refuses(&self, agent: &AgentId) -> Option<String> {
        let without_image = || self.template.image.is_none() && self.reach == Reach::Forward;
        let refused = template::check_name(&agent.0).err();
        refused.or_else(|| without_image().then(|| template::NO_IMAGE.to_owned()))
    }

    async fn start(&self, config: &AgentConfig, folder: &Path) -> Result<Sidecar, LaunchError> {
        let name = config.agent.0.as_str();
        let unwanted = &Unwanted::new(&self.starting, name);
        tokio::select! {
            told = self.told_or_not() => told?,
            error = unwanted.told() => return Err(error),
        }
        let there = self.cluster.look(|objects| objects.agents.get(name).cloned());
        let is_others = config.run_owner == RunOwner::Others;
        let Some(agent) = there else {
            if is_others {
                let why = format!("whoever applied the Agent {name} has deleted it, and can apply it again");
                return Err(LaunchError::Failed(why));
            }
            return self.begin(&self.make(config, folder).await?, unwanted).await;
        };
        match self.whose(&agent) {
            Whose::Applied if is_others => self.join(agent, unwanted).await,
            Whose::Applied => Err(LaunchError::Failed(format!("somebody else has applied an Agent {name}"))),
            Whose::AnotherFleet => {
                Err(LaunchError::Failed(format!("another fleet has an Agent {name} there; take another name")))
            }
            Whose::Ours => {
                let is_going = agent.metadata.deletion_timestamp.is_some();
                match self.cluster.look(|objects| objects.stage(&agent)) {
                    Stage::Ready { .. } if !is_going => return Err(LaunchError::Exists),
                    // Also one that we made before we were killed: it may have had its pod, and gets no second one.
                    Stage::Ready { .. } | Stage::Waiting(_) | Stage::Over { .. } => {
                        self.clear(&agent, unwanted).await?
                    }
                }
                self.begin(&self.make(config, folder).await?, unwanted).await
            }
        }
    }

    fn give_up(&self, agent: &AgentId) {
        if let Some(start) = self.starting.lock().unwrap_or_else(PoisonError::into_inner).get(&agent.0) {
            start.notify_one();
        }
    }

    async fn find(&self, agent: &AgentId, _folder: &Path, last: &LastSidecar) -> Found {
        let name = agent.0.as_str();
        let gone = || match &last.name {
            Some(name) => Found::Ended { name: name.clone(), code: None },
            None => Found::Nobody,
        };
        let Some(resource) = self.cluster.until(|objects| Some(objects.agents.get(name).cloned())).await else {
            return gone();
        };
        match (self.whose(&resource), last.run_owner) {
            (Whose::Ours, _) | (Whose::Applied, RunOwner::Others) => {}
            // Only the name is the same.
            (Whose::AnotherFleet, _) | (Whose::Applied, RunOwner::Fleet) => return gone(),
        }
        // A pod that is not ready, or is being ended, runs until its node says otherwise.
        let told = |objects: &Objects| match objects.stage(&resource) {
            stage @ Stage::Ready { .. } => Some((stage, None)),
            Stage::Over { uid, why } => objects.ended(name, &uid).map(|code| (Stage::Over { uid, why }, code)),
            Stage::Waiting(why) => {
                let ended = last.name.as_ref().and_then(|last| objects.ended(name, last));
                ended.map(|_| (Stage::Waiting(why), None))
            }
        };
        let told = self.cluster.until(told);
        // Who has never run is not waited for without end.
        let (stage, code) = match &last.name {
            Some(_) => told.await,
            None => timeout(READY, told).await.unwrap_or((Stage::Waiting(None), None)),
        };
        match stage {
            Stage::Waiting(_) => gone(),
            Stage::Over { uid, .. } => Found::Ended { name: uid, code },
            Stage::Ready { uid } => match self.sidecar(&resource, &uid).await {
                Ok(sidecar) => Found::Running(sidecar),
                Err(error) => {
                    tracing::error!(%agent, %error, "an agent that runs cannot be reached");
                    Found::Unreachable(error.to_string())
                }
            },
        }
    }

    async fn dismiss(&self, agent: &AgentId, sidecar: &str) -> Result<Dismissal, String> {
        let under_way = Dismissal::UnderWay { within: GONE };
        // By its pod: another Agent can have the name by now, and is not meant.
        let resource = self.cluster.look(|objects| objects.owner(&agent.0, sidecar).cloned());
        let Some(resource) = resource else { return Ok(under_way) };
        let begun = match self.whose(&resource) {
            Whose::Ours => self.delete(&resource).await,
            Whose::Applied if resource.metadata.deletion_timestamp.is_some() || resource.spec.suspend => Ok(()),
            Whose::Applied => self.suspend(&agent.0, true).await,
            Whose::AnotherFleet => return Err(format!("another fleet has {agent}")),
        };
        begun.map(|()| under_way).map_err(|error| self.troubles.trouble("agents", &error).text)
    }

    /// A pod is never struck from the books by us: it might run on.
    async fn kill(&self, agent: &AgentId, sidecar: &str) {
        tracing::warn!(%agent, pod = sidecar, "the cluster has not ended it yet");
    }

    async fn bury(&self, agent: &AgentId) -> Result<(), String> {
        let is_left = |objects: &Objects| {
            let found = objects.agents.get(&agent.0).filter(|found| self.whose(found) == Whose::Ours)?;
            let is_over = found.metadata.deletion_timestamp.is_none() && !objects.has_pod(found);
            is_over.then(|| found.clone())
        };
        match self.cluster.look(is_left) {
            Some(left) => self.delete(&left).await.map_err(|error| self.troubles.trouble("agents", &error).text),
            None => Ok(()),
        }
    }

    async fn running(&self, _agents: &Path) -> Vec<Running> {
        // Whoever asks right after the start is not told that there is nobody.
        let _ = timeout(SOON, self.told()).await;
        self.cluster.look(|objects| {
            let is_ready = |agent: &&Agent| matches!(objects.stage(agent), Stage::Ready { .. });
            let is_to_see = |agent: &&Agent| self.whose(agent) != Whose::AnotherFleet;
            let found = objects.agents.all().filter(is_to_see).filter(is_ready);
            found.map(|agent| running(agent, self.whose(agent).run_owner())).collect()
        })
    }
}
