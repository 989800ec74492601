//! Where a fleet's agents run: `coop up --launcher`.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::shim::Ports;
use coop_fleet::{ContainerLauncher, Containers};
use coop_kube::{ClusterLauncher, ClusterOptions, Reach, SecretVariable, Template, Way};

/// Where agents run.
#[derive(Debug, Args)]
pub(crate) struct LaunchOption {
    /// Where agents run: as processes here, in containers here, or as Agents of a Kubernetes cluster
    #[arg(long, env = "COOP_LAUNCHER", value_name = "WHERE", default_value = "local")]
    launcher: Kind,
    /// Image that agents run in (container, kubernetes)
    #[arg(long, env = "COOP_AGENT_IMAGE", value_name = "IMAGE")]
    image: Option<String>,
    /// The image has coop at /usr/local/bin/coop; else it is brought there (container, kubernetes)
    #[arg(long, env = "COOP_IMAGE_HAS_COOP")]
    image_has_coop: bool,
    /// Memory that each agent may have, such as 2Gi (container, kubernetes)
    #[arg(long, env = "COOP_AGENT_MEMORY", value_name = "SIZE", value_parser = parse_size)]
    memory: Option<Size>,
    /// Processors that each agent may have, such as 1.5 (container, kubernetes)
    #[arg(long, env = "COOP_AGENT_CPUS", value_name = "N", value_parser = parse_cpus)]
    cpus: Option<f64>,
    /// Socket of Docker or Podman (container) [default: DOCKER_HOST, or the usual place of either]
    #[arg(long, env = "COOP_ENGINE", value_name = "SOCKET")]
    engine: Option<PathBuf>,
    /// What containers see of this machine beside their workspace: HERE:THERE[:ro]; may be given often (container)
    #[arg(long, env = "COOP_AGENT_MOUNT", value_name = "MOUNT", value_delimiter = ',')]
    mount: Vec<String>,
    /// Namespace of the agents (kubernetes) [default: that of the context, or of the service account]
    #[arg(long, env = "COOP_NAMESPACE", value_name = "NAME")]
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
    #[arg(long, env = "COOP_AGENT_CLAIM", value_name = "SIZE")]
    claim: Option<String>,
    /// Class of these volumes (kubernetes) [default: the cluster's]
    #[arg(long, env = "COOP_STORAGE_CLASS", value_name = "NAME")]
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

/// An amount of memory, as it was written and in bytes.
#[derive(Clone, Debug)]
struct Size {
    text: String,
    bytes: u64,
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
            engine: self.engine.clone().or_else(usual_engine).context("no engine is found; say --engine SOCKET")?,
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

/// Returns the socket of the engine that is there, as its own client would look for it.
fn usual_engine() -> Option<PathBuf> {
    let named = env::var("DOCKER_HOST").ok().and_then(|host| host.strip_prefix("unix://").map(PathBuf::from));
    let own = env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("podman/podman.sock"));
    let usual = ["/var/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from);
    named.or_else(|| own.into_iter().chain(usual).find(|socket| socket.exists()))
}

fn parse_size(text: &str) -> Result<Size, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit {
        "" => 0,
        "Ki" => 1,
        "Mi" => 2,
        "Gi" => 3,
        _ => return Err("not a size; use one such as 512Mi or 2Gi".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1024_u64.pow(power)));
    let bytes = bytes.filter(|bytes| *bytes > 0).ok_or("not a size; use one such as 512Mi or 2Gi")?;
    Ok(Size { text: text.to_owned(), bytes })
}

fn parse_cpus(text: &str) -> Result<f64, String> {
    let cpus = text.parse::<f64>().ok().filter(|cpus| (0.001..=1024.0).contains(cpus));
    cpus.ok_or_else(|| "not a number of processors; use one such as 1.5".to_owned())
}

fn parse_secret(text: &str) -> Result<SecretVariable, String> {
    let parts = text.split_once('=').and_then(|(env, place)| Some((env, place.split_once('/')?)));
    let Some((env, (secret, key))) =
        parts.filter(|(env, (secret, key))| ![env, secret, key].iter().any(|part| part.is_empty()))
    else {
        return Err("not NAME=SECRET/KEY".to_owned());
    };
    Ok(SecretVariable { env: env.to_owned(), secret: secret.to_owned(), key: key.to_owned() })
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
        for (launcher, foreign) in [("container", "--claim"), ("kubernetes", "--mount"), ("kubernetes", "--engine")] {
            assert!(check(&["--launcher", launcher, "--image", "a", foreign, "x"]).is_err(), "{launcher} {foreign}");
        }
        assert!(check(&[]).is_ok());
        assert!(check(&["--launcher", "container", "--image", "a", "--memory", "2Gi", "--mount", "/x:/x"]).is_ok());
        assert!(check(&["--launcher", "kubernetes", "--image", "a", "--claim", "1Gi", "--secret", "A=b/c"]).is_ok());
    }

    #[test]
    fn sizes_processors_and_secrets_are_what_they_say() {
        let bytes = |text| parse_size(text).map(|size| size.bytes).ok();
        assert_eq!(bytes("2Gi"), Some(2 << 30));
        assert_eq!(bytes("512Mi"), Some(512 << 20));
        for wrong in ["", "Gi", "2G", "0Mi", "99999999999999999999", "99999999999Gi"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        assert_eq!(parse_cpus("1.5"), Ok(1.5));
        assert!(parse_cpus("0").is_err() && parse_cpus("NaN").is_err() && parse_cpus("-1").is_err());
        let secret = parse_secret("KEY=models/claude").expect("one");
        assert_eq!((secret.env.as_str(), secret.secret.as_str(), secret.key.as_str()), ("KEY", "models", "claude"));
        assert!(parse_secret("KEY=models").is_err() && parse_secret("=a/b").is_err());
    }
}
