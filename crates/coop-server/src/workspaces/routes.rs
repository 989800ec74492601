use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;

use super::{AgentBody, ArriveBody, CreateBody, DeleteBody, NoteBody, OpenBody, Place, WorkspaceRequest};
use crate::body::{Body, Params};
use crate::error::Failure;
use crate::fleet::{Fleet, Hub, by};
use crate::wire::Nothing;

type Shared<F> = State<Arc<Hub<F>>>;
type Answer = Result<Json<Value>, Failure>;
type Named = Path<(String, String)>;

/// Returns the routes of projects and workspaces. A name with slashes is written with `%2F`.
pub(crate) fn routes<F: Fleet>() -> Router<Arc<Hub<F>>> {
    Router::new()
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/guests", post(arrive))
        .route("/api/v1/projects", get(projects).post(open))
        .route("/api/v1/projects/{id}", delete(close))
        .route("/api/v1/projects/{id}/sweep", post(sweep))
        .route("/api/v1/workspaces", post(create))
        .route("/api/v1/workspaces/{project}/{name}", get(show).delete(remove))
        .route("/api/v1/workspaces/{project}/{name}/metadata", post(note))
        .route("/api/v1/workspaces/{project}/{name}/hibernate", post(hibernate))
        .route("/api/v1/workspaces/{project}/{name}/wake", post(wake))
        .route("/api/v1/workspaces/{project}/{name}/agents", post(spawn))
}

fn place((project, name): (String, String)) -> Place {
    Place { project, name }
}

async fn ask<F: Fleet>(hub: &Hub<F>, request: WorkspaceRequest, headers: &HeaderMap) -> Answer {
    Ok(Json(hub.fleet.ask(request, &by(headers)).await?))
}

async fn projects<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap) -> Answer {
    ask(&hub, WorkspaceRequest::Projects, &headers).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionParams {
    folder: String,
}

async fn sessions<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Params(params): Params<SessionParams>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Sessions { folder: params.folder }, &headers).await
}

async fn arrive<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap, Body(body): Body<ArriveBody>) -> Answer {
    ask(&hub, WorkspaceRequest::Arrive(body), &headers).await
}

async fn open<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap, Body(body): Body<OpenBody>) -> Answer {
    ask(&hub, WorkspaceRequest::Open(body), &headers).await
}

async fn close<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    ask(&hub, WorkspaceRequest::Close(id), &headers).await
}

async fn sweep<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Sweep(id), &headers).await
}

async fn create<F: Fleet>(State(hub): Shared<F>, headers: HeaderMap, Body(body): Body<CreateBody>) -> Answer {
    ask(&hub, WorkspaceRequest::Create(Box::new(body)), &headers).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowParams {
    #[serde(default)]
    refresh: bool,
}

async fn show<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(named): Named,
    Params(params): Params<ShowParams>,
) -> Answer {
    let request = WorkspaceRequest::Show { place: place(named), refresh: params.refresh };
    ask(&hub, request, &headers).await
}

async fn remove<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(named): Named,
    Body(body): Body<DeleteBody>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Delete(place(named), body), &headers).await
}

async fn note<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(named): Named,
    Body(body): Body<NoteBody>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Note(place(named), body), &headers).await
}

async fn hibernate<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(named): Named,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Hibernate(place(named)), &headers).await
}

async fn wake<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(named): Named,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Wake(place(named)), &headers).await
}

async fn spawn<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Path(named): Named,
    Body(body): Body<AgentBody>,
) -> Answer {
    ask(&hub, WorkspaceRequest::Spawn(place(named), Box::new(body)), &headers).await
}
