//! What an agent may touch, and the bubblewrap command line that enforces it.
//!
//! An agent in a sandbox has its own mount, PID and IPC namespaces. It writes to its folder and to what [`Reach::write`] names.
//! It sees the rest of the file system read-only, without [`Reach::hidden`], `/tmp`, `/var/tmp` and `/run`. It sees no process
//! but its own, and all of them end with the process that started the sandbox.

mod aliases;
mod bubblewrap;
mod error;
mod git;
mod mount;
mod mounted;
mod reach;
mod secrets;

pub use bubblewrap::{BUBBLEWRAP_VARIABLE, check};
pub use error::SandboxError;
pub use mounted::check_mounted;
pub use reach::{Prepared, Reach, is_never_given, leads_over_link};
pub use secrets::{in_home, secrets_of};
