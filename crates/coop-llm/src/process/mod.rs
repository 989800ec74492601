//! A child with all it starts.

mod family;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

use self::family::Mark;
use crate::provider::SECRET_VARIABLES;

/// A child in a process group of its own, which is killed with all that it started: when it ends, and when this is dropped.
///
/// Only what makes itself a new session lives on; so it is with every shell.
pub(crate) struct Group {
    child: Child,
    mark: Mark,
    /// `None` once the child was reaped, when the number may be somebody else's.
    id: Option<Pid>,
}

impl Group {
    /// Starts a command.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let mark = Mark::put(&mut command);
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, mark, id })
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Kills everything that the child started, and the child.
    pub(crate) fn kill(&self) {
        if let Some(id) = self.id {
            // It fails when nobody is left, which is as well.
            let _ = kill_process_group(id, Signal::KILL);
            self.mark.kill(Some(id));
        }
    }

    /// Tells whether somebody lives who was to be killed: that takes until they have their turn.
    pub(crate) fn is_dying(&self) -> bool {
        self.mark.is_anybody_left(self.id)
    }

    /// Waits for the child's end and kills what it left behind.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(id) = self.id {
            // Told of the end without reaping: until then the number cannot become another group's.
            watch(pidfd_open(id, PidfdFlags::empty())?)?.readable().await?.retain_ready();
            self.kill();
            self.id = None;
        }
        self.child.wait().await
    }
}

/// Returns a command that does not inherit the keys that this program may have in its environment.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in SECRET_VARIABLES {
        command.env_remove(name);
    }
    command
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, which is forbidden here; an `OwnedFd` keeps what that asks for"
)]
fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

impl Drop for Group {
    fn drop(&mut self) {
        // The runtime reaps the child later.
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_does_not_inherit_the_keys() {
        let command = command("env");
        let removed: Vec<_> = command.as_std().get_envs().collect();
        for name in SECRET_VARIABLES {
            assert!(removed.contains(&(OsStr::new(name), None)), "{name}");
        }
    }
}
