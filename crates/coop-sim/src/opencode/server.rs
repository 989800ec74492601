//! The server's calls, as far as a client of one conversation needs them.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;

use super::world::{Verdict, World, prompt};

type Shared = State<Arc<World>>;

pub(super) async fn serve(listener: TcpListener, world: Arc<World>) -> anyhow::Result<()> {
    let routes = Router::new()
        .route("/global/health", get(|| async { Json(json!({ "healthy": true, "version": "1.18.33" })) }))
        .route("/event", get(events))
        .route("/session", get(sessions).post(create))
        .route("/api/session", post(create_named))
        .route("/session/status", get(|State(world): Shared| async move { Json(world.status()) }))
        .route("/session/{id}", get(session))
        .route("/session/{id}/message", get(messages))
        .route("/session/{id}/prompt_async", post(prompted))
        .route("/session/{id}/abort", post(aborted))
        .route("/permission", get(|State(world): Shared| async move { Json(world.permissions()) }))
        .route("/permission/{id}/reply", post(permitted))
        .route("/question", get(|State(world): Shared| async move { Json(world.questions()) }))
        .route("/question/{id}/reply", post(answered))
        .route("/question/{id}/reject", post(dismissed))
        .route("/tui/select-session", post(selected))
        .layer(middleware::from_fn(guarded))
        .layer(axum::extract::DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(world);
    Ok(axum::serve(listener, routes).await?)
}

/// Asks for the password, if there is one.
async fn guarded(request: Request, next: Next) -> Response {
    let password = std::env::var("OPENCODE_SERVER_PASSWORD").unwrap_or_default();
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if password.is_empty() || given == Some(&basic("opencode", &password)) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "Unauthorized").into_response()
}

/// Returns the header of basic authentication.
fn basic(user: &str, password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}")))
}

async fn events(State(world): Shared) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let first = json!({ "id": world.id("evt"), "type": "server.connected", "properties": {} });
    let later = stream::unfold(world.events(), |mut events| async move {
        loop {
            match events.recv().await {
                Ok(event) => return Some((event, events)),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    Sse::new(stream::iter([first]).chain(later).map(|event| Ok(Event::default().data(event.to_string()))))
}

async fn sessions(State(world): Shared, Query(query): Query<Value>) -> Json<Vec<Value>> {
    let limit = query["limit"].as_str().and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    Json(world.sessions().into_iter().take(limit).collect())
}

async fn create(State(world): Shared) -> Json<Value> {
    Json(world.create(None, None))
}

async fn create_named(State(world): Shared, Json(body): Json<Value>) -> Json<Value> {
    Json(json!({ "data": world.create(body["id"].as_str().map(str::to_owned), None) }))
}

async fn session(State(world): Shared, Path(id): Path<String>) -> Response {
    found(world.session(&id))
}

async fn messages(State(world): Shared, Path(id): Path<String>, Query(query): Query<Value>) -> Response {
    let limit = query["limit"].as_str().and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let newest = world.messages(&id).map(|list| {
        let skipped = list.len().saturating_sub(limit);
        json!(list[skipped..])
    });
    found(newest)
}

async fn prompted(State(world): Shared, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    if !world.has(&id) {
        return found(None);
    }
    prompt(&world, &id, &body);
    StatusCode::NO_CONTENT.into_response()
}

async fn aborted(State(world): Shared, Path(id): Path<String>) -> Json<bool> {
    world.abort(&id);
    Json(true)
}

async fn permitted(State(world): Shared, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    let verdict = match body["reply"].as_str() {
        Some("once") => Verdict::Once,
        Some("always") => Verdict::Always,
        Some("reject") => Verdict::Reject { message: body["message"].as_str().map(str::to_owned) },
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    taken(world.answer(&id, verdict))
}

async fn answered(State(world): Shared, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    taken(world.answer(&id, Verdict::Answers(body["answers"].clone())))
}

async fn dismissed(State(world): Shared, Path(id): Path<String>) -> Response {
    taken(world.answer(&id, Verdict::Dismissed))
}

async fn selected(State(world): Shared, Json(body): Json<Value>) -> Json<bool> {
    world.tell("tui.session.select", json!({ "sessionID": body["sessionID"] }));
    Json(true)
}

fn found(value: Option<Value>) -> Response {
    match value {
        Some(value) => Json(value).into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({ "_tag": "NotFoundError" }))).into_response(),
    }
}

fn taken(was_there: bool) -> Response {
    found(was_there.then_some(Value::Bool(true)))
}
