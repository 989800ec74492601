//! What stands for a container or a pod: a sidecar on a port of loopback, with a token.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::tool::COOP;

/// A sidecar that is killed with whoever holds it.
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) port: u16,
}

/// Starts a sidecar and waits until it is ready; else returns what it wrote and its code.
pub(super) async fn start(
    home: &Path,
    folder: &Path,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> Result<Process, (Option<i32>, String)> {
    let mut command = Command::new(COOP);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LANG", "C.UTF-8");
    command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home).envs(env).current_dir(folder);
    command.args(["--host", "127.0.0.1", "--port", "0"]).args(args);
    let log = tempfile::NamedTempFile::new_in(home).expect("a file");
    let written = log.reopen().expect("the same");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(written).kill_on_drop(true);
    let mut child = command.spawn().expect("coop runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut port = None;
    while let Ok(Some(line)) = lines.next_line().await {
        let address = line.strip_prefix("listening http http://");
        port = port.or(address.and_then(|address| address.rsplit_once(':')?.1.parse().ok()));
        if line == "ready" {
            let port = port.expect("it listens on a port");
            return Ok(Process { child, port });
        }
    }
    let status = child.wait().await.expect("it ends");
    Err((status.code(), std::fs::read_to_string(log.path()).expect("a log")))
}

/// Something that runs on a thread of its own until this is dropped.
pub(super) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    _ = stopped => {}
                }
            });
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ends a process as whoever runs containers does.
pub(super) fn end(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    // It may have ended by itself.
    let _ = kill_process(pid, signal);
}
