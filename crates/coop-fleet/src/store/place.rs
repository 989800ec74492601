//! Where a store is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// How long a server may take to answer at all.
const CONNECT: Duration = Duration::from_secs(10);
/// After how long a silent connection is asked whether it still is one, and after how long it is given up.
const SILENCE: Duration = Duration::from_secs(15);

/// A file, or a database of a PostgreSQL server. It prints without the password.
#[derive(Clone)]
pub enum Place {
    /// A file of SQLite's.
    File(PathBuf),
    /// A database of a server's.
    Server(Box<Config>),
}

/// Why a text names no store.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It does not say `postgres://…`.
    #[error("a store is named by postgres://USER@HOST/DATABASE; without one it is a file in the daemon's folder")]
    Scheme,
    /// The rest of it makes no sense.
    #[error("that names no PostgreSQL database: {0}")]
    Url(String),
}

impl Place {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?option=value`.
    pub fn parse(url: &str) -> Result<Self, PlaceError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(PlaceError::Scheme);
        }
        // Its words may have the URL in them, and that has the password.
        let mut config: Config = url.parse().map_err(|wrong: tokio_postgres::Error| {
            let said = std::error::Error::source(&wrong).map_or_else(|| wrong.to_string(), ToString::to_string);
            PlaceError::Url(if said.contains(url) { "it cannot be read".to_owned() } else { said })
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PlaceError::Url("it has no host".to_owned()));
        }
        if config.get_dbname().is_none() {
            return Err(PlaceError::Url("it has no database".to_owned()));
        }
        config.application_name("coop");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives_idle(SILENCE).keepalives_interval(SILENCE).keepalives_retries(3);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE * 3);
        }
        Ok(Self::Server(Box::new(config)))
    }

    /// Sets the password, unless the place has one already.
    pub fn with_password(mut self, password: &str) -> Self {
        if let Self::Server(config) = &mut self
            && config.get_password().is_none()
        {
            config.password(password);
        }
        self
    }

    /// Tells what kind of store it is: `sqlite` or `postgres`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "sqlite",
            Self::Server(_) => "postgres",
        }
    }
}

/// Tells whether a server is asked for TLS. It is, unless it is on this machine or the URL says `sslmode=disable`.
pub(super) fn is_private(config: &Config) -> bool {
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
    };
    match config.get_ssl_mode() {
        SslMode::Disable => false,
        SslMode::Require => true,
        _ => !config.get_hosts().iter().all(is_here) || !config.get_hostaddrs().iter().all(|ip| ip.is_loopback()),
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = match self {
            Self::File(path) => return path.display().fmt(f),
            Self::Server(config) => config,
        };
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.chain(config.get_hostaddrs().iter().map(ToString::to_string)).collect();
        let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        let port = config.get_ports().first().map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "postgres://{user}{}{port}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_prints_without_its_password() {
        let place = Place::parse("postgres://ann:s3cr%3At@db.example:5433/coop?connect_timeout=3").expect("a place");
        assert_eq!(place.to_string(), "postgres://ann@db.example:5433/coop");
        assert_eq!(format!("{place:?}"), "Place(postgres://ann@db.example:5433/coop)");
        let Place::Server(config) = place.clone().with_password("other") else { panic!("{place}") };
        assert_eq!(config.get_password(), Some(&b"s3cr:t"[..]), "what the URL says holds");
        let place = Place::parse("postgresql:///coop?host=/run/pg&user=ann").expect("a place").with_password("s3cr:t");
        assert_eq!(place.to_string(), "postgres://ann@/run/pg/coop");
        let Place::Server(config) = place else { panic!("a server") };
        assert_eq!(config.get_password(), Some(&b"s3cr:t"[..]));
        assert!(!format!("{config:?}").contains("s3cr"), "{config:?}");
    }

    #[test]
    fn what_names_no_store_is_refused_and_not_repeated() {
        let wrong =
            ["mysql://ann:s3cret@h/d", "postgres://ann:s3cret@h:port/d", "postgres://ann:s3cret@h", "postgres:///d"];
        for url in wrong {
            let error = Place::parse(url).expect_err(url).to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_server_elsewhere_is_asked_for_tls() {
        let asked = |url: &str| match Place::parse(url).expect("a place") {
            Place::Server(config) => is_private(&config),
            Place::File(_) => false,
        };
        assert!(asked("postgres://ann@db.example/coop"));
        assert!(asked("postgres://ann@localhost/coop?sslmode=require"));
        assert!(!asked("postgres://ann@db.example/coop?sslmode=disable"));
        assert!(!asked("postgres://ann@127.0.0.1/coop"));
        assert!(!asked("postgres:///coop?host=/run/pg"));
    }
}
