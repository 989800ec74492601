//! Talking to a sidecar.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Runs something to its end, on this thread, within a limit.
pub(crate) fn block_on<T>(limit: Duration, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { tokio::time::timeout(limit, work).await.context("it took too long")? })
}

async fn connect(host: &str) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(host).await.with_context(|| format!("cannot connect to {host}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One connection that is kept.
pub(crate) struct Http {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Http {
    pub(crate) async fn connect(host: &str) -> anyhow::Result<Self> {
        let (sender, connection) = handshake(TokioIo::new(connect(host).await?)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, host: host.to_owned() })
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.request(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn type_text(&mut self, text: &str) -> anyhow::Result<()> {
        let body = serde_json::json!({ "text": text }).to_string();
        self.request(Method::POST, "/api/v1/input", body.into()).await.map(drop)
    }

    pub(crate) async fn post(&mut self, path: &str, body: &serde_json::Value) -> anyhow::Result<()> {
        self.request(Method::POST, path, body.to_string().into()).await.map(drop)
    }

    /// Reports what a hook of the agent's would.
    pub(crate) async fn hook(&mut self, event: &str, token: &str, payload: &serde_json::Value) -> anyhow::Result<()> {
        let path = format!("/api/v1/hooks/{event}");
        self.send(Method::POST, &path, Some(token), payload.to_string().into()).await.map(drop)
    }

    async fn request(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        self.send(method, path, None, body).await
    }

    async fn send(&mut self, method: Method, path: &str, token: Option<&str>, body: Bytes) -> anyhow::Result<Bytes> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        if let Some(token) = token {
            request = request.header("x-coop-hook-token", token);
        }
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(body))?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        ensure!(status.is_success(), "{path} answered {status}");
        Ok(response.into_body().collect().await?.to_bytes())
    }
}

/// A WebSocket with the output in binary frames.
pub(crate) struct Output(WebSocketStream<TcpStream>);

/// What comes on it.
pub(crate) enum News {
    /// Output, without its offset.
    Bytes(Bytes),
    /// Another message, as JSON.
    Told(serde_json::Value),
}

impl Output {
    pub(crate) async fn from_now_on(host: &str) -> anyhow::Result<Self> {
        Self::subscribe(host, "mode=raw&binary=1").await
    }

    pub(crate) async fn from_the_beginning(host: &str) -> anyhow::Result<Self> {
        Self::subscribe(host, "mode=raw&binary=1&offset=0").await
    }

    /// Follows the states instead of the output.
    pub(crate) async fn states(host: &str) -> anyhow::Result<Self> {
        Self::subscribe(host, "mode=state").await
    }

    /// Follows the events of a shim.
    pub(crate) async fn shim(host: &str) -> anyhow::Result<Self> {
        Self::open(host, "events").await
    }

    async fn subscribe(host: &str, query: &str) -> anyhow::Result<Self> {
        Self::open(host, &format!("ws?{query}")).await
    }

    async fn open(host: &str, path: &str) -> anyhow::Result<Self> {
        let url = format!("ws://{host}/{path}");
        let (socket, _) = tokio_tungstenite::client_async(url, connect(host).await?).await?;
        Ok(Self(socket))
    }

    pub(crate) async fn type_bytes(&mut self, bytes: &'static [u8]) -> anyhow::Result<()> {
        Ok(self.0.send(Message::Binary(Bytes::from_static(bytes))).await?)
    }

    /// Waits for the next message; none once the sidecar has closed.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<News>> {
        const OFFSET: usize = 8;
        while let Some(message) = self.0.next().await {
            match message? {
                Message::Binary(frame) if frame.len() >= OFFSET => return Ok(Some(News::Bytes(frame.slice(OFFSET..)))),
                Message::Text(text) => return Ok(Some(News::Told(serde_json::from_str(&text)?))),
                Message::Close(_) => return Ok(None),
                Message::Ping(_) | Message::Pong(_) => {}
                other => bail!("an unexpected frame: {other:?}"),
            }
        }
        Ok(None)
    }

    pub(crate) async fn next_bytes(&mut self) -> anyhow::Result<Bytes> {
        while let Some(news) = self.next().await? {
            if let News::Bytes(bytes) = news {
                return Ok(bytes);
            }
        }
        bail!("the sidecar closed the connection")
    }
}
