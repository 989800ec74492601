//! Requests over a sidecar's socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use coop_api::{Error, Seq};
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;

use super::process::Identity;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The same where something is done to the agent: a sidecar waits for its server, and until something shows that it took.
const DONE: Duration = Duration::from_secs(300);

/// The way to one sidecar.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    /// The process that must own the socket: an agent can put another socket in its place. `None` skips the check.
    listener: Option<Identity>,
}

/// Why there is no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The sidecar says no.
    #[error("{0}")]
    Refused(Error),
    /// Nobody listens, or nobody answers.
    #[error("{0}")]
    Unreachable(String),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        unreachable(error)
    }
}

impl Client {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), listener: None }
    }

    /// Returns a client that refuses a socket of any other process.
    pub(crate) fn to_process(socket: &Path, listener: Identity) -> Self {
        Self { socket: socket.to_owned(), listener: Some(listener) }
    }

    /// Finds out whether anybody listens, and which process that is.
    pub(crate) async fn listener(&self) -> io::Result<Option<u32>> {
        peer(&UnixStream::connect(&self.socket).await?)
    }

    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket).await?;
        if let Some(expected) = &self.listener {
            let listener = peer(&stream)?.and_then(Identity::of);
            if listener.as_ref() != Some(expected) {
                return Err(io::Error::other("another process than its sidecar listens on its socket"));
            }
        }
        Ok(stream)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, ClientError> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn get_json(&self, path: &str) -> Result<Value, ClientError> {
        let body = self.get(path).await?;
        serde_json::from_slice(&body).map_err(|wrong| ClientError::Unreachable(format!("{path} is not JSON: {wrong}")))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        let body = self.request(Method::POST, path, body.to_string().into()).await?;
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Follows what happens, after the event with this number.
    pub(crate) async fn follow(&self, after: Seq) -> Result<WebSocketStream<UnixStream>, ClientError> {
        let connect = async {
            let stream = self.connect().await?;
            let url = format!("ws://localhost/ws?subscribe=log&after={after}");
            let (socket, _) = tokio_tungstenite::client_async(url, stream).await.map_err(unreachable)?;
            Ok::<_, ClientError>(socket)
        };
        timeout(LIMIT, connect).await.map_err(unreachable)?
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let limit = if method == Method::POST { DONE } else { LIMIT };
        let exchange = async {
            let stream = self.connect().await?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = handshake.map_err(unreachable)?;
            tokio::spawn(connection);
            let request = Request::builder().method(method).uri(format!("/api/v1/{path}"));
            let request = request.header(HOST, "localhost").header(CONTENT_TYPE, "application/json");
            let request = request.body(Full::new(body)).map_err(unreachable)?;
            let response = sender.send_request(request).await.map_err(unreachable)?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(unreachable)?.to_bytes();
            Ok::<_, ClientError>((status, body))
        };
        let (status, body) = timeout(limit, exchange).await.map_err(unreachable)??;
        if status.is_success() {
            return Ok(body);
        }
        #[derive(Deserialize)]
        struct Told {
            error: Error,
        }
        if status == StatusCode::BAD_GATEWAY {
            // Nobody but our own relay says so.
            return Err(ClientError::Unreachable(String::from_utf8_lossy(&body).into_owned()));
        }
        match serde_json::from_slice::<Told>(&body) {
            Ok(told) => Err(ClientError::Refused(told.error)),
            Err(_) => Err(ClientError::Unreachable(format!("{path} was answered with {status}"))),
        }
    }
}

/// Returns the process that listens at the other end.
fn peer(stream: &UnixStream) -> io::Result<Option<u32>> {
    Ok(stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok()))
}

fn unreachable(error: impl std::fmt::Display) -> ClientError {
    ClientError::Unreachable(error.to_string())
}
