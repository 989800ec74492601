//! The one way to start a program from the daemon or the CLI: without coop's variables, and bounded in time and output.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use coop_api::is_coop_variable;
use coop_sandbox::{Prepared, Reach, SandboxError};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::definition::Sandbox;

/// How much is kept: the end, which is where programs say what is wrong.
pub(crate) const MOST_OUTPUT: usize = 16 * 1024;
const PIECE: usize = 8 * 1024;
/// More than a pipe holds, so that what a command printed at its end is all there.
const PIECES: usize = 16;

/// Returns a command whose process gets none of coop's variables. An agent may have written what it runs, and can read the
/// environment of every process of its user.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    remove_coop_variables(&mut command, std::env::vars_os().map(|(name, _)| name));
    command
}

/// What the daemon adds to the sandbox of every gate and named command.
#[derive(Clone, Debug)]
pub struct DaemonSandbox {
    /// Coop's own program, the first one in the sandbox.
    pub coop: PathBuf,
    /// What no gate sees.
    pub hidden: Vec<PathBuf>,
}

/// Returns a command in the folder of an agent. If the agent has a sandbox, the command runs in one with the same walls.
pub(crate) fn command_in(
    sandbox: Option<&Sandbox>,
    folder: &Path,
    daemon: Option<&DaemonSandbox>,
    program: &str,
) -> Result<Command, SandboxError> {
    let Some(sandbox) = sandbox else {
        let mut command = command(program);
        command.current_dir(folder);
        return Ok(command);
    };
    let DaemonSandbox { coop, hidden } = daemon.ok_or(SandboxError::NoHome)?;
    let home = std::env::home_dir().ok_or(SandboxError::NoHome)?;
    let at_home = |paths: &[String]| paths.iter().map(|path| coop_sandbox::in_home(path.as_ref(), &home)).collect();
    let write: Vec<PathBuf> = at_home(&sandbox.write);
    let secrets = coop_sandbox::secrets_of(&home).into_iter().chain(hidden.iter().cloned());
    let also_hidden: Vec<PathBuf> = at_home(&sandbox.hide);
    let hidden = secrets.filter(|path| !write.contains(path)).chain(also_hidden).collect();
    let read = vec![coop.clone()];
    let no_network = sandbox.no_network;
    let reach = Reach { folder: folder.to_owned(), write, read, hidden, no_network, ..Reach::default() };
    let Prepared { bubblewrap, enter, .. } = reach.prepare()?;
    let mut command = command(bubblewrap.first().map_or(OsStr::new(program), OsString::as_os_str));
    // A gate has no terminal, and must not take the daemon's.
    command.arg("--new-session").args(bubblewrap.iter().skip(1)).current_dir(folder);
    command.arg(coop).args(["enter", "--without-terminal"]).args(enter).arg("--").arg(program);
    Ok(command)
}

fn remove_coop_variables(command: &mut Command, inherited: impl Iterator<Item = OsString>) {
    for name in inherited.filter(|name| is_coop_variable(name)) {
        command.env_remove(name);
    }
}

/// Runs a command to its end and returns all that it printed; none if its time was up, and it was killed with all that it
/// had started.
pub async fn output(mut command: Command, limit: Duration) -> io::Result<Option<Output>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let child = command.spawn()?;
    let group = child.id();
    let ended = child.wait_with_output();
    tokio::pin!(ended);
    // Dropped before the child, so that the process id cannot belong to another process yet.
    let mut group = Group(group);
    let Ok(output) = timeout(limit, ended.as_mut()).await else { return Ok(None) };
    group.0 = None;
    output.map(Some)
}

/// A process group that is killed when this is dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// How a command has ended, and what it printed last, on both of its outputs in order.
#[derive(Debug)]
pub(crate) struct Ran {
    /// None if its time was up, and it was ended with all that it had started.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: Vec<u8>,
    /// Whether it printed more than that.
    pub(crate) is_cut: bool,
}

