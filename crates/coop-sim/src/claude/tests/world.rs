//! A home, a project and a terminal for one agent.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::claude::io::Signals;
use crate::claude::launch::{World, launch};

/// Nothing here takes so long unless it never ends.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Home {
    folder: TempDir,
    pub(super) env: Vec<(&'static str, String)>,
}

impl Home {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let env = vec![
            ("HOME", path("home")),
            ("COOP_SIM_SCENARIO", "plain".to_owned()),
            ("COOP_SIM_GATES", path("gates")),
            ("COOP_SIM_STATE", path("state")),
        ];
        for name in ["home", "project", "gates"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, env }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(super) fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Makes a FIFO; returns its path.
    pub(super) fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        path
    }

    /// Writes settings with one command per event; returns the path for `--settings`.
    pub(super) fn hooks(&self, hooks: &[(&str, String)]) -> String {
        let mut settings = json!({ "hooks": {} });
        for (event, command) in hooks {
            let group = json!({ "hooks": [{ "type": "command", "command": command, "timeout": 60 }] });
            settings["hooks"][*event] = json!([group]);
        }
        self.settings(&settings)
    }

    pub(super) fn settings(&self, settings: &Value) -> String {
        let path = self.path("settings.json");
        fs::write(&path, settings.to_string()).unwrap();
        path.display().to_string()
    }

    /// A hook that appends its payload to `hooks.jsonl`.
    pub(super) fn record(&self) -> String {
        format!("(cat; echo) >> {}", self.path("hooks.jsonl").display())
    }

    pub(super) fn recorded(&self) -> Vec<Value> {
        json_lines(&self.read("hooks.jsonl"))
    }

    /// The lines of the only log.
    pub(super) fn log(&self) -> Vec<Value> {
        let logs = self.logs();
        let files: Vec<PathBuf> = fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [file] = files.as_slice() else { panic!("not one log: {files:?}") };
        json_lines(&fs::read_to_string(file).unwrap())
    }

    pub(super) fn logs(&self) -> PathBuf {
        let project = self.project();
        let name: String =
            project.to_str().unwrap().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.path("home/.claude/projects").join(name)
    }

    /// The live status of the agent in this very process, or of another.
    pub(super) fn status(&self, pid: u32) -> Option<Value> {
        let text = fs::read_to_string(self.path(&format!("home/.claude/sessions/{pid}.json"))).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    fn world(&self, args: &[&str], stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> World {
        let env = self.env.clone();
        let look_up = move |name: &str| -> Option<OsString> {
            env.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value))
        };
        World {
            args: args.iter().map(|word| (*word).to_owned()).collect(),
            env: Arc::new(look_up),
            cwd: self.project(),
            stdin,
            stdout,
            stderr,
            signals: Signals::Ignored,
        }
    }
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What comes out of a file, as it comes.
pub(super) struct Reader {
    chunks: Receiver<Vec<u8>>,
    pub(super) seen: String,
    /// Up to here it has been waited for.
    at: usize,
    bytes: Vec<u8>,
}

impl Reader {
    pub(super) fn new(mut file: File) -> Self {
        let (send, chunks) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = file.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { chunks, seen: String::new(), at: 0, bytes: Vec::new() }
    }

    /// Waits until a text appears behind the last one waited for.
    pub(super) fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.seen[self.at..].find(text) {
                self.at += found + text.len();
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => self.take(&chunk),
                Err(error) => panic!("no {text:?} ({error}) in:\n{}", self.seen),
            }
        }
    }

    pub(super) fn rest(mut self) -> String {
        while let Ok(chunk) = self.chunks.recv_timeout(PATIENCE) {
            self.take(&chunk);
        }
        self.seen
    }

    /// Drops the colours, so that texts can be searched for; keeps letters that are cut in half for later.
    fn take(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        let whole = match std::str::from_utf8(&self.bytes) {
            Ok(_) => self.bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        let text: Vec<u8> = self.bytes.drain(..whole).collect();
        self.seen.push_str(&String::from_utf8(text).unwrap());
        let mut fresh = self.seen.split_off(self.at);
        for colour in ["\x1b[32m", "\x1b[35m", "\x1b[36m", "\x1b[2m", "\x1b[0m"] {
            fresh = fresh.replace(colour, "");
        }
        self.seen.push_str(&fresh);
    }
}

