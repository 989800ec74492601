//! The HTTP handlers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use coop_api::{
    Agents, Answer, Answered, Configure, Error, ErrorCode, Explanation, History, HookCall, Input, NudgeId, Offset,
    Read, Receipt, Reply, Request, Screen, Signal, Size, UsageReport, Written,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::{Body, Params};
use crate::error::{Failure, Undelivered};
use crate::guard::{hook_token, is_grpc};
use crate::wire::{
    AgentBody, AsksBody, Delivered, Format, Gap, HealthBody, InputBody, KeysBody, Nothing, NudgeBody, NudgesBody,
    OutputBody, ScreenBody, SignalBody, StatusBody, StopBody, text_lines, to_base64,
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
    let InputBody { mut text, enter, paste } = body;
    let input = if paste {
        Input::Paste { text, enter }
    } else {
        if enter {
            text.push('\r');
        }
        Input::Bytes(text.into())
    };
    Ok(Json(type_input(&app, input).await?))
}

pub(crate) async fn keys<A: Agents>(
    State(app): Shared<A>,
    Body(body): Body<KeysBody>,
) -> Result<Json<Written>, Failure> {
    Ok(Json(type_input(&app, Input::Keys(body.keys)).await?))
}

/// Types as a writer of its own, who holds the terminal for just this input.
pub(crate) async fn type_input<A: Agents>(app: &App<A>, input: Input) -> Result<Written, Error> {
    let writer = app.new_writer();
    app.write(writer, input).await
}

pub(crate) async fn resize<A: Agents>(State(app): Shared<A>, Body(size): Body<Size>) -> Result<Json<Size>, Failure> {
    app.call(Request::Resize(size)).await?;
    Ok(Json(size))
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

pub(crate) async fn agent_state<A: Agents>(State(app): Shared<A>) -> Result<Json<AgentBody>, Failure> {
    let report = app.agent_state().await?;
    Ok(Json(report.into()))
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
