//! `coop enter`: the first program in a sandbox.
//!
//! Bubblewrap leads the session of the agent's terminal. If the agent stayed in bubblewrap's process group, Ctrl-C would end
//! bubblewrap, and with it everything in the sandbox. So the agent gets a group of its own, which has the terminal.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use coop_term::SET_IN_SANDBOX;
use rustix::process::{Pid, setpgid};
use rustix::termios::tcsetpgrp;

use crate::serve::CannotRun;

/// Becomes a program that leads a process group of its own, with the terminal. Returns only if it cannot.
pub(crate) fn run_on_terminal(command: &[OsString]) -> anyhow::Error {
    match take_terminal() {
        Ok(()) => run(command),
        Err(error) => anyhow::Error::new(error).context("cannot take the terminal of the sandbox"),
    }
}

/// Becomes a program. Returns only if it cannot.
pub(crate) fn run(command: &[OsString]) -> anyhow::Error {
    match command {
        [program, args @ ..] => {
            let mut command = Command::new(program);
            set_variables(command.args(args));
            CannotRun::of(program.clone(), command.exec()).into()
        }
        [] => anyhow::anyhow!("there is nothing to run"),
    }
}

/// Gives a program its own variables, which bubblewrap was given under other names.
fn set_variables(command: &mut Command) {
    for (name, value) in env::vars_os() {
        if let Some(own) = name.as_bytes().strip_prefix(SET_IN_SANDBOX.as_bytes()) {
            command.env(OsStr::from_bytes(own), value).env_remove(&name);
        }
    }
}

/// Leaves the process group that has the terminal. The kernel stops a process outside of that group that hands the terminal on,
/// so a child stays in the group and does it.
fn take_terminal() -> io::Result<()> {
    let mut giver = Command::new(env::current_exe()?);
    giver.args(["enter", "--terminal-to", &std::process::id().to_string()]).stdin(Stdio::piped());
    let mut giver = giver.spawn()?;
    setpgid(None, None)?;
    // It waits for the end of its input.
    drop(giver.stdin.take());
    let status = giver.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the process that gives it away: {status}"))) }
}

/// Gives the terminal to the group that a process leads once standard input has ended.
pub(crate) fn give_terminal(pid: i32) -> io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let terminal = File::open("/dev/tty")?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(tcsetpgrp(&terminal, pid)?)
}
