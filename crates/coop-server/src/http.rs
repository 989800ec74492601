//! The HTTP handlers: here what is asked of the terminal and the child.

mod agent;
mod page;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use coop_api::{Agents, Error, ErrorCode, History, Input, Offset, Read, Reply, Request, Screen, Signal, Size, Written};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::agent::*;
pub(crate) use self::page::*;

use crate::app::App;
use crate::body::{Body, Params};
use crate::error::Failure;
use crate::guard::is_grpc;
use crate::wire::{
    Delivered, DumpBody, Format, Gap, HealthBody, InputBody, KeysBody, LockBody, LockedBody, Nothing, OutputBody,
    ResizeBody, ScreenBody, SignalBody, StatusBody, text_lines, to_base64, typed,
};

type Shared<A> = State<Arc<App<A>>>;

/// What one request for output returns at most.
const MAX_OUTPUT: usize = 1024 * 1024;

pub(crate) async fn health<A: Agents>(State(app): Shared<A>) -> Result<Json<HealthBody>, Failure> {
    let health = app.health().await?;
    Ok(Json(HealthBody::new(health, app.ws_clients())))
}

pub(crate) async fn status<A: Agents>(State(app): Shared<A>) -> Result<Json<StatusBody>, Failure> {
    let status = app.status().await?;
    Ok(Json(StatusBody::new(status, app.ws_clients())))
}

#[derive(Deserialize)]
pub(crate) struct ScreenParams {
    #[serde(default)]
    format: Format,
    #[serde(default = "yes")]
    cursor: bool,
}

fn yes() -> bool {
    true
}

pub(crate) async fn screen<A: Agents>(
    State(app): Shared<A>,
    Params(params): Params<ScreenParams>,
) -> Result<Response, Failure> {
    let screen = app.screen().await?;
    let encode = || encode_screen(&screen, params.format, params.cursor);
    let body = match (params.cursor, params.format) {
        (false, _) => encode(),
        (true, Format::Text) => screen.plain.get_or_make(encode),
        (true, Format::Ansi) => screen.ansi.get_or_make(encode),
        (true, Format::Styled) => screen.styled.get_or_make(encode),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

fn encode_screen(screen: &Screen, format: Format, cursor: bool) -> Bytes {
    // These types have no maps and no failing fields.
    serde_json::to_vec(&ScreenBody::new(screen, format, cursor)).unwrap_or_default().into()
}

#[derive(Deserialize)]
pub(crate) struct TextParams {
    #[serde(default)]
    scrollback: usize,
}

pub(crate) async fn screen_text<A: Agents>(
    State(app): Shared<A>,
    Params(params): Params<TextParams>,
) -> Result<String, Failure> {
    // Both at once, so that no line is missing between them, or there twice.
    let History { lines, screen } = match params.scrollback {
        0 => History { lines: vec![], screen: app.screen().await? },
        count => app.history(count).await?,
    };
    let mut text = String::new();
    lines.iter().for_each(|line| push_line(&mut text, line.plain()));
    text_lines(&screen).iter().for_each(|line| push_line(&mut text, line));
    Ok(text)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

pub(crate) async fn dump<A: Agents>(State(app): Shared<A>) -> Result<Json<DumpBody>, Failure> {
    Ok(Json((&app.dump().await?).into()))
}

#[derive(Deserialize)]
pub(crate) struct OutputParams {
    offset: Option<Offset>,
    limit: Option<usize>,
}

pub(crate) async fn output<A: Agents>(
    State(app): Shared<A>,
    Params(params): Params<OutputParams>,
) -> Result<Json<OutputBody>, Failure> {
    let tap = app.agents.feed(&app.agent()?)?.tap;
    let limit = params.limit.unwrap_or(MAX_OUTPUT).min(MAX_OUTPUT);
    let (oldest, end) = tap.range();
    let mut offset = params.offset.unwrap_or(oldest);
    if offset > end {
        return Err(Error::bad_request(format!("the output ends at {end}; {offset} lies beyond it")).into());
    }
    let mut gap = None;
    let mut data = BytesMut::new();
    while data.len() < limit {
        match tap.read(offset.plus(data.len())) {
            Read::Chunk { chunk, skip } => {
                let take = (chunk.data.len() - skip).min(limit - data.len());
                data.extend_from_slice(&chunk.data[skip..skip + take]);
            }
            // The oldest bytes can go while we read; what we have is then before the gap.
            Read::Gap { from, to } if data.is_empty() => {
                offset = to;
                gap = Some(Gap { from, to });
            }
            Read::Gap { .. } | Read::UpToDate => break,
        }
    }
    let (_, total_written) = tap.range();
    let next_offset = offset.plus(data.len());
    Ok(Json(OutputBody { data: to_base64(&data), offset, next_offset, total_written, gap }))
}

pub(crate) async fn input<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<InputBody>,
) -> Result<Json<Written>, Failure> {
    let InputBody { text, enter, paste, writer } = body;
    Ok(Json(type_input(&app, writer, typed(text, enter, paste)).await?))
}

pub(crate) async fn keys<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<KeysBody>,
) -> Result<Json<Written>, Failure> {
    Ok(Json(type_input(&app, body.writer, Input::Keys(body.keys)).await?))
}

/// Types as the writer that is named; without one as a writer of its own, who holds the terminal for just this input.
pub(crate) async fn type_input<A: Agents>(app: &App<A>, writer: Option<u64>, input: Input) -> Result<Written, Error> {
    app.write(app.writer(writer)?, input).await
}

pub(crate) async fn lock<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<LockBody>,
) -> Result<Json<LockedBody>, Failure> {
    Ok(Json(app.lock(body.action, body.writer).await?))
}

pub(crate) async fn resize<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<ResizeBody>,
) -> Result<Json<Size>, Failure> {
    app.call(Request::Resize { writer: app.writer(body.writer)?, size: body.size }).await?;
    Ok(Json(body.size))
}

pub(crate) async fn signal<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<SignalBody>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::Signal(Signal::parse(&body.signal)?)).await)
}

pub(crate) async fn restart<A: Agents>(
    State(app): Shared<A>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::Restart).await)
}

pub(crate) async fn shutdown<A: Agents>(
    State(app): Shared<A>,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Delivered>, Failure> {
    done(app.call(Request::Shutdown).await)
}

fn done(reply: Result<Reply, Error>) -> Result<Json<Delivered>, Failure> {
    reply?;
    Ok(Json(Delivered { delivered: true }))
}

pub(crate) async fn openapi() -> Json<Value> {
    Json(crate::openapi::document())
}

pub(crate) async fn wrong_method(request: HttpRequest) -> Response {
    let message = format!("{} does not take {}; see /api/v1/openapi.json", request.uri().path(), request.method());
    let mut response = Failure(Error::bad_request(message)).into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

pub(crate) async fn not_found(request: HttpRequest) -> Response {
    let path = request.uri().path();
    if is_grpc(request.headers()) {
        return tonic::Status::unimplemented(format!("there is no method {path}")).into_http();
    }
    let message = format!("there is nothing at {path}; see /api/v1/openapi.json");
    Failure(Error::new(ErrorCode::NotFound, message)).into_response()
}
