//! Agents in containers: `--launcher container`.

use std::env;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::shim::Ports;
use coop_fleet::{ContainerLauncher, Containers};

use super::LaunchOption;
use crate::fleet::values::{parse_engine, parse_mount};

#[derive(Debug, Args)]
pub(super) struct ContainerArgs {
    /// Socket of Docker or Podman (container) [default: DOCKER_HOST, or the usual place of either]
    #[arg(long, env = "COOP_ENGINE", value_name = "SOCKET", value_parser = parse_engine)]
    engine: Option<PathBuf>,
    /// What containers see of this machine beside their workspace: HERE:THERE[:ro]; may be given often (container)
    #[arg(long, env = "COOP_AGENT_MOUNT", value_name = "MOUNT", value_delimiter = ',', value_parser = parse_mount)]
    mount: Vec<String>,
}

impl ContainerArgs {
    /// Returns whether each option was given.
    pub(super) fn given(&self) -> [(&'static str, bool); 2] {
        [("--engine", self.engine.is_some()), ("--mount", !self.mount.is_empty())]
    }
}

impl LaunchOption {
    pub(super) fn container_adapter(&self, coop: &Path, state: &Path, fleet: &str) -> anyhow::Result<SidecarAdapter> {
        let launcher = ContainerLauncher::new(self.containers(coop, fleet)?).map_err(anyhow::Error::msg)?;
        Ok(SidecarAdapter::new(Arc::new(launcher), state))
    }

    fn containers(&self, coop: &Path, fleet: &str) -> anyhow::Result<Containers> {
        let Some(image) = self.image.clone() else { bail!("say with --image what agents are to run in") };
        Ok(Containers {
            engine: match &self.container.engine {
                Some(engine) if is_socket(engine) => engine.clone(),
                Some(engine) => bail!(
                    "{} is no socket of an engine: start Docker or Podman, and name the Unix socket that it listens on",
                    engine.display()
                ),
                None => usual_engine()?,
            },
            fleet: fleet.to_owned(),
            image,
            image_has_coop: self.image_has_coop,
            coop: coop.to_owned(),
            mounts: self.container.mount.clone(),
            memory: self.memory.as_ref().map(|size| size.bytes),
            nano_cpus: self.cpus.map(|cpus| (cpus * 1e9) as u64),
            ports: Ports::for_containers(),
        })
    }
}

fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_socket())
}

/// Returns the socket of the engine that is there, as its own client would look for it.
fn usual_engine() -> anyhow::Result<PathBuf> {
    let own = env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("podman/podman.sock"));
    let usual = own.into_iter().chain(["/var/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from));
    engine_of(env::var("DOCKER_HOST").ok().as_deref(), &usual.collect::<Vec<_>>())
}

fn engine_of(named: Option<&str>, usual: &[PathBuf]) -> anyhow::Result<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return parse_engine(named).map_err(|_| {
            anyhow!(
                "DOCKER_HOST is {named}, which is no engine of this machine, whose folders containers see: name the Unix socket of one \
                 with --engine SOCKET, such as /var/run/docker.sock"
            )
        });
    }
    let found = usual.iter().find(|socket| socket.exists()).cloned();
    let looked_at: Vec<_> = usual.iter().map(|socket| socket.display().to_string()).collect();
    found.with_context(|| {
        format!(
            "no Docker or Podman is found: DOCKER_HOST is not set, and there is no socket {}; start one of them (for Podman \
             `systemctl --user start podman.socket`), or name its socket with --engine SOCKET",
            looked_at.join(", nor ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_search_names_the_sockets_it_tried() {
        let folder = tempfile::tempdir().expect("a folder");
        let (missing, there) = (folder.path().join("missing.sock"), folder.path().join("there.sock"));
        std::fs::write(&there, "").expect("written");
        let usual = [missing.clone(), there.clone()];
        let said = |named: Option<&str>, usual: &[PathBuf]| engine_of(named, usual).map_err(|error| error.to_string());
        assert_eq!(said(None, &usual), Ok(there.clone()));
        assert_eq!(said(Some(""), &usual), Ok(there));
        assert_eq!(said(Some("unix:///run/own.sock"), &usual), Ok("/run/own.sock".into()));
        let elsewhere = said(Some("tcp://build:2375"), &usual).expect_err("it is on another machine");
        assert!(
            elsewhere.starts_with("DOCKER_HOST is tcp://build:2375, which is no engine of this machine, "),
            "{elsewhere}"
        );
        let none = said(None, &usual[..1]).expect_err("there is none");
        assert!(none.contains("DOCKER_HOST is not set") && none.contains(&missing.display().to_string()), "{none}");
        assert!(none.contains("--engine SOCKET"), "{none}");
    }
}
