//! The daemon's API: many agents.
//!
//! ```text
//! /api/v1/agents                    list, spawn
//! /api/v1/agents/{id}               what is known of one; dismiss, revive
//! /api/v1/agents/{id}/REST          the sidecar's own /api/v1/REST, and its /ws
//! /api/v1/asks, audit, log, stats   across all of them
//! /api/v1/events, ws                what happens, as it happens
//! ```
//!
//! What a sidecar serves is passed on as it is, bytes for bytes: there is one codec for it, and it is the sidecar's. Who
//! asks is checked here, because a sidecar sees only the daemon. What comes from any agent of the fleet may look and not
//! steer, neither itself nor another.

mod events;
mod grpc;
mod openapi;
mod pass;
mod routes;
pub mod types;
mod ws;

pub(crate) use self::pass::{NAMED_ASKS, check_names_ask};
pub(crate) use self::routes::by;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coop_api::{AgentId, Answer, Error};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::openapi::document as openapi;
pub use self::routes::ROUTES;
use self::types::SpawnBody;
use crate::ancestry::Ancestry;
use crate::app::Config;
use crate::peer::Peer;
use crate::recording::Recorded;
use crate::serve::{Connections, Listener};
use crate::workspaces::Workspaces;

/// What is asked of a fleet. The replies are JSON, as [`types`] describes them.
#[derive(Clone, Debug)]
pub enum FleetRequest {
    /// Whether it runs, and how many agents there are.
    Status,
    /// Every agent.
    List,
    /// One agent, with what was done about it.
    Show(AgentId),
    /// Starts an agent.
    Spawn(Box<SpawnBody>),
    /// Sidecars that run and that nothing is known of.
    Orphans,
    /// Takes over one of them.
    Adopt(AgentId),
    /// Ends an agent for good.
    Dismiss(AgentId),
    /// Lets an agent's conversation go on in a new process.
    Revive(AgentId),
    /// What agents ask.
    Asks,
    /// What was answered, by whom and why.
    Audit {
        /// Only so many, the last ones.
        most: Option<u32>,
    },
    /// What happened after a number, so many at most; to one agent or to all.
    Log {
        /// Which agent.
        agent: Option<AgentId>,
        /// The number.
        after: u64,
        /// How many.
        most: u32,
    },
    /// Everything at one moment.
    Snapshot,
    /// What is new after a number, so many entries at most, with the agents that they are about, and up to where some are
    /// gone.
    News {
        /// The number.
        after: u64,
        /// How many.
        most: u32,
    },
    /// Processes of agents that have ended, so many at most.
    History {
        /// Only those with this in their agents' names, folders or in messages.
        text: String,
        /// How many.
        most: usize,
    },
    /// Counts of what there is and was.
    Stats,
    /// Somebody told an agent something.
    Steered(AgentId),
    /// Somebody has a message for an agent, which waits until that is idle.
    Queued(AgentId),
    /// Somebody answered what an agent asked.
    Decided(AgentId, Box<Answer>),
    /// Ends the daemon, and its agents or not.
    Down(Fate),
}

/// What becomes of the agents of a daemon that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They go on.
    Stay,
    /// They are ended.
    End,
}

/// Connects to a sidecar.
pub type Connect = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = io::Result<UnixStream>> + Send>> + Send>;

/// Who serves an agent.
pub enum Way {
    /// Its sidecar, which this connects to.
    Sidecar(Connect),
    /// We do, as [`Server`](crate::Server) would.
    Here(axum::Router),
}

/// A fleet, as its server sees it.
pub trait Fleet: Workspaces {
    /// Asks for something in somebody's name.
    fn call(&self, request: FleetRequest, by: &str) -> impl Future<Output = Result<Value, Error>> + Send;

    /// Returns the number of the newest event, which wakes whoever follows.
    fn newest(&self) -> watch::Receiver<u64>;

    /// Returns the way to what serves one agent.
    fn way(&self, agent: &AgentId) -> impl Future<Output = Result<Way, Error>> + Send;

    /// Says how an agent has ended, and what can be done, if it has.
    fn ended(&self, agent: &AgentId) -> impl Future<Output = Option<Error>> + Send;

    /// Returns where an agent's terminal is recorded.
    fn recording(&self, agent: &AgentId) -> impl Future<Output = Result<Recorded, Error>> + Send;
}

/// Serves a fleet on any number of listeners.
pub struct FleetServer<F: Fleet> {
    pub(crate) hub: Arc<Hub<F>>,
    connections: Connections,
}

/// What all connections share.
pub(crate) struct Hub<F> {
    pub(crate) fleet: Arc<F>,
    pub(crate) config: Config,
    pub(crate) shutdown: CancellationToken,
}

impl<F: Fleet> FleetServer<F> {
    /// Returns a server that listens nowhere yet.
    pub fn new(fleet: F, config: Config) -> Self {
        let fleet = Arc::new(fleet);
        let shutdown = CancellationToken::new();
        let connections = Connections::new(shutdown.clone(), Ancestry::of_this_process());
        Self { hub: Arc::new(Hub { fleet, config, shutdown }), connections }
    }

    /// Begins to serve on a listener, in the background.
    pub fn listen(&self, listener: Listener) {
        self.connections.accept(listener, routes::router(&self.hub));
    }

    /// Returns what is served over TCP, for callers that bring their own connections and vouch for them.
    pub fn router(&self) -> axum::Router {
        routes::router(&self.hub).layer(axum::Extension(Arc::new(Peer::vouched())))
    }

    /// Stops accepting, and waits until the last client has gone or the time is up.
    pub async fn shut_down(self, limit: Duration) {
        self.hub.shutdown.cancel();
        self.connections.wait(limit).await;
    }
}
