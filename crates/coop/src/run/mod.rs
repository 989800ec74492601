//! `coop run`: coop's own agent, for one task in this terminal, or for whoever speaks ACP to it.

mod acp;
mod gate;
mod once;
mod options;
mod ready;
mod settings;
mod show;
mod steps;

use std::io::{self, Write};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use anyhow::Context;
use coop_llm::{Exit, RunCx};
use coop_server::ProcessRole;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) use gate::{read_answer, terminal};
pub(crate) use options::Run;

use crate::shield;

/// The exit codes, as `--help` tells them.
const FAILED: i32 = 1;
const MISUSED: i32 = 2;
const LIMIT: i32 = 3;
const REFUSED: i32 = 4;
const TOO_LONG: i32 = 5;
const SIGNALLED: i32 = 128;

pub(crate) async fn run(options: Run) -> anyhow::Result<i32> {
    // What the model runs is not to read the key off us.
    shield::raise(ProcessRole::Agent);
    let cancel = CancellationToken::new();
    let cx = RunCx { cancel: cancel.clone(), ..RunCx::default() };
    let signalled = heed_signals(cancel)?;
    let outcome = if options.acp { acp::run(&options, &cx).await } else { once::run(&options, &cx).await };
    match (signalled.get(), outcome) {
        // Tools have ended with all they started.
        (Some(number), _) => Ok(SIGNALLED + number),
        (None, Err(error)) if error.is::<Misuse>() => {
            let _ = writeln!(io::stderr(), "error: {error}");
            Ok(MISUSED)
        }
        (None, outcome) => outcome,
    }
}

/// Options that make no sense together, or with what is there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misuse(String);

/// Cancels the run at the first signal and ends the process at the second, in a thread of its own: ours may wait for somebody
/// to read what it writes. Returns where the first one will be.
fn heed_signals(cancel: CancellationToken) -> anyhow::Result<Arc<OnceLock<i32>>> {
    let first = Arc::new(OnceLock::new());
    let told = Arc::clone(&first);
    let (ready, is_ready) = mpsc::channel();
    let heed = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let listening = runtime.and_then(|runtime| {
            let signals = runtime.block_on(async { Signals::new() })?;
            Ok((runtime, signals))
        });
        match listening {
            Ok((runtime, mut signals)) => {
                let _ = ready.send(Ok(()));
                let _ = told.set(runtime.block_on(signals.next()));
                cancel.cancel();
                let second = runtime.block_on(signals.next());
                std::process::exit(SIGNALLED + second);
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    };
    thread::Builder::new().name("signals".into()).spawn(heed)?;
    is_ready.recv().context("nobody listens to signals")?.context("cannot listen to signals")?;
    Ok(first)
}

fn code(exit: &Exit) -> i32 {
    match exit {
        Exit::Completed => 0,
        Exit::OutOfTokens | Exit::ContextFull => TOO_LONG,
        Exit::Refused => REFUSED,
        Exit::Limit(_) => LIMIT,
        Exit::Cancelled | Exit::Failed(_) => FAILED,
    }
}

/// The signals that end a run.
struct Signals([(SignalKind, tokio::signal::unix::Signal); 3]);

impl Signals {
    fn new() -> std::io::Result<Self> {
        let of = |kind| signal(kind).map(|signal| (kind, signal));
        Ok(Self([of(SignalKind::interrupt())?, of(SignalKind::terminate())?, of(SignalKind::hangup())?]))
    }

    /// Waits for one, and returns its number.
    async fn next(&mut self) -> i32 {
        let [interrupt, terminate, hang_up] = &mut self.0;
        let kind = tokio::select! {
            _ = interrupt.1.recv() => interrupt.0,
            _ = terminate.1.recv() => terminate.0,
            _ = hang_up.1.recv() => hang_up.0,
        };
        kind.as_raw_value()
    }
}

#[cfg(test)]
mod tests {
    use coop_llm::{AgentError, ErrorKind, Limit};

    use super::*;

    #[test]
    fn each_end_has_its_code() {
        let failed = Exit::Failed(AgentError::new(ErrorKind::Network, "gone"));
        let ends = [
            (Exit::Completed, 0),
            (failed, 1),
            (Exit::Limit(Limit::Cost), 3),
            (Exit::Refused, 4),
            (Exit::OutOfTokens, 5),
            (Exit::ContextFull, 5),
        ];
        for (end, expected) in ends {
            assert_eq!(code(&end), expected, "{end:?}");
        }
    }
}
