//! The `git` program, called with a limit. What it could not do is an error, never an empty answer.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use coop_folder::{Git, Location, Remotes};
use tokio::process::Command;

use super::Project;
use super::worktree::{self, Worktree};
use crate::bounded;

/// Longer than a checkout of a large repository takes.
const LIMIT: Duration = Duration::from_secs(120);
/// How long another git may hold a lock file that we need, or take to make a worktree.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

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

/// A repository, seen from one of its work trees. Git reads no configuration of the repository's: see [`coop_folder`].
#[derive(Clone, Debug)]
pub(super) struct Repository(Git);

impl Repository {
    /// Opens the repository of a project, seen from the project's own folder.
    pub(super) async fn open(project: &Project) -> Result<Self, GitError> {
        let (git_dir, work_tree) = (project.git_dir.clone(), project.path.clone());
        Self::open_at(Location { common_dir: git_dir.clone(), git_dir, work_tree }, Remotes::Known).await
    }

    pub(super) async fn open_at(location: Location, remotes: Remotes) -> Result<Self, GitError> {
        let opened = tokio::task::spawn_blocking(move || Git::open(location, remotes));
        Ok(Self(opened.await.map_err(io::Error::other)??))
    }

    /// Returns the same repository seen from a work tree, which the repository's own records have to know.
    pub(super) fn work_tree(&self, path: &Path) -> Result<Self, GitError> {
        Ok(Self(self.0.work_tree(path)?))
    }

    pub(super) fn location(&self) -> &Location {
        self.0.location()
    }

    /// Returns the repository's own configuration. It is read and written as a file, and never heeded.
    pub(super) fn config(&self) -> PathBuf {
        self.location().common_dir.join("config")
    }

    /// Runs git and returns what it printed.
    pub(super) async fn git<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<String, GitError> {
        let output = self.run(args).await?;
        if !output.status.success() {
            return Err(failed(args, &output));
        }
        text(args, output)
    }

    /// Lists the worktrees of a repository, also while somebody makes one: git gives up on one that is half made.
    pub(super) async fn worktrees(&self) -> Result<Vec<Worktree>, GitError> {
        let begun = tokio::time::Instant::now();
        loop {
            match self.git(&["worktree", "list", "--porcelain", "-z"]).await {
                Err(GitError::Failed { said, .. })
                    if said.contains("failed to read") && said.contains("worktrees/") && begun.elapsed() < PATIENCE =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                told => {
                    let mut listed = worktree::worktrees(&told?);
                    // The first is the repository's own, and is said to be where the common folder is.
                    if let Some(own) = listed.first_mut() {
                        own.path.clone_from(&self.location().work_tree);
                    }
                    return Ok(listed);
                }
            }
        }
    }

    /// Runs git where exit code 1 means no, and not that something went wrong. Returns what it printed, or none for a no.
    pub(super) async fn ask<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Option<String>, GitError> {
        let output = self.run(args).await?;
        match output.status.code() {
            Some(0) => text(args, output).map(Some),
            Some(1) => Ok(None),
            _ => Err(failed(args, &output)),
        }
    }

    /// Runs git to change something that others may be changing too: it is tried again while they hold the lock.
    pub(super) async fn change<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<(), GitError> {
        let begun = tokio::time::Instant::now();
        loop {
            let output = self.run(args).await?;
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

    /// Asks something of the repository's own configuration, with the words of `git config`.
    pub(super) async fn ask_config(&self, words: &[&str]) -> Result<Option<String>, GitError> {
        self.ask(&self.of_config(words)).await
    }

    /// Changes the repository's own configuration, with the words of `git config`.
    pub(super) async fn change_config(&self, words: &[&str]) -> Result<(), GitError> {
        self.change(&self.of_config(words)).await
    }

    fn of_config(&self, words: &[&str]) -> Vec<std::ffi::OsString> {
        let begin = ["config".into(), "--file".into(), self.config().into(), "--no-includes".into()];
        begin.into_iter().chain(words.iter().map(Into::into)).collect()
    }

    async fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Output, GitError> {
        let command = Command::from(self.0.command(args));
        bounded::output(command, LIMIT).await?.ok_or_else(|| GitError::TooLong { what: what(args) })
    }
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
