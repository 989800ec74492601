//! Running the binary and talking to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Ten times and more what any of these takes on a slow machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// The same for a whole script of them.
pub(crate) const SCRIPT_LIMIT: Duration = Duration::from_secs(600);

/// Whoever looks again and again leaves the processor to those it waits for.
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(10));
}

pub(crate) const COOP: &str = env!("CARGO_BIN_EXE_coop");

/// A command with none of our environment but what it needs, in a folder of its own.
pub(crate) fn coop(home: &Path) -> Command {
    let mut command = Command::new(COOP);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("LANG", "C.UTF-8").current_dir(home);
    command.stdin(Stdio::null());
    // Where root is an ordinary user, what is root's seems to be that user's.
    let bubblewrap = std::env::var_os(coop_sandbox::BUBBLEWRAP_VARIABLE);
    command.envs(bubblewrap.map(|path| (coop_sandbox::BUBBLEWRAP_VARIABLE, path)));
    command
}

/// Returns a command that runs another one in a user namespace of its own, and in these, as root. Before it runs a script,
/// with these arguments, which it takes away.
pub(crate) fn unshared(command: &Command, namespaces: &[&str], script: &str, args: &[&str]) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user"]).args(namespaces);
    inside.args(["sh", "-c", &format!("{script} && exec \"$@\""), "sh"]).args(args);
    inside.arg(command.get_program()).args(command.get_args());
    inside.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside.current_dir(command.get_current_dir().expect("a folder")).stdin(Stdio::null());
    inside.stdout(Stdio::piped()).stderr(Stdio::piped());
    inside
}

/// Has a command run where there is no inotify instance.
pub(crate) fn without_inotify(command: &Command) -> Command {
    unshared(command, &[], "echo 0 >/proc/sys/user/max_inotify_instances", &[])
}

/// Tells whether agents are to run in a sandbox: `make test-sandbox` runs the tests of the agents once more that way.
pub(crate) fn agents_are_sandboxed() -> bool {
    std::env::var_os("COOP_TEST_SANDBOX").is_some()
}

/// Returns the line of `coop.toml` for an agent that is to run in a sandbox; simulated agents keep conversations in their home.
pub(crate) fn sandbox_setting(home: &Path) -> String {
    if !agents_are_sandboxed() {
        return String::new();
    }
    let conversations = home.join(".local/share/coop-sim");
    std::fs::create_dir_all(&conversations).expect("made");
    format!("sandbox = {{ write = [{conversations:?}] }}\n")
}

/// Returns the folder beside an agent's own that its home is moved to: the folder of an agent in a sandbox cannot have it.
pub(crate) fn home_outside(folder: &Path) -> Option<PathBuf> {
    let mut name = folder.file_name()?.to_owned();
    name.push("-home");
    Some(folder.with_file_name(name))
}

/// Has a sidecar run its agent in a sandbox, where simulated agents may write to their own folders.
fn run_in_sandbox(command: &mut Command) {
    let value = |name: &str| {
        let found = command.get_envs().find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value).map(PathBuf::from)
    };
    let (mut home, state) = (value("HOME").expect("a home"), value("COOP_SIM_STATE"));
    let folder = command.get_current_dir().expect("a folder").to_owned();
    if home == folder {
        let work = folder.join("work");
        std::fs::create_dir_all(&work).expect("made");
        command.current_dir(work);
    } else if let Ok(within) = home.strip_prefix(&folder) {
        let outside = home_outside(&folder).expect("a name");
        let moved = outside.join(within);
        std::fs::create_dir_all(outside).expect("made");
        if home.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
            std::fs::rename(&home, &moved).expect("moved");
            std::os::unix::fs::symlink(&moved, &home).expect("linked");
        }
        std::fs::create_dir_all(&moved).expect("made");
        command.env("HOME", &moved);
        home = moved;
    }
    // An isolated agent keeps its conversations elsewhere. It may go on with another home, and must not have another sandbox.
    let is_isolated = command.get_args().any(|word| word == "--isolate");
    let conversations = home.join(".local/share/coop-sim");
    std::fs::create_dir_all(&conversations).expect("made");
    let written = state.into_iter().chain(Some(conversations).filter(|_| !is_isolated));
    let written = std::env::join_paths(written).expect("paths without colons");
    command.env("COOP_SANDBOX", "true").env("COOP_SANDBOX_WRITE", written);
}

/// A running sidecar, killed when dropped.
pub(crate) struct Sidecar {
    pub(crate) child: Child,
    pub(crate) home: tempfile::TempDir,
    pub(crate) lines: Vec<String>,
}

