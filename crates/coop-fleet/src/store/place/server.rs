//! A database of a PostgreSQL server, as a URL names it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::PlaceError;

/// How long a server may take to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long a silent connection is probed, and how far apart the probes are.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How many unanswered probes end a connection.
const KEEPALIVE_PROBES: u32 = 3;

pub(super) fn parse(url: &str) -> Result<Config, PlaceError> {
    // The client's message may repeat the URL, and that has the password.
    let mut config: Config = url.parse().map_err(|wrong: tokio_postgres::Error| {
        let message = wrong.source().map_or_else(|| wrong.to_string(), ToString::to_string);
        PlaceError::Url(if message.contains(url) { "it cannot be read".to_owned() } else { message })
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(PlaceError::Url("it has no host".to_owned()));
    }
    if config.get_dbname().is_none() {
        return Err(PlaceError::Url("it has no database".to_owned()));
    }
    config.application_name("coop");
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    config.keepalives_idle(KEEPALIVE_INTERVAL).keepalives_interval(KEEPALIVE_INTERVAL);
    config.keepalives_retries(KEEPALIVE_PROBES);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(KEEPALIVE_INTERVAL * KEEPALIVE_PROBES);
    }
    Ok(config)
}

/// Sets the password, unless the URL has one.
pub(super) fn with_password(mut config: Config, password: &str) -> Config {
    if config.get_password().is_none() {
        config.password(password);
    }
    config
}

/// Tells whether coop asks the server for TLS. Servers on this machine and `sslmode=disable` go without.
pub(in crate::store) fn is_private(config: &Config) -> bool {
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

/// Writes the URL without its password.
pub(super) fn write_url(config: &Config, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.chain(config.get_hostaddrs().iter().map(ToString::to_string)).collect();
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let port = config.get_ports().first().map(|port| format!(":{port}")).unwrap_or_default();
    write!(f, "postgres://{user}{}{port}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::is_private;
    use crate::store::Place;

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
