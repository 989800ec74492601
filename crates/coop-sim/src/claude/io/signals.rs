//! Signals, on a thread of their own.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::Happening;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    Terminate,
    Hangup,
    Interrupt,
    Resize,
}

impl Caught {
    /// The exit code of a process that ends by it; a resize ends nothing.
    pub(crate) const fn exit_code(self) -> Option<i32> {
        match self {
            Self::Terminate => Some(143),
            Self::Hangup => Some(129),
            Self::Interrupt => Some(130),
            Self::Resize => None,
        }
    }
}

/// Sends signals as they come, until nobody listens any more. From the return on, no signal gets past us.
pub(crate) fn listen(events: SyncSender<Happening>) {
    let (installed, wait) = sync_channel::<()>(1);
    thread::spawn(move || {
        // Without a runtime the defaults apply: the process just dies.
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let _ = runtime.block_on(forward(&events, installed));
    });
    // An error means that nothing could be installed; then there is nothing to wait for either.
    let _ = wait.recv();
}

async fn forward(events: &SyncSender<Happening>, installed: SyncSender<()>) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut resize = signal(SignalKind::window_change())?;
    drop(installed);
    loop {
        let caught = tokio::select! {
            _ = terminate.recv() => Caught::Terminate,
            _ = hangup.recv() => Caught::Hangup,
            _ = interrupt.recv() => Caught::Interrupt,
            _ = resize.recv() => Caught::Resize,
        };
        if events.send(Happening::Signal(caught)).is_err() {
            return Ok(());
        }
    }
}
