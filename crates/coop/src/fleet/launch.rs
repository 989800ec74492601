//! Where a fleet's agents run: `coop up --launcher`.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::shim::Ports;
use coop_fleet::{ContainerLauncher, Containers};
use coop_kube::{ClusterLauncher, ClusterOptions, Reach, SecretVariable, Template, Way};

use super::values::{
    Size, parse_claim, parse_cpus, parse_engine, parse_image, parse_mount, parse_namespace, parse_object_name,
    parse_secret, parse_size,
};

/// Where agents run.
#[derive(Debug, Args)]
pub(crate) struct LaunchOption {
    /// Where agents run: as processes here, in containers here, or as Agents of a Kubernetes cluster
    #[arg(long, env = "COOP_LAUNCHER", value_name = "WHERE", default_value = "local")]
    launcher: Kind,
    /// Image that agents run in (container, kubernetes) [default: none. A cluster's agents are shown without one, and none is
    /// made; with --in-cluster it is that of the daemon's own pod]
    #[arg(long, env = "COOP_AGENT_IMAGE", value_name = "IMAGE", value_parser = parse_image)]
    image: Option<String>,
    /// The image has coop at /usr/local/bin/coop; else it is brought there (container, kubernetes)
    #[arg(long, env = "COOP_IMAGE_HAS_COOP")]
    image_has_coop: bool,
    /// Memory that each agent may have, such as 2Gi (container, kubernetes)
    #[arg(long, env = "COOP_AGENT_MEMORY", value_name = "SIZE", value_parser = parse_size)]
    memory: Option<Size>,
    /// Processors that each agent may have, such as 1.5 (container, kubernetes)
    #[arg(long, env = "COOP_AGENT_CPUS", value_name = "N", value_parser = parse_cpus, allow_hyphen_values = true)]
    cpus: Option<f64>,
    /// Socket of Docker or Podman (container) [default: DOCKER_HOST, or the usual place of either]
    #[arg(long, env = "COOP_ENGINE", value_name = "SOCKET", value_parser = parse_engine)]
    engine: Option<PathBuf>,
    /// What containers see of this machine beside their workspace: HERE:THERE[:ro]; may be given often (container)
    #[arg(long, env = "COOP_AGENT_MOUNT", value_name = "MOUNT", value_delimiter = ',', value_parser = parse_mount)]
    mount: Vec<String>,
    /// Namespace of the agents (kubernetes) [default: that of the context, or of the service account]
    #[arg(long, env = "COOP_NAMESPACE", value_name = "NAME", value_parser = parse_namespace)]
    namespace: Option<String>,
    /// Context of the configuration (kubernetes) [default: the current one]
    #[arg(long, env = "COOP_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// File with the configuration (kubernetes) [default: KUBECONFIG, ~/.kube/config, or the service account]
    #[arg(long, env = "COOP_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Reach agents by the addresses of their pods, not through the API server (kubernetes)
    #[arg(long, env = "COOP_IN_CLUSTER")]
    in_cluster: bool,
    /// Size of a volume for each agent; without one its conversation goes with its pod (kubernetes)
    #[arg(long, env = "COOP_AGENT_CLAIM", value_name = "SIZE", value_parser = parse_claim, allow_hyphen_values = true)]
    claim: Option<String>,
    /// Class of these volumes (kubernetes) [default: the cluster's]
    #[arg(long, env = "COOP_STORAGE_CLASS", value_name = "NAME", value_parser = parse_object_name)]
    storage_class: Option<String>,
    /// Variable with a value from a Secret: NAME=SECRET/KEY; may be given often (kubernetes)
    #[arg(long, env = "COOP_AGENT_SECRET", value_name = "VAR", value_delimiter = ',', value_parser = parse_secret)]
    secret: Vec<SecretVariable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Local,
    Container,
    Kubernetes,
}

/// The way to a fleet's agents, and the cluster if they are in one.
pub(super) struct Launched {
    pub(super) adapter: SidecarAdapter,
    /// What `--launcher` says, and what has to stay the same with it.
    pub(super) place: String,
    pub(super) cluster: Option<ClusterLauncher>,
}

impl LaunchOption {
    /// Returns the adapter for the fleet with this folder and this id.
    pub(super) async fn adapter(&self, coop: &Path, state: &Path, fleet: &str) -> anyhow::Result<Launched> {
        self.check()?;
        let adapter = match self.launcher {
            Kind::Local => SidecarAdapter::local(coop, state),
            Kind::Container => {
                let launcher = ContainerLauncher::new(self.containers(coop, fleet)?).map_err(anyhow::Error::msg)?;
                SidecarAdapter::new(Arc::new(launcher), state)
            }
            Kind::Kubernetes => {
                let launcher = ClusterLauncher::new(self.cluster(fleet)).await?;
                let adapter = SidecarAdapter::new(Arc::new(launcher.clone()), state);
                let place = format!("kubernetes, in the namespace {}", launcher.namespace());
                return Ok(Launched { adapter, place, cluster: Some(launcher) });
            }
        };
        Ok(Launched { adapter, place: self.name(), cluster: None })
    }

