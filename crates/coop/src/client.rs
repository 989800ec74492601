//! Talking to an agent's sidecar, over its socket or its URL.

use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use coop_api::Token;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::{fleet, paths};

/// How long an agent may take to answer a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// After how long a connection that is dead without a sign is given up.
const SILENCE: Duration = Duration::from_secs(20);

/// What answers may be. The tools' protocol wants both named.
const ANYTHING: &str = "application/json, text/event-stream, */*";

/// Where an agent can be reached, or the daemon.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: Address,
    token: Option<Token>,
    whose: Whose,
}

/// Who is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Agent,
    Daemon,
}

#[derive(Clone, Debug)]
enum Address {
    Socket(PathBuf),
    /// Host and port.
    Tcp(String),
}

/// A no, with its reason and its code.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub(crate) struct Refused(pub(crate) coop_api::Error);

/// Nobody answers where a daemon listened before.
#[derive(Debug, thiserror::Error)]
#[error("no daemon answers; start one with `coop up --detach`, which finds its agents again")]
struct Away;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) type WebSocket = WebSocketStream<Box<dyn Stream>>;

impl Client {
    /// Returns the agent with this socket or URL, or else the one that is meant by default.
    pub(crate) fn new(target: Option<&str>, token: Option<Token>) -> anyhow::Result<Self> {
        let address = match target {
            Some(url) if url.contains("://") => Address::Tcp(host_of(url)?),
            Some(path) if is_host_and_port(path) && !Path::new(path).exists() => {
                bail!("there is no socket {path}; if it is an address, write http://{path}")
            }
            Some(name) if !name.contains('/') && !Path::new(name).exists() => match fleet::agent_socket(name) {
                Some(socket) => Address::Socket(socket),
                None => Address::Socket(name.into()),
            },
            Some(path) => Address::Socket(path.into()),
            None => match own_socket() {
                Some(path) => Address::Socket(path.into()),
                None => Address::Socket(paths::only_socket()?),
            },
        };
        Ok(Self { address, token, whose: Whose::Agent })
    }

    /// Returns the daemon with this socket.
    pub(crate) fn daemon(socket: &Path, token: Option<Token>) -> Self {
        Self { address: Address::Socket(socket.to_owned()), token, whose: Whose::Daemon }
    }

    /// Returns a name for people.
    pub(crate) fn name(&self) -> String {
        match &self.address {
            Address::Socket(path) => path.display().to_string(),
            Address::Tcp(host) => format!("http://{host}"),
        }
    }

    /// Tells whether this is the sidecar whose terminal we run on.
    pub(crate) fn is_around_us(&self) -> bool {
        let Address::Socket(path) = &self.address else { return false };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        std::env::var_os("COOP").is_some() && own_socket().is_some_and(|own| real(path) == real(Path::new(&own)))
    }

    /// Tells whether this was said, or nothing was, because the daemon was killed: one that is being restarted answers soon.
    /// One that has ended in order has taken its socket with it.
    pub(crate) fn may_be_back(&self, error: &anyhow::Error) -> bool {
        let was_killed = |path: &PathBuf| error.is::<hyper::Error>() || error.is::<Away>() && path.exists();
        match &self.address {
            Address::Socket(path) => was_killed(path),
            Address::Tcp(_) => false,
        }
    }

