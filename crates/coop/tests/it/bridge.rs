//! The bridge against real multiplexers: private servers, `coop bridge` on a terminal of its own.
//!
//! Every wait awaits output, an exit or a condition, and fails after [`DEADLINE`].

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::blocking::Pty;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(180);

/// Says its terminal's size whenever it is sent a line, and ends when it is sent `end`.
const SIZES: &str = "while read line; do [ \"$line\" = end ] && exit; echo \"size: $(stty size)\"; done";

/// Puts every byte it is sent into the file `got`, once it has said it is ready. `{n}` stands for how many.
const COLLECT: &str = "stty raw -echo; printf READY; head -c {n} > got; printf DONE; sleep 1000";

#[test]
fn tmux_what_is_on_the_pane_is_painted_and_what_follows_streams() {
    let tmux = Tmux::with("printf '\\033[31mhéllo ─❯ 中文\\033[0m\\n'; exec cat");
    tmux.wait_for_pane("中文");
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b[31mhéllo ─❯ 中文");
    bridge.type_in(b"marco polo\r");
    bridge.wait_for("marco polo\r\nmarco polo\r\n");
}

#[test]
fn tmux_every_byte_arrives() {
    let tmux = Tmux::with(&COLLECT.replace("{n}", "256"));
    let mut bridge = tmux.bridge();
    every_byte_arrives(&mut bridge, tmux.dir());
}

#[test]
fn tmux_input_reaches_the_program_when_somebody_scrolls_back() {
    let tmux = Tmux::with("exec cat");
    tmux.run(&["copy-mode", "-t", "=it:"]);
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    bridge.type_in(b"still here\r");
    bridge.wait_for("still here\r\nstill here\r\n");
}

#[test]
fn tmux_nothing_is_lost_or_doubled_between_the_picture_and_the_stream() {
    let tmux = Tmux::with("i=0; while :; do i=$((i+1)); echo \"n$i\"; done");
    // A second pane that writes as fast must not come in between.
    tmux.run(&["new-window", "-d", "-t", "=it:", "yes noise"]);
    tmux.wait_for_pane("n1");
    let bridge = tmux.bridge();
    assert!(bridge.is_within(DEADLINE, |output| output.len() > 50_000));
    let numbers = numbers(&bridge.output());
    assert!(numbers.len() > 1000);
    let gap = numbers.windows(2).find(|two| two[1] != two[0] + 1);
    assert_eq!(gap, None);
}

#[test]
fn tmux_the_pane_has_the_terminals_size_and_follows_it() {
    let tmux = Tmux::with(SIZES);
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    bridge.wait_for_repeatedly("size: 30 100", |bridge| bridge.type_in(b"\r"));
    bridge.resize(40, 120);
    tmux.wait_until("the pane is resized", || tmux.ask("#{pane_width}x#{pane_height}") == "120x40");
    bridge.wait_for_repeatedly("size: 40 120", |bridge| bridge.type_in(b"\r"));
}

#[test]
fn tmux_a_pane_of_another_size_shows_where_it_belongs() {
    let tmux = Tmux::with("exec cat");
    tmux.run(&["split-window", "-d", "-t", "=it:", "sleep 1000"]);
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    // More lines than the pane has: they scroll in the pane, so the last one cannot be below its end.
    for line in 1..=40 {
        bridge.type_in(format!("line {line}\r").as_bytes());
    }
    bridge.wait_for("line 40\x1b[15;1H");
    assert!(!bridge.output().contains("\x1b[31;1H"));
}

#[test]
fn tmux_the_alternate_screen_is_kept_apart() {
    let tmux = Tmux::with("echo below; printf '\\033[?1049h\\033[Habove'; read line; printf '\\033[?1049l'; read line");
    tmux.wait_for_pane("above");
    let mut bridge = tmux.bridge();
    bridge.wait_for("above");
    let output = bridge.output();
    let [main, alternate] = output.split("\x1b[?1049h").collect::<Vec<_>>()[..] else { panic!("{output:?}") };
    assert!(main.contains("below") && !main.contains("above"), "{output:?}");
    assert!(alternate.contains("above") && !alternate.contains("below"), "{output:?}");
    bridge.type_in(b"\r");
    bridge.wait_for("\x1b[?1049l\x1b");
}

#[test]
fn tmux_the_bridge_ends_with_the_program() {
    let tmux = Tmux::with(SIZES);
    tmux.run(&["split-window", "-d", "-t", "=it:", "sleep 1000"]);
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    bridge.type_in(b"end\r");
    assert_eq!(bridge.wait_for_exit(), Some(0));
}

#[test]
fn tmux_the_bridge_ends_with_a_program_whose_pane_stays() {
    let tmux = Tmux::with(SIZES);
    tmux.run(&["set-option", "-w", "-t", "=it:", "remain-on-exit", "on"]);
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    bridge.type_in(b"end\r");
    assert_eq!(bridge.wait_for_exit(), Some(0));
}

#[test]
fn tmux_the_bridge_ends_with_the_session() {
    let tmux = Tmux::with("exec cat");
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    tmux.run(&["kill-session", "-t", "=it"]);
    assert_eq!(bridge.wait_for_exit(), Some(0));
}

#[test]
fn tmux_a_signal_detaches_and_the_session_lives_on() {
    let tmux = Tmux::with("exec cat");
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let mut bridge = tmux.bridge();
        bridge.wait_for("\x1b]2;");
        bridge.signal(signal);
        assert_eq!(bridge.wait_for_exit(), Some(code));
        tmux.wait_until("the client is gone", || tmux.ask("#{session_attached}") == "0");
    }
}

