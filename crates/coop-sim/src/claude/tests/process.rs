//! Signals and crashes need a process of their own: this test binary runs itself once more.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use super::world::{Home, Reader, terminal, within_patience};

/// The arguments for the agent in the child, between blanks.
const ARGS: &str = "COOP_SIM_TEST_ARGS";

/// Not a test: what the child process of the others runs.
#[test]
fn the_child() {
    let Ok(args) = std::env::var(ARGS) else { return };
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let code = crate::claude::run(args.into_iter().map(Into::into)).unwrap();
    std::process::exit(code);
}

struct Process {
    child: Child,
    keyboard: File,
    out: Reader,
}

impl Process {
    fn start(home: &Home, args: &str) -> Self {
        let (ours, theirs) = terminal();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "claude::tests::process::the_child", "--nocapture"]);
        command.env(ARGS, args).envs(home.env.iter().cloned()).current_dir(home.project());
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let child = command.spawn().unwrap();
        drop(command);
        let out = Reader::new(File::from(ours.try_clone().unwrap()));
        let mut process = Self { child, keyboard: File::from(ours), out };
        process.out.wait_for("\x1b[?2004h");
        process
    }

    fn signal(self, signal: Signal) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.end()
    }

    fn end(mut self) -> ExitStatus {
        within_patience(move || self.child.wait().unwrap())
    }
}

#[test]
fn signals_end_it_with_their_code_and_a_session_end_hook() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let home = Home::new();
        let settings = home.hooks(&[("SessionEnd", home.record())]);
        let process = Process::start(&home, &format!("--settings {settings}"));
        let pid = process.child.id();
        assert_eq!(home.status(pid).unwrap()["status"], "idle");
        assert_eq!(process.signal(signal).code(), Some(code));
        assert_eq!(home.recorded()[0]["reason"], "other");
        assert_eq!(home.status(pid), None);
    }
}

#[test]
fn a_crash_leaves_its_files_behind() {
    let home = Home::new();
    let mut process = Process::start(&home, "");
    process.keyboard.write_all(b"[[crash]]\r").unwrap();
    let pid = process.child.id();
    assert_eq!(process.end().signal(), Some(Signal::ABORT.as_raw()));
    assert_eq!(home.status(pid).unwrap()["status"], "busy");
}

#[test]
fn an_exit_step_ends_with_its_code() {
    let home = Home::new();
    let mut process = Process::start(&home, "");
    process.keyboard.write_all(b"[[exit:7]]\r").unwrap();
    assert_eq!(process.end().code(), Some(7));
}

#[test]
fn a_new_size_is_drawn() {
    let home = Home::new();
    let mut process = Process::start(&home, "");
    let size = rustix::termios::Winsize { ws_row: 30, ws_col: 33, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&process.keyboard, size).unwrap();
    // The child leads no session of this terminal, so the kernel tells it nothing.
    let pid = Pid::from_raw(i32::try_from(process.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::WINCH).unwrap();
    process.out.wait_for(&format!("\n{}\r\n", "─".repeat(33)));
    assert_eq!(process.signal(Signal::TERM).code(), Some(143));
}
