//! Many agents, reached only over the wire.
//!
//! [`engine`] decides what happens when an agent is idle, asks, fails or dies; [`policy`] answers what it asks by rules;
//! [`definition`] reads both from a file. They are pure: no clock, no file, no socket.

pub mod definition;
pub mod engine;
pub mod policy;
pub mod store;
