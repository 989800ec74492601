//! The backend that `AGENT_BOOTSTRAP` names: it gets the files that agents write.

use std::env;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use bytes::Bytes;
use coop_server::shim::types::Bootstrap;
use coop_server::shim::{Published, Written};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::command::BOOTSTRAP;

/// How long the backend may take; what it does not take in time stays where it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest file that is brought to the backend.
const MAX_FILE: u64 = 8 * 1024 * 1024;
/// The largest reply of the backend.
const MAX_REPLY: usize = 1 << 20;
/// How much of its life a token may have behind it before it is renewed.
const RENEWED_AFTER: f64 = 0.8;
/// The shortest time between two tries, whatever the clocks say.
const AT_LEAST: Duration = Duration::from_secs(1);
/// How long to wait after a renewal that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// A backend, and the token for it.
pub(super) struct Backend {
    bootstrap: Bootstrap,
    token: Mutex<(String, SystemTime)>,
}

impl Backend {
    /// Returns the backend that the environment names, if it does.
    pub(super) fn from_environment() -> anyhow::Result<Option<Self>> {
        const NAME: &str = BOOTSTRAP;
        let Some(text) = env::var_os(NAME).filter(|text| !text.is_empty()) else { return Ok(None) };
        let text = text.into_string().ok().with_context(|| format!("{NAME} is not UTF-8"))?;
        // Its text is not told: there is a token in it.
        let bootstrap: Bootstrap = serde_json::from_str(&text).ok().with_context(|| {
            format!(
                "{NAME} is not JSON with backendUrl, backendToken, tokenExpiresAt, agentId and artifactUploadEndpoint"
            )
        })?;
        let ends = expiry(&bootstrap.token_expires_at)?;
        for url in [&bootstrap.backend_url, &bootstrap.artifact_upload_endpoint] {
            address(&url.parse().with_context(|| format!("{NAME}: {url} is no URL"))?)?;
        }
        Ok(Some(Self { token: Mutex::new((bootstrap.backend_token.clone(), ends)), bootstrap }))
    }

    /// Renews the token as long as there is time.
    pub(super) async fn renew(self: std::sync::Arc<Self>) {
        loop {
            let ends = self.token.lock().unwrap_or_else(PoisonError::into_inner).1;
            let left = ends.duration_since(SystemTime::now()).unwrap_or_default();
            // By a clock that is not set the token may be over already.
            tokio::time::sleep(left.mul_f64(RENEWED_AFTER).max(AT_LEAST)).await;
            if let Err(error) = self.renewed().await {
                tracing::warn!(error = format!("{error:#}"), "the backend's token was not renewed");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    async fn renewed(&self) -> anyhow::Result<()> {
        let url = format!("{}/api/token/renew", self.bootstrap.backend_url.trim_end_matches('/'));
        let body = json!({ "agentId": self.bootstrap.agent_id, "currentToken": self.token() });
        let (status, reply) = self.post(&url, &body).await?;
        let token = reply["backendToken"].as_str().filter(|_| status == StatusCode::OK);
        let token = token.with_context(|| format!("the backend said {status}"))?.to_owned();
        let ends = expiry(reply["tokenExpiresAt"].as_str().unwrap_or_default())?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = (token, ends);
        Ok(())
    }

    fn token(&self) -> String {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    async fn upload(&self, file: &Written, content: &str) -> anyhow::Result<String> {
        let body = json!({ "agentId": file.agent_id, "artifactId": file.artifact_id, "content": content,
                           "mimeType": file.mime_type });
        let (status, reply) = self.post(&self.bootstrap.artifact_upload_endpoint, &body).await?;
        if status != StatusCode::CREATED {
            bail!("the backend said {status}");
        }
        reply["backendUri"].as_str().map(str::to_owned).context("the backend did not say where it is")
    }

    async fn post(&self, url: &str, body: &Value) -> anyhow::Result<(StatusCode, Value)> {
        timeout(PATIENCE, self.send(url, body)).await.context("the backend took too long")?
    }

    async fn send(&self, url: &str, body: &Value) -> anyhow::Result<(StatusCode, Value)> {
        let uri: Uri = url.parse()?;
        let address = address(&uri)?;
        let stream = TcpStream::connect(&address).await.with_context(|| format!("cannot reach {address}"))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::post(path)
            .header("host", uri.authority().map_or("", |authority| authority.as_str()))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {}", self.token()))
            .body(Full::new(Bytes::from(body.to_string())))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let reply = Limited::new(response.into_body(), MAX_REPLY).collect().await;
        let reply = reply.map_err(|error| anyhow::anyhow!("cannot read the backend's reply: {error}"))?.to_bytes();
        connection.abort();
        Ok((status, serde_json::from_slice(&reply).unwrap_or(Value::Null)))
    }
}

/// Looks at a file, and brings it to the backend if there is one. What fails leaves the file where it is.
pub(super) async fn publish(backend: Option<&Backend>, file: Written) -> Published {
    let size = std::fs::metadata(&file.path).ok().filter(|found| found.is_file()).map(|found| found.len());
    let Some(backend) = backend.filter(|_| size.is_some_and(|size| size <= MAX_FILE)) else {
        return Published { size, uri: None };
    };
    // The protocol has text only.
    let content = std::fs::read_to_string(Path::new(&file.path));
    let uploaded = match content {
        Ok(content) => backend.upload(&file, &content).await,
        Err(error) => Err(error.into()),
    };
    let uri = uploaded
        .inspect_err(|error| tracing::warn!(error = format!("{error:#}"), "a file did not reach the backend"))
        .ok();
    Published { size, uri }
}

fn expiry(text: &str) -> anyhow::Result<SystemTime> {
    humantime::parse_rfc3339_weak(text).with_context(|| format!("{text:?} is not a time"))
}

/// Returns the host and port of a URL that we can speak to.
fn address(uri: &Uri) -> anyhow::Result<String> {
    if uri.scheme_str() != Some("http") {
        bail!("{uri} is not http://; put a proxy on this machine in front of a backend elsewhere");
    }
    let host = uri.host().with_context(|| format!("{uri} has no host"))?;
    Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80)))
}
