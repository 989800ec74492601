//! Agents in a cluster: `--launcher kubernetes`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use coop_fleet::adapter::SidecarAdapter;
use coop_kube::{ClusterLauncher, ClusterOptions, Destination, Reach, SecretVariable, Template, Way};

use super::{LaunchOption, Launched};
use crate::fleet::cluster_values::{parse_claim, parse_destination, parse_namespace, parse_object_name, parse_secret};

#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
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
    /// Destination that agents may reach beside the internet: CIDR[:PORT] or NAMESPACE[:PORT]; may be given often (kubernetes)
    #[arg(long, env = "COOP_AGENT_EGRESS", value_name = "TO", value_delimiter = ',', value_parser = parse_destination)]
    egress: Vec<Destination>,
}

impl ClusterArgs {
    /// Returns whether each option was given.
    pub(super) fn given(&self) -> [(&'static str, bool); 8] {
        [
            ("--namespace", self.namespace.is_some()),
            ("--context", self.context.is_some()),
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--in-cluster", self.in_cluster),
            ("--claim", self.claim.is_some()),
            ("--storage-class", self.storage_class.is_some()),
            ("--secret", !self.secret.is_empty()),
            ("--egress", !self.egress.is_empty()),
        ]
    }
}

impl LaunchOption {
    pub(super) async fn launch_in_cluster(&self, state: &Path, fleet: &str) -> anyhow::Result<Launched> {
        let launcher = ClusterLauncher::new(self.cluster_options(fleet)).await?;
        let adapter = SidecarAdapter::new(Arc::new(launcher.clone()), state);
        let place = format!("kubernetes, in the namespace {}", launcher.namespace());
        Ok(Launched { adapter, place, cluster: Some(launcher) })
    }

    fn cluster_options(&self, fleet: &str) -> ClusterOptions {
        let memory = self.memory.as_ref().map(|size| ("memory".to_owned(), size.text.clone()));
        let cpus = self.cpus.map(|cpus| ("cpu".to_owned(), format!("{}m", (cpus * 1000.0).round())));
        ClusterOptions {
            namespace: self.cluster.namespace.clone(),
            way: Way { kubeconfig: self.cluster.kubeconfig.clone(), context: self.cluster.context.clone() },
            reach: if self.cluster.in_cluster { Reach::Direct } else { Reach::Forward },
            template: Template {
                image: self.image.clone(),
                image_has_coop: self.image_has_coop,
                image_pull_policy: None,
                claim: self.cluster.claim.clone(),
                storage_class: self.cluster.storage_class.clone(),
                limits: memory.into_iter().chain(cpus).collect::<BTreeMap<_, _>>(),
                secrets: self.cluster.secret.clone(),
                egress: self.cluster.egress.clone(),
            },
            fleet: fleet.to_owned(),
        }
    }
}
