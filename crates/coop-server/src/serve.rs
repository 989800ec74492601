//! Listeners and connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router, middleware};
use coop_api::Agents;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::Layer;

use crate::ancestry::Ancestry;
use crate::app::{App, Config};
use crate::guard::guard;
use crate::intake::{bounded, marked};
use crate::meter::{Meter, Metered};
use crate::peer::Peer;
use crate::{grpc, http, routes};

/// Connections at a time, if the process may open as many files; more wait to be accepted.
const MAX_CONNECTIONS: usize = 2048;
/// Open files left for everything but the API's connections: probes, listeners, the child's terminal.
const OTHER_FILES: usize = 2 * MAX_PROBES;
/// Probes at a time.
const MAX_PROBES: usize = 64;
/// A client that does not finish its request's head in this time is cut off.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// The length of HTTP/2's preface. Until so much has come we may not know which HTTP a client speaks, and then neither
/// one's own time limit runs.
const PREFACE: u64 = 24;
/// A client silent for this long is asked by its HTTP/2 or its TCP whether it still lives; silent for as long again, it
/// is taken for dead. So is one that takes nothing of what it was sent for all this time.
const PING_AFTER: Duration = Duration::from_secs(30);
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
    /// Everything, on the socket that is given to the agent: whatever connects there looks and reports, and never steers.
    Agent,
    /// Only the health check, without a token, for probes.
    Health,
}

/// A connection's place among those that are counted, and waited for when the server ends. A connection that becomes a
/// WebSocket leaves the task that accepted it and takes its place along.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) meter: Arc<Meter>,
    _counted: Arc<OwnedSemaphorePermit>,
    _waited_for: TaskTrackerToken,
}

/// Serves agents on any number of listeners.
pub struct Server<A: Agents> {
    app: Arc<App<A>>,
    connections: Connections,
}

/// The connections of one server.
pub(crate) struct Connections {
    shutdown: CancellationToken,
    tasks: TaskTracker,
    places: Arc<Semaphore>,
    ancestry: Arc<Ancestry>,
}

impl Connections {
    pub(crate) fn new(shutdown: CancellationToken, ancestry: Ancestry) -> Self {
        let places = Arc::new(Semaphore::new(most_connections()));
        Self { shutdown, tasks: TaskTracker::new(), places, ancestry: Arc::new(ancestry) }
    }

    /// Serves on a listener, in the background, until the shutdown.
    pub(crate) fn accept(&self, listener: Listener, router: Router) {
        self.accept_in(listener, router, Arc::clone(&self.places));
    }

    fn accept_in(&self, listener: Listener, router: Router, places: Arc<Semaphore>) {
        let (shutdown, tasks, ancestry) = (self.shutdown.clone(), self.tasks.clone(), Arc::clone(&self.ancestry));
        self.tasks.spawn(accept(listener, router, shutdown, tasks, places, ancestry));
    }

    /// Waits until the last client has gone or the time is up.
    pub(crate) async fn wait(&self, limit: Duration) {
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("some clients did not go in time");
        }
    }
}

impl<A: Agents> Server<A> {
    /// Returns a server that listens nowhere yet.
    pub fn new(agents: A, config: Config) -> Self {
        let shutdown = CancellationToken::new();
        let ancestry = if config.parent_is_daemon { Ancestry::of_daemons_child() } else { Ancestry::of_this_process() };
        let app = Arc::new(App::new(agents, config, shutdown.clone()));
        Self { app, connections: Connections::new(shutdown, ancestry) }
    }

    /// Begins to serve on a listener, in the background.
    pub fn listen(&self, listener: Listener, surface: Surface) {
        let router = self.surface(surface);
        // Probes must get through also when clients have taken every place.
        match surface {
            Surface::Api => self.connections.accept(listener, router),
            Surface::Agent => {
                let router = router.layer(Extension(Arc::new(Peer::agent())));
                self.connections.accept(listener, router);
            }
            Surface::Health => self.connections.accept_in(listener, router, Arc::new(Semaphore::new(MAX_PROBES))),
        }
    }

    /// Returns what is served over TCP, for callers that bring their own connections and vouch for them.
    pub fn router(&self) -> Router {
        self.surface(Surface::Api).layer(Extension(Arc::new(Peer::vouched())))
    }

    fn surface(&self, surface: Surface) -> Router {
        let app = Arc::clone(&self.app);
        match surface {
            Surface::Health => Router::new()
                .route("/api/v1/health", axum::routing::get(http::health))
                .route("/", axum::routing::get(http::health))
                .fallback(http::not_found)
                .with_state(app),
            Surface::Api | Surface::Agent => {
                let routes = routes::router().with_state(Arc::clone(&app));
                let router = bounded(grpc::router(&app).merge(routes).fallback(http::not_found));
                marked(router.layer(middleware::from_fn_with_state(app, guard)))
            }
        }
    }

    /// Stops accepting, tells every client, and waits until the last has gone or the time is up.
    pub async fn shut_down(self, limit: Duration) {
        self.app.shutdown.cancel();
        self.connections.wait(limit).await;
    }
}

/// Each connection is an open file, and a process may have only so many.
fn most_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MAX_CONNECTIONS, |files| files.saturating_sub(OTHER_FILES).clamp(1, MAX_CONNECTIONS))
}

