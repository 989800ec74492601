//! One live agent.
//!
//! One task on a thread of its own owns the child, the screen, the event log and the input queue. Everyone else holds
//! a [`Handle`]: it asks by mailbox and follows by [`coop_api::Feed`]. Only the input queue writes to the terminal.

mod agent;
mod agent_files;
mod companion;
mod drive;
mod guard;
mod handle;
mod input;
mod lateness;
mod link;
mod lock;
mod log;
mod prime;
mod record;
mod render;
mod requests;
mod serve;
mod session;
mod stop;
mod watch;

pub use agent::{StopConfig, StopMode};
pub use handle::{AgentOptions, Handle, Options, Prepare, Prepared, Queries, StartError, start};
pub use prime::{Prime, StartConfig};
pub use record::{LEAST_RECORDING, OpenRecording, Recorder, Recording};
pub use serve::ServiceOptions;