/// It ended the bridge, and the program never heard of it.
#[test]
fn tmux_an_interrupt_reaches_the_program() {
    let tmux = Tmux::with("trap 'echo interrupted' INT; echo up; while :; do sleep 0.05; done");
    let bridge = tmux.bridge();
    bridge.wait_for("up");
    bridge.signal("-INT");
    bridge.wait_for("interrupted");
}

#[test]
fn tmux_being_detached_by_somebody_is_an_error() {
    let tmux = Tmux::with("exec cat");
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    tmux.run(&["detach-client", "-s", "=it"]);
    assert_eq!(bridge.wait_for_exit(), Some(1));
    bridge.wait_for("tmux detached the bridge from session it, which still runs");
}

#[test]
fn tmux_being_switched_to_another_session_is_an_error() {
    let tmux = Tmux::with("exec cat");
    tmux.run(&["new-session", "-d", "-s", "other", "exec cat"]);
    let mut bridge = tmux.bridge();
    bridge.wait_for("\x1b]2;");
    let client = tmux.run(&["list-clients", "-F", "#{client_name}"]);
    tmux.run(&["switch-client", "-c", &client, "-t", "=other"]);
    assert_eq!(bridge.wait_for_exit(), Some(1));
    bridge.wait_for("the pane was moved out of tmux session it");
}

#[test]
fn tmux_a_missing_session_is_explained() {
    let tmux = Tmux::with("exec cat");
    for name in ["i", "it:0", "other"] {
        let mut bridge = tmux.bridge_to(name);
        assert_eq!(bridge.wait_for_exit(), Some(1));
        bridge.wait_for(&format!("there is no tmux session named {name}; `tmux ls` lists those there are\r\n"));
    }
}

#[test]
fn tmux_a_missing_server_is_explained_and_not_started() {
    let dir = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::start(&["tmux", "it"], &[("TMUX_TMPDIR", dir.path())]);
    assert_eq!(bridge.wait_for_exit(), Some(1));
    bridge.wait_for("there is no tmux session named it; `tmux ls` lists those there are\r\n");
    let mut list = Command::new("tmux");
    let server = output_of(list.arg("ls").env_remove("TMUX").env("TMUX_TMPDIR", dir.path()), "tmux");
    assert!(!server.status.success());
}

#[test]
fn screen_what_is_on_the_window_is_painted_and_what_follows_streams() {
    let screen = Screen::with("printf '\\033[31mhéllo ─❯ 中文\\033[0m\\n'; exec cat");
    let mut bridge = screen.bridge();
    bridge.wait_for("\x1b[31mhéllo ─❯ 中文");
    bridge.type_in(b"marco polo\r");
    bridge.wait_for("marco polo\r\nmarco polo\r\n");
    assert!(!bridge.output().contains("\x1b[?1049h"), "the terminal stays on its main screen");
}

#[test]
fn screen_every_byte_arrives() {
    let screen = Screen::with(&COLLECT.replace("{n}", "256"));
    let mut bridge = screen.bridge();
    every_byte_arrives(&mut bridge, screen.dir());
}

