//! What a fleet asks of a launcher.

use std::path::Path;

use async_trait::async_trait;
use coop_api::AgentId;
use tokio::time::timeout;

use super::super::launcher::{Dismissal, Found, LastSidecar, LaunchError, Launcher, RunOwner, Running, Sidecar};
use super::super::local::{asks_first, is_isolated, mode_of};
use super::body::AGENT;
use super::folder::furnish;
use super::{ContainerLauncher, READY, code, failed, is_running, status};
use crate::adapter::AgentConfig;

#[async_trait]
impl Launcher for ContainerLauncher {
    fn refuses_commands(&self) -> Option<&'static str> {
        Some(
            "gates and [commands] would run on this machine, outside of the container, on files that the agent in the \
             container writes: leave them out, or start the daemon with --launcher local",
        )
    }

    async fn start(&self, config: &AgentConfig, folder: &Path) -> Result<Sidecar, LaunchError> {
        let name = self.name(&config.agent);
        match self.docker.inspect_container(&name, None).await {
            Ok(found) if is_running(&found) => return Err(LaunchError::Exists),
            Ok(_) => {
                let removed = self.remove(&name).await;
                removed.map_err(|error| failed("the container before cannot be removed", error))?;
            }
            Err(error) if status(&error) == Some(404) => {}
            Err(error) => return Err(failed("the engine does not answer", error)),
        }
        furnish(folder)?;
        let container = self.make(config, folder).await?;
        let ready = timeout(READY, self.ready(&container)).await;
        let ready = ready.unwrap_or_else(|_| Err(format!("it was not ready within {} s", READY.as_secs())));
        let found = self.docker.inspect_container(&container, None).await;
        let found = found.map_err(|error| error.to_string());
        match ready.and(found).and_then(|found| self.sidecar(&found)) {
            Ok(sidecar) => Ok(sidecar),
            Err(why) => {
                if let Err(error) = self.remove(&container).await {
                    tracing::error!(container, %error, "a container that did not start cannot be removed");
                }
                Err(LaunchError::Failed(why))
            }
        }
    }

    async fn find(&self, agent: &AgentId, _folder: &Path, last: &LastSidecar) -> Found {
        match self.inspect(&self.name(agent)).await {
            Some(found) if is_running(&found) => match self.sidecar(&found) {
                Ok(sidecar) => Found::Running(sidecar),
                Err(why) => Found::Unreachable(why),
            },
            Some(found) => {
                // It ended while nobody watched. What it ended with is not written down yet, so it stays until it is buried.
                let code = code(&found);
                found.id.map_or(Found::Nobody, |name| Found::Ended { name, code })
            }
            None => last.name.clone().map_or(Found::Nobody, |name| Found::Ended { name, code: None }),
        }
    }

    async fn dismiss(&self, _agent: &AgentId, _sidecar: &str) -> Result<Dismissal, String> {
        Ok(Dismissal::ItIsAsked)
    }

    async fn kill(&self, agent: &AgentId, sidecar: &str) {
        if let Err(error) = self.docker.kill_container(sidecar, None).await {
            tracing::error!(%agent, %error, "its container cannot be killed");
        }
    }

    async fn bury(&self, agent: &AgentId) -> Result<(), String> {
        let name = self.name(agent);
        match self.docker.inspect_container(&name, None).await {
            Ok(found) if is_running(&found) => Ok(()),
            Ok(_) => self.remove(&name).await.map_err(|error| error.to_string()),
            Err(error) if status(&error) == Some(404) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn running(&self, _agents: &Path) -> Vec<Running> {
        let all = self.docker.list_containers(Some(self.ours())).await;
        let all = all.inspect_err(|error| tracing::warn!(%error, "the engine of containers does not answer"));
        let mut running = Vec::new();
        for container in all.unwrap_or_default() {
            let agent = container.labels.and_then(|mut labels| labels.remove(AGENT)).map(AgentId);
            let Some((agent, id)) = agent.zip(container.id) else { continue };
            let found = self.docker.inspect_container(&id, None).await.ok().and_then(|found| found.config);
            let Some(config) = found else { continue };
            let words = config.cmd.unwrap_or_default();
            let Some(own) = words.iter().position(|word| word == "--") else { continue };
            let driver = words[..own].iter().position(|word| word == "--agent").and_then(|at| words.get(at + 1));
            let Some(driver) = driver.cloned() else { continue };
            let folder = config.working_dir.unwrap_or_default().into();
            let command = words[own + 1..].to_vec();
            let isolate = is_isolated(&words[..own]);
            let sandbox = None;
            let (permission_mode, ask_first) = (mode_of(&words[..own]), asks_first(&words[..own]));
            running.push(Running {
                agent,
                pid: None,
                driver,
                command,
                folder,
                isolate,
                sandbox,
                permission_mode,
                ask_first,
                run_owner: RunOwner::Fleet,
            });
        }
        running
    }
}
