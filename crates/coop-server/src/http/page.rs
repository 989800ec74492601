//! What the page asks that other clients need not.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use coop_api::{Agents, Error, ErrorCode};

use super::Shared;
use crate::body::Body;
use crate::error::Failure;
use crate::page::{self, ChangesBody, LoginBody, Visitor};
use crate::wire::Nothing;

pub(crate) async fn changes<A: Agents>(State(app): Shared<A>) -> Result<Json<ChangesBody>, Failure> {
    let Some(folder) = &app.config.folder else {
        return Err(Error::new(ErrorCode::Unsupported, "nobody has said which folder the agent works in").into());
    };
    Ok(Json(page::changes(folder).await?))
}

pub(crate) async fn recording<A: Agents>(State(app): Shared<A>, headers: HeaderMap) -> Result<Response, Failure> {
    let Some(recorded) = &app.config.recording else {
        return Err(
            Error::new(ErrorCode::Unsupported, "this terminal is not recorded; start coop with --record FILE").into()
        );
    };
    Ok(crate::recording::send(recorded, &headers).await?)
}

pub(crate) async fn log_in<A: Agents>(
    State(app): Shared<A>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Body(body): Body<LoginBody>,
) -> Response {
    page::log_in(&Visitor { method: &method, uri: &uri, headers: &headers }, &app.config, &body)
}

pub(crate) async fn log_out<A: Agents>(
    State(app): Shared<A>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Body(Nothing {}): Body<Nothing>,
) -> Response {
    page::log_out(&Visitor { method: &method, uri: &uri, headers: &headers }, &app.config)
}
