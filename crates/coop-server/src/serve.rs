//! Listeners and connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router, middleware};
use coop_api::Agents;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::Layer;

use crate::app::{App, Config};
use crate::guard::{Peer, guard};
use crate::{grpc, http, routes};

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 2048;
/// Probes at a time.
const MAX_PROBES: usize = 64;
/// A client that does not finish its request's head in this time is cut off.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// How long to wait after an accept that failed, which is when the process has no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where to listen.
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a Unix socket.
    Unix(UnixListener),
}

/// What to serve on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// Everything, behind the token.
    Api,
    /// Only the health check, without a token, for probes.
    Health,
}

/// A connection's place among those the server waits for when it ends. A connection that becomes a WebSocket leaves
/// the task that accepted it and takes its place along.
#[derive(Clone)]
pub(crate) struct Place {
    _waited_for: TaskTrackerToken,
}

/// Serves agents on any number of listeners.
pub struct Server<A: Agents> {
    app: Arc<App<A>>,
    tasks: TaskTracker,
    connections: Arc<Semaphore>,
}

impl<A: Agents> Server<A> {
    /// Returns a server that listens nowhere yet.
    pub fn new(agents: A, config: Config) -> Self {
        let app = Arc::new(App::new(agents, config, CancellationToken::new()));
        Self { app, tasks: TaskTracker::new(), connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }

    /// Begins to serve on a listener, in the background.
    pub fn listen(&self, listener: Listener, surface: Surface) {
        let peer = match &listener {
            Listener::Tcp(_) => Peer::Tcp,
            Listener::Unix(_) => Peer::Unix,
        };
        let router = self.surface(surface, peer);
        // Probes must get through also when clients have taken every place.
        let connections = match surface {
            Surface::Api => Arc::clone(&self.connections),
            Surface::Health => Arc::new(Semaphore::new(MAX_PROBES)),
        };
        self.tasks.spawn(accept(listener, router, self.app.shutdown.clone(), self.tasks.clone(), connections));
    }

    /// Returns what is served over TCP, for callers that bring their own connections.
    pub fn router(&self) -> Router {
        self.surface(Surface::Api, Peer::Tcp)
    }

    fn surface(&self, surface: Surface, peer: Peer) -> Router {
        let app = Arc::clone(&self.app);
        match surface {
            Surface::Health => Router::new()
                .route("/api/v1/health", axum::routing::get(http::health))
                .route("/", axum::routing::get(http::health))
                .fallback(http::not_found)
                .with_state(app),
            Surface::Api => grpc::router(&app)
                .merge(routes::router().with_state(Arc::clone(&app)))
                .fallback(http::not_found)
                .layer(middleware::from_fn_with_state(app, guard))
                .layer(Extension(peer)),
        }
    }

    /// Stops accepting, tells every client, and waits until the last has gone or the time is up.
    pub async fn shut_down(self, limit: Duration) {
        self.app.shutdown.cancel();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("some clients did not go in time");
        }
    }
}

async fn accept(
    listener: Listener,
    router: Router,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    connections: Arc<Semaphore>,
) {
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = next(&listener) => accepted,
        };
        match accepted {
            Ok(stream) => {
                let place = Place { _waited_for: tasks.token() };
                let connection = serve(stream, router.clone(), place, shutdown.clone());
                tasks.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn next(listener: &Listener) -> io::Result<Box<dyn Stream>> {
    Ok(match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // Keystrokes are small and must not wait for each other.
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        Listener::Unix(listener) => Box::new(listener.accept().await?.0),
    })
}

async fn serve(stream: Box<dyn Stream>, router: Router, place: Place, shutdown: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    builder.http2().timer(TokioTimer::new());
    let service = TowerToHyperService::new(Extension(place).layer(router));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection failed");
    }
}
