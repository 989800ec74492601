//! What is asked of the agent.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use coop_api::{Agents, Answer, Answered, Configure, Explanation, HookCall, NudgeId, Receipt, Request, UsageReport};
use serde_json::{Value, json};

use super::{Shared, done};
use crate::body::Body;
use crate::error::{Failure, Undelivered};
use crate::guard::hook_token;
use crate::wire::{AgentBody, AsksBody, Delivered, Nothing, NudgeBody, NudgesBody, StopBody};

pub(crate) async fn agent_state<A: Agents>(State(app): Shared<A>) -> Result<Json<AgentBody>, Failure> {
    Ok(Json(app.agent_body().await?))
}

pub(crate) async fn explain<A: Agents>(State(app): Shared<A>) -> Result<Json<Explanation>, Failure> {
    Ok(Json(app.explain().await?))
}

pub(crate) async fn nudge<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<NudgeBody>,
) -> Result<Json<Receipt>, Undelivered> {
    match app.nudge(app.new_writer(), body.into()).await {
        Ok(receipt) => Ok(Json(receipt)),
        Err(error) => Err(Undelivered::new(&app, error).await),
    }
}

pub(crate) async fn nudges<A: Agents>(State(app): Shared<A>) -> Result<Json<NudgesBody>, Failure> {
    let report = app.agent_state().await?;
    Ok(Json(NudgesBody { nudges: report.queue }))
}

pub(crate) async fn cancel_nudge<A: Agents>(
    State(app): Shared<A>,
    Path(id): Path<String>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::CancelNudge(NudgeId(id))).await)
}

pub(crate) async fn asks<A: Agents>(State(app): Shared<A>) -> Result<Json<AsksBody>, Failure> {
    Ok(Json(AsksBody { asks: app.asks().await? }))
}

pub(crate) async fn respond<A: Agents>(
    State(app): Shared<A>,
    Body(answer): Body<Answer>,
) -> Result<Json<Answered>, Undelivered> {
    match app.respond(app.new_writer(), answer).await {
        Ok(answered) => Ok(Json(answered)),
        Err(error) => Err(Undelivered::new(&app, error).await),
    }
}

pub(crate) async fn interrupt<A: Agents>(
    State(app): Shared<A>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::Interrupt { writer: app.new_writer() }).await)
}

pub(crate) async fn configure<A: Agents>(
    State(app): Shared<A>,
    Body(settings): Body<Configure>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::Configure(settings)).await)
}

pub(crate) async fn resolve_stop<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<StopBody>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::ResolveStop(body.into())).await)
}

/// Takes in what a hook reports. The answer is what the hook is to print, and may be long in coming.
pub(crate) async fn hook<A: Agents>(
    State(app): Shared<A>,
    Path(event): Path<String>,
    headers: HeaderMap,
    Body(payload): Body<Value>,
) -> Result<Json<Value>, Failure> {
    let token = hook_token(&headers)?;
    let printed = app.hook(HookCall { token, event, payload }).await?;
    Ok(Json(printed.unwrap_or_else(|| json!({}))))
}

pub(crate) async fn transcript<A: Agents>(State(app): Shared<A>) -> Result<Response, Failure> {
    let lines = app.transcript().await?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

pub(crate) async fn usage<A: Agents>(State(app): Shared<A>) -> Result<Json<UsageReport>, Failure> {
    Ok(Json(app.usage().await?))
}
