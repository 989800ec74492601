//! What git lists.

use std::path::PathBuf;

/// What git tells of a worktree.
pub(super) struct Worktree {
    pub(super) path: PathBuf,
    pub(super) head: String,
    pub(super) branch: Option<String>,
    pub(super) locked: Option<String>,
}

/// Reads `git worktree list --porcelain -z`: lines that end with a NUL, and one more after each worktree.
pub(super) fn worktrees(listed: &str) -> Vec<Worktree> {
    let read = |entry: &str| {
        let mut lines = entry.split('\0');
        let path = lines.next()?.strip_prefix("worktree ")?.into();
        let mut worktree = Worktree { path, head: String::new(), branch: None, locked: None };
        for line in lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "HEAD" => worktree.head = value.to_owned(),
                "branch" => worktree.branch = value.strip_prefix("refs/heads/").map(str::to_owned),
                "locked" => worktree.locked = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(worktree)
    };
    listed.split("\0\0").filter_map(read).collect()
}
