//! Who answers: a model behind one method.

use std::future::Future;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{AgentError, Events, Request, Response};

/// A model that can be called.
///
/// An agent keeps no conversation: every call brings all of it. It returns promptly when the call is cancelled or its
/// deadline passes, also while it waits to try again.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Returns which model it is, and its defaults.
    fn model(&self) -> &Model;

    /// Takes secrets of its own out of a text that goes into the conversation: a tool may have found the key.
    fn hide(&self, text: String) -> String {
        text
    }

    /// Makes one call.
    async fn run(&self, request: &Request, cx: &RunCx) -> Result<Response, AgentError>;
}

/// A model and its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name, as the provider spells it.
    pub name: String,
    /// The most tokens it writes where a request does not say.
    pub max_tokens: u32,
}

/// What surrounds a call: how it is stopped and who hears of it.
#[derive(Clone, Debug, Default)]
pub struct RunCx {
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// When the call must have returned.
    pub deadline: Option<Instant>,
    /// Who is told what happens.
    pub events: Events,
}

impl RunCx {
    /// Waits for the future, but not past a cancellation or the deadline. The future comes first: if it ends by itself when
    /// it is cancelled, its own account of that is kept.
    pub async fn guard<T>(&self, future: impl Future<Output = Result<T, AgentError>>) -> Result<T, AgentError> {
        tokio::select! {
            biased;
            result = future => result,
            error = self.over() => Err(error),
        }
    }

    /// Returns whether the call is cancelled or its deadline has passed.
    pub fn is_over(&self) -> bool {
        self.cancel.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Waits until the call is cancelled or its deadline passes.
    pub async fn over(&self) -> AgentError {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => AgentError::cancelled(),
            () = at(self.deadline) => AgentError::timeout(),
        }
    }
}

/// Waits for a time, or for ever.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
