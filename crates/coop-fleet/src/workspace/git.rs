//! The `git` program, called with a limit. What it could not do is an error, never an empty answer.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::store::STORE_SECRETS;

/// Longer than a checkout of a large repository takes.
const LIMIT: Duration = Duration::from_secs(120);
/// How long another git may hold a lock file that we need, or take to make a worktree.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// What makes git work on another repository than the one it is called in.
const ELSEWHERE: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It cannot be run.
    #[error("cannot run git: {0}")]
    CannotRun(#[from] io::Error),
    /// It ended with an error.
    #[error("git {what} failed ({code}): {said}")]
    Failed {
        /// Which of its commands.
        what: String,
        /// Its exit code, or the signal that ended it.
        code: String,
        /// What it said.
        said: String,
    },
    /// It took too long, and was killed.
    #[error("git {what} took longer than {} s", LIMIT.as_secs())]
    TooLong {
        /// Which of its commands.
        what: String,
    },
    /// It said something that cannot be read.
    #[error("git {what} said what cannot be read: {said:?}")]
    Unread {
        /// Which of its commands.
        what: String,
        /// What it said.
        said: String,
    },
}

/// Runs git in a folder and returns what it printed.
pub(super) async fn git<A: AsRef<OsStr>>(folder: &Path, args: &[A]) -> Result<String, GitError> {
    let output = run(folder, args).await?;
    if !output.status.success() {
        return Err(failed(args, &output));
    }
    text(args, output)
}

/// Lists the worktrees of a repository, also while somebody makes one: git gives up on one that is half made.
pub(super) async fn worktrees(folder: &Path) -> Result<String, GitError> {
    let begun = tokio::time::Instant::now();
    loop {
        match git(folder, &["worktree", "list", "--porcelain", "-z"]).await {
            Err(GitError::Failed { said, .. })
                if said.contains("failed to read") && said.contains("worktrees/") && begun.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(PAUSE).await;
            }
            told => return told,
        }
    }
}

/// Runs git where exit code 1 means no, and not that something went wrong. Returns what it printed, or none for a no.
pub(super) async fn ask<A: AsRef<OsStr>>(folder: &Path, args: &[A]) -> Result<Option<String>, GitError> {
    let output = run(folder, args).await?;
    match output.status.code() {
        Some(0) => text(args, output).map(Some),
        Some(1) => Ok(None),
        _ => Err(failed(args, &output)),
    }
}

/// Runs git to change something that others may be changing too: it is tried again while they hold the lock.
pub(super) async fn change<A: AsRef<OsStr>>(folder: &Path, args: &[A]) -> Result<(), GitError> {
    let begun = tokio::time::Instant::now();
    loop {
        let output = run(folder, args).await?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let is_locked = said.contains("could not lock") || said.contains(".lock': File exists");
        if !is_locked || begun.elapsed() > PATIENCE {
            return Err(failed(args, &output));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn run<A: AsRef<OsStr>>(folder: &Path, args: &[A]) -> Result<Output, GitError> {
    let mut command = Command::new("git");
    // A file watcher that the repository's configuration names would be a program of anybody's.
    command.args(["-c", "core.fsmonitor=false"]).args(args).current_dir(folder);
    // A hook of the repository's may be what an agent wrote.
    for name in ELSEWHERE.iter().chain(&STORE_SECRETS).chain(&["COOP_AUTH_TOKEN"]) {
        command.env_remove(name);
    }
    command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_OPTIONAL_LOCKS", "0")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = timeout(LIMIT, command.output()).await;
    Ok(output.map_err(|_| GitError::TooLong { what: what(args) })??)
}

fn text<A: AsRef<OsStr>>(args: &[A], output: Output) -> Result<String, GitError> {
    let unread = |wrong: std::string::FromUtf8Error| GitError::Unread {
        what: what(args),
        said: String::from_utf8_lossy(wrong.as_bytes()).into_owned(),
    };
    String::from_utf8(output.stdout).map_err(unread)
}

fn failed<A: AsRef<OsStr>>(args: &[A], output: &Output) -> GitError {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    GitError::Failed { what: what(args), code: output.status.to_string(), said }
}

fn what<A: AsRef<OsStr>>(args: &[A]) -> String {
    args.first().map(|arg| arg.as_ref().to_string_lossy().into_owned()).unwrap_or_default()
}
