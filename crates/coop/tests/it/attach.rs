//! A person's terminal on an agent.

use std::io::{Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use coop_api::Size;
use coop_term::Screen;
use pty_process::blocking::{Command, Pty};
use rustix::termios::{LocalModes, tcgetattr};

use crate::tool::{COOP, LIMIT, Sidecar, wait_for};

/// A terminal with a person at it.
struct Terminal {
    pty: Pty,
    output: mpsc::Receiver<Vec<u8>>,
    screen: Screen,
    child: std::process::Child,
}

impl Terminal {
    fn run(sidecar: &Sidecar, args: &[&str]) -> Self {
        let (pty, pts) = pty_process::blocking::open().expect("a terminal");
        pty.resize(pty_process::Size::new(12, 60)).expect("it can be resized");
        let child = Command::new(COOP)
            .arg("attach")
            .arg(sidecar.socket())
            .args(args)
            .env_clear()
            .env("TERM", "xterm-256color")
            .spawn(pts)
            .expect("coop runs");
        let mut reader = std::fs::File::from(rustix::io::dup(&pty).expect("it can be duplicated"));
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { pty, output, screen: Screen::new(Size::new(60, 12).expect("within bounds")), child }
    }

    fn text(&mut self) -> String {
        self.screen.end_frame();
        self.screen.snapshot().lines.iter().map(|line| format!("{}\n", line.plain())).collect()
    }

    fn see(&mut self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let shown = self.text();
            if shown.contains(text) {
                return shown;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.screen.feed(&bytes),
                Err(_) => panic!("{text:?} never came; the terminal shows:\n{shown}"),
            }
        }
    }

    fn type_text(&mut self, text: &str) {
        self.pty.write_all(text.as_bytes()).expect("it is open");
    }
}

#[test]
fn a_person_sees_types_resizes_and_detaches() {
    let sidecar = Sidecar::start(&["--", "sh", "-c", "echo before; PS1='> ' exec sh"]);
    sidecar.see("before");
    let mut terminal = Terminal::run(&sidecar, &[]);
    terminal.see("before");
    let shown = terminal.see("Ctrl-] detaches");
    assert_eq!(shown.lines().count(), 12);
    terminal.type_text("stty size; echo $((6*7))\r");
    let shown = terminal.see("\n42\n");
    assert!(shown.contains("11 60"), "all but the status line is the agent's:\n{shown}");
    terminal.type_text("\x1d");
    assert_eq!(wait_for(&mut terminal.child), 0);
    terminal.see("[detached;");
    assert!(!terminal.screen.modes().alt_screen && !terminal.screen.modes().bracketed_paste);
    let cooked = tcgetattr(&terminal.pty).expect("it is a terminal").local_modes;
    assert!(cooked.contains(LocalModes::ICANON | LocalModes::ECHO), "the terminal is as it was");
    assert_eq!(sidecar.ask("GET", "/api/v1/health", "").1["status"], "running");
}

/// Inside an agent the default target is that agent: its terminal was shown in itself, and shrank to a single row.
#[test]
fn an_agents_own_terminal_is_not_shown_within_itself() {
    let script = format!("{COOP} attach; echo code $?; stty size");
    let sidecar = Sidecar::start(&["--linger", "forever", "--", "sh", "-c", &script]);
    let screen = sidecar.see("50 200");
    assert!(screen.contains("this is the agent's own terminal") && screen.contains("code 1"), "{screen}");
}

#[test]
fn the_agents_exit_code_is_passed_on() {
    let sidecar = Sidecar::start(&["--", "sh", "-c", "echo up; read line; exit 5"]);
    let mut terminal = Terminal::run(&sidecar, &[]);
    terminal.see("up");
    terminal.type_text("go\r");
    assert_eq!(wait_for(&mut terminal.child), 5);
    terminal.see("[the agent exited with code 5]");
}

