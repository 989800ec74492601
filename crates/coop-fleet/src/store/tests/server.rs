//! A PostgreSQL server that the tests start, and a way to it that can be cut.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use super::super::Place;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools/postgres.sh");

/// It ends with the process that started it, however that ends: its standard input is ours.
pub(super) struct Server {
    folder: PathBuf,
    script: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    _child: Child,
}

/// Returns the one server of all tests here; nothing if there is none on this machine and nobody says there has to be.
pub(super) fn shared() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(Server::start).as_ref()
}

impl Server {
    #[expect(clippy::print_stderr, reason = "whoever reads the tests' output has to see what was not tested")]
    pub(super) fn start() -> Option<Self> {
        let mut command = Command::new("bash");
        command.arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a shell");
        let stdin = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let Some(Ok(folder)) = lines.next() else {
            let _ = child.wait();
            assert!(
                std::env::var_os("COOP_POSTGRES").is_none(),
                "there has to be a PostgreSQL server, and none starts"
            );
            eprintln!("skipped: there is no PostgreSQL server on this machine (`make deps` installs one)");
            return None;
        };
        Some(Self { folder: folder.into(), script: Mutex::new((stdin, lines)), _child: child })
    }

    /// Makes a database that nobody else has, and returns where it is.
    pub(super) fn place(&self) -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.say(&format!("database {name}"));
        place(&self.folder, &name)
    }

    pub(super) fn stop(&self) {
        self.say("stop");
    }

    pub(super) fn go_on(&self) {
        self.say("start");
    }

    fn say(&self, word: &str) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(script.0, "{word}").expect("it listens");
        assert_eq!(script.1.next().expect("it answers").expect("text"), "done");
    }
}

fn place(folder: &Path, database: &str) -> Place {
    Place::parse(&format!("postgres:///{database}?host={}&user=coop", folder.display())).expect("a place")
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
    pub(super) fn to(server: &Server, place: &Place) -> Self {
        let Place::Server(config) = place else { panic!("{place}") };
        let folder = tempfile::Builder::new().prefix("coop-px-").tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("it listens");
        let to = server.folder.join(".s.PGSQL.5432");
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
        let place = self::place(folder.path(), config.get_dbname().expect("a name"));
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
