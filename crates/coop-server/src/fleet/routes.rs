use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use coop_api::{AgentId, Error, ErrorCode};
use serde::Deserialize;
use serde_json::Value;

use super::types::{DownBody, SpawnBody};
use super::{Fate, Fleet, FleetRequest, Hub, events, grpc, pass, ws};
use crate::body::{Body, MAX_BODY, Params};
use crate::error::Failure;
use crate::guard::{Demand, Entry, admit, is_grpc, shows_files};
use crate::intake::{bounded, marked};
use crate::page::{self, LOGIN_PATH, LOGOUT_PATH, LoginBody, Visitor, is_file};
use crate::routes::{Route, route};
use crate::wire::Nothing;
use crate::{mcp, workspaces};

/// In whose name something is asked; it is written down, and nothing is decided by it.
pub(super) const BY: &str = "x-coop-by";
/// How much of the log one request gets.
const PAGE: u32 = 1000;

/// What happens, over a WebSocket.
const WS_PATH: &str = "/api/v1/ws";

const AFTER: (&str, &str, &str) = ("after", "integer", "the last number already known; only what is new without it");

/// Every route of the daemon's own. What is below an agent is its sidecar's, and described there.
pub const ROUTES: &[Route] = &[
    Route { response: Some("FleetHealth"), ..route("GET", "/api/v1/health", "Whether the daemon runs") },
    Route { response: Some("AgentCards"), ..route("GET", "/api/v1/agents", "All agents") },
    Route {
        request: Some("SpawnBody"),
        response: Some("Spawned"),
        ..route("POST", "/api/v1/agents", "Starts an agent; answers when it runs, or with why not")
    },
    Route {
        response: Some("AgentCard"),
        ..route("GET", "/api/v1/agents/{id}", "One agent, and what was done about it")
    },
    Route { response: Some("Named"), ..route("POST", "/api/v1/agents/{id}/dismiss", "Ends an agent for good") },
    Route {
        response: Some("Named"),
        ..route("POST", "/api/v1/agents/{id}/revive", "Goes on with an agent's conversation in a new process")
    },
    route("GET", "/api/v1/agents/{id}/recording", "The recording of its terminal (asciicast v3); takes Range"),
    route("GET", "/api/v1/agents/{id}/{rest}", "The sidecar's own /api/v1/{rest}; `ws` is its WebSocket"),
    route("POST", "/api/v1/agents/{id}/{rest}", "The sidecar's own /api/v1/{rest}"),
    route("DELETE", "/api/v1/agents/{id}/{rest}", "The sidecar's own /api/v1/{rest}"),
    Route {
        response: Some("Orphans"),
        ..route("GET", "/api/v1/orphans", "Sidecars that run and that nothing is known of")
    },
    Route {
        response: Some("Named"),
        ..route(
            "POST",
            "/api/v1/orphans/{id}/adopt",
            "Takes over an agent by its sidecar, with all that happened to it",
        )
    },
    Route { response: Some("OpenAsks"), ..route("GET", "/api/v1/asks", "What all agents ask") },
    Route {
        query: &[("limit", "integer", "only so many, the last ones")],
        response: Some("AuditBody"),
        ..route("GET", "/api/v1/audit", "What was answered, by whom and why")
    },
    Route {
        query: &[
            ("after", "integer", "the last number already known; from the beginning without it"),
            ("limit", "integer", "how many at most; never more than 1000"),
            ("agent", "string", "only what happened to this agent"),
        ],
        response: Some("LogEntries"),
        ..route("GET", "/api/v1/log", "What happened, to all agents or to one")
    },
    Route {
        query: &[
            ("text", "string", "only those with this in their id, folder, first prompt or messages"),
            ("limit", "integer", "how many at most; never more than 1000, 100 without it"),
        ],
        response: Some("HistoryBody"),
        ..route("GET", "/api/v1/history", "Processes of agents that have ended")
    },
    Route { query: &[AFTER], ..route("GET", "/api/v1/events", "What happens to all agents (SSE)") },
    Route { query: &[AFTER], ..route("GET", WS_PATH, "WebSocket: everything as it is, then what is new") },
    Route { response: Some("StatsBody"), ..route("GET", "/api/v1/stats", "Counts of what there is and was") },
    Route {
        request: Some("DownBody"),
        response: Some("Ending"),
        ..route("POST", "/api/v1/down", "Ends the daemon, and its agents or not")
    },
    Route {
        query: &[("folder", "string", "the folder, as a whole path")],
        ..route("GET", "/api/v1/sessions", "The conversations of the workspace that a folder is in")
    },
    Route {
        request: Some("ArriveBody"),
        ..route("POST", "/api/v1/guests", "Takes in an agent that a person runs in a workspace")
    },
    route("GET", "/api/v1/projects", "Projects, their workspaces, and what the agents in them do"),
    Route { request: Some("OpenBody"), ..route("POST", "/api/v1/projects", "Opens the project of a repository") },
    route("DELETE", "/api/v1/projects/{id}", "Forgets a project without workspaces"),
    route("POST", "/api/v1/projects/{id}/sweep", "Removes folders that belong to no workspace"),
    Route {
        request: Some("CreateBody"),
        ..route("POST", "/api/v1/workspaces", "Makes a workspace, and starts an agent in it if one is named")
    },
    Route {
        query: &[("refresh", "boolean", "whether remote branches are fetched first")],
        ..route("GET", "/api/v1/workspaces/{project}/{name}", "One workspace, and what would be lost with it")
    },
    Route {
        request: Some("DeleteBody"),
        ..route("DELETE", "/api/v1/workspaces/{project}/{name}", "Deletes a workspace, unless something would be lost")
    },
    Route {
        request: Some("NoteBody"),
        ..route("POST", "/api/v1/workspaces/{project}/{name}/metadata", "Notes something about a workspace")
    },
    route("POST", "/api/v1/workspaces/{project}/{name}/hibernate", "Puts the agents of a workspace to sleep"),
    route("POST", "/api/v1/workspaces/{project}/{name}/wake", "Lets the agents of a workspace go on"),
    Route {
        request: Some("AgentBody"),
        ..route("POST", "/api/v1/workspaces/{project}/{name}/agents", "Starts an agent in a workspace")
    },
    Route {
        request: Some("LoginBody"),
        response: Some("Delivered"),
        ..route("POST", LOGIN_PATH, "For browsers: the token once, for a cookie")
    },
    Route { response: Some("Delivered"), ..route("POST", LOGOUT_PATH, "Takes the cookie back") },
    route("GET", "/api/v1/openapi.json", "This description"),
];

