//! A command in a terminal of its own, with the newest of what it writes.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use coop_api::Size;
use coop_drivers::{Ended, Served};
use coop_term::{Child, ChildEvent, Command, Exit, Output, SpawnError, Target, Wants};
use rustix::process::Signal;
use tokio::sync::{Notify, watch};

use crate::guard::Guard;

/// A terminal whose command runs, or ran.
pub(super) struct Terminal {
    kept: Arc<Mutex<Kept>>,
    ended: watch::Receiver<Option<Ended>>,
    kill: Arc<Notify>,
}

/// The newest output.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Terminal {
    /// Starts a command, which leads a session of its own. All of it goes when this process is killed, if there is a guard.
    pub(super) fn start(command: &Command, keep: usize, guard: Option<&Command>) -> Result<Self, SpawnError> {
        let child = Child::spawn(command, Size::DEFAULT)?;
        let guard = guard.and_then(|guard| {
            let started = Guard::over(&[child.pid()], guard);
            started.inspect_err(|error| tracing::warn!(%error, "nobody will end a terminal if coop is killed")).ok()
        });
        let kept = Arc::new(Mutex::new(Kept::default()));
        let kill = Arc::new(Notify::new());
        let (tell, ended) = watch::channel(None);
        let (into, killed) = (Arc::clone(&kept), Arc::clone(&kill));
        tokio::spawn(async move {
            let exit = run(&child, keep, &into, &killed).await;
            drop(guard);
            let _ = tell.send(Some(Ended { code: exit.code, signal: exit.signal }));
        });
        Ok(Self { kept, ended, kill })
    }

    pub(super) fn output(&self) -> Served {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept.bytes).replace("\r\n", "\n");
        Served::Output { text, truncated: kept.truncated, ended: *self.ended.borrow() }
    }

    /// Ends its command, and everything that command has started.
    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    pub(super) fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let found = ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
            found.unwrap_or(Ended { code: None, signal: None })
        }
    }
}

/// Keeps what the command writes until it has ended.
async fn run(child: &Child, keep: usize, kept: &Mutex<Kept>, killed: &Notify) -> Exit {
    let mut buffer = [0; 4096];
    let mut at_end = false;
    loop {
        let wants = Wants { output: !at_end, writable: false, end: true, pipe_output: false, pipe_writable: false };
        tokio::select! {
            event = child.event(wants) => match event {
                ChildEvent::Readable => at_end = kept_output(child.read(&mut buffer), &buffer, keep, kept) == Output::End,
                ChildEvent::Ended => break,
                ChildEvent::Writable | ChildEvent::PipeReadable | ChildEvent::PipeWritable => {}
            },
            () = killed.notified() => drop(child.signal(Signal::KILL, Target::Session)),
        }
    }
    // Whatever it has left behind goes with it; what it wrote last is still to be read.
    let _ = child.signal(Signal::KILL, Target::Session);
    loop {
        let output = child.read_unreported(&mut buffer);
        if !matches!(kept_output(output, &buffer, keep, kept), Output::Bytes(_)) {
            break;
        }
    }
    child.reap().ok().flatten().unwrap_or(Exit { code: None, signal: None })
}

/// Keeps what was read.
fn kept_output(output: Output, buffer: &[u8], keep: usize, kept: &Mutex<Kept>) -> Output {
    if let Output::Bytes(length) = output {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length], keep);
    }
    output
}

impl Kept {
    /// Adds output, and drops the oldest beyond what is kept, up to the beginning of a character.
    fn push(&mut self, bytes: &[u8], keep: usize) {
        self.bytes.extend_from_slice(bytes);
        let beyond = self.bytes.len().saturating_sub(keep);
        if beyond > 0 {
            let is_begin = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
            let from = beyond + self.bytes[beyond..].iter().position(is_begin).unwrap_or(keep);
            self.bytes.drain(..from);
            self.truncated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        Command { program: "sh".into(), args: vec!["-c".into(), script.into()], ..Command::default() }
    }

    #[test]
    fn the_newest_output_is_kept_and_no_character_is_cut() {
        let mut kept = Kept::default();
        kept.push("añb".as_bytes(), 100);
        assert_eq!((String::from_utf8_lossy(&kept.bytes).as_ref(), kept.truncated), ("añb", false));
        kept.push(b"cd", 4);
        assert_eq!((String::from_utf8_lossy(&kept.bytes).as_ref(), kept.truncated), ("bcd", true));
        kept.push(b"x", 0);
        assert_eq!((kept.bytes.len(), kept.truncated), (0, true));
    }

    #[tokio::test]
    async fn a_command_is_run_and_its_end_is_told() {
        let terminal = Terminal::start(&shell("echo one; echo two >&2; exit 3"), 1000, None).expect("it runs");
        let ended = tokio::time::timeout(LIMIT, terminal.ended()).await.expect("it ends");
        assert_eq!(ended, Ended { code: Some(3), signal: None });
        assert_eq!(
            terminal.output(),
            Served::Output { text: "one\ntwo\n".into(), truncated: false, ended: Some(ended) }
        );
    }

    /// A command that is killed goes with all that it started, also what has a process group of its own.
    #[tokio::test]
    async fn a_command_is_killed_with_what_it_started() {
        let terminal = Terminal::start(&shell("set -m; sleep 600 & echo $!; wait"), 1000, None).expect("it runs");
        let pid = tokio::time::timeout(LIMIT, async {
            loop {
                let Served::Output { text, .. } = terminal.output() else { panic!("output") };
                if let Some((pid, _)) = text.split_once('\n') {
                    return pid.to_owned();
                }
                tokio::task::yield_now().await;
            }
        });
        let pid = pid.await.expect("it says its child's number");
        terminal.kill();
        let ended = tokio::time::timeout(LIMIT, terminal.ended()).await.expect("it ends");
        assert_eq!(ended.signal, Some(9));
        let gone = async {
            // It is killed; the kernel takes a moment.
            while std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.expect("what it started is killed too");
    }
}
