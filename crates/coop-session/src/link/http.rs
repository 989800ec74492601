//! Calls over HTTP on loopback, and a stream of events.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use coop_drivers::{Call, Say};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{News, Pauses};

/// How long a server may take to begin the stream before it is asked once more; it doubles each time. One that is only
/// starting may take a connection and forget it, and one that is slow must not be asked from the beginning again and again:
/// so all that were asked for are waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long a server may take for an answer: it works on what it was told after it has answered.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Where the agent's server is.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: String,
    pub(super) events: String,
    pub(super) authorization: String,
}

pub(super) async fn keep(server: Server, mut said: mpsc::Receiver<Say>, tell: mpsc::Sender<News>) {
    let mut pauses = Pauses::new();
    let mut listening = std::pin::pin!(listen(server.clone(), tell.clone()));
    loop {
        tokio::select! {
            heard = &mut listening => {
                let Some(was_up) = heard else { return };
                if was_up {
                    pauses = Pauses::broke();
                }
                let (server, tell) = (server.clone(), tell.clone());
                // What is said meanwhile waits; it would reach nobody.
                if pauses.wait(&tell).await.is_none() {
                    return;
                }
                listening.set(listen(server, tell));
            }
            what = said.recv() => match what {
                None => return,
                Some(Say::Call(call)) => {
                    tokio::spawn(answer(server.clone(), call, tell.clone()));
                }
                Some(Say::Message(_) | Say::Serve(_) | Say::Show(_)) => tracing::error!("this link carries only calls"),
            },
        }
    }
}

/// Tells what the server does until the stream breaks. Returns whether there was one; nothing if nobody listens to us.
async fn listen(server: Server, tell: mpsc::Sender<News>) -> Option<bool> {
    let Ok(response) = open(&server).await else { return Some(false) };
    if !response.status().is_success() {
        tracing::warn!(status = response.status().as_u16(), "the agent's server does not let us listen");
        return Some(false);
    }
    tell.send(News::Up).await.ok()?;
    let mut events = SseStream::new(response.into_body());
    while let Some(Ok(event)) = events.next().await {
        if let Some(Ok(value)) = event.data.map(|data| serde_json::from_str(&data)) {
            tell.send(News::Message(value)).await.ok()?;
        }
    }
    tell.send(News::Down).await.ok()?;
    Some(true)
}

/// Asks for the stream of events, and returns the first one that begins.
async fn open(server: &Server) -> io::Result<Response<Incoming>> {
    let call = Call { name: String::new(), method: "GET", path: server.events.clone(), body: None };
    let mut asked = FuturesUnordered::from_iter([send(server, &call)]);
    let mut patience = PATIENCE;
    loop {
        tokio::select! {
            Some(response) = asked.next() => match response {
                Err(_) if !asked.is_empty() => {}
                response => return response,
            },
            () = tokio::time::sleep(patience) => {
                patience *= 2;
                asked.push(send(server, &call));
            }
        }
    }
}

/// Calls and tells what came back.
async fn answer(server: Server, call: Call, tell: mpsc::Sender<News>) {
    let reply = async {
        let response = send(&server, &call).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        io::Result::Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    };
    let reply = tokio::time::timeout(CALL_LIMIT, reply).await.unwrap_or_else(|late| Err(late.into()));
    let (status, body) = match reply {
        Ok((status, body)) => (Some(status), body),
        Err(error) => {
            tracing::warn!(%error, call = call.name, "the agent's server cannot be reached");
            (None, Value::Null)
        }
    };
    // If nobody listens any more, the agent is gone.
    let _ = tell.send(News::Reply { name: call.name, status, body }).await;
}

/// Sends a request over a connection of its own: it is loopback, and the server may be another one by now.
async fn send(server: &Server, call: &Call) -> io::Result<Response<Incoming>> {
    let address = server.url.strip_prefix("http://").unwrap_or(&server.url).trim_end_matches('/');
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(call.method)
        .uri(&call.path)
        .header(HOST, address)
        .header(AUTHORIZATION, &server.authorization)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(io::Error::other)?;
    sender.send_request(request).await.map_err(io::Error::other)
}
