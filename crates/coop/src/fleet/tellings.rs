//! What is told of workspaces as it happens, to whoever listens.

use std::sync::Arc;

use coop_server::workspaces::Telling;
use serde_json::Value;
use tokio::sync::broadcast;

/// What is told and not read yet. Who is slower is told so.
const MOST: usize = 256;

#[derive(Clone)]
pub(super) struct Tellings(broadcast::Sender<Telling>);

impl Tellings {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(MOST))
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Telling> {
        self.0.subscribe()
    }

    pub(super) fn tell(&self, name: &'static str, data: Value) {
        // Nobody has to listen.
        let _ = self.0.send(Telling { name, data: Arc::new(data) });
    }
}
