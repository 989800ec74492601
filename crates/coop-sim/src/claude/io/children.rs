//! Child processes: hooks, tools and background tasks, each in a process group of its own so that none outlives us.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::claude::ids::{HookRun, ToolUseId};

/// What a child is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Hook(HookRun),
    Tool(ToolUseId),
    Task(String),
}

/// The children that have not ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Children {
    alive: Arc<Mutex<HashMap<Pid, Purpose>>>,
}

impl Children {
    /// Starts `sh -c` and returns at once; `ended` is called on another thread.
    pub(crate) fn start(
        &self,
        purpose: Purpose,
        shell: &Shell<'_>,
        ended: impl FnOnce(std::io::Result<Output>) + Send + 'static,
    ) -> Option<Pid> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(shell.command).current_dir(shell.cwd).env("CLAUDE_PROJECT_DIR", shell.cwd);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                thread::spawn(move || ended(Err(error)));
                return None;
            }
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
        self.lock().insert(pid, purpose);
        let stdin = child.stdin.take();
        let input = shell.input.to_vec();
        // A hook may answer before it has read everything, so nobody waits for the writer.
        thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
        let children = self.clone();
        thread::spawn(move || {
            let output = child.wait_with_output();
            children.lock().remove(&pid);
            ended(output);
        });
        Some(pid)
    }

    /// Kills what has this purpose, if it is still there.
    pub(crate) fn kill(&self, purpose: &Purpose) {
        self.kill_where(|_, alive| alive == purpose);
    }

    /// Kills one process, if it is still the one it was.
    pub(crate) fn kill_pid(&self, pid: Pid) {
        self.kill_where(|alive, _| alive == pid);
    }

    pub(crate) fn kill_all(&self) {
        self.kill_where(|_, _| true);
    }

    fn kill_where(&self, condemned: impl Fn(Pid, &Purpose) -> bool) {
        for (pid, _) in self.lock().iter().filter(|(pid, purpose)| condemned(**pid, purpose)) {
            // It may have ended this very moment.
            let _ = kill_process_group(*pid, Signal::KILL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, Purpose>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command line, where to run it, and what to say to it.
pub(crate) struct Shell<'a> {
    pub(crate) command: &'a str,
    pub(crate) cwd: &'a Path,
    pub(crate) input: &'a [u8],
}
