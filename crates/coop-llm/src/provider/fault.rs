//! What went wrong with a call, and whether it is worth another attempt.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use serde_json::Value;

use super::retry::{retry_after, should_retry};
use super::{HttpReply, TransportError};
use crate::{AgentError, ErrorKind};

/// A failed attempt.
#[derive(Debug)]
pub struct Fault {
    /// What the caller is told if it is the last.
    pub error: Box<AgentError>,
    /// Whether another one may do better.
    pub retry: bool,
}

/// An answer that is an error, read whole.
#[derive(Debug)]
pub struct ErrorReply {
    /// The status.
    pub status: u16,
    /// How long to wait.
    pub retry_after: Option<Duration>,
    /// What the provider says about trying again.
    pub should_retry: Option<bool>,
    /// The body, if it is JSON.
    pub body: Value,
    /// The body as text, if it is not.
    pub text: String,
}

/// An error's body is a sentence; more than this is a page that nobody reads.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// How much of a page is shown.
const MAX_TEXT: usize = 300;

impl ErrorReply {
    /// Reads the body as far as it comes.
    pub(super) async fn read(mut reply: HttpReply, now: SystemTime) -> Self {
        let mut bytes = Vec::new();
        while let Some(Ok(piece)) = reply.body.next().await {
            bytes.extend_from_slice(&piece);
            if bytes.len() >= MAX_ERROR_BODY {
                break;
            }
        }
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = String::from_utf8_lossy(&bytes);
        let text = text[..crate::cut::floor(&text, MAX_TEXT)].trim().to_owned();
        Self {
            status: reply.status,
            retry_after: retry_after(&reply.headers, now),
            should_retry: should_retry(&reply.headers),
            body,
            text,
        }
    }

    /// Says what the status means; both providers agree on that.
    pub(super) fn fault(&self) -> Fault {
        let (kind, retry) = match self.status {
            401..=403 => (ErrorKind::Agent, false),
            408 | 409 => (ErrorKind::Agent, true),
            429 => (ErrorKind::RateLimit, true),
            500.. => (ErrorKind::Agent, true),
            _ => (ErrorKind::Invalid, false),
        };
        let told = self.body["error"]["message"].as_str().or_else(|| self.body["message"].as_str());
        let message = match told.unwrap_or(&self.text) {
            "" => format!("the provider answered {}", self.status),
            told => format!("{told} ({})", self.status),
        };
        let mut error = Box::new(AgentError::new(kind, message));
        error.retry_after = self.retry_after;
        error.request_id = self.body["request_id"].as_str().map(str::to_owned);
        Fault { error, retry: self.should_retry.unwrap_or(retry) }
    }
}

impl Fault {
    /// Returns a failure that is not tried again.
    pub(super) fn last(error: AgentError) -> Self {
        Self { error: Box::new(error), retry: false }
    }

    /// Returns a failure that is tried again.
    pub(super) fn again(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { error: Box::new(AgentError::new(kind, message)), retry: true }
    }

    /// Returns the failure to reach a place.
    pub(super) fn network(error: TransportError, place: &str) -> Self {
        let message = format!("{place}: {error}: {}", innermost(&error));
        Self { error: Box::new(AgentError::new(ErrorKind::Network, message).with_source(error)), retry: true }
    }

    pub(super) fn stream(error: sse_stream::Error) -> Self {
        let message = format!("the answer broke off: {}", innermost(&error));
        Self { error: Box::new(AgentError::new(ErrorKind::Network, message).with_source(error)), retry: true }
    }

    /// Returns the failure to get an answer from something that is no provider.
    pub(super) fn no_stream(place: &str, kind: &str) -> Self {
        let message = format!("{place} answered with {kind} and not with a stream of events; is `base_url` right?");
        Self::last(AgentError::new(ErrorKind::Invalid, message))
    }

    pub(super) fn cut() -> Self {
        Self::again(ErrorKind::Network, "the answer ended in the middle")
    }

    pub(super) fn silent(time: Duration) -> Self {
        Self::again(ErrorKind::Network, format!("the provider said nothing for {time:?}"))
    }

    /// Returns the failure to understand an event.
    pub(super) fn nonsense(error: serde_json::Error) -> Self {
        let message = format!("the provider sent what is no answer: {error}");
        Self { error: Box::new(AgentError::new(ErrorKind::Agent, message).with_source(error)), retry: true }
    }
}

/// Returns the cause below all causes, which is where a system's error says what it is.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
