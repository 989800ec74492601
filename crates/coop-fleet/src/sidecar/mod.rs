//! One sidecar: its process, its files, and what is said over its socket.

mod bridge;
mod client;
mod config;
mod process;

pub(crate) use self::bridge::{Bridge, Ending};
pub(crate) use self::client::{Client, ClientError};
pub(crate) use self::config::write_config;
pub(crate) use self::process::{Identity, LaunchError, Launched, Watch, launch, watch_child, watch_other};
