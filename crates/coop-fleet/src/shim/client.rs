//! Requests to a shim.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use coop_api::{Error, ErrorCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long an answer may take. A pause may wait for a tool, a kill for the agent.
const LIMIT: Duration = Duration::from_secs(60);
/// How large an answer or an event may be: a state holds a whole brief.
const LARGEST: usize = 16 << 20;

/// The way to one shim.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    port: u16,
}

/// Why there is no answer, or not the one that was wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The shim says no.
    #[error("{0}")]
    Refused(Error),
    /// Nobody listens, or nobody answers.
    #[error("{0}")]
    Unreachable(String),
}

impl Client {
    pub(crate) fn new(port: u16) -> Self {
        Self { port }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.request(Method::POST, path, body.to_string().into()).await
    }

    /// Opens the events, from the oldest that the shim keeps on.
    pub(crate) async fn follow(&self) -> Result<WebSocketStream<TcpStream>, ClientError> {
        let connect = async {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.map_err(unreachable)?;
            let url = format!("ws://127.0.0.1:{}/events", self.port);
            let limits = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
            let opened = tokio_tungstenite::client_async_with_config(url, stream, Some(limits)).await;
            Ok(opened.map_err(unreachable)?.0)
        };
        timeout(LIMIT, connect).await.map_err(unreachable)?
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Value, ClientError> {
        let exchange = async {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.map_err(unreachable)?;
            let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = handshake.map_err(unreachable)?;
            tokio::spawn(connection);
            let request = Request::builder().method(method).uri(format!("/{path}"));
            let request = request.header(HOST, format!("127.0.0.1:{}", self.port));
            let request =
                request.header(CONTENT_TYPE, "application/json").body(Full::new(body)).map_err(unreachable)?;
            let response = sender.send_request(request).await.map_err(unreachable)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST).collect().await.map_err(unreachable)?.to_bytes();
            Ok((status, body))
        };
        let (status, body) = timeout(LIMIT, exchange).await.map_err(unreachable)??;
        let value: Value = serde_json::from_slice(&body).map_err(|wrong| {
            ClientError::Unreachable(format!("/{path} was answered with {status} and no JSON: {wrong}"))
        })?;
        if status.is_success() {
            return Ok(value);
        }
        let why = match &value["detail"] {
            Value::String(why) => why.clone(),
            Value::Null => format!("/{path} was answered with {status}"),
            other => other.to_string(),
        };
        Err(ClientError::Refused(Error::new(code(status), why)))
    }
}

fn code(status: StatusCode) -> ErrorCode {
    match status {
        StatusCode::NOT_FOUND => ErrorCode::NotFound,
        StatusCode::CONFLICT => ErrorCode::AgentBusy,
        StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
        StatusCode::FORBIDDEN => ErrorCode::Forbidden,
        status if status.is_client_error() => ErrorCode::BadRequest,
        _ => ErrorCode::Internal,
    }
}

fn unreachable(error: impl std::fmt::Display) -> ClientError {
    ClientError::Unreachable(error.to_string())
}
