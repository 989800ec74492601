//! Stands in for `cluster` in a build without the feature `kubernetes`: no daemon has a cluster then.

use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::fleet::Fleet;
use coop_server::fleet::types::ClusterHealth;

#[derive(Clone, Debug)]
pub(super) enum ClusterLauncher {}

pub(super) fn health(cluster: &ClusterLauncher) -> ClusterHealth {
    match *cluster {}
}

pub(super) async fn check(cluster: &ClusterLauncher) -> anyhow::Result<Option<String>> {
    match *cluster {}
}

pub(super) async fn follow(_: Fleet, _: SidecarAdapter, cluster: ClusterLauncher) {
    match cluster {}
}
