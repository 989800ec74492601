//! Databases of a PostgreSQL server, and a way to one that can be cut.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use coop_testkit::PostgresServer;

use super::super::Place;

/// Makes a database on a server and returns where it is.
pub(super) fn place_on(server: &PostgresServer) -> Place {
    Place::parse(&server.create_database()).expect("a place")
}

/// A way to a server that is cut once when the next write ends.
pub(super) struct Proxy {
    pub(super) place: Place,
    cut: Arc<AtomicU8>,
    _folder: tempfile::TempDir,
}

/// Where a connection is cut.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    /// The server never hears that all of it is to be kept.
    Before = 1,
    /// It has kept all of it, and nobody hears that.
    After = 2,
    /// It never hears of it, and nobody says so: the line is open and silent.
    Silence = 3,
}

impl Proxy {
    pub(super) fn to(server: &PostgresServer, place: &Place) -> Self {
        let Place::Server(config) = place else { panic!("{place}") };
        let folder = tempfile::Builder::new().prefix("coop-px-").tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("it listens");
        let to = server.folder().join(".s.PGSQL.5432");
        let cut = Arc::new(AtomicU8::new(0));
        let for_all = Arc::clone(&cut);
        thread::spawn(move || {
            for ours in listener.incoming().map_while(Result::ok) {
                let theirs = UnixStream::connect(&to).expect("the server listens");
                let (from, back) = (theirs.try_clone().expect("a copy"), ours.try_clone().expect("a copy"));
                let cut = Arc::clone(&for_all);
                thread::spawn(move || forward(ours, theirs, &cut));
                thread::spawn(move || pass_on(from, back));
            }
        });
        let (database, host) = (config.get_dbname().expect("a name"), folder.path().display());
        let place = Place::parse(&format!("postgres:///{database}?host={host}&user=coop")).expect("a place");
        Self { place, cut, _folder: folder }
    }

    pub(super) fn cut(&self, at: Cut) {
        self.cut.store(at as u8, Ordering::SeqCst);
    }
}

fn pass_on(mut from: UnixStream, mut to: UnixStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Hands on what the client says, one read at a time: what it says at once comes at once.
fn forward(mut ours: UnixStream, mut theirs: UnixStream, cut: &AtomicU8) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = ours.read(&mut buffer) {
        let said = &buffer[..length];
        let is_end = said.windows(7).any(|part| part == b"COMMIT\0");
        match if is_end { cut.swap(0, Ordering::SeqCst) } else { 0 } {
            0 => {
                if theirs.write_all(said).is_err() {
                    break;
                }
            }
            1 => break,
            3 => {
                // Until our client has enough of it, and goes.
                while let Ok(1..) = ours.read(&mut buffer) {}
                break;
            }
            _ => {
                // Our client hears nothing more; the server hears all of it, and then that nobody is there.
                let _ = ours.shutdown(std::net::Shutdown::Both);
                let _ = theirs.write_all(said);
                let _ = theirs.shutdown(std::net::Shutdown::Write);
                return;
            }
        }
    }
    let _ = ours.shutdown(std::net::Shutdown::Both);
    let _ = theirs.shutdown(std::net::Shutdown::Both);
}
