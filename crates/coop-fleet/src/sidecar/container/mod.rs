//! Sidecars in containers, by the API of Docker, which Podman has too.
//!
//! A container sees the agent's workspace and a part of its folder, both where they are here. Its sidecar listens on a port
//! that only this machine reaches, and wants a token. The engine keeps a second container of the same name out, tells when
//! one has ended, and with which code.

mod body;
mod folder;
mod run;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as EngineError;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    CreateContainerOptions, ListContainersOptions, LogsOptions, RemoveContainerOptions, WaitContainerOptions,
};
use coop_api::{AgentId, Token};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::sleep;

use self::body::{FLEET, PORT, body};
use super::launcher::{Address, LaunchError, Sidecar, Watch};
use crate::adapter::AgentConfig;
use crate::shim::Ports;

/// How long a container may take until its sidecar is ready.
const READY: Duration = Duration::from_secs(60);
/// How long the engine may take to answer, in seconds.
const ANSWER: u64 = 60;
/// The pause while the engine is away.
const AWAY: Duration = Duration::from_secs(2);
/// A process that a signal has ended says nothing about what its agent ended with.
const BY_SIGNAL: i64 = 128;
/// How often another port is tried when somebody else was faster.
const TRIES: usize = 5;

/// What containers are made of.
#[derive(Clone, Debug)]
pub struct Containers {
    /// The engine's socket.
    pub engine: PathBuf,
    /// Whose they are: something that no other fleet on this machine is called.
    pub fleet: String,
    /// The image.
    pub image: String,
    /// Whether the image has coop; if not, `coop` is mounted.
    pub image_has_coop: bool,
    /// Our program.
    pub coop: PathBuf,
    /// More that is mounted, as the engine takes it: `HERE:THERE[:ro]`.
    pub mounts: Vec<String>,
    /// How much memory each may have, in bytes.
    pub memory: Option<u64>,
    /// How much of the processors each may have, in billionths of one.
    pub nano_cpus: Option<u64>,
    /// On which ports of this machine they are reached.
    pub ports: Ports,
}

/// Runs sidecars in containers.
#[derive(Clone, Debug)]
pub struct ContainerLauncher {
    docker: Docker,
    options: Containers,
}

impl ContainerLauncher {
    /// Returns a launcher, without asking the engine anything.
    pub fn new(options: Containers) -> Result<Self, String> {
        let socket = options.engine.to_str().ok_or("the path of the engine's socket is not UTF-8")?;
        let docker = Docker::connect_with_unix(socket, ANSWER, bollard::API_DEFAULT_VERSION);
        Ok(Self { docker: docker.map_err(|error| error.to_string())?, options })
    }

    fn name(&self, agent: &AgentId) -> String {
        format!("coop-{}-{agent}", self.options.fleet)
    }

    /// Looks at a container; it waits while the engine is away.
    async fn inspect(&self, container: &str) -> Option<ContainerInspectResponse> {
        loop {
            match self.docker.inspect_container(container, None).await {
                Ok(found) => return Some(found),
                Err(error) if status(&error) == Some(404) => return None,
                Err(error) => {
                    tracing::warn!(container, %error, "the engine of containers does not say");
                    sleep(AWAY).await;
                }
            }
        }
    }

