//! What waits to be sent to the agent, so that nobody has to wait for the sending.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::client::WebSocket;

/// How many messages may wait for a connection that takes none; what is typed comes in pieces of up to 4 KiB.
const MOST: usize = 16 * 1024;
/// How long the last message may take when the person wants to go.
const LAST_LIMIT: Duration = Duration::from_secs(1);

pub(super) struct Outbox {
    sink: SplitSink<WebSocket, Message>,
    waiting: VecDeque<Message>,
    flushed: bool,
}

impl Outbox {
    pub(super) fn new(sink: SplitSink<WebSocket, Message>) -> Self {
        Self { sink, waiting: VecDeque::new(), flushed: true }
    }

    /// Queues a message, unless too many wait.
    pub(super) fn push(&mut self, message: Message) -> Result<(), &'static str> {
        if self.waiting.len() >= MOST {
            return Err("the agent does not take what is typed");
        }
        self.waiting.push_back(message);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flushed
    }

    /// Sends everything. Cancel safe: a message leaves the queue in the moment the connection takes it.
    pub(super) async fn send(&mut self) -> Result<(), tungstenite::Error> {
        while !self.waiting.is_empty() {
            poll_fn(|context| self.sink.poll_ready_unpin(context)).await?;
            if let Some(message) = self.waiting.pop_front() {
                self.flushed = false;
                self.sink.start_send_unpin(message)?;
            }
        }
        self.sink.flush().await?;
        self.flushed = true;
        Ok(())
    }

    /// Sends what is left before the person goes, if the connection takes it at once.
    pub(super) async fn send_last(&mut self) {
        let _ = timeout(LAST_LIMIT, self.send()).await;
    }
}