/// `stuff` makes screen 4.9.0 loop forever once 4096 bytes are in its own buffer, because the program has not read
/// some 25 kB. The session must survive a program that does not read, and all input must arrive when it does.
#[test]
fn screen_survives_a_program_that_does_not_read() {
    const LENGTH: usize = 40_000;
    let waits = format!("stty raw -echo; printf READY; until [ -e go ]; do sleep 0.1; done; head -c {LENGTH} > got");
    let screen = Screen::with(&format!("{waits}; printf DONE; sleep 1000"));
    let bridge = screen.bridge();
    bridge.wait_for("READY");
    let text: Vec<u8> = (b'a'..=b'z').cycle().take(LENGTH).collect();
    let (pty, typed) = (Arc::clone(&bridge.pty), text.clone());
    let typist = thread::spawn(move || (&*pty).write_all(&typed).unwrap());
    for _ in 0..50 {
        assert!(screen.run(&["-p", "0", "-Q", "number"]).status.success());
    }
    fs::write(screen.dir().join("go"), "").unwrap();
    bridge.wait_for("DONE");
    typist.join().unwrap();
    assert!(fs::read(screen.dir().join("got")).unwrap() == text);
}

#[test]
fn screen_the_window_has_the_terminals_size_and_follows_it() {
    let screen = Screen::with(SIZES);
    let mut bridge = screen.bridge();
    bridge.wait_for_repeatedly("size: 30 100", |bridge| bridge.type_in(b"\r"));
    bridge.resize(40, 120);
    bridge.wait_for_repeatedly("size: 40 120", |bridge| bridge.type_in(b"\r"));
}

#[test]
fn screen_the_bridge_ends_with_the_session() {
    let screen = Screen::with(SIZES);
    let mut bridge = screen.bridge();
    bridge.wait_for_repeatedly("size: 30 100", |bridge| bridge.type_in(b"\r"));
    bridge.type_in(b"end\r");
    assert_eq!(bridge.wait_for_exit(), Some(0));
}

#[test]
fn screen_the_bridge_ends_with_its_window() {
    let screen = Screen::with(SIZES);
    let mut bridge = screen.bridge();
    bridge.wait_for_repeatedly("size: 30 100", |bridge| bridge.type_in(b"\r"));
    screen.run(&["-X", "screen", "sleep", "1000"]);
    bridge.type_in(b"end\r");
    assert_eq!(bridge.wait_for_exit(), Some(0));
    assert!(screen.is_listed());
}

#[test]
fn screen_the_bridge_comes_back_when_somebody_takes_the_session_over() {
    let screen = Screen::with(SIZES);
    let mut bridge = screen.bridge();
    bridge.wait_for_repeatedly("size: 30 100", |bridge| bridge.type_in(b"\r"));
    screen.run(&["-d"]);
    bridge.wait_for("[remote detached from");
    bridge.resize(31, 101);
    bridge.wait_for_repeatedly("size: 31 101", |bridge| bridge.type_in(b"\r"));
}

#[test]
fn screen_a_signal_detaches_and_the_session_lives_on() {
    let screen = Screen::with("echo hello; exec cat");
    let mut bridge = screen.bridge();
    bridge.wait_for("hello");
    bridge.signal("-TERM");
    assert_eq!(bridge.wait_for_exit(), Some(143));
    screen.wait_until("the display is gone", || screen.list().contains("(Detached)"));
}

#[test]
fn screen_an_interrupt_reaches_the_program() {
    let screen = Screen::with("trap 'echo interrupted' INT; echo up; while :; do sleep 0.05; done");
    let bridge = screen.bridge();
    bridge.wait_for("up");
    bridge.signal("-INT");
    bridge.wait_for("interrupted");
}

#[test]
fn screen_a_missing_session_is_explained() {
    let screen = Screen::with("exec cat");
    let mut bridge = screen.bridge_to("i");
    assert_eq!(bridge.wait_for_exit(), Some(1));
    bridge.wait_for("there is no screen session named i; `screen -ls` lists those there are\r\n");
}

