//! PostgreSQL servers for tests, run by `tests/tools/postgres.sh`.

use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::UNIX_EPOCH;

use crate::skip;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools/postgres.sh");
/// Names the folder of a server that outlives each single test; `make test` starts one.
const SHARED_SERVER: &str = "COOP_TEST_POSTGRES";

/// How the script exits where there is no PostgreSQL.
const NOT_INSTALLED: i32 = 3;

/// A server that listens on a Unix socket in a folder of its own.
pub struct PostgresServer {
    folder: PathBuf,
    /// `None` if another process started the server.
    script: Option<Mutex<Script>>,
}

struct Script {
    /// The server stops when this closes, however the test ends. `None` while the server stops.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl PostgresServer {
    /// Starts a server that only this test has. Reports a skip if PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        let mut command = Command::new("bash");
        command.args([SCRIPT, "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("bash starts");
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let Some(Ok(folder)) = lines.next() else {
            let code = child.wait().expect("bash ends").code();
            assert_eq!(code, Some(NOT_INSTALLED), "PostgreSQL is installed, and does not start");
            skip("PostgreSQL is not installed; `make deps` installs it");
            return None;
        };
        let script = Script { stdin, lines, child };
        Some(Self { folder: folder.into(), script: Some(Mutex::new(script)) })
    }

    /// Returns a server that other tests use at the same time; each makes its own databases there.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
        let find = || match env::var_os(SHARED_SERVER) {
            Some(folder) => Some(Self { folder: folder.into(), script: None }),
            None => Self::start(),
        };
        SERVER.get_or_init(find).as_ref()
    }

    /// Returns the folder with its socket.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Makes a database that no other test has, and returns its URL.
    pub fn create_database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // The server outlives the test's process, whose id may come again.
        let now = UNIX_EPOCH.elapsed().expect("the clock is right").as_micros();
        let name = format!("t{now}_{}_{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new("bash");
        command.args([SCRIPT, "database"]).arg(&self.folder).arg(&name);
        assert!(command.status().expect("bash starts").success(), "database {name} is made");
        format!("postgres:///{name}?host={}&user=coop", self.folder.display())
    }

    /// Stops the server as a crash would.
    pub fn crash(&self) {
        self.send("stop");
    }

    /// Starts it again after a crash.
    pub fn recover(&self) {
        self.send("start");
    }

    fn send(&self, word: &str) {
        let script = self.script.as_ref().expect("only the test that started a server may stop it");
        let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(script.stdin.as_mut().expect("it runs"), "{word}").expect("it listens");
        assert_eq!(script.lines.next().expect("it answers").expect("text"), "done");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
