//! Processes that we started, and only those.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

/// No single step takes this long on a machine that works.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long a process may take to go once it was told to.
const FAREWELL: Duration = Duration::from_secs(5);
/// How often is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A child of ours, ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end without looking at the clock, for what is known to end now.
    pub(crate) fn reap(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.0.wait()?)
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            thread::sleep(LOOK);
        }
        bail!("process {} did not end within {limit:?}", self.pid())
    }

    /// Asks it to go, then makes it.
    pub(crate) fn end(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        // It is not reaped yet, so its number is still its own; it may have ended meanwhile.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        if self.wait(FAREWELL).is_err() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The lines a process prints, awaited with a limit.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(output: Option<ChildStdout>) -> anyhow::Result<Self> {
        let output = BufReader::new(output.context("the process's output is not ours to read")?);
        let (sender, lines) = mpsc::channel();
        thread::Builder::new().name("lines".into()).spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self(lines))
    }

    pub(crate) fn next(&self, limit: Duration) -> anyhow::Result<String> {
        self.0.recv_timeout(limit).context("a process did not say what was expected in time")
    }
}

/// Returns a command that does not inherit the settings of a coop or tmux around us.
pub(crate) fn clean_command(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("TERM", "xterm-256color").env_remove("TMUX");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"COOP") {
            command.env_remove(name);
        }
    }
    command
}