#[test]
fn a_restart_is_watched_to_its_end() {
    let sidecar = Sidecar::start(&["--linger", "forever", "--", "sh", "-c", "echo up $$; read line; exit 5"]);
    let mut terminal = Terminal::run(&sidecar, &[]);
    let first = terminal.see("up");
    assert_eq!(sidecar.ask("POST", "/api/v1/restart", "").0, 200);
    let pid = loop {
        let (_, status) = sidecar.ask("GET", "/api/v1/status", "");
        if status["epoch"] == 2 {
            break status["pid"].to_string();
        }
    };
    terminal.see(&format!("up {pid}"));
    terminal.type_text("go\r");
    let last = terminal.see("the agent exited with code 5; Ctrl-] leaves");
    assert_ne!(first.lines().next(), last.lines().next(), "it is another process");
    terminal.type_text("\x1d");
    assert_eq!(wait_for(&mut terminal.child), 5);
}

#[test]
fn a_watcher_types_and_resizes_nothing() {
    let sidecar = Sidecar::start(&["--cols", "40", "--rows", "5", "--", "sh", "-c", "echo up; cat"]);
    let mut terminal = Terminal::run(&sidecar, &["--read-only", "--detach-key", "Ctrl-a"]);
    terminal.see("up");
    terminal.see("read-only");
    terminal.type_text("not typed\r");
    terminal.type_text("\x01");
    assert_eq!(wait_for(&mut terminal.child), 0);
    terminal.see("`coop attach --read-only ");
    let (_, screen) = sidecar.ask("GET", "/api/v1/screen", "");
    assert_eq!((screen["cols"].as_u64(), screen["rows"].as_u64()), (Some(40), Some(5)));
    assert!(!screen["lines"].to_string().contains("not typed"));
}

#[test]
fn a_terminal_that_is_closed_ends_the_attachment_and_not_the_agent() {
    let sidecar = Sidecar::start(&["--", "sh", "-c", "echo up; cat"]);
    let mut terminal = Terminal::run(&sidecar, &[]);
    terminal.see("up");
    let Terminal { pty, output, mut child, .. } = terminal;
    drop(output);
    drop(pty);
    // The reader thread still holds a copy of the terminal, so hang up as a closing terminal would.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it lives");
    assert_eq!(wait_for(&mut child), 0);
    assert_eq!(sidecar.ask("GET", "/api/v1/health", "").1["status"], "running");
}

/// Connecting again and sending were waited for without listening to the person: with an agent that hangs, neither the
/// detach key nor a signal came through, on a terminal in raw mode.
#[test]
fn a_person_can_leave_an_agent_that_hangs() {
    let sidecar = Sidecar::start(&["--", "sh", "-c", "stty raw -echo; echo up; exec cat"]);
    let mut terminal = Terminal::run(&sidecar, &[]);
    terminal.see("up");
    sidecar.signal(rustix::process::Signal::STOP);
    // More than any socket holds.
    for _ in 0..1024 {
        terminal.type_text(&"x".repeat(4096));
    }
    terminal.type_text("\x1d");
    let code = wait_for(&mut terminal.child);
    sidecar.signal(rustix::process::Signal::CONT);
    assert_eq!(code, 0);
}

#[test]
fn a_person_can_leave_while_the_agent_is_connected_to_again() {
    let mut sidecar = Sidecar::start(&["--", "sh", "-c", "echo up; exec cat"]);
    let mut terminal = Terminal::run(&sidecar, &[]);
    terminal.see("up");
    sidecar.child.kill().expect("it lives");
    wait_for(&mut sidecar.child);
    // In its place something that never says a word.
    std::fs::remove_file(sidecar.socket()).expect("nobody cleaned up");
    let silent = std::os::unix::net::UnixListener::bind(sidecar.socket()).expect("the place is free");
    let _connected = silent.accept().expect("it connects again");
    terminal.type_text("\x1d");
    assert_eq!(wait_for(&mut terminal.child), 0);
    terminal.see("[detached;");
}
