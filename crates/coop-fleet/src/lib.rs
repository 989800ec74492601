//! Many agents, reached only over the wire.
//!
//! [`engine`] decides what happens when an agent is idle, asks, fails or dies; the rules of [`coop_policy`] answer what it asks;
//! [`definition`] reads both from a file. They are pure: no clock, no file, no socket. [`store`] remembers what happened and
//! what is to be done. [`adapter`] is the way to agents: by their sidecars, or to none at all in tests; [`shim`] is the way to
//! those behind shims of others. [`bounded`] starts programs. [`claims`] says who has a conversation open. [`fleet`] puts them together: it is the one that
//! does something. [`workspace`] makes and deletes the folders that agents work in.
#![cfg_attr(
    not(all(feature = "containers", feature = "postgres")),
    allow(dead_code, unused_imports, unused_variables, reason = "helpers of the features that are left out")
)]

pub mod adapter;
pub mod bounded;
pub mod claims;
pub mod definition;
pub mod engine;
mod fact;
pub mod fleet;
pub mod private;
pub mod shim;
mod sidecar;
pub mod store;
pub mod workspace;

pub use self::fact::{Fact, translate};
pub use self::sidecar::{ClientError, Identity as ProcessIdentity};
#[cfg(feature = "containers")]
pub use self::sidecar::{ContainerLauncher, Containers};
pub use self::sidecar::{LocalLauncher, launcher};
