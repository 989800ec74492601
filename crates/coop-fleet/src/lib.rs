//! Many agents, reached only over the wire.
//!
//! [`engine`] decides what happens when an agent is idle, asks, fails or dies; [`policy`] answers what it asks by rules;
//! [`definition`] reads both from a file. They are pure: no clock, no file, no socket. [`store`] remembers what happened and
//! what is to be done. [`adapter`] is the way to agents: by their sidecars, or to none at all in tests.

pub mod adapter;
pub mod definition;
pub mod engine;
mod fact;
pub mod policy;
mod sidecar;
pub mod store;

pub use self::fact::{Fact, translate};
