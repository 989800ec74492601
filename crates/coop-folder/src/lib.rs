//! Access to a folder that an agent writes to.
//!
//! The agent may leave links, pipes, a `.git` of its own and programs in a repository's configuration there. Nothing in this
//! crate follows a link out of the folder, waits for a pipe, or runs a program that the folder or its repository names.

mod files;
mod git;
mod programs;

pub use files::{beneath, read_beneath, read_regular};
pub use git::{Git, Location, Remotes};
pub use programs::{find_programs, git_program, only_root_writes};
