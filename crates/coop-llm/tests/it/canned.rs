//! A transport without a network: it gives the replies of a list and remembers what was sent, and when.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use coop_llm::{
    ApiKey, Claude, HttpReply, HttpRequest, Message, OpenAi, ProviderConfig, Request, Transport, TransportError,
};
use futures_util::stream::{self, StreamExt};
use reqwest::header::{HeaderMap, HeaderName};
use tokio::time::Instant;

/// One reply.
pub(crate) enum Canned {
    /// An HTTP answer of these pieces, and how it ends.
    Reply { status: u16, headers: Vec<(&'static str, String)>, pieces: Vec<String>, end: End },
    /// An answer of events whose pieces come one after another, each after a pause.
    Slow { pieces: Vec<String>, last: String, pause: Duration },
    /// No connection.
    Refused,
    /// No answer, ever.
    Silence,
}

#[derive(Clone, Copy)]
pub(crate) enum End {
    Whole,
    Cut,
    Hang,
}

#[derive(Default)]
pub(crate) struct Wire {
    replies: Mutex<VecDeque<Canned>>,
    sent: Mutex<Vec<(Instant, HttpRequest)>>,
}

impl Wire {
    pub(crate) fn new(replies: impl IntoIterator<Item = Canned>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), sent: Mutex::default() })
    }

    /// Returns the bodies of all that was sent.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        sent.iter().map(|(_, request)| String::from_utf8(request.body.to_vec()).unwrap()).collect()
    }

    /// Returns how long it took from each request to the next.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        let sent = self.sent.lock().unwrap();
        sent.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// Returns where all of it was sent.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|(_, request)| request.url.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.sent.lock().unwrap().len()
    }
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: HttpRequest) -> Result<HttpReply, TransportError> {
        self.sent.lock().unwrap().push((Instant::now(), request));
        let reply = self.replies.lock().unwrap().pop_front();
        match reply.expect("more requests than replies") {
            Canned::Refused => Err(TransportError::Connect(std::io::Error::other("connection refused").into())),
            Canned::Silence => std::future::pending().await,
            Canned::Slow { mut pieces, last, pause } => {
                pieces.push(last);
                let body = stream::iter(pieces).then(move |piece| async move {
                    tokio::time::sleep(pause).await;
                    Ok(piece.into())
                });
                Ok(HttpReply { status: 200, headers: HeaderMap::new(), body: body.boxed() })
            }
            Canned::Reply { status, headers, pieces, end } => {
                let mut map = HeaderMap::new();
                for (name, value) in headers {
                    map.insert(HeaderName::from_static(name), value.parse().unwrap());
                }
                let pieces = stream::iter(pieces.into_iter().map(|piece| Ok(piece.into())));
                let body = match end {
                    End::Whole => pieces.boxed(),
                    End::Cut => pieces.chain(stream::once(async { Err(broken()) })).boxed(),
                    End::Hang => pieces.chain(stream::pending()).boxed(),
                };
                Ok(HttpReply { status, headers: map, body })
            }
        }
    }
}

fn broken() -> TransportError {
    TransportError::Read(std::io::Error::other("connection reset").into())
}

/// An answer of events, given as the stream's text.
pub(crate) fn stream_of(text: impl Into<String>, end: End) -> Canned {
    let headers = vec![("request-id", "req_1".to_owned())];
    Canned::Reply { status: 200, headers, pieces: vec![text.into()], end }
}

/// A failure with a body like Anthropic's.
pub(crate) fn failure(status: u16, headers: &[(&'static str, &str)], details: &str) -> Canned {
    let body = format!(
        r#"{{"type":"error","error":{{"type":"some_error","message":"Sorry","details":{details}}},"request_id":"req_2"}}"#
    );
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Canned::Reply { status, headers, pieces: vec![body], end: End::Whole }
}

/// Anthropic's stream for an answer of one text.
pub(crate) fn hello() -> String {
    format!("{}{}", hello_begun(), include_str!("../data/hello-end.sse"))
}

/// The first half of it, in which a word has been said.
pub(crate) fn hello_begun() -> &'static str {
    include_str!("../data/hello-begin.sse")
}

pub(crate) fn config() -> ProviderConfig {
    ProviderConfig { cache: false, ..ProviderConfig::new("claude-opus-4-8") }
}

pub(crate) fn claude(wire: &Arc<Wire>) -> Claude {
    Claude::over(wire.clone(), ApiKey::new("sk-secret"), config())
}

pub(crate) fn openai(wire: &Arc<Wire>) -> OpenAi {
    OpenAi::over(wire.clone(), ApiKey::new("sk-secret"), ProviderConfig::new("gpt"))
}

pub(crate) fn hi() -> Request {
    Request { messages: vec![Message::user("Hi")], ..Request::default() }
}
