//! One live agent.
//!
//! One task on a thread of its own owns the child, the screen, the event log and the input queue. Everyone else holds
//! a [`Handle`]: it asks by mailbox and follows by [`coop_api::Feed`]. Only the input queue writes to the terminal.

mod handle;
mod input;
mod lock;
mod log;
mod requests;
mod session;
mod stop;

pub use handle::{Handle, Options, Queries, StartError, start};
