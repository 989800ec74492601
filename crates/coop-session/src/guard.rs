//! A process that ends the agent should ours be killed: there are agents that outlive their terminal.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use coop_term::Command;
use tokio::process::{Child, ChildStdin};

/// A guard over the sessions of some processes. It acts when the pipe to it breaks, which dropping this does not do.
pub(crate) struct Guard {
    child: Child,
    _pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard's program with the processes that lead the sessions it is to end.
    pub(crate) fn over(leaders: &[u32], guard: &Command) -> io::Result<Self> {
        let mut command = std::process::Command::new(&guard.program);
        command.args(&guard.args).args(leaders.iter().map(u32::to_string));
        // Other processes of this user can read its environment, and ours has secrets. Whoever kills our group must not kill it.
        command.env_clear().process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = tokio::process::Command::from(command).spawn()?;
        Ok(Self { _pipe: child.stdin.take(), child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before the pipe is closed: what it guards has ended, and its numbers may be another's soon.
        let _ = self.child.start_kill();
    }
}
