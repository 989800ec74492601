//! Where a fleet's agents run: `coop up --launcher`.

#[cfg(feature = "kubernetes")]
mod cluster;
#[cfg(feature = "containers")]
mod container;

use std::path::Path;

use anyhow::bail;
use clap::{Args, ValueEnum};
use coop_fleet::adapter::SidecarAdapter;

use super::cluster::ClusterLauncher;
use super::values::{Size, parse_cpus, parse_image, parse_size};

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
    #[cfg(feature = "containers")]
    #[command(flatten)]
    container: container::ContainerArgs,
    #[cfg(feature = "kubernetes")]
    #[command(flatten)]
    cluster: cluster::ClusterArgs,
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
            #[cfg(feature = "containers")]
            Kind::Container => self.container_adapter(coop, state, fleet)?,
            #[cfg(feature = "kubernetes")]
            Kind::Kubernetes => return self.launch_in_cluster(state, fleet).await,
            #[cfg(not(feature = "containers"))]
            Kind::Container => {
                bail!("this coop was built without the container launcher; build it with `--features containers`")
            }
            #[cfg(not(feature = "kubernetes"))]
            Kind::Kubernetes => {
                bail!("this coop was built without the Kubernetes launcher; build it with `--features kubernetes`")
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
        ];
        let given = given.into_iter();
        #[cfg(feature = "containers")]
        let given = given.chain(self.container.given().map(|(option, is_given)| (option, "container", is_given)));
        #[cfg(feature = "kubernetes")]
        let given = given.chain(self.cluster.given().map(|(option, is_given)| (option, "kubernetes", is_given)));
        let name = self.name();
        let mut given = given;
        match given.find(|(_, of, is_given)| *is_given && !of.contains(&name)) {
            Some((option, of, _)) => {
                bail!("{option} is for --launcher {of}, and this is {name}: say which, or leave it out")
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> String {
        self.launcher.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned())
    }
}

#[cfg(test)]
#[cfg(all(feature = "containers", feature = "kubernetes"))]
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
}
