//! The process of a sidecar: started, recognised, watched to its end.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, BufReader, Interest};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::launcher::{LaunchError, Watch};
use crate::private;

/// The file that tells people and their programs which process a sidecar is. Coop does not read it: agents write there.
const SIDECAR_FILE: &str = "sidecar.json";
/// What a sidecar writes. The sidecar holds a lock on it.
const LOG: &str = "coop.log";

/// How long a sidecar may take until it is ready: agents start behind it, also on a busy machine, and Gemini is let alone for
/// the first minute of a conversation.
const READY: Duration = Duration::from_secs(120);
/// How much of a log is looked at for what went wrong.
const LOG_TAIL: u64 = 4096;

/// The kernel's name for this boot, short, and the same for all processes of the machine. Empty where `/proc` does not tell.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.chars().filter(char::is_ascii_hexdigit).take(16).collect()
});

/// A process, told apart from all that have had its number before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub(crate) pid: u32,
    /// When it was started, in the kernel's ticks since it booted.
    started: u64,
    /// The boot of the machine: after another one both numbers can come again.
    boot: String,
}

impl Identity {
    /// Returns the process that has this number now.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, also blanks and parentheses.
        let rest = stat.rsplit_once(')')?.1;
        let started = rest.split_whitespace().nth(19)?.parse().ok()?;
        Some(Self { pid, started, boot: BOOT.clone() })
    }

    /// Tells whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self) && !is_zombie(self.pid)
    }

    /// Returns its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until it has ended.
    pub async fn gone(&self) {
        // It cannot be closed before that is known.
        let _ = watch_other(self).wait_for(Option::is_some).await;
    }

    /// Returns a name that no other process of this machine ever has.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.pid, self.started, self.boot)
    }

    /// Returns the process with such a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut parts = name.splitn(3, '-');
        let (pid, started) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { pid, started, boot: parts.next()?.to_owned() })
    }

    /// Kills it, and nobody who has its number by now.
    pub(crate) fn kill(&self) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_alive()
        {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// A sidecar that is ready.
pub(crate) struct Launched {
    pub(crate) identity: Identity,
    pub(crate) child: Child,
}

/// Starts a sidecar with its log in a file, and waits until it says that it is ready.
///
/// The log is locked, and the lock is the sidecar's with it: as long as that lives there is no second one for the same
/// agent, whoever starts it and whatever became of who started the first.
pub(crate) async fn launch(command: &mut Command, folder: &Path) -> Result<Launched, LaunchError> {
    let path = folder.join(LOG);
    let failed = |what: &str, error: io::Error| LaunchError::Failed(format!("{what}: {error}"));
    let log = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(&path);
    let log = log.map_err(|error| failed("cannot open its log", error))?;
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LaunchError::Exists),
        Err(TryLockError::Error(error)) => return Err(failed("cannot lock its log", error)),
    }
    let begins = log.metadata().map_or(0, |found| found.len());
    let stderr = log.try_clone().map_err(|error| failed("cannot use its log", error))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().map_err(|error| failed("cannot run coop", error))?;
    let identity = child.id().and_then(Identity::of);
    if let Some(identity) = &identity {
        let told = serde_json::to_string(identity).unwrap_or_default();
        if let Err(error) = private::write(&folder.join(SIDECAR_FILE), told) {
            tracing::warn!(folder = %folder.display(), %error, "cannot write {SIDECAR_FILE}");
        }
    }
    let ready = match child.stdout.take() {
        Some(stdout) => timeout(READY, said_ready(stdout)).await,
        None => Ok(false),
    };
    match (ready, identity) {
        (Ok(true), Some(identity)) => Ok(Launched { identity, child }),
        (Ok(_), _) => {
            let status = child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(LaunchError::Failed(last_words(&path, begins).unwrap_or(status)))
        }
        (Err(_), _) => {
            let _ = child.kill().await;
            let words = last_words(&path, begins).unwrap_or_else(|| "it said nothing".to_owned());
            Err(LaunchError::Failed(format!("it was not ready within {} s: {words}", READY.as_secs())))
        }
    }
}

/// Tells whether a sidecar of the agent with this folder lives, or is just started.
pub(crate) fn is_log_locked(folder: &Path) -> bool {
    // Opened as for writing, a pipe that an agent has put there keeps nobody waiting.
    let log = OpenOptions::new().read(true).append(true).open(folder.join(LOG));
    log.is_ok_and(|log| matches!(log.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Tells whether a process of this user is a sidecar of the agent with this folder, by its command line. An agent can start such a
/// process, but cannot make another process look like one.
pub(crate) fn is_sidecar_of(pid: u32, folder: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own: Vec<&[u8]> = line.split(|byte| *byte == 0).take_while(|word| *word != b"--").collect();
    let names_folder = |words: &[&[u8]]| match words {
        [session, option, socket] => {
            *session == b"--own-session" && *option == b"--socket" && is_socket_in(socket, folder)
        }
        _ => false,
    };
    own.windows(3).any(names_folder) && user_of(pid) == Some(geteuid().as_raw())
}

fn is_socket_in(socket: &[u8], folder: &Path) -> bool {
    let socket = Path::new(OsStr::from_bytes(socket));
    let of = socket.parent().and_then(|parent| parent.canonicalize().ok());
    socket.ends_with("coop.sock") && of.is_some() && of == folder.canonicalize().ok()
}

/// Returns the user that a process acts as.
fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

/// Finds the sidecar of the agent with this folder among all processes.
pub(crate) fn search(folder: &Path) -> Option<Identity> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| is_sidecar_of(*pid, folder)).and_then(Identity::of)
}

/// Reads until the sidecar says that it is ready, or ends.
async fn said_ready(stdout: ChildStdout) -> bool {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == "ready" {
            return true;
        }
    }
    false
}

/// Returns why a sidecar ended, as it wrote it down: its own last word, or else the end of its log.
fn last_words(log: &Path, begins: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(begins.max(length.saturating_sub(LOG_TAIL)))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let own = lines.iter().rev().find_map(|line| line.strip_prefix("coop: "));
    own.or(lines.last().copied()).map(str::to_owned)
}

/// Watches a child of ours, and waits for it so that nothing is left of it. Its code is known, unless it was killed.
pub(crate) fn watch_child(mut child: Child) -> Watch {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        let code = child.wait().await.ok().and_then(|status| status.code());
        sender.send_replace(Some(code));
    });
    receiver
}

/// Watches a process that is not our child.
pub(crate) fn watch_other(identity: &Identity) -> Watch {
    let (sender, receiver) = watch::channel(None);
    let pid = i32::try_from(identity.pid).ok().and_then(Pid::from_raw);
    let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok());
    // What had this number when it was opened may have been another already.
    let is_alive = identity.is_alive();
    let handle = handle.filter(|_| is_alive).and_then(|handle| readable(handle).ok());
    tokio::spawn(async move {
        match handle {
            Some(handle) => drop(handle.readable().await),
            // It lives and cannot be watched: then nothing is said of its end.
            None if is_alive => return sender.closed().await,
            None => {}
        }
        sender.send_replace(Some(None));
    });
    receiver
}

#[expect(deprecated, reason = "its successor is unsafe for descriptors that may change; an OwnedFd cannot")]
fn readable(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE)
}
