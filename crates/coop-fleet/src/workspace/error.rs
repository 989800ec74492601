//! Why something was not done.

use std::io;
use std::path::{Path, PathBuf};

use super::{GitError, NameError};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Git says no, or cannot say.
    #[error(transparent)]
    Git(#[from] GitError),
    /// It is no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It is not a repository with files.
    #[error("{} is not the folder of a git repository: {why}", path.display())]
    NoRepository {
        /// Where.
        path: PathBuf,
        /// What is there.
        why: String,
    },
    /// No such project is open.
    #[error("no project {0} is open")]
    NoSuchProject(String),
    /// There is no such workspace.
    #[error("there is no workspace {0}")]
    NoSuchWorkspace(String),
    /// It cannot be made, for there is something.
    #[error("{0}")]
    Taken(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// A file cannot be read or written.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

pub(super) fn file(what: &'static str, path: &Path, source: io::Error) -> WorkspaceError {
    WorkspaceError::File { what, path: path.to_owned(), source }
}
