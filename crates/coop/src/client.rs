//! Talking to an agent's sidecar, over its socket or its URL.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use coop_api::Token;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::paths;

/// How long an agent may take to answer a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// After how long a connection that is dead without a sign is given up.
const SILENCE: Duration = Duration::from_secs(20);

/// Where an agent can be reached.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: Address,
    token: Option<Token>,
}

#[derive(Clone, Debug)]
enum Address {
    Socket(PathBuf),
    /// Host and port.
    Tcp(String),
}

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
            Some(path) => Address::Socket(path.into()),
            None => match own_socket() {
                Some(path) => Address::Socket(path.into()),
                None => Address::Socket(paths::only_socket()?),
            },
        };
        Ok(Self { address, token })
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

    async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let context = || format!("cannot reach an agent at {}; is it still running?", self.name());
        Ok(match &self.address {
            Address::Socket(path) => {
                paths::check_length(path)?;
                Box::new(UnixStream::connect(path).await.with_context(context)?)
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

    async fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await?)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, self.host());
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, bearer(token)?);
        }
        let response = sender.send_request(request.body(Full::new(body))?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        if status == StatusCode::UNAUTHORIZED && self.token.is_none() {
            bail!("the agent at {} asks for a token; give it with --auth-token or COOP_AUTH_TOKEN", self.name());
        }
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        match told["error"]["message"].as_str() {
            Some(message) => bail!("{message}"),
            None => bail!("{} answered {status}", self.name()),
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

fn own_socket() -> Option<OsString> {
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
