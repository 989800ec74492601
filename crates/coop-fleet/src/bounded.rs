//! A command that is run to its end, with a limit to its time and to what is kept of what it prints.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::store::STORE_SECRETS;

/// How much is kept: the end, which is where programs say what is wrong.
pub(crate) const MOST_OUTPUT: usize = 16 * 1024;
const PIECE: usize = 8 * 1024;
/// More than a pipe holds, so that what a command printed at its end is all there.
const PIECES: usize = 16;

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
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut kept = Kept::default();
    match timeout(limit, follow(&mut child, &output, &mut kept)).await {
        Ok(status) => Ok(kept.ran(Some(status?))),
        Err(_) => {
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait().await;
            Ok(kept.ran(None))
        }
    }
}

/// Both of its outputs go into one pipe, so that their lines stay in order.
fn start(mut command: Command, input: Option<Vec<u8>>) -> io::Result<(Child, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    // It may run what an agent wrote.
    command.env_remove("COOP_AUTH_TOKEN");
    for name in STORE_SECRETS {
        command.env_remove(name);
    }
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
