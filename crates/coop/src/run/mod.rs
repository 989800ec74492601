//! `coop run`: coop's own agent, for one task in this terminal, or for whoever speaks ACP to it.

mod acp;
mod gate;
mod once;
mod options;
mod ready;
mod settings;
mod show;
mod steps;

use coop_llm::{Exit, RunCx};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) use options::Run;
pub(crate) use settings::is_setting;

use crate::shield;

/// The exit codes, as `--help` tells them.
const FAILED: i32 = 1;
const LIMIT: i32 = 3;
const REFUSED: i32 = 4;
const TOO_LONG: i32 = 5;
const SIGNALLED: i32 = 128;

pub(crate) async fn run(options: Run) -> anyhow::Result<i32> {
    // What the model runs is not to read the key off us.
    shield::close();
    let cancel = CancellationToken::new();
    let cx = RunCx { cancel: cancel.clone(), ..RunCx::default() };
    let mut signals = Signals::new()?;
    let work = async { if options.acp { acp::run(&options, &cx).await } else { once::run(&options, &cx).await } };
    tokio::pin!(work);
    tokio::select! {
        outcome = &mut work => outcome,
        number = signals.next() => {
            // Tools end with all they started before we do.
            cancel.cancel();
            let _ = work.await;
            Ok(SIGNALLED + number)
        }
    }
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
