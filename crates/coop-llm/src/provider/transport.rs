//! How a request reaches a provider.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::HeaderMap;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::{AgentError, ErrorKind};

/// A request to a provider; always a POST.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// Where to.
    pub url: String,
    /// The key among them is marked as sensitive.
    pub headers: HeaderMap,
    /// JSON.
    pub body: Bytes,
}

/// A provider's answer, of which the body is yet to come.
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, in pieces of any size.
    pub body: BoxStream<'static, Result<Bytes, TransportError>>,
}

/// A connection that failed.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// No answer came.
    #[error("not reached")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer broke off.
    #[error("the connection broke")]
    Read(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How a request reaches a provider: over HTTP, or in a test not at all.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request and waits for the head of the answer.
    async fn send(&self, request: HttpRequest) -> Result<HttpReply, TransportError>;
}

/// HTTP with TLS, by `reqwest`. Proxies are those of the environment; certificates are the system's.
#[derive(Clone, Debug)]
pub struct Http(reqwest::Client);

/// A provider that does not even take a connection by then is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl Http {
    /// Returns a client with a pool of its own.
    pub fn new() -> Result<Self, AgentError> {
        Ok(Self(client()?))
    }
}

/// Returns an HTTP client. It follows no redirect: a key must not be carried elsewhere.
pub(crate) fn client() -> Result<reqwest::Client, AgentError> {
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
        let message = format!("the system's certificates cannot be used, so there is no TLS: {error}");
        AgentError::new(ErrorKind::Network, message).with_source(error)
    };
    // Chosen here and not for the whole process, which may have other ideas.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|error| broken(error.into()))?
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("coop-llm/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| broken(error.into()))
}

#[async_trait]
impl Transport for Http {
    async fn send(&self, request: HttpRequest) -> Result<HttpReply, TransportError> {
        let HttpRequest { url, headers, body } = request;
        let sent = self.0.post(url).headers(headers).body(body).send().await;
        // An address may hold a password.
        let reply = sent.map_err(|error| TransportError::Connect(error.without_url().into()))?;
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        let read = |error: reqwest::Error| TransportError::Read(error.without_url().into());
        let body = reply.bytes_stream().map(move |piece| piece.map_err(read)).boxed();
        Ok(HttpReply { status, headers, body })
    }
}
