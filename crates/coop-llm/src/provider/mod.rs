//! Models on the other side of HTTP: what all of them have in common.
//!
//! A [`Protocol`] says how a request is written, how the events of an answer are put together and what an error means; it
//! touches nothing. [`Provider`] sends, waits and tries again. A call is tried again only while nothing of its answer was
//! handed on, and never past the deadline.

mod claude;
mod fault;
mod key;
mod openai;
mod retry;
mod transport;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::StreamExt;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use sse_stream::SseByteStream;
use tokio::time::Instant;

use fault::{ErrorReply, Fault};

pub use claude::Claude;
pub use key::{ApiKey, KeySources};
pub use openai::OpenAi;
pub use retry::Retry;
pub use transport::{Http, HttpReply, HttpRequest, Transport, TransportError};

pub(crate) use key::SECRET_VARIABLES;
#[cfg(feature = "mcp")]
pub(crate) use transport::client;

use crate::{Agent, AgentError, Budget, Delta, ErrorKind, Event, Model, Request, Response, RunCx, Usage};

/// What a provider is told once.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// The model and how much it writes where a request does not say.
    pub model: Model,
    /// How freely the model chooses its words where a request does not say.
    pub temperature: Option<f64>,
    /// Where the provider is, without a path; its own address if there is none.
    pub base_url: Option<String>,
    /// Time for one attempt at a call.
    pub request_timeout: Duration,
    /// How long a provider may be silent in the middle of an answer.
    pub stall_timeout: Duration,
    /// How a failed call is made again.
    pub retry: Retry,
    /// Chance, between 0 and 1: how much of the longest wait a wait is.
    pub luck: fn() -> f64,
    /// Whether the provider is asked to keep the conversation in its cache, where that has to be asked.
    pub cache: bool,
}

impl ProviderConfig {
    /// Returns the defaults for a model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: Model { name: model.into(), max_tokens: 8192 },
            temperature: None,
            base_url: None,
            request_timeout: Duration::from_secs(600),
            // Providers send a sign of life every few seconds.
            stall_timeout: Duration::from_secs(180),
            retry: Retry::default(),
            luck: fastrand::f64,
            cache: true,
        }
    }
}

/// What differs between providers. Nothing in it waits.
pub trait Protocol: Send + Sync {
    /// An answer that is being put together.
    type Answer: Answer;

    /// Writes a request.
    fn request(&self, key: &ApiKey, config: &ProviderConfig, request: &Request) -> Result<HttpRequest, AgentError>;

    /// Begins an answer.
    fn answer(&self) -> Self::Answer;

    /// Says what an error means.
    fn fault(&self, reply: &ErrorReply) -> Fault;
}

/// An answer that is being put together from events.
pub trait Answer: Send {
    /// Takes the data of one event, and tells of what it adds.
    fn feed(&mut self, data: &str, tell: &mut dyn FnMut(Delta)) -> Result<(), Fault>;

    /// Returns whether the provider has said all.
    fn is_whole(&self) -> bool;

    /// Returns whether the connection may end here, though the provider has not said that this is all.
    fn may_end(&self) -> bool {
        false
    }

    /// Returns the tokens told so far.
    fn usage(&self) -> Usage;

    /// Returns the whole answer.
    fn finish(self) -> Response;
}

/// A model behind HTTP; see [`Claude`] and [`OpenAi`].
pub struct Provider<P> {
    protocol: P,
    key: ApiKey,
    config: ProviderConfig,
    transport: Arc<dyn Transport>,
}

#[async_trait]
impl<P: Protocol> Agent for Provider<P> {
    fn model(&self) -> &Model {
        &self.config.model
    }

    fn hide(&self, text: String) -> String {
        self.key.hide(text)
    }

    async fn run(&self, request: &Request, cx: &RunCx) -> Result<Response, AgentError> {
        let http = self.protocol.request(&self.key, &self.config, request)?;
        let mut spent = Usage::default();
        let output = request.config.max_tokens.unwrap_or(self.config.model.max_tokens);
        let mut attempt = 1;
        loop {
            let Fault { mut error, retry } = match self.attempt(http.clone(), cx).await {
                Ok(mut response) => {
                    response.usage += spent;
                    return Ok(response);
                }
                Err(fault) => fault,
            };
            spent += error.usage;
            error.usage = spent;
            error.message = self.key.hide(std::mem::take(&mut error.message));
            let wait = self.config.retry.wait(attempt, error.retry_after, (self.config.luck)());
            let Some(wait) = wait.filter(|wait| retry && fits(*wait, cx.deadline)) else {
                return Err(*error);
            };
            // The first attempt was within the limits; another one may not be, if this one has to be paid for.
            let is_payable = |budget: Budget| spent == Usage::default() || budget.has_room(&spent, output);
            if !request.config.budget.is_none_or(is_payable) {
                error.message += "; it is not tried again, since that could pass a limit";
                return Err(*error);
            }
            let (kind, message) = (error.kind, error.message);
            cx.events.tell(Event::Retry { attempt, wait, kind, message });
            tokio::select! {
                biased;
                mut over = cx.over() => {
                    over.usage = spent;
                    return Err(over);
                }
                () = tokio::time::sleep(wait) => {}
            }
            attempt += 1;
        }
    }
}