/// Runs a command. What it leaves running is not waited for.
pub(crate) async fn run(command: Command, input: Option<Vec<u8>>, limit: Duration) -> io::Result<Ran> {
    let (mut child, output) = start(command, input)?;
    let mut group = Group(child.id());
    let mut kept = Kept::default();
    match timeout(limit, follow(&mut child, &output, &mut kept)).await {
        Ok(status) => {
            group.0 = None;
            Ok(kept.ran(Some(status?)))
        }
        Err(_) => {
            drop(group);
            let _ = child.wait().await;
            Ok(kept.ran(None))
        }
    }
}

/// Both of its outputs go into one pipe, so that their lines stay in order.
fn start(mut command: Command, input: Option<Vec<u8>>) -> io::Result<(Child, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(writer.try_clone()?).stderr(writer);
    // It is ended with all that it has started.
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    if let Some((input, mut stdin)) = input.zip(child.stdin.take()) {
        // Nobody has to read it, and it ends with whoever could.
        tokio::spawn(async move { stdin.write_all(&input).await });
    }
    // Our copies of the writing end go with the command, or its end would never be seen.
    drop(command);
    Ok((child, pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?))
}

/// Reads until the command has ended. What it left running may hold the pipe open for ever, and is not waited for.
async fn follow(child: &mut Child, output: &pipe::Receiver, kept: &mut Kept) -> io::Result<ExitStatus> {
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            ready = output.readable(), if is_open => {
                ready?;
                is_open = kept.drain(output);
                tokio::task::yield_now().await;
            }
            status = child.wait() => {
                kept.drain(output);
                return status;
            }
        }
    }
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Kept {
    /// Takes what is there, and tells whether there can be more. Of what prints without end it takes a part, so that others
    /// have their turn and the time can be up.
    fn drain(&mut self, output: &pipe::Receiver) -> bool {
        let mut piece = [0; PIECE];
        for _ in 0..PIECES {
            match output.try_read(&mut piece) {
                Ok(0) => return false,
                Ok(read) => {
                    self.bytes.extend_from_slice(&piece[..read]);
                    let excess = self.bytes.len().saturating_sub(MOST_OUTPUT);
                    self.bytes.drain(..excess);
                    self.is_cut |= excess > 0;
                }
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn ran(self, status: Option<ExitStatus>) -> Ran {
        Ran { status, output: self.bytes, is_cut: self.is_cut }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_program_gets_none_of_coops_variables() {
        let mut command = Command::new("env");
        let inherited = ["PATH", "COOP_AUTH_TOKEN", "COOP_API_KEY", "COOP_STORE_PASSWORD", "HOME", "COOP"];
        remove_coop_variables(&mut command, inherited.into_iter().map(OsString::from));
        let removed: Vec<_> = command.as_std().get_envs().map(|(name, _)| name.to_os_string()).collect();
        assert_eq!(removed, ["COOP", "COOP_API_KEY", "COOP_AUTH_TOKEN", "COOP_STORE_PASSWORD"]);
    }

    #[tokio::test]
    async fn a_program_that_is_given_up_is_killed_with_all_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
        // As long as a process has it open for writing there is no end to read.
        let mut held = pipe::OpenOptions::new().open_receiver(&fifo).expect("open");
        let mut shell = command("sh");
        shell.arg("-c").arg(format!("exec 3>{}; sleep 600 & echo here >&3; wait", fifo.display()));
        let limit = Duration::from_secs(60);
        let mut here = [0; 5];
        tokio::select! {
            ended = output(shell, limit) => panic!("it ended: {ended:?}"),
            begun = held.read_exact(&mut here) => drop(begun.expect("read")),
        }
        let mut rest = String::new();
        timeout(limit, held.read_to_string(&mut rest)).await.expect("no process holds it").expect("read");
        assert_eq!((&here, rest.as_str()), (b"here\n", ""));
    }
}
