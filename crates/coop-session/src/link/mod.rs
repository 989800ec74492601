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

use crate::agent_files::AgentFiles;

/// How much may wait in each direction. Who floods waits.
const WAITING: usize = 1024;
/// How long to wait before the first new attempt, and before each at the most; it doubles in between. It is all on this
/// machine, and whoever comes back is to be heard of within two seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// For how long a link may be down before what was heard over it is taken for old: a server that is started again is back
/// within seconds.
const LOST_AFTER: Duration = Duration::from_secs(15);

/// What a link tells.
#[derive(Debug)]
pub(crate) enum News {
    Up,
    Down,
    /// It was up, and has been down for long.
    Lost,
    Message(Value),
    Reply {
        name: String,
        status: Option<u16>,
        body: Value,
    },
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
    pub(crate) fn start(link: Link, files: AgentFiles) -> Option<Self> {
        let (to, said) = mpsc::channel(WAITING);
        let (tell, news) = mpsc::channel(WAITING);
        let task = match link {
            Link::None | Link::Pipe => return None,
            Link::Socket { path } => tokio::spawn(socket::keep(path, files, said, tell)),
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
struct Pauses {
    next: Duration,
    /// How long was waited since the link broke; nothing if there was none yet, or that it is lost was told.
    down_for: Option<Duration>,
}

impl Pauses {
    fn new() -> Self {
        Self { next: FIRST_PAUSE, down_for: None }
    }

    /// Begins anew, after a link that was up.
    fn broke() -> Self {
        Self { next: FIRST_PAUSE, down_for: Some(Duration::ZERO) }
    }

    /// Waits for the next attempt, and tells once if the link is lost. Returns nothing if nobody wants to know.
    async fn wait(&mut self, tell: &mpsc::Sender<News>) -> Option<()> {
        tokio::time::sleep(self.next).await;
        self.down_for = self.down_for.map(|time| time + self.next);
        self.next = (self.next * 2).min(LAST_PAUSE);
        match self.down_for.take_if(|time| *time >= LOST_AFTER) {
            Some(_) => tell.send(News::Lost).await.ok(),
            None => Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    async fn next(linked: &mut Linked) -> String {
        let news = tokio::time::timeout(LOST_AFTER * 4, linked.news.recv()).await.expect("news in time");
        format!("{:?}", news.expect("news"))
    }

    /// The time is not real: it passes while everybody waits.
    #[tokio::test(start_paused = true)]
    async fn a_link_that_does_not_come_back_is_told_as_lost_once_and_may_come_back_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let mut linked =
            Linked::start(Link::Socket { path: path.to_str().expect("UTF-8").to_owned() }, AgentFiles::default())
                .expect("a link");
        // One that was never there is not lost.
        assert!(tokio::time::timeout(LOST_AFTER * 2, linked.news.recv()).await.is_err());
        for _ in 0..2 {
            let listener = UnixListener::bind(&path).expect("a socket");
            let (stream, _) = listener.accept().await.expect("a client");
            let socket = tokio_tungstenite::accept_async(stream).await.expect("a WebSocket");
            assert_eq!(next(&mut linked).await, "Up");
            drop((socket, listener));
            std::fs::remove_file(&path).expect("it is ours");
            assert_eq!([next(&mut linked).await, next(&mut linked).await], ["Down", "Lost"]);
            assert!(tokio::time::timeout(LOST_AFTER * 2, linked.news.recv()).await.is_err(), "it was told");
        }
    }
}