    async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let context = || format!("cannot reach an agent at {}; is it still running?", self.name());
        Ok(match &self.address {
            Address::Socket(path) => {
                paths::check_length(path)?;
                let connected = UnixStream::connect(path).await;
                if self.whose == Whose::Daemon && connected.as_ref().is_err_and(is_left_over) {
                    return Err(Away.into());
                }
                Box::new(connected.with_context(context)?)
            }
            Address::Tcp(host) => {
                let stream = TcpStream::connect(host).await.with_context(context)?;
                stream.set_nodelay(true)?;
                notice_death(&stream)?;
                Box::new(stream)
            }
        })
    }

    fn host(&self) -> &str {
        match &self.address {
            Address::Socket(_) => "localhost",
            Address::Tcp(host) => host,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Bytes> {
        self.request(Method::POST, path, body.to_string().into()).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &Value) -> anyhow::Result<Bytes> {
        self.request(Method::DELETE, path, body.to_string().into()).await
    }

    /// Follows server-sent events without a name; each is told by its data, until one is answered with a break.
    pub(crate) async fn follow<T>(
        &self,
        path: &str,
        mut tell: impl AsyncFnMut(&str) -> anyhow::Result<ControlFlow<T>>,
    ) -> anyhow::Result<Option<T>> {
        let mut body = self.send(Method::GET, path, Bytes::new()).await?;
        let mut text = Vec::new();
        let mut is_named = false;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if line.starts_with("event: ") {
                    is_named = true;
                } else if line.trim_end().is_empty() {
                    is_named = false;
                }
                if let Some(data) = line.trim_end().strip_prefix("data: ").filter(|_| !is_named)
                    && let ControlFlow::Break(value) = tell(data).await?
                {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        Ok(self.send(method, path, body).await?.collect().await?.to_bytes())
    }

    /// Returns the body of an answer that is a yes.
    async fn send(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Incoming> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await?)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.host());
        request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, ANYTHING);
        // A daemon writes down who it was.
        if let Some(user) = std::env::var("USER").ok().and_then(|user| HeaderValue::try_from(user).ok()) {
            request = request.header("x-coop-by", user);
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, bearer(token)?);
        }
        let response = sender.send_request(request.body(Full::new(body))?).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = response.into_body().collect().await?.to_bytes();
        if status == StatusCode::UNAUTHORIZED && self.token.is_none() {
            let who = match self.whose {
                Whose::Agent => "agent",
                Whose::Daemon => "daemon",
            };
            bail!("the {who} at {} asks for a token; give it with --auth-token or COOP_AUTH_TOKEN", self.name());
        }
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        match serde_json::from_value(told["error"].clone()) {
            Ok(error) => Err(Refused(error).into()),
            Err(_) => bail!("{} answered {status}", self.name()),
        }
    }

    /// Finds out whether the agent answers, and lets us in.
    pub(crate) async fn knock(&self) -> anyhow::Result<()> {
        let asked = timeout(CONNECT_LIMIT, self.get("/api/v1/health")).await;
        asked.with_context(|| format!("{} does not answer", self.name()))?.map(drop)
    }

    pub(crate) async fn web_socket(&self, query: &str) -> anyhow::Result<WebSocket> {
        let mut request = format!("ws://{}/ws?{query}", self.host()).into_client_request()?;
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, bearer(token)?);
        }
        let connect = async {
            let (socket, _) = tokio_tungstenite::client_async(request, self.connect().await?)
                .await
                .with_context(|| format!("{} does not speak coop's WebSocket", self.name()))?;
            anyhow::Ok(socket)
        };
        timeout(CONNECT_LIMIT, connect).await.with_context(|| format!("{} does not answer", self.name()))?
    }
}

/// Tells whether nobody has a socket any more: it was left by somebody who was killed, or is gone by now.
fn is_left_over(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

pub(crate) fn own_socket() -> Option<OsString> {
    std::env::var_os("COOP_SOCKET").filter(|path| !path.is_empty())
}

/// Lets the system end a connection whose other side is gone without a word, such as behind a lost network.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE / 2)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE / 10)?;
    sockopt::set_tcp_keepcnt(stream, 5)?;
    // The same when something was sent and is not acknowledged.
    sockopt::set_tcp_user_timeout(stream, SILENCE.as_millis() as u32)?;
    Ok(())
}

fn bearer(token: &Token) -> anyhow::Result<HeaderValue> {
    let mut value =
        HeaderValue::try_from(format!("Bearer {}", token.expose())).context("the token cannot stand in a header")?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.contains('/') && port.parse::<u16>().is_ok())
}

fn host_of(url: &str) -> anyhow::Result<String> {
    let uri: hyper::Uri = url.parse().with_context(|| format!("{url:?} is not a URL"))?;
    if !matches!(uri.path_and_query().map(|rest| rest.as_str()), None | Some("/")) {
        bail!("{url:?} has a path; coop serves at the root of its port, so give just http://HOST:PORT");
    }
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "ws"), Some(host)) => Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80))),
        (Some("https" | "wss"), _) => bail!("coop speaks plain HTTP; use http:// here, and a tunnel for the rest"),
        _ => bail!("{url:?} is not a URL such as http://127.0.0.1:8080"),
    }
}
