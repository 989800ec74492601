//! Runs hooks: all that match, side by side.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::Happening;
use super::children::{Children, Purpose, Shell};
use crate::claude::engine::Event;
use crate::claude::hook::{HookCall, HookEvent, HookExit, HookResult};
use crate::claude::settings::Settings;

/// The end of a session does not wait longer than this for anybody.
const AT_THE_END: Duration = Duration::from_secs(5);

pub(crate) struct HookRunner {
    pub(crate) settings: Settings,
    pub(crate) cwd: PathBuf,
    pub(crate) children: Children,
    pub(crate) events: SyncSender<Happening>,
}

impl HookRunner {
    /// Starts the hooks of a call; returns when to kill which, or nothing if there are none.
    pub(crate) fn start(&self, call: &HookCall) -> Option<Vec<(Instant, Pid)>> {
        let hooks = self.settings.hooks(call.event, &call.subject);
        if hooks.is_empty() {
            return None;
        }
        let input = call.payload.to_string();
        let left = Arc::new(AtomicUsize::new(hooks.len()));
        let mut deadlines = Vec::new();
        for hook in hooks {
            let timeout = if call.event == HookEvent::SessionEnd { hook.timeout.min(AT_THE_END) } else { hook.timeout };
            let (run, events, left) = (call.run, self.events.clone(), Arc::clone(&left));
            let command = hook.command.clone();
            let started = Instant::now();
            let ended = move |output: std::io::Result<Output>| {
                let result = result(command, started, output);
                // Whoever listened may be gone; then nobody needs to know.
                let _ = events.send(Happening::Engine(Event::HookResult { run, result }));
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    let _ = events.send(Happening::Engine(Event::HooksDone(run)));
                }
            };
            let shell = Shell { command: &hook.command, cwd: &self.cwd, input: input.as_bytes() };
            let pid = self.children.start(Purpose::Hook(call.run), &shell, ended);
            deadlines.extend(pid.map(|pid| (started + timeout, pid)));
        }
        Some(deadlines)
    }
}

fn result(command: String, started: Instant, output: std::io::Result<Output>) -> HookResult {
    let duration = started.elapsed();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output {
        Ok(output) => HookResult {
            command,
            exit: match output.status.signal() {
                None => output.status.code().map_or(HookExit::None, HookExit::Code),
                Some(_) => HookExit::None,
            },
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            duration,
        },
        Err(error) => {
            HookResult { command, exit: HookExit::None, stdout: String::new(), stderr: error.to_string(), duration }
        }
    }
}
