//! A process that an agent needs beside it: started before it, ended after it.

use std::time::Duration;

use coop_api::Size;
use coop_term::{Child, ChildEvent, Command, Output, SpawnError, Target, Wants};
use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long it may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// What its terminal is; nobody looks at it.
const SIZE: Size = Size::DEFAULT;

/// A process that runs as long as the agent does.
pub(crate) struct Companion {
    stop: oneshot::Sender<()>,
    over: JoinHandle<()>,
    pid: u32,
}

impl Companion {
    pub(crate) fn spawn(command: &Command) -> Result<Self, SpawnError> {
        let child = Child::spawn(command, SIZE)?;
        let pid = child.pid();
        let (stop, stopped) = oneshot::channel();
        let over = tokio::spawn(async move {
            let ended = tokio::select! {
                () = run(&child) => true,
                _ = stopped => false,
            };
            if !ended {
                end(&child).await;
            }
            // Whatever it has left behind goes with it.
            let _ = child.signal(Signal::KILL, Target::Session);
            let _ = child.reap();
        });
        Ok(Self { stop, over, pid })
    }

    /// Returns its process, which leads a session of its own.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends it and waits until it is gone.
    pub(crate) async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.over.await;
    }
}

/// Lets it write what it wants until it ends.
async fn run(child: &Child) {
    let mut buffer = [0; 4096];
    let mut at_end = false;
    loop {
        let wants = Wants { output: !at_end, writable: false, end: true, pipe_output: false, pipe_writable: false };
        match child.event(wants).await {
            ChildEvent::Readable => match child.read(&mut buffer) {
                Output::Bytes(length) => {
                    tracing::debug!(said = %String::from_utf8_lossy(&buffer[..length]), "companion");
                }
                Output::Nothing => {}
                Output::End => at_end = true,
            },
            ChildEvent::Ended => return,
            ChildEvent::Writable | ChildEvent::PipeReadable | ChildEvent::PipeWritable => {}
        }
    }
}

async fn end(child: &Child) {
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = child.signal(signal, Target::Session);
        if tokio::time::timeout(GRACE, run(child)).await.is_ok() {
            return;
        }
    }
}
