//! The link to an agent's own protocol, where that is not its standard input and output.
//!
//! A task keeps the link up: it tries again for as long as the agent runs, and says when the link comes and goes.

mod http;
mod socket;

use std::time::Duration;

use coop_drivers::{Link, Say};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How much may wait in each direction. Who floods waits.
const WAITING: usize = 1024;
/// How long to wait before the first new attempt, and before each at the most; it doubles in between. It is all on this
/// machine, and whoever comes back is to be heard of within two seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// What a link tells.
#[derive(Debug)]
pub(crate) enum News {
    Up,
    Down,
    Message(Value),
    Reply { name: String, status: Option<u16>, body: Value },
}

/// A link that is kept up as long as this lives.
pub(crate) struct Linked {
    to: mpsc::Sender<Say>,
    pub(crate) news: mpsc::Receiver<News>,
    task: JoinHandle<()>,
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Linked {
    /// Begins to keep a link up, if it is of a kind that has to be.
    pub(crate) fn start(link: Link) -> Option<Self> {
        let (to, said) = mpsc::channel(WAITING);
        let (tell, news) = mpsc::channel(WAITING);
        let task = match link {
            Link::None | Link::Pipe => return None,
            Link::Socket { path } => tokio::spawn(socket::keep(path, said, tell)),
            Link::Http { url, events, authorization } => {
                tokio::spawn(http::keep(http::Server { url, events, authorization }, said, tell))
            }
        };
        Some(Self { to, news, task })
    }

    /// Says something, unless so much waits already that nobody can be listening.
    pub(crate) fn say(&self, what: Say) {
        if self.to.try_send(what).is_err() {
            tracing::warn!("the agent's protocol does not take what it is told");
        }
    }
}

/// The time between attempts.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LAST_PAUSE);
    }
}
