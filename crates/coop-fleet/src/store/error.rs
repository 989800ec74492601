use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why something is not kept, or not known.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room. Nothing of what was to be written is.
    #[error("there is no room for {path}; free some and try again. Nothing was written")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// What is in the file is not what was written.
    #[error(
        "{path} is damaged: {detail}. It was not changed; put a backup in its place, or move it away to begin anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        detail: String,
    },
    /// A later version has written it.
    #[error("{path} was written by a later version of coop (format {found}, this one knows {known})")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The latest that is known here.
        known: u32,
    },
    /// Somebody else writes, for too long.
    #[error("another program has {path} locked; is another coop running?")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// There is no such agent, or nothing says what is to be done about it.
    #[error("no agent {agent} is defined")]
    Undefined {
        /// Which.
        agent: String,
    },
    /// Anything else that SQLite says.
    #[error("cannot use {path}")]
    Sql {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: rusqlite::Error,
    },
}

impl StoreError {
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, detail: source.to_string() }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            _ => Self::Sql { path, source },
        }
    }

    pub(super) fn damaged(path: &Path, detail: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), detail: detail.to_string() }
    }
}
