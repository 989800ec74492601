//! How a call can fail.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Usage;

/// What kind of failure it was; it decides what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider failed, or will not serve this account.
    Agent,
    /// Tools failed too often in a row.
    Tool,
    /// The deadline passed.
    Timeout,
    /// Too many calls; `retry_after` says how long to wait, if it is known.
    RateLimit,
    /// The provider was not reached, or the connection broke.
    Network,
    /// The request is wrong and will stay so.
    Invalid,
    /// The caller cancelled.
    Cancelled,
}

impl ErrorKind {
    /// Returns its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Timeout => "timeout",
            Self::RateLimit => "rate_limit",
            Self::Network => "network",
            Self::Invalid => "invalid",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", kind.as_str())]
#[non_exhaustive]
pub struct AgentError {
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// What happened, for people; never a key.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The provider's name for the call.
    pub request_id: Option<String>,
    /// What was spent before it failed. A call that is cut off is paid for too.
    pub usage: Usage,
    /// What lies below.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl AgentError {
    /// Returns an error with nothing but a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            request_id: None,
            usage: Usage::default(),
            source: None,
        }
    }

    /// Adds what lies below.
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    pub(crate) fn timeout() -> Self {
        Self::new(ErrorKind::Timeout, "the deadline passed")
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_says_its_kind_and_keeps_its_cause() {
        let error = AgentError::new(ErrorKind::Network, "no route").with_source(std::io::Error::other("cable"));
        assert_eq!(error.to_string(), "network: no route");
        assert_eq!(error.source().unwrap().to_string(), "cable");
    }

    #[test]
    fn a_kind_has_one_name() {
        use ErrorKind::*;
        for kind in [Agent, Tool, Timeout, RateLimit, Network, Invalid, Cancelled] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
