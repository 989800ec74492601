//! A server for hooks alone: those of agents that coop does not run.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use coop_api::{Error, Token};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::ancestry::Ancestry;
use crate::body::{Body, MAX_BODY};
use crate::error::Failure;
use crate::guard::hook_token;
use crate::http::not_found;
use crate::intake::bounded;
use crate::serve::{Connections, Listener};

/// Who hooks report to.
pub trait Hooks: Send + Sync + 'static {
    /// Takes in what a hook reports, in the name of whoever has the token.
    fn hook(&self, token: &Token, event: &str, payload: &Value) -> Result<(), Error>;
}

/// A server that serves `POST /api/v1/hooks/{event}` and nothing else. An answer says that the report was taken in.
pub struct HookServer {
    connections: Connections,
    shutdown: CancellationToken,
}

impl HookServer {
    /// Begins to serve on a listener, in the background.
    pub fn start(listener: Listener, hooks: impl Hooks) -> Self {
        let shutdown = CancellationToken::new();
        let connections = Connections::new(shutdown.clone(), Ancestry::of_this_process());
        connections.accept(listener, router(hooks));
        Self { connections, shutdown }
    }

    /// Stops accepting, and waits until the last report is taken in or the time is up.
    pub async fn stop(self, limit: Duration) {
        self.shutdown.cancel();
        self.connections.wait(limit).await;
    }
}

fn router(hooks: impl Hooks) -> Router {
    let router = Router::new().route("/api/v1/hooks/{event}", post(hook)).fallback(not_found);
    bounded(router.layer(DefaultBodyLimit::max(MAX_BODY)).with_state(Arc::new(hooks)))
}

async fn hook<H: Hooks>(
    State(hooks): State<Arc<H>>,
    Path(event): Path<String>,
    headers: HeaderMap,
    Body(payload): Body<Value>,
) -> Result<Json<Value>, Failure> {
    let token = hook_token(&headers)?;
    hooks.hook(&token, &event, &payload)?;
    Ok(Json(json!({})))
}