async fn accept(
    listener: Listener,
    router: Router,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    connections: Arc<Semaphore>,
    ancestry: Arc<Ancestry>,
) {
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&connections).acquire_owned().await.map_err(io::Error::other)?;
            next(&listener, &ancestry).await.map(|(stream, peer)| (stream, peer, permit))
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, peer, permit)) => {
                let place =
                    Place { meter: Arc::new(Meter::new()), _counted: Arc::new(permit), _waited_for: tasks.token() };
                tasks.spawn(serve(stream, peer, router.clone(), place, shutdown.clone()));
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

async fn next(listener: &Listener, ancestry: &Arc<Ancestry>) -> io::Result<(Box<dyn Stream>, Peer)> {
    Ok(match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().await?;
            // Keystrokes are small and must not wait for each other.
            stream.set_nodelay(true)?;
            notice_death(&stream)?;
            let peer = Peer::tcp(&stream, ancestry);
            (Box::new(stream), peer)
        }
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept().await?;
            let peer = Peer::unix(&stream, ancestry);
            (Box::new(stream), peer)
        }
    })
}

/// Lets the system end a connection whose client is gone without a word, whatever it is used for.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PING_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PING_AFTER / 3)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, 2 * PING_AFTER.as_millis() as u32)?;
    Ok(())
}

async fn serve(stream: Box<dyn Stream>, peer: Peer, router: Router, place: Place, shutdown: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_AFTER).keep_alive_timeout(PING_AFTER);
    let meter = Arc::clone(&place.meter);
    let stream = Metered::new(stream, Arc::clone(&meter));
    let service = TowerToHyperService::new(Extension(Arc::new(peer)).layer(Extension(place).layer(router)));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    tokio::pin!(connection);
    let silent = async {
        tokio::time::sleep(HEAD_LIMIT).await;
        if meter.read() >= PREFACE {
            std::future::pending().await
        }
    };
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = silent => return,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection failed");
    }
}

#[cfg(test)]
mod tests {
    use coop_api::{AgentId, Error, Feed, Reply, Request, Token};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    struct Nobody;

    impl Agents for Nobody {
        fn list(&self) -> Vec<AgentId> {
            vec![]
        }

        async fn call(&self, _: &AgentId, _: Request) -> Result<Reply, Error> {
            Err(Error::internal("nobody is here"))
        }

        fn feed(&self, _: &AgentId) -> Result<Feed, Error> {
            Err(Error::internal("nobody is here"))
        }
    }

    /// Returns a server that serves one connection at a time, and its address.
    async fn narrow() -> (Server<Nobody>, std::net::SocketAddr) {
        let token = Some(Token::new("secret").expect("a token"));
        let mut server = Server::new(Nobody, Config { token, ..Config::default() });
        server.connections.places = Arc::new(Semaphore::new(1));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        server.listen(Listener::Tcp(listener), Surface::Api);
        (server, address)
    }

    /// Waits in small steps: the paused clock leaps to the next timer as soon as nobody has anything to do, also while the kernel
    /// has bytes on their way, and one long wait would be over in that moment.
    async fn within<T>(limit: Duration, done: impl Future<Output = T>) -> Option<T> {
        let steps = async {
            for _ in 0..limit.as_millis() / 10 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            done = done => Some(done),
            () = steps => None,
        }
    }

    /// Hyper is done with a connection that becomes a WebSocket, and its place was given away then.
    #[tokio::test(start_paused = true)]
    async fn a_web_socket_keeps_its_place() {
        let (_server, address) = narrow().await;
        let begin = Instant::now();
        let mut socket = TcpStream::connect(address).await.expect("it listens");
        let upgrade = b"GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        socket.write_all(upgrade).await.expect("it is open");
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 101");
        // The next is served once the first is sent away because it brings no token.
        let mut next = TcpStream::connect(address).await.expect("it listens");
        next.write_all(b"GET /api/v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
        next.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 401");
        assert!(begin.elapsed() >= Duration::from_secs(10), "after {:?}", begin.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_a_ping_is_cut_off() {
        let (_server, address) = narrow().await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        // The preface and empty settings.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("it is open");
        let mut answer = Vec::new();
        let end = within(4 * PING_AFTER, stream.read_to_end(&mut answer)).await;
        assert!(end.is_some(), "it keeps its place");
    }

    /// A body could take for ever, and what had come of it was held.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let (_server, address) = narrow().await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let head = "POST /api/v1/input HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\
                    content-length: 100\r\n\r\n{\"text\":";
        stream.write_all(head.as_bytes()).await.expect("it is open");
        let mut answer = [0; 12];
        let read = within(Duration::from_secs(120), stream.read_exact(&mut answer)).await;
        read.expect("it is given up").expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 408");
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_cut_off() {
        let (_server, address) = narrow().await;
        for beginning in ["", "PRI * HTT", "GET / HTTP/1.1\r\nhost: loc"] {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(beginning.as_bytes()).await.expect("it is open");
            let mut answer = Vec::new();
            let end = within(2 * HEAD_LIMIT, stream.read_to_end(&mut answer)).await;
            assert!(end.is_some(), "{beginning:?} keeps its place");
        }
    }
}