pub(super) type Shared<F> = State<Arc<Hub<F>>>;
type Answer = Result<Json<Value>, Failure>;

pub(super) fn router<F: Fleet>(hub: &Arc<Hub<F>>) -> Router {
    let own = Router::new()
        .route("/api/v1/health", get(status))
        .route("/api/v1/agents", get(list).post(spawn))
        .route("/api/v1/agents/{id}", get(show))
        .route("/api/v1/agents/{id}/dismiss", post(dismiss))
        .route("/api/v1/agents/{id}/revive", post(revive))
        .route("/api/v1/agents/{id}/recording", get(recording))
        .route("/api/v1/agents/{id}/{*rest}", any(pass::on))
        .route("/api/v1/orphans", get(orphans))
        .route("/api/v1/orphans/{id}/adopt", post(adopt))
        .route("/api/v1/asks", get(asks))
        .route("/api/v1/audit", get(audit))
        .route("/api/v1/log", get(log))
        .route("/api/v1/history", get(history))
        .route("/api/v1/events", get(events::stream))
        .route(WS_PATH, get(ws::upgrade))
        .route("/api/v1/stats", get(stats))
        .route("/api/v1/openapi.json", get(openapi))
        .route("/api/v1/down", post(down))
        .merge(workspaces::routes())
        .merge(mcp::route(hub))
        .route(LOGIN_PATH, post(log_in))
        .route(LOGOUT_PATH, post(log_out))
        .merge(page::router())
        .method_not_allowed_fallback(crate::http::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Arc::clone(hub));
    let router = bounded(grpc::router(hub).merge(own).fallback(crate::http::not_found));
    marked(router.layer(middleware::from_fn_with_state(Arc::clone(hub), guard)))
}

/// Browsers' pages and strangers are kept out, and what agents run may look and not steer. An upgrade can do anything
/// afterwards, so it counts as steering; but for our own WebSocket, which takes no orders.
async fn guard<F: Fleet>(State(hub): Shared<F>, request: Request, next: Next) -> Response {
    let visitor = Visitor { method: request.method(), uri: request.uri(), headers: request.headers() };
    let path = visitor.uri.path();
    let is_open = path == mcp::MCP_PATH || path == WS_PATH || path == LOGIN_PATH || is_file(visitor.method, path);
    let entry = if is_open { Entry::Open } else { Entry::Token };
    let gets = matches!(*visitor.method, Method::GET | Method::HEAD) && !visitor.headers.contains_key(header::UPGRADE);
    // gRPC takes any method. Agents call tools by tokens of their own.
    let looks = match path {
        LOGOUT_PATH => true,
        _ if is_open => true,
        path if path.starts_with("/api/v1/") => gets,
        path => grpc::only_looks(path),
    };
    let demand = match looks {
        true if shows_files(path) => Demand::ReadFiles,
        true => Demand::Look,
        false => Demand::Steer,
    };
    match admit(request.extensions(), &visitor, &hub.config, entry, demand).await {
        Ok(()) => next.run(request).await,
        Err(error) if is_grpc(request.headers()) => grpc::refusal(error),
        Err(error) => Failure(error).into_response(),
    }
}

