//! The protocol's routes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::body::{Body, Invalid, MAX_BODY};
use super::brief::Brief;
use super::decisions::Refused;
use super::host::Host;
use super::live::{GRACE, NotResolved};
use super::queue::Full;
use super::types::{
    AgentHandle, CheckpointRequest, ContextInjection, KillRequest, KillResponse, ResolveRequest, SandboxHealthResponse,
    SerializedAgentState, SerializedBy,
};
use super::{Shim, ws};
use crate::guard::{Demand, Entry, admit};
use crate::intake::{bounded, marked};
use crate::page::Visitor;

/// Why a request was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    Running,
    Nobody,
    NotPending(String),
    Invalid(Invalid),
    /// It was tried, and the agent did not go along.
    Refused(String),
    Forbidden(coop_api::Error),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, detail) = match self {
            Self::Running => (StatusCode::CONFLICT, "Agent already running".to_owned()),
            Self::Nobody => (StatusCode::NOT_FOUND, "No agent running".to_owned()),
            Self::NotPending(id) => (StatusCode::NOT_FOUND, format!("No pending decision with id {id}")),
            Self::Refused(why) => (StatusCode::CONFLICT, why),
            Self::Invalid(invalid) => return invalid.into_response(),
            Self::Forbidden(error) => match error.code {
                coop_api::ErrorCode::Unauthorized => (StatusCode::UNAUTHORIZED, error.message),
                _ => (StatusCode::FORBIDDEN, error.message),
            },
        };
        (status, Json(json!({ "detail": detail }))).into_response()
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<Full> for Failure {
    fn from(full: Full) -> Self {
        Self::Refused(full.to_string())
    }
}

type Answer<T> = Result<Json<T>, Failure>;
type App<H> = State<Arc<Shim<H>>>;

pub(crate) fn router<H: Host>(shim: &Arc<Shim<H>>) -> Router {
    let mut router = Router::new()
        .route("/health", get(health))
        .route("/spawn", post(spawn))
        .route("/kill", post(kill))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/resolve", post(resolve))
        .route("/checkpoint", post(checkpoint))
        .route("/inject-context", post(inject_context))
        .route("/update-brief", post(update_brief))
        .route("/events", get(ws::upgrade));
    if shim.config.agent.is_mock() {
        router = router.route("/debug/config", get(debug_config));
    }
    let router = router
        .fallback(|| async { (StatusCode::NOT_FOUND, Json(json!({ "detail": "Not Found" }))) })
        .method_not_allowed_fallback(|| async {
            (StatusCode::METHOD_NOT_ALLOWED, Json(json!({ "detail": "Method Not Allowed" })))
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Arc::clone(shim));
    marked(bounded(router).layer(middleware::from_fn_with_state(Arc::clone(shim), guard)))
}

/// Browsers' pages and strangers are kept out, and what the agent runs may look and not steer.
async fn guard<H: Host>(State(shim): App<H>, request: Request, next: Next) -> Response {
    let visitor = Visitor { method: request.method(), uri: request.uri(), headers: request.headers() };
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    let demand = if looks { Demand::Look } else { Demand::Steer };
    let checked = admit(request.extensions(), &visitor, &shim.config.server, Entry::Token, demand).await;
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) => Failure::Forbidden(error).into_response(),
    }
}

async fn health<H: Host>(State(shim): App<H>) -> Json<SandboxHealthResponse> {
    Json(shim.health())
}

async fn spawn<H: Host>(State(shim): App<H>, Body(body): Body) -> Answer<AgentHandle> {
    let brief = Brief::read(Value::Object(body))?;
    Ok(Json(shim.spawn(brief).await?))
}

async fn kill<H: Host>(State(shim): App<H>, Body(body): Body) -> Answer<KillResponse> {
    let request: KillRequest = Invalid::read(&Value::Object(body))?;
    let limit = request.grace_timeout_ms.map_or(GRACE, |limit| Duration::from_millis(limit.get()));
    Ok(Json(shim.kill(request.grace.then_some(limit)).await?))
}

/// The body is the agent's handle, or nothing. There is one agent, so it does not matter.
async fn pause<H: Host>(State(shim): App<H>, Body(_): Body) -> Answer<SerializedAgentState> {
    Ok(Json(shim.pause().await?))
}

async fn resume<H: Host>(State(shim): App<H>, Body(body): Body) -> Answer<AgentHandle> {
    let state: SerializedAgentState = Invalid::read(&Value::Object(body))?;
    let brief = Brief::read(state.brief_snapshot.clone())?;
    Ok(Json(shim.resume(state, brief).await?))
}

async fn resolve<H: Host>(State(shim): App<H>, Body(body): Body) -> Answer<Value> {
    let request: ResolveRequest = Invalid::read(&with_type(body))?;
    let id = request.decision_id;
    let told = |status: &str| Ok(Json(json!({ "status": status, "decisionId": id })));
    match shim.resolve(&id, &request.resolution).await? {
        Ok(()) => told("resolved"),
        Err(NotResolved::Refused(Refused::NotPending(id))) if shim.config.strict => Err(Failure::NotPending(id)),
        Err(NotResolved::Refused(Refused::NotPending(_))) => told("not_found"),
        Err(NotResolved::Refused(Refused::Invalid(why))) => Err(Invalid::at(&["resolution"], &why, Value::Null).into()),
        Err(NotResolved::Failed(error)) => Err(Failure::Refused(error.message)),
    }
}

/// Older documents have a form of their own for what is decided; it becomes today's.
fn with_type(mut body: Map<String, Value>) -> Value {
    if let Some(Value::Object(resolution)) = body.get_mut("resolution")
        && let Some(Value::String(old)) = resolution.remove("resolutionType")
    {
        let kind = if old == "choose_option" { "option" } else { "tool_approval" };
        resolution.entry("type").or_insert_with(|| kind.into());
        if kind == "tool_approval" {
            resolution.entry("action").or_insert_with(|| old.into());
        }
    }
    Value::Object(body)
}

async fn checkpoint<H: Host>(State(shim): App<H>, Body(body): Body) -> Answer<SerializedAgentState> {
    let CheckpointRequest { decision_id: _ } = Invalid::read(&Value::Object(body))?;
    Ok(Json(shim.state(SerializedBy::DecisionCheckpoint)?))
}

async fn inject_context<H: Host>(State(shim): App<H>, Body(body): Body) -> Answer<Value> {
    let context: ContextInjection = Invalid::read(&Value::Object(body))?;
    shim.inject(context)?;
    Ok(Json(json!({ "status": "accepted" })))
}

/// The changes are the body itself, or in it.
async fn update_brief<H: Host>(State(shim): App<H>, Body(mut body): Body) -> Answer<Value> {
    let changes = match body.remove("changes") {
        Some(Value::Object(changes)) => changes,
        Some(other) => return Err(Invalid::at(&["changes"], "Input should be an object", other).into()),
        None => {
            body.remove("handle");
            body
        }
    };
    shim.update_brief(&changes)?;
    Ok(Json(json!({ "status": "accepted" })))
}

async fn debug_config<H: Host>(State(shim): App<H>) -> Json<Value> {
    let brief = shim.current().map(|runner| runner.brief());
    Json(json!({ "providerConfig": brief.and_then(|brief| brief.typed().provider_config.clone()) }))
}