impl Sidecar {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::with(args, |command| command)
    }

    pub(crate) fn with(args: &[&str], change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut command = coop(home.path());
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        if agents_are_sandboxed() {
            run_in_sandbox(&mut command);
        }
        let mut child = command.spawn().expect("coop runs");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut lines = Vec::new();
        loop {
            match receiver.recv_timeout(LIMIT) {
                Ok(line) if line == "ready" => break,
                Ok(line) => lines.push(line),
                Err(_) => {
                    let _ = child.kill();
                    let mut errors = String::new();
                    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
                    panic!("coop {args:?} did not get ready: {lines:?} {errors}");
                }
            }
        }
        Self { child, home, lines }
    }

    pub(crate) fn line(&self, kind: &str) -> &str {
        let prefix = format!("listening {kind} ");
        self.lines
            .iter()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap_or_else(|| panic!("no {kind} in {:?}", self.lines))
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.line("unix").into()
    }

    /// Asks over the Unix socket; returns status and body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        request(stream, method, path, body, "")
    }

    /// Asks if anybody is there.
    pub(crate) fn try_ask(&self, method: &str, path: &str) -> Option<(u16, Value)> {
        let stream = UnixStream::connect(self.socket()).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        Some(request(stream, method, path, "", ""))
    }

    pub(crate) fn screen(&self) -> String {
        match self.ask("GET", "/api/v1/screen/text", "") {
            (200, Value::String(text)) => text,
            other => panic!("no screen: {other:?}"),
        }
    }

    /// Waits until the screen shows a text: woken by the agent's events, not by a clock.
    pub(crate) fn see(&self, text: &str) -> String {
        self.see_within(text, LIMIT)
    }

    pub(crate) fn see_within(&self, text: &str, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        let mut offset = 0;
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < deadline, "{text:?} never came; the screen shows:\n{screen}");
            let (_, output) = self.ask("GET", &format!("/api/v1/output?offset={offset}"), "");
            let next = output["next_offset"].as_u64().unwrap_or(offset);
            if next == offset {
                pause();
            }
            offset = next;
        }
    }

    pub(crate) fn wait(&mut self) -> (i32, String) {
        let status = wait_for(&mut self.child);
        let mut log = String::new();
        let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut log));
        (status, log)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it lives");
    }
}

impl Sidecar {
    /// Ends it, if it runs.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        pause();
    }
}

/// A terminal of tmux: what a sidecar runs counts as an agent's, and a person's program does not.
pub(crate) struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    pub(crate) fn start(words: &[&str], folder: &Path) -> Self {
        let terminal = Self { folder: tempfile::tempdir().expect("a folder") };
        let folder = folder.to_str().expect("UTF-8");
        let session = ["new-session", "-d", "-x", "120", "-y", "40", "-c", folder];
        let stays = ["set", "-g", "remain-on-exit", "on", ";"];
        terminal.tmux(&[&["-f", "/dev/null", "start-server", ";"], &stays[..], &session, words].concat());
        terminal
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.path().join("tmux")).args(args).env_remove("TMUX");
        let (code, out, err) = run(&mut tmux);
        assert_eq!(code, 0, "{args:?}: {err}");
        out
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until it shows a text, and returns all that it shows.
    pub(crate) fn see(&self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < deadline, "{text:?} never came; the screen shows:\n{screen}");
            pause();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Waits for a child within the limit.
pub(crate) fn wait_for(child: &mut Child) -> i32 {
    wait_within(child, LIMIT)
}

fn wait_within(child: &mut Child, limit: Duration) -> i32 {
    let pid = rustix::process::Pid::from_child(child);
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("it is ours");
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
    // Tests beside this one may have handlers for signals.
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&limit))).expect("poll works");
    if ready == 0 {
        let _ = child.kill();
        panic!("it did not end in time");
    }
    let status = child.wait().expect("it is ours");
    status.code().unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0))
}

/// Runs a command to its end: exit code, standard output, standard error.
pub(crate) fn run(command: &mut Command) -> (i32, String, String) {
    run_within(command, LIMIT)
}

pub(crate) fn run_within(command: &mut Command, limit: Duration) -> (i32, String, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut out = child.stdout.take().expect("it is piped");
    let mut err = child.stderr.take().expect("it is piped");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text
    });
    let errors = thread::spawn(move || {
        let mut text = String::new();
        let _ = err.read_to_string(&mut text);
        text
    });
    let code = wait_within(&mut child, limit);
    (code, reader.join().expect("no panic"), errors.join().expect("no panic"))
}

/// Writes a program. Another process does: a child that a thread beside us has forked and that is not yet what it is to be has
/// every file open that we have, and a file that is open for writing cannot be run.
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut command = Command::new("install");
    command.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    assert_eq!(wait_for(&mut child), 0, "{} cannot be written", path.display());
}

/// One HTTP request on a connection of its own.
pub(crate) fn request(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    body: &str,
    headers: &str,
) -> (u16, Value) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    // At once: whoever is refused by the head may be gone before a body that comes later.
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).expect("it is open");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers in time");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status =
        answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no status: {answer}"));
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())))
}