#[test]
fn a_missing_program_is_explained() {
    let nowhere = tempfile::tempdir().unwrap();
    for program in ["tmux", "screen"] {
        let mut bridge = Bridge::start(&[program, "it"], &[("PATH", nowhere.path())]);
        assert_eq!(bridge.wait_for_exit(), Some(1));
        bridge.wait_for(&format!("{program} is not installed, or not on PATH; install the package {program}\r\n"));
    }
}

fn every_byte_arrives(bridge: &mut Bridge, dir: &Path) {
    bridge.wait_for("READY");
    let all: Vec<u8> = (0..=255).collect();
    bridge.type_in(&all);
    bridge.wait_for("DONE");
    assert_eq!(fs::read(dir.join("got")).unwrap(), all);
}

/// Reads `n1`, `n2`, … from the last picture on, as a terminal would show them: a jump to a line's start is a new line,
/// other sequences and the title are nothing.
fn numbers(output: &str) -> Vec<u32> {
    let (before, after) = output.rsplit_once("\x1b]2;").unwrap();
    let picture = before.rsplit("\x1b[?1049l").next().unwrap();
    let output = [picture, after.split_once("\x1b\\").unwrap().1].concat();
    let mut text = String::new();
    let mut sequences = output.split("\x1b[");
    text.push_str(sequences.next().unwrap_or_default());
    for sequence in sequences {
        let end = sequence.find(|c: char| ('@'..='~').contains(&c)).unwrap_or(0);
        if sequence[..=end].ends_with(";1H") {
            text.push('\n');
        }
        text.push_str(&sequence[end + 1..]);
    }
    let text = text.replace("\x1b7", "").replace("\x1b8", "").replace(['\x0f', '\r'], "").replace("\x1b)B", "");
    let text = text.replace("\x1b>", "");
    let (whole_lines, _) = text.rsplit_once('\n').unwrap();
    whole_lines.lines().filter_map(|line| line.strip_prefix('n')?.parse().ok()).collect()
}

/// `coop bridge` on a terminal of 30 rows and 100 columns.
struct Bridge {
    pty: Arc<Pty>,
    process: Child,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// All output so far, and whether it has ended.
    output: Mutex<(Vec<u8>, bool)>,
    grown: Condvar,
}

