//! One sidecar: who runs it, its files, and what is said over its socket.

mod bridge;
mod client;
mod config;
#[cfg(feature = "containers")]
mod container;
pub mod launcher;
mod local;
mod process;
mod relay;

use std::path::{Path, PathBuf};

pub(crate) use self::bridge::{Bridge, Ending, Pings};
pub(crate) use self::client::Client;
pub use self::client::ClientError;
pub(crate) use self::config::write_config;
#[cfg(feature = "containers")]
pub use self::container::{ContainerLauncher, Containers};
pub(crate) use self::launcher::Watch;
pub use self::local::LocalLauncher;
pub(crate) use self::local::RECORDING;
pub use self::process::Identity;
pub(crate) use self::process::{watch_child, watch_other};
pub(crate) use self::relay::Relay;

/// Returns the part of an agent's folder that its container sees. The rest holds the socket, by which the agent could be steered.
pub(crate) fn container_folder(folder: &Path) -> PathBuf {
    folder.join("inside")
}
