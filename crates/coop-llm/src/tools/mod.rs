//! Tools for work on the files of one folder.

mod capture;
mod edit;
mod list;
mod read;
mod root;
mod search;
mod shell;
mod write;

use std::sync::Arc;

pub use root::Root;

use crate::Tool;

/// Returns the tools `read`, `list`, `search`, `write`, `edit` and `shell`, for one folder.
///
/// All but `shell` are confined to it: neither `..` nor an absolute path nor a link leads out of it, also if the folder
/// changes meanwhile. `shell` only begins there; what it runs can do whatever the user can.
pub fn coding_tools(root: &Root) -> Vec<Arc<dyn Tool>> {
    let mut tools = reading_tools(root);
    tools.extend([write::tool(root), edit::tool(root), shell::tool(root)]);
    tools
}

/// Returns only those that look: `read`, `list` and `search`.
pub fn reading_tools(root: &Root) -> Vec<Arc<dyn Tool>> {
    vec![read::tool(root), list::tool(root), search::tool(root)]
}

/// The most that one tool says.
const MAX_OUTPUT: usize = 64 * 1024;
/// Larger files are for programs, not for a model's eyes.
const MAX_FILE: u64 = 16 << 20;
