//! Where a store is.

#[cfg(feature = "postgres")]
mod server;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(feature = "postgres")]
pub(super) use self::server::is_private;

/// A file, or a database of a PostgreSQL server. It prints without the password.
#[derive(Clone)]
pub enum Place {
    /// A file of SQLite's.
    File(PathBuf),
    /// A database of a server's.
    #[cfg(feature = "postgres")]
    Server(Box<tokio_postgres::Config>),
}

/// Why a text names no store.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It does not say `postgres://…`.
    #[error("a store is named by postgres://USER@HOST/DATABASE; without one it is a file in the daemon's folder")]
    Scheme,
    /// The rest of it makes no sense.
    #[cfg(feature = "postgres")]
    #[error("that names no PostgreSQL database: {0}")]
    Url(String),
    /// Only a build with the feature `postgres` can open it.
    #[cfg(not(feature = "postgres"))]
    #[error("this coop was built without PostgreSQL; build it with `--features postgres`, or leave out --store")]
    NotBuilt,
}

impl Place {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?option=value`.
    pub fn parse(url: &str) -> Result<Self, PlaceError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(PlaceError::Scheme);
        }
        #[cfg(feature = "postgres")]
        return server::parse(url).map(|config| Self::Server(Box::new(config)));
        #[cfg(not(feature = "postgres"))]
        Err(PlaceError::NotBuilt)
    }

    /// Sets the password, unless the place has one already.
    pub fn with_password(self, password: &str) -> Self {
        match self {
            Self::File(_) => self,
            #[cfg(feature = "postgres")]
            Self::Server(config) => Self::Server(Box::new(server::with_password(*config, password))),
        }
    }

    /// Returns the file, unless the store is in a server.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            #[cfg(feature = "postgres")]
            Self::Server(_) => None,
        }
    }

    /// Tells what kind of store it is: `sqlite` or `postgres`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "sqlite",
            #[cfg(feature = "postgres")]
            Self::Server(_) => "postgres",
        }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            Self::Server(config) => server::write_url(config, f),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}