pub(crate) fn by(headers: &HeaderMap) -> String {
    let named = headers.get(BY).and_then(|name| name.to_str().ok()).filter(|name| !name.is_empty());
    named.unwrap_or("somebody").to_owned()
}

async fn ask<F: Fleet>(hub: &Hub<F>, request: FleetRequest, by: &str) -> Answer {
    Ok(Json(hub.fleet.call(request, by).await?))
}

async fn status<F: Fleet>(State(hub): Shared<F>) -> Answer {
    ask(&hub, FleetRequest::Status, "").await
}

async fn list<F: Fleet>(State(hub): Shared<F>) -> Answer {
    ask(&hub, FleetRequest::List, "").await
}

async fn show<F: Fleet>(State(hub): Shared<F>, Path(id): Path<AgentId>) -> Answer {
    ask(&hub, FleetRequest::Show(id), "").await
}

async fn spawn<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap, Body(body): Body<SpawnBody>) -> Answer {
    ask(&hub, FleetRequest::Spawn(Box::new(body)), &by(&headers)).await
}

async fn dismiss<F: Fleet>(
    State(hub): Shared<F>,
    Path(id): Path<AgentId>,
    headers: HeaderMap,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    ask(&hub, FleetRequest::Dismiss(id), &by(&headers)).await
}

async fn revive<F: Fleet>(
    State(hub): Shared<F>,
    Path(id): Path<AgentId>,
    headers: HeaderMap,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    ask(&hub, FleetRequest::Revive(id), &by(&headers)).await
}

/// Also of agents whose sidecar is gone.
async fn recording<F: Fleet>(
    State(hub): Shared<F>,
    Path(id): Path<AgentId>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let recorded = hub.fleet.recording(&id).await?;
    Ok(crate::recording::send(&recorded, &headers).await?)
}

async fn orphans<F: Fleet>(State(hub): Shared<F>) -> Answer {
    ask(&hub, FleetRequest::Orphans, "").await
}

async fn adopt<F: Fleet>(
    State(hub): Shared<F>,
    Path(id): Path<AgentId>,
    headers: HeaderMap,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    ask(&hub, FleetRequest::Adopt(id), &by(&headers)).await
}

async fn asks<F: Fleet>(State(hub): Shared<F>) -> Answer {
    ask(&hub, FleetRequest::Asks, "").await
}

#[derive(Deserialize)]
struct AuditParams {
    limit: Option<u32>,
}

async fn audit<F: Fleet>(State(hub): Shared<F>, Params(params): Params<AuditParams>) -> Answer {
    ask(&hub, FleetRequest::Audit { most: params.limit }, "").await
}

#[derive(Deserialize)]
struct LogParams {
    /// Only what happened to this one.
    agent: Option<AgentId>,
    #[serde(default)]
    after: u64,
    limit: Option<u32>,
}

async fn log<F: Fleet>(State(hub): Shared<F>, Params(params): Params<LogParams>) -> Answer {
    let most = params.limit.unwrap_or(PAGE).min(PAGE);
    ask(&hub, FleetRequest::Log { agent: params.agent, after: params.after, most }, "").await
}

#[derive(Deserialize)]
struct HistoryParams {
    #[serde(default)]
    text: String,
    limit: Option<usize>,
}

async fn history<F: Fleet>(State(hub): Shared<F>, Params(params): Params<HistoryParams>) -> Answer {
    let most = params.limit.unwrap_or(100).min(PAGE as usize);
    ask(&hub, FleetRequest::History { text: params.text, most }, "").await
}

async fn stats<F: Fleet>(State(hub): Shared<F>) -> Answer {
    ask(&hub, FleetRequest::Stats, "").await
}

async fn openapi() -> Json<Value> {
    Json(super::openapi())
}

async fn down<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap, Body(body): Body<DownBody>) -> Answer {
    let fate = if body.kill { Fate::End } else { Fate::Stay };
    ask(&hub, FleetRequest::Down(fate), &by(&headers)).await
}

async fn log_in<F: Fleet>(
    State(hub): Shared<F>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Body(body): Body<LoginBody>,
) -> Response {
    page::log_in(&Visitor { method: &method, uri: &uri, headers: &headers }, &hub.config, &body)
}

async fn log_out<F: Fleet>(State(hub): Shared<F>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    page::log_out(&Visitor { method: &method, uri: &uri, headers: &headers }, &hub.config)
}

pub(super) fn unreachable(agent: &AgentId, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::NotReady, format!("the sidecar of {agent} cannot be reached: {why}"))
}
