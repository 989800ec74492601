//! The socket of an agent whose sidecar is elsewhere: what comes there is passed on, with the sidecar's token.
//!
//! So an agent is reached in one way, wherever it runs: by `STATE/agents/ID/coop.sock`. Who may open that file may steer
//! the agent, as on the same machine. HTTP/1 is passed on with its upgrades, and HTTP/2, which gRPC is.

use std::convert::Infallible;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coop_api::Token;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, UPGRADE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::launcher::{Dial, Stream};

/// How long a connection may take, also through the servers of a cluster.
const CONNECT: Duration = Duration::from_secs(10);

/// What gRPC calls a server that cannot be reached.
const UNAVAILABLE: &str = "14";

type Body = BoxBody<Bytes, hyper::Error>;

/// Listens on an agent's socket as long as it is there.
#[derive(Debug)]
pub(crate) struct Relay {
    task: AbortHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// Listens, in place of whoever did before.
    pub(crate) fn start(socket: &Path, dial: Arc<dyn Dial>, token: &Token) -> io::Result<Self> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
        let mut bearer = bearer.map_err(|_| io::Error::other("its token cannot be sent"))?;
        bearer.set_sensitive(true);
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        // Its folder is for its owner alone already.
        fs::set_permissions(socket, Permissions::from_mode(0o600))?;
        Ok(Self { task: tokio::spawn(listen(listener, dial, bearer)).abort_handle() })
    }
}

async fn listen(listener: UnixListener, dial: Arc<dyn Dial>, bearer: HeaderValue) {
    // They end with us.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, dial.clone(), bearer.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "a connection for an agent elsewhere was not taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: UnixStream, dial: Arc<dyn Dial>, bearer: HeaderValue) {
    let pass = service_fn(move |request: Request<Incoming>| {
        let (dial, bearer, version) = (dial.clone(), bearer.clone(), request.version());
        async move {
            let answer = match version {
                Version::HTTP_2 => pass_grpc(dial.as_ref(), bearer, request).await.map_err(unavailable),
                _ => pass(dial.as_ref(), bearer, request).await.map_err(bad_gateway),
            };
            Ok::<_, Infallible>(answer.unwrap_or_else(|refusal| refusal))
        }
    });
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // Either side may go at any time.
    let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), pass).await;
}

fn bad_gateway(why: String) -> Response<Body> {
    let mut response = Response::new(whole(why));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// Says the same as gRPC has it, whose words go by a header.
fn unavailable(why: String) -> Response<Body> {
    let plain = |letter: char| letter.is_ascii_graphic() && letter != '%' || letter == ' ';
    let why: String = why.chars().map(|letter| if plain(letter) { letter } else { '?' }).collect();
    let mut response = Response::new(whole(String::new()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static(UNAVAILABLE));
    headers.extend(HeaderValue::from_str(&why).ok().map(|why| (HeaderName::from_static("grpc-message"), why)));
    response
}

fn whole(text: String) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

async fn dialled(dial: &dyn Dial) -> Result<TokioIo<Box<dyn Stream>>, String> {
    let dialled = timeout(CONNECT, dial.dial()).await;
    Ok(TokioIo::new(dialled.map_err(|late| late.to_string())?.map_err(|error| error.to_string())?))
}

async fn pass_grpc(
    dial: &dyn Dial,
    bearer: HeaderValue,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, String> {
    let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), dialled(dial).await?).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    // It ends with the call.
    tokio::spawn(connection);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    Ok(response.map(BodyExt::boxed))
}

async fn pass(dial: &dyn Dial, bearer: HeaderValue, mut request: Request<Incoming>) -> Result<Response<Body>, String> {
    let shaken = hyper::client::conn::http1::handshake(dialled(dial).await?).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    tokio::spawn(connection.with_upgrades());
    let ours = hyper::upgrade::on(&mut request);
    if !request.headers().contains_key(UPGRADE) {
        // It is about the connection to us.
        request.headers_mut().remove(CONNECTION);
    }
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let mut response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
                let _ = copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
            }
        });
    }
    Ok(response.map(BodyExt::boxed))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::client::{Client, ClientError};
    use super::*;

    #[tokio::test]
    async fn what_is_passed_on_has_the_token_and_what_is_not_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("coop.sock");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let token = Token::new("hush").expect("a token");
        let _relay = Relay::start(&socket, Arc::new(address), &token).expect("it listens");
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("somebody comes");
            let mut bytes = vec![0; 4096];
            let length = stream.read(&mut bytes).await.expect("read");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(answer).await.expect("written");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        });
        let client = Client::new(&socket);
        client.get_json("agent").await.expect("an answer");
        let asked = answering.await.expect("it ended").to_lowercase();
        assert!(asked.starts_with("get /api/v1/agent http/1.1"), "{asked}");
        assert!(asked.contains("authorization: bearer hush"), "{asked}");
        // Nobody listens any more.
        let lost = client.get_json("agent").await;
        assert!(matches!(&lost, Err(ClientError::Unreachable(why)) if why.contains("refused")), "{lost:?}");
    }
}