impl<P: Protocol> Provider<P> {
    async fn attempt(&self, http: HttpRequest, cx: &RunCx) -> Result<Response, Fault> {
        let mut answer = self.protocol.answer();
        let mut request_id = None;
        let mut handed_on = false;
        let result = tokio::select! {
            biased;
            error = cx.over() => Err(Fault::last(error)),
            () = tokio::time::sleep(self.config.request_timeout) => {
                let time = self.config.request_timeout;
                let message = format!("no whole answer within {time:?}, which is the `request_timeout`");
                Err(Fault::last(AgentError::new(ErrorKind::Timeout, message)))
            }
            result = self.exchange(http, cx, &mut answer, &mut request_id, &mut handed_on) => result,
        };
        match result {
            Ok(()) => Ok(Response { request_id, ..answer.finish() }),
            Err(mut fault) => {
                fault.error.usage = answer.usage();
                fault.error.request_id = fault.error.request_id.take().or(request_id);
                fault.retry &= !handed_on;
                Err(fault)
            }
        }
    }

    async fn exchange(
        &self,
        http: HttpRequest,
        cx: &RunCx,
        answer: &mut P::Answer,
        request_id: &mut Option<String>,
        handed_on: &mut bool,
    ) -> Result<(), Fault> {
        let place = origin(&http.url);
        let reply = self.transport.send(http).await.map_err(|error| Fault::network(error, &place))?;
        let named = ["request-id", "x-request-id"].iter().find_map(|name| reply.headers.get(*name));
        *request_id = named.and_then(|name| name.to_str().ok()).map(str::to_owned);
        let status = reply.status;
        if !(200..300).contains(&status) {
            let mut fault = self.protocol.fault(&ErrorReply::read(reply, SystemTime::now()).await);
            fault.error.message += hint(status);
            return Err(fault);
        }
        if let Some(kind) = other_than_events(&reply.headers) {
            return Err(Fault::no_stream(&place, kind));
        }
        // Also what is no event is a sign of life.
        let heard = Arc::new(Mutex::new(Instant::now()));
        let at = Arc::clone(&heard);
        let body = reply.body.inspect(move |_| *lock(&at) = Instant::now());
        let mut events = SseByteStream::new(body);
        while !answer.is_whole() {
            let next = unless_silent(events.next(), &heard, self.config.stall_timeout).await;
            let event = match next.ok_or_else(|| Fault::silent(self.config.stall_timeout))? {
                Some(event) => event.map_err(Fault::stream)?,
                None if answer.may_end() => break,
                None => return Err(Fault::cut()),
            };
            if let Some(data) = event.data {
                answer.feed(&data, &mut |delta| *handed_on |= cx.events.tell_delta(delta))?;
            }
        }
        Ok(())
    }
}

/// Returns whether there is time to wait so long.
fn fits(wait: Duration, deadline: Option<Instant>) -> bool {
    deadline.is_none_or(|deadline| Instant::now().checked_add(wait).is_some_and(|then| then < deadline))
}

/// Waits for something as long as there are signs of life.
async fn unless_silent<T>(future: impl Future<Output = T>, heard: &Mutex<Instant>, patience: Duration) -> Option<T> {
    tokio::pin!(future);
    loop {
        let last = *lock(heard);
        tokio::select! {
            biased;
            done = &mut future => return Some(done),
            () = tokio::time::sleep_until(last + patience) => {
                if *lock(heard) == last {
                    return None;
                }
            }
        }
    }
}

fn lock(heard: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what a body is, if it is surely no stream of events.
fn other_than_events(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    matches!(kind, "text/html" | "application/json").then_some(kind)
}

/// Returns what somebody can do about an answer.
fn hint(status: u16) -> &'static str {
    match status {
        401 => "; the API key is not taken there",
        404 => "; check `model` and `base_url`",
        _ => "",
    }
}

/// Returns where a provider's path is, which begins with `/v1`. So do many people's addresses end.
fn address(config: &ProviderConfig, default: &str, path: &str) -> Result<String, AgentError> {
    let base = config.base_url.as_deref().unwrap_or(default).trim();
    let is_known = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    match Url::parse(base) {
        Ok(url) if is_known(&url) => {
            let base = base.trim_end_matches('/');
            Ok(format!("{}{path}", base.strip_suffix("/v1").unwrap_or(base)))
        }
        // It may hold a password.
        Ok(_) | Err(_) => {
            let message = "`base_url` is no address of a provider; it looks like https://models.example";
            Err(AgentError::new(ErrorKind::Invalid, message))
        }
    }
}

/// Returns the part of an address that may be shown.
fn origin(address: &str) -> String {
    Url::parse(address).map_or_else(|_| "the provider".to_owned(), |url| url.origin().ascii_serialization())
}

/// Adds fields to a body that must not be there yet, and returns it as text.
fn with_extra(body: &impl serde::Serialize, request: &Request) -> Result<Vec<u8>, AgentError> {
    let invalid = |error: serde_json::Error| {
        AgentError::new(ErrorKind::Invalid, "the request cannot be written as JSON").with_source(error)
    };
    let mut text = serde_json::to_vec(body).map_err(invalid)?;
    if !request.config.extra.is_empty() {
        let there: std::collections::BTreeMap<&str, serde::de::IgnoredAny> =
            serde_json::from_slice(&text).map_err(invalid)?;
        if let Some(name) = request.config.extra.keys().find(|name| there.contains_key(name.as_str())) {
            let message = format!("the extra field {name:?} is set already");
            return Err(AgentError::new(ErrorKind::Invalid, message));
        }
        let extra = serde_json::to_vec(&request.config.extra).map_err(invalid)?;
        // `{…}` and `{…}` become `{…,…}`; neither is empty.
        text.pop();
        text.push(b',');
        text.extend_from_slice(&extra[1..]);
    }
    Ok(text)
}
