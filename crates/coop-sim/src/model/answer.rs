//! From a request to a response.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{future, io};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use futures_util::stream;
use serde::Serialize;
use serde_json::{Value, json};

use super::asked::Delivery;
use super::decide::{Memory, Outcome, decide};
use super::fault::Fault;
use super::log::{Log, Request};
use super::protocol::{Protocol, models};
use super::reply::{Ending, Frame, Reply, halves, until};
use super::route::{Route, route};
use super::script::Script;
use super::shape;

/// One model, for all connections.
pub(crate) struct Mind {
    script: Script,
    state: Mutex<State>,
}

struct State {
    memory: Memory,
    log: Log,
}

/// Conversations with pictures are large.
const MAX_BODY: usize = 64 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

impl Mind {
    pub(crate) fn new(script: Script, salt: u32) -> Self {
        Self { script, state: Mutex::new(State { memory: Memory::new(salt), log: Log::default() }) }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().log.requests()
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        self.state().log.refused_hosts()
    }

    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.memory.forget();
        state.log = Log::default();
    }

    /// Answers a request of a client.
    pub(crate) async fn answer(&self, request: axum::extract::Request) -> Result<Response<Body>, Infallible> {
        Ok(match route(request.method(), request.uri()) {
            Route::Generate(protocol) => self.generate(protocol, request).await,
            Route::Count(protocol) => json_response(&protocol.count(&self.script.usage)),
            Route::Models => json_response(&models()),
            Route::Alive => Response::new(Body::empty()),
            Route::Requests => json_response(&self.requests()),
            Route::Refused => json_response(&self.refused()),
            Route::Reset => {
                self.reset();
                json_response(&json!({}))
            }
            Route::Elsewhere(host) => {
                self.state().log.refused(host);
                forbidden()
            }
            Route::Unknown => {
                let message = format!("the model does not know {} {}", request.method(), request.uri().path());
                // OpenAI's clients find their fields in it too.
                fault_response(Protocol::Anthropic, &Fault::not_found(message))
            }
        })
    }

    async fn generate(&self, protocol: Protocol, request: axum::extract::Request) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let body = match read_json(request.into_body()).await {
            Ok(body) => body,
            Err(message) => return fault_response(protocol, &Fault::bad_request(message)),
        };
        let asked = protocol.read(&path, &body);
        let outcome = {
            let state = &mut *self.state();
            state.log.asked(Request::new(&path, &asked));
            if let Some(message) = shape::fault(protocol, &body) {
                return fault_response(protocol, &Fault::bad_request(message));
            }
            decide(&self.script, &mut state.memory, &asked)
        };
        match outcome {
            Outcome::Fail { delay, fault } => {
                pause(delay).await;
                fault_response(protocol, &fault)
            }
            Outcome::Answer { delay, reply, ending } => {
                pause(delay).await;
                let frames = frames(protocol, asked.delivery, &reply);
                let kind = match asked.delivery {
                    Delivery::Stream => EVENTS,
                    Delivery::Whole => JSON,
                };
                respond(StatusCode::OK, kind, sent(until(ending, frames), ending))
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_json(body: Body) -> Result<Value, String> {
    let bytes = axum::body::to_bytes(body, MAX_BODY).await.map_err(|error| format!("cannot read the body: {error}"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("the body is not JSON: {error}"))
}

/// Returns an answer in pieces, so that there is a middle also of one that is not streamed.
fn frames(protocol: Protocol, delivery: Delivery, reply: &Reply) -> Vec<Frame> {
    match delivery {
        Delivery::Stream => protocol.frames(reply),
        Delivery::Whole => {
            let [start, end] = halves(&protocol.whole(reply).to_string());
            vec![Frame { text: start, wait: reply.duration() }, Frame { text: end, wait: Duration::ZERO }]
        }
    }
}

/// Returns a body that sends the frames in their time.
fn sent(frames: Vec<Frame>, ending: Ending) -> Body {
    Body::from_stream(stream::unfold((frames.into_iter(), ending), |(mut frames, ending)| async move {
        match (frames.next(), ending) {
            (Some(frame), ending) => {
                pause(frame.wait).await;
                Some((Ok(Bytes::from(frame.text)), (frames, ending)))
            }
            (None, Ending::Complete) => None,
            (None, Ending::Cut) => {
                // What was sent leaves the buffer only when there is nothing more to send for now.
                tokio::task::yield_now().await;
                Some((Err(io::Error::other("cut by the script")), (frames, Ending::Complete)))
            }
            (None, Ending::Hang) => future::pending().await,
        }
    }))
}

async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn json_response<T: Serialize>(value: &T) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => respond(StatusCode::OK, JSON, Body::from(text)),
        Err(error) => respond(StatusCode::INTERNAL_SERVER_ERROR, JSON, Body::from(error.to_string())),
    }
}

fn fault_response(protocol: Protocol, fault: &Fault) -> Response<Body> {
    let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond(status, JSON, Body::from(protocol.fault(fault).to_string()));
    if let Some(seconds) = fault.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn forbidden() -> Response<Body> {
    let mut response = respond(StatusCode::FORBIDDEN, JSON, Body::empty());
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn respond(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