impl Bridge {
    fn start(args: &[&str], env: &[(&str, &Path)]) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(30, 100)).unwrap();
        let mut command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_coop")).arg("bridge").args(args);
        for variable in ["TMUX", "TMUX_TMPDIR", "STY", "SCREENDIR"] {
            command = command.env_remove(variable);
        }
        for (name, value) in env {
            command = command.env(name, value);
        }
        let process = command.spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let seen = Arc::<Seen>::default();
        let (reader, sink) = (Arc::clone(&pty), Arc::clone(&seen));
        thread::spawn(move || sink.fill(&reader));
        Self { pty, process, seen }
    }

    fn type_in(&mut self, bytes: &[u8]) {
        (&*self.pty).write_all(bytes).unwrap();
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        self.pty.resize(pty_process::Size::new(rows, cols)).unwrap();
    }

    fn signal(&self, signal: &str) {
        kill(signal, self.process.id());
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.seen.output.lock().unwrap().0).into_owned()
    }

    fn tail(&self) -> String {
        let output = self.output();
        output.chars().skip(output.chars().count().saturating_sub(1000)).collect()
    }

    fn wait_for(&self, text: &str) {
        assert!(self.has_within(text, DEADLINE), "no {text:?} at the end of {:?}", self.tail());
    }

    /// Waits for an answer to a question that may be asked too early.
    fn wait_for_repeatedly(&mut self, text: &str, mut ask: impl FnMut(&mut Self)) {
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            ask(self);
            if self.has_within(text, Duration::from_millis(200)) {
                return;
            }
        }
        panic!("no {text:?} at the end of {:?}", self.tail());
    }

    fn has_within(&self, text: &str, time: Duration) -> bool {
        self.is_within(time, |output| output.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// Waits until the output is as wanted, or has ended, or the time is up. Says whether it is as wanted.
    fn is_within(&self, time: Duration, wanted: impl Fn(&[u8]) -> bool) -> bool {
        let seen = self.seen.output.lock().unwrap();
        let unfinished = |(output, ended): &mut (Vec<u8>, bool)| !wanted(output) && !*ended;
        let (seen, _) = self.seen.grown.wait_timeout_while(seen, time, unfinished).unwrap();
        wanted(&seen.0)
    }

    /// The terminal closes when the bridge ends, so its exit is near then.
    fn wait_for_exit(&mut self) -> Option<i32> {
        let seen = self.seen.output.lock().unwrap();
        let ended = self.seen.grown.wait_timeout_while(seen, DEADLINE, |(_, ended)| !*ended).unwrap().0.1;
        assert!(ended, "the bridge runs on: {:?}", self.tail());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Seen {
    fn fill(&self, mut pty: &Pty) {
        let mut buffer = [0; 4096];
        loop {
            let read = pty.read(&mut buffer).unwrap_or(0);
            let mut output = self.output.lock().unwrap();
            output.0.extend_from_slice(&buffer[..read]);
            output.1 = read == 0;
            self.grown.notify_all();
            if read == 0 {
                return;
            }
        }
    }
}

/// A private server with one session, `it`, of 80 columns and 24 rows.
struct Tmux {
    dir: TempDir,
}

impl Tmux {
    fn with(script: &str) -> Self {
        let tmux = Self { dir: tempfile::tempdir().unwrap() };
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-s", "it", "-x", "80", "-y", "24", "sh", "-c", script]);
        tmux
    }

    fn bridge(&self) -> Bridge {
        self.bridge_to("it")
    }

    fn bridge_to(&self, name: &str) -> Bridge {
        Bridge::start(&["tmux", name], &[("TMUX_TMPDIR", self.dir())])
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(args).current_dir(self.dir()).env_remove("TMUX").env("TMUX_TMPDIR", self.dir());
        let output = output_of(command.env("LC_ALL", "C.UTF-8"), "tmux");
        assert!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn ask(&self, format: &str) -> String {
        self.run(&["display-message", "-p", "-t", "=it:", format])
    }

    fn wait_for_pane(&self, text: &str) {
        self.wait_until(text, || self.run(&["capture-pane", "-p", "-t", "=it:"]).contains(text));
    }

    fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        wait_until(what, condition);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        let _ = command.arg("kill-server").env_remove("TMUX").env("TMUX_TMPDIR", self.dir()).output();
    }
}

/// A private directory with one session, `it`.
struct Screen {
    sockets: TempDir,
    dir: TempDir,
}

impl Screen {
    fn with(script: &str) -> Self {
        let screen = Self { sockets: tempfile::tempdir().unwrap(), dir: tempfile::tempdir().unwrap() };
        fs::set_permissions(screen.sockets.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let started =
            output_of(screen.command().args(["-c", "/dev/null", "-U", "-dmS", "it", "sh", "-c", script]), "screen");
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stdout));
        screen.wait_until("the session is listed", || screen.is_listed());
        screen
    }

    fn bridge(&self) -> Bridge {
        self.bridge_to("it")
    }

    fn bridge_to(&self, name: &str) -> Bridge {
        Bridge::start(&["screen", name], &[("SCREENDIR", self.sockets.path())])
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self) -> Command {
        let mut command = Command::new("screen");
        command
            .current_dir(self.dir())
            .env_remove("STY")
            .env("SCREENDIR", self.sockets.path())
            .env("LC_ALL", "C.UTF-8");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        output_of(self.command().args(["-S", "it"]).args(args), "screen")
    }

    fn list(&self) -> String {
        String::from_utf8_lossy(&output_of(self.command().arg("-ls"), "screen").stdout).into_owned()
    }

    fn is_listed(&self) -> bool {
        self.list().contains(".it\t")
    }

    fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        wait_until(what, condition);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // By its process, for a session that hangs takes no commands.
        let servers = fs::read_dir(self.sockets.path()).unwrap();
        let names = servers.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for pid in names.filter_map(|name| name.split('.').next()?.parse().ok()) {
            kill("-KILL", pid);
        }
    }
}

/// Runs a program to its end, which must come in time.
fn output_of(command: &mut Command, package: &str) -> Output {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = spawned.unwrap_or_else(|error| panic!("cannot run {package}: {error}; install the package {package}"));
    let pid = child.id();
    let (sender, output) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    output.recv_timeout(DEADLINE).map(Result::unwrap).unwrap_or_else(|_| {
        kill("-KILL", pid);
        panic!("{command:?} does not end");
    })
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("sh").args(["-c", &format!("kill {signal} {pid}")]).status().unwrap();
    assert!(status.success());
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        crate::tool::pause();
    }
}