/// A pseudo-terminal: our side and the agent's.
pub(super) fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (ours, theirs)
}

/// An agent on a pseudo-terminal, on a thread of this process.
pub(super) struct Screen {
    keyboard: File,
    pub(super) out: Reader,
    agent: JoinHandle<anyhow::Result<i32>>,
}

impl Screen {
    pub(super) fn start(home: &Home, args: &[&str]) -> Self {
        let (ours, theirs) = terminal();
        let world = home.world(args, theirs.try_clone().unwrap(), theirs.try_clone().unwrap(), theirs);
        let agent = thread::spawn(move || launch(world));
        let out = Reader::new(File::from(ours.try_clone().unwrap()));
        Self { keyboard: File::from(ours), out, agent }
    }

    /// Starts and waits until it takes input.
    pub(super) fn ready(home: &Home, args: &[&str]) -> Self {
        let mut screen = Self::start(home, args);
        screen.out.wait_for("\x1b[?2004h");
        screen
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.keyboard.write_all(bytes).unwrap();
    }

    /// Pastes a prompt and submits it.
    pub(super) fn submit(&mut self, text: &str) {
        self.write(format!("\x1b[200~{text}\x1b[201~\r").as_bytes());
    }

    pub(super) fn wait_for(&mut self, text: &str) {
        self.out.wait_for(text);
    }

    pub(super) fn exit(mut self) -> i32 {
        self.write(b"/exit\r");
        self.code()
    }

    pub(super) fn code(self) -> i32 {
        within_patience(move || self.agent.join().unwrap().unwrap())
    }
}

/// An agent on pipes, on a thread of this process.
pub(super) struct Pipe {
    input: Option<File>,
    pub(super) out: Reader,
    errors: Reader,
    agent: JoinHandle<anyhow::Result<i32>>,
}

impl Pipe {
    pub(super) fn start(home: &Home, args: &[&str]) -> Self {
        let pipe = || {
            let (read, write) = std::io::pipe().unwrap();
            (File::from(OwnedFd::from(read)), OwnedFd::from(write))
        };
        let ((stdin, input), (out, stdout), (errors, stderr)) = (pipe(), pipe(), pipe());
        let world = home.world(args, OwnedFd::from(stdin), stdout, stderr);
        let agent = thread::spawn(move || launch(world));
        Self { input: Some(File::from(input)), out: Reader::new(out), errors: Reader::new(errors), agent }
    }

    pub(super) fn send(&mut self, line: &Value) {
        self.write(&format!("{line}\n"));
    }

    pub(super) fn write(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Closes the input and waits for the end: exit code, output, errors.
    pub(super) fn finish(mut self) -> (i32, String, String) {
        drop(self.input.take());
        within_patience(move || (self.agent.join().unwrap().unwrap(), self.out.rest(), self.errors.rest()))
    }
}

/// Opens a FIFO for writing and closes it: whoever reads it goes on. Waits for the reader.
pub(super) fn knock(fifo: &Path) {
    let fifo = fifo.to_owned();
    within_patience(|| drop(fs::OpenOptions::new().write(true).open(fifo).unwrap()));
}

/// A FIFO whose other end a process and its children hold open.
pub(super) struct Held(File);

impl Held {
    pub(super) fn by_somebody(fifo: PathBuf) -> Self {
        Self(within_patience(|| File::open(fifo).unwrap()))
    }

    /// The other end closes when all who held it are dead.
    pub(super) fn wait_until_dead(mut self) {
        assert_eq!(within_patience(move || self.0.read(&mut [0]).unwrap()), 0);
    }
}

/// Does what may block for ever, but not for ever.
pub(super) fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, done) = channel();
    thread::spawn(move || send.send(work()));
    done.recv_timeout(PATIENCE).expect("it takes for ever")
}
