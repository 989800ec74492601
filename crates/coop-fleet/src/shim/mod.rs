//! Agents behind shims of others: one process each, by the adapter-shim protocol (docs/SHIM.md).
//!
//! ```text
//! frame ─► Frame::read ─► Intake ─┬─► Story ─► facts
//!            is it one?           ├─► a gap: facts
//!                                 └─► quarantine
//! ```
//!
//! A shim that is not ours is not trusted to be right: [`frame`] holds every event against the protocol's table, [`intake`]
//! lets each through once and in order, and [`story`] says what it means. They are pure.

mod adapter;
mod answer;
mod client;
mod follow;
mod frame;
mod intake;
mod port;
mod ports;
mod process;
mod story;

pub use self::adapter::LocalHttp;
pub use self::intake::{Quarantine, Quarantined};
pub use self::port::ShimAgent;
pub use self::ports::Ports;

/// Holds the text of an event against the protocol's table; says what is wrong with it.
pub fn check(event: &str) -> Result<(), String> {
    frame::Frame::read(event).map(drop)
}
