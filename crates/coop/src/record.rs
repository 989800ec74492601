//! What a sidecar writes into its agent's folder about the agent: where its conversations are at home, and where its server
//! is. By it a person's own program comes to the same conversation, and the server has the same port and password the next
//! time, so that whoever was attached finds it again. Only this user can read it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use coop_drivers::{Existing, FileToWrite, Link};
use serde::{Deserialize, Serialize};

use crate::driven::write_private;

/// How long a server on this machine may take for each step of an answer.
const NEAR: Duration = Duration::from_secs(5);
/// The file's name in an agent's folder.
pub(crate) const FILE: &str = "session.json";

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Which driver it is that runs the agent.
    pub(crate) driver: String,
    /// Where the agent works.
    pub(crate) folder: String,
    /// Variables by which its program finds its conversations.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) server: Option<Server>,
}

/// A server that an agent has.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) username: String,
    pub(crate) password: String,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Record {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let not_text = || io::Error::other("the path of an agent's folder is not UTF-8");
        let path = path.to_str().ok_or_else(not_text)?.to_owned();
        write_private(&FileToWrite { path, content: serde_json::to_string(self)?, existing: Existing::Replaced })
    }
}

impl Server {
    /// Returns the server that an agent is reached by, if it is.
    pub(crate) fn of(link: &Link) -> Option<Self> {
        let Link::Http { url, authorization, .. } = link else { return None };
        let encoded = authorization.strip_prefix("Basic ")?;
        let pair = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
        let (username, password) = pair.split_once(':')?;
        Some(Self { url: url.clone(), username: username.to_owned(), password: password.to_owned() })
    }

    /// Returns its port, if it is on this machine.
    pub(crate) fn port(&self) -> Option<u16> {
        let address: SocketAddrV4 = self.url.strip_prefix("http://")?.parse().ok()?;
        (*address.ip() == Ipv4Addr::LOCALHOST).then_some(address.port())
    }

    /// Tells whether it is there: what listens takes its password, and says soon that it is well. A process that is stopped, or
    /// another that has the port by now, is not.
    pub(crate) fn answers(&self) -> bool {
        self.port().is_some_and(|port| self.asked(port).is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200 ")))
    }

    fn asked(&self, port: u16) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), NEAR)?;
        stream.set_write_timeout(Some(NEAR))?;
        stream.set_read_timeout(Some(NEAR))?;
        let pair = BASE64_STANDARD.encode(format!("{}:{}", self.username, self.password));
        write!(
            stream,
            "GET /global/health HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Basic {pair}\r\nconnection: close\r\n\r\n"
        )?;
        let mut status = vec![0; b"HTTP/1.1 200 ".len()];
        stream.read_exact(&mut status)?;
        Ok(status)
    }

    /// Returns its port, if nobody else has that now.
    pub(crate) fn free_port(&self) -> Option<u16> {
        self.port().filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        let authorization = format!("Basic {}", BASE64_STANDARD.encode("opencode:a:b"));
        Server::of(&Link::Http { url: url.to_owned(), events: String::new(), authorization }).expect("a server")
    }

    #[test]
    fn a_server_is_known_by_its_link_and_nobody_is_told_its_password() {
        let known = server("http://127.0.0.1:5000");
        assert_eq!((known.port(), known.username.as_str(), known.password.as_str()), (Some(5000), "opencode", "a:b"));
        assert_eq!(format!("{known:?}"), r#"Server { url: "http://127.0.0.1:5000", .. }"#);
        assert_eq!(server("http://10.0.0.1:5000").port(), None);
        assert!(Server::of(&Link::Pipe).is_none());
    }

    #[test]
    fn a_port_that_somebody_has_is_not_taken_again() {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = other.local_addr().expect("an address").port();
        let known = server(&format!("http://127.0.0.1:{port}"));
        assert_eq!(known.free_port(), None);
        assert!(!known.answers());
        drop(other);
        // Somebody else may take a port at the same moment, but not every time.
        let is_free = || {
            let port =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|one| one.local_addr()).expect("a port").port();
            server(&format!("http://127.0.0.1:{port}")).free_port() == Some(port)
        };
        assert!((0..20).any(|_| is_free()));
    }

    #[test]
    fn only_this_user_can_read_what_is_written_down() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        let env = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
        let server = Some(server("http://127.0.0.1:5000"));
        Record { driver: "opencode".into(), folder: "/w".into(), env, server }.write(&path).expect("written");
        let read = Record::read(&path).expect("read");
        assert_eq!((read.env.len(), read.server.map(|server| server.password)), (1, Some("a:b".to_owned())));
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).expect("there")) & 0o777, 0o600);
    }
}
