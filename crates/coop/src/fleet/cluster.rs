//! The cluster that a daemon's agents run in.

use anyhow::bail;
pub(super) use coop_kube::ClusterLauncher;
use coop_kube::Usable;
use coop_server::fleet::types::ClusterHealth;

pub(super) use super::applied::follow;

pub(super) fn health(cluster: &ClusterLauncher) -> ClusterHealth {
    let why = cluster.trouble();
    ClusterHealth {
        address: cluster.address().to_owned(),
        namespace: cluster.namespace().to_owned(),
        condition: if why.is_some() { "lost" } else { "fine" }.to_owned(),
        why,
    }
}

/// Fails if the cluster can never be used. Returns a warning if it cannot be used now.
pub(super) async fn check(cluster: &ClusterLauncher) -> anyhow::Result<Option<String>> {
    match cluster.check().await {
        Usable::Yes => Ok(None),
        Usable::Later(why) => {
            Ok(Some(format!("{why}; coop tries again, and the states of agents may be out of date until then")))
        }
        Usable::Never(why) => bail!("{why}"),
    }
}