    /// Refuses what would be left aside: whoever names an image or a limit believes that agents are held in it.
    fn check(&self) -> anyhow::Result<()> {
        let both = "container or kubernetes";
        let given = [
            ("--image", both, self.image.is_some()),
            ("--image-has-coop", both, self.image_has_coop),
            ("--memory", both, self.memory.is_some()),
            ("--cpus", both, self.cpus.is_some()),
            ("--engine", "container", self.engine.is_some()),
            ("--mount", "container", !self.mount.is_empty()),
            ("--namespace", "kubernetes", self.namespace.is_some()),
            ("--context", "kubernetes", self.context.is_some()),
            ("--kubeconfig", "kubernetes", self.kubeconfig.is_some()),
            ("--in-cluster", "kubernetes", self.in_cluster),
            ("--claim", "kubernetes", self.claim.is_some()),
            ("--storage-class", "kubernetes", self.storage_class.is_some()),
            ("--secret", "kubernetes", !self.secret.is_empty()),
        ];
        let name = self.name();
        match given.iter().find(|(_, of, is_given)| *is_given && !of.contains(&name)) {
            Some((option, of, _)) => {
                bail!("{option} is for --launcher {of}, and this is {name}: say which, or leave it out")
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> String {
        self.launcher.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned())
    }

    fn containers(&self, coop: &Path, fleet: &str) -> anyhow::Result<Containers> {
        let Some(image) = self.image.clone() else { bail!("say with --image what agents are to run in") };
        Ok(Containers {
            engine: match &self.engine {
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
            mounts: self.mount.clone(),
            memory: self.memory.as_ref().map(|size| size.bytes),
            nano_cpus: self.cpus.map(|cpus| (cpus * 1e9) as u64),
            ports: Ports::for_containers(),
        })
    }

    fn cluster(&self, fleet: &str) -> ClusterOptions {
        let memory = self.memory.as_ref().map(|size| ("memory".to_owned(), size.text.clone()));
        let cpus = self.cpus.map(|cpus| ("cpu".to_owned(), format!("{}m", (cpus * 1000.0).round())));
        ClusterOptions {
            namespace: self.namespace.clone(),
            way: Way { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() },
            reach: if self.in_cluster { Reach::Direct } else { Reach::Forward },
            template: Template {
                image: self.image.clone(),
                image_has_coop: self.image_has_coop,
                image_pull_policy: None,
                claim: self.claim.clone(),
                storage_class: self.storage_class.clone(),
                limits: memory.into_iter().chain(cpus).collect::<BTreeMap<_, _>>(),
                secrets: self.secret.clone(),
            },
            fleet: fleet.to_owned(),
        }
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
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Up {
        #[command(flatten)]
        launch: LaunchOption,
    }

    /// The bug this keeps away: an image and a limit without `--launcher` were left aside, and agents ran on the machine itself.
    #[test]
    fn what_a_launcher_does_not_heed_is_refused() {
        let check = |words: &[&str]| Up::try_parse_from([&["up"], words].concat()).expect("options").launch.check();
        for words in [&["--image", "a"][..], &["--memory", "2Gi"], &["--cpus", "1"], &["--namespace", "n"]] {
            let refused = check(words).expect_err("left aside").to_string();
            assert!(refused.starts_with(words[0]) && refused.contains("this is local"), "{refused}");
        }
        for (launcher, foreign, value) in
            [("container", "--claim", "1Gi"), ("kubernetes", "--mount", "/x:/x"), ("kubernetes", "--engine", "x")]
        {
            assert!(check(&["--launcher", launcher, "--image", "a", foreign, value]).is_err(), "{launcher} {foreign}");
        }
        assert!(check(&[]).is_ok());
        assert!(check(&["--launcher", "container", "--image", "a", "--memory", "2Gi", "--mount", "/x:/x"]).is_ok());
        assert!(check(&["--launcher", "kubernetes", "--image", "a", "--claim", "1Gi", "--secret", "A=b/c"]).is_ok());
    }

    /// Whoever has no engine is told where one was looked for.
    #[test]
    fn an_engine_is_found_or_it_is_told_where_it_was_looked_for() {
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