    async fn remove(&self, container: &str) -> Result<(), EngineError> {
        let how = RemoveContainerOptions { force: true, ..RemoveContainerOptions::default() };
        match self.docker.remove_container(container, Some(how)).await {
            Err(error) if status(&error) != Some(404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes and starts a container; another port is tried if somebody else has taken this one.
    async fn make(&self, config: &AgentConfig, folder: &Path) -> Result<String, LaunchError> {
        let name = self.name(&config.agent);
        let token = uuid::Uuid::new_v4().simple().to_string();
        let mut taken = self.taken().await.map_err(|error| failed("the engine does not answer", error))?;
        for _ in 0..TRIES {
            let port = self.options.ports.choose(&taken);
            let port = port.ok_or_else(|| LaunchError::Failed("all ports for containers are taken".to_owned()))?;
            let body = body(&self.options, config, folder, &token, port).map_err(LaunchError::Failed)?;
            let called = CreateContainerOptions { name: Some(name.clone()), ..CreateContainerOptions::default() };
            let made = match self.docker.create_container(Some(called), body).await {
                Ok(made) => made.id,
                Err(error) if status(&error) == Some(409) => return Err(LaunchError::Exists),
                Err(error) => return Err(failed("its container cannot be made", error)),
            };
            match self.docker.start_container(&made, None).await {
                Ok(()) => return Ok(made),
                Err(error) => {
                    let _ = self.remove(&made).await;
                    let is_taken = error.to_string().contains("port") && port != 0;
                    if !is_taken {
                        return Err(failed("its container cannot be started", error));
                    }
                    taken.push(port);
                }
            }
        }
        Err(LaunchError::Failed("somebody else takes every port for containers".to_owned()))
    }

    /// Returns the ports that containers of ours have.
    async fn taken(&self) -> Result<Vec<u16>, EngineError> {
        let all = self.docker.list_containers(Some(self.ours())).await?;
        let ports = all.into_iter().filter_map(|container| container.ports).flatten();
        Ok(ports.filter_map(|port| port.public_port).collect())
    }

    fn ours(&self) -> ListContainersOptions {
        let label = format!("{FLEET}={}", self.options.fleet);
        let filters = Some(HashMap::from([("label".to_owned(), vec![label])]));
        ListContainersOptions { filters, ..ListContainersOptions::default() }
    }

    /// Waits until a sidecar says that it is ready; if it ends before, returns why.
    async fn ready(&self, container: &str) -> Result<(), String> {
        let options = LogsOptions { follow: true, stdout: true, stderr: true, ..LogsOptions::default() };
        let mut logs = self.docker.logs(container, Some(options));
        let (mut out, mut words) = (String::new(), String::new());
        while let Some(said) = logs.next().await {
            match said {
                Ok(LogOutput::StdErr { message }) => words += &String::from_utf8_lossy(&message),
                Ok(said) => out += &String::from_utf8_lossy(said.as_ref()),
                Err(error) => return Err(error.to_string()),
            }
            if out.lines().any(|line| line == "ready") {
                return Ok(());
            }
        }
        let own = words.lines().rev().find_map(|line| line.strip_prefix("coop: "));
        let last = own.or(words.lines().last()).unwrap_or("it ended without a word");
        Err(last.to_owned())
    }

    /// Returns the way to a sidecar in a container that runs.
    fn sidecar(&self, found: &ContainerInspectResponse) -> Result<Sidecar, String> {
        let id = found.id.clone().ok_or("the engine has no id for its container")?;
        let env = found.config.iter().filter_map(|config| config.env.as_ref()).flatten();
        let token = env.into_iter().rev().find_map(|variable| variable.strip_prefix("COOP_AUTH_TOKEN="));
        let token = Token::new(token.ok_or("its container has no token")?)?;
        let ports = found.network_settings.as_ref().and_then(|network| network.ports.as_ref()?.get(PORT)?.as_ref());
        let port = ports.and_then(|ports| ports.iter().find_map(|port| port.host_port.as_ref()?.parse().ok()));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.ok_or("its container has no port here")?));
        let ended = self.watch(&id);
        let dial = Arc::new(address);
        Ok(Sidecar { name: id, address: Address::Elsewhere { dial, token }, ended })
    }

    /// Watches a container, and removes what is left of it when it has ended.
    fn watch(&self, container: &str) -> Watch {
        let (sender, receiver) = watch::channel(None);
        let (launcher, container) = (self.clone(), container.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                code = launcher.end(&container) => {
                    // Before it is told: what follows is a container of the same name.
                    if let Err(error) = launcher.remove(&container).await {
                        tracing::warn!(container, %error, "a container that has ended cannot be removed");
                    }
                    sender.send_replace(Some(code));
                }
                () = sender.closed() => {}
            }
        });
        receiver
    }

    /// Waits for the end of a container, and returns its code if it has one.
    async fn end(&self, container: &str) -> Option<i32> {
        loop {
            // It may break off before the container ends; only what the engine says of its state counts.
            let mut waiting = self.docker.wait_container(container, None::<WaitContainerOptions>);
            let _ = waiting.next().await;
            match self.inspect(container).await {
                Some(found) if is_running(&found) => sleep(AWAY).await,
                Some(found) => return code(&found),
                None => return None,
            }
        }
    }
}

fn is_running(found: &ContainerInspectResponse) -> bool {
    found.state.as_ref().is_some_and(|state| state.running == Some(true))
}

/// Returns what a container has ended with, if it says.
fn code(found: &ContainerInspectResponse) -> Option<i32> {
    let code = found.state.as_ref().and_then(|state| state.exit_code);
    code.filter(|code| (0..BY_SIGNAL).contains(code)).and_then(|code| i32::try_from(code).ok())
}

fn status(error: &EngineError) -> Option<u16> {
    match error {
        EngineError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> LaunchError {
    LaunchError::Failed(format!("{what}: {error}"))
}
