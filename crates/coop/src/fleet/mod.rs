//! Many agents: the daemon, and the commands that ask it.

mod adhoc;
#[cfg(feature = "kubernetes")]
mod applied;
mod ask;
mod asks;
mod charter;
mod cli;
#[cfg(feature = "kubernetes")]
mod cluster;
#[cfg(not(feature = "kubernetes"))]
#[path = "no_cluster.rs"]
mod cluster;
#[cfg(feature = "kubernetes")]
mod cluster_values;
mod db;
mod down;
mod family;
mod guests;
mod hub;
mod identity;
mod launch;
mod leaving;
mod logs;
mod look;
mod pass;
mod past;
mod places;
mod refusal;
mod sessions;
mod show;
mod sleep;
mod start;
mod starting;
mod table;
mod tellings;
mod tools;
mod tools_agents;
mod up;
mod values;
mod wait;
mod watch;
pub(crate) mod wrap;
pub(crate) mod ws;
mod ws_cli;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

pub(crate) use self::ask::run;
pub(crate) use self::cli::{FleetCommand, Up};
#[cfg(feature = "kubernetes")]
pub(crate) use self::cluster_values::{parse_namespace, parse_object_name};
pub(crate) use self::identity::Identity;
pub(crate) use self::pass::Pass;
pub(crate) use self::up::up;
#[cfg(feature = "kubernetes")]
pub(crate) use self::values::parse_image;
pub(crate) use self::ws_cli::Ws;

use crate::paths;

/// Returns the socket of the agent with this id, or with an id that only it begins with; also when no daemon runs.
pub(crate) fn agent_socket(name: &str) -> Option<PathBuf> {
    let named = env::var_os("COOP_STATE").filter(|folder| !folder.is_empty());
    let agents = state_path(named.as_deref().map(Path::new)).ok()?.join("agents");
    let exact = agents.join(name).join("coop.sock");
    if exact.exists() {
        return Some(exact);
    }
    let begins = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|id| id.starts_with(name));
    let mut found = fs::read_dir(agents).ok()?.flatten().filter(begins);
    let only = found.next()?;
    found.next().is_none().then(|| only.path().join("coop.sock"))
}

/// Returns the folder of a daemon, private to this user: the one that was named, or the usual one.
fn state_folder(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    paths::private(state_path(named)?)
}

fn state_path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(folder) => std::path::absolute(folder).context("cannot tell the current folder"),
        None => {
            let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let home = || set("HOME").map(|home| home.join(".local/state"));
            let state = set("XDG_STATE_HOME").or_else(home).context("there is no HOME; say --state")?;
            Ok(state.join("coop"))
        }
    }
}

/// Returns the folder with the wrappers of people's own programs.
fn bin_folder(state: &Path) -> PathBuf {
    state.join("bin")
}

/// Returns the socket of a daemon.
fn socket(state: &Path) -> PathBuf {
    state.join("fleet.sock")
}
