//! Requests for one agent, passed on to its sidecar, and upgrades with them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use coop_api::{AgentId, Answer, Error};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tower::ServiceExt;

use super::routes::{Shared, by, unreachable};
use super::{Fleet, FleetRequest, Hub, Way};
use crate::body::MAX_BODY;
use crate::error::Failure;

/// In the answer to what a person told an agent: `false` if that it was they is not written down.
const NOTED: &str = "noted";
/// Tells a sidecar that a WebSocket comes by the daemon, where answers have to name their ask.
pub(crate) const NAMED_ASKS: &str = "x-coop-named-asks";

pub(super) async fn on<F: Fleet>(
    State(hub): Shared<F>,
    Path((id, rest)): Path<(AgentId, String)>,
    request: Request,
) -> Response {
    match pass(&hub, id, &rest, request).await {
        Ok(response) => response,
        Err(error) => Failure(error).into_response(),
    }
}

async fn pass<F: Fleet>(hub: &Arc<Hub<F>>, id: AgentId, rest: &str, mut request: Request) -> Result<Response, Error> {
    if request.uri().path().contains('%') {
        // The guard has judged the path as it was written, and no route of a sidecar needs an escape.
        return Err(Error::bad_request("the path of a request to an agent has no % in it; write it without"));
    }
    let way = hub.fleet.way(&id).await?;
    let by = by(request.headers());
    let ours = hyper::upgrade::on(&mut request);
    let (mut parts, body) = request.into_parts();
    parts.uri = onward(rest, parts.uri.query()).parse::<Uri>().map_err(|_| Error::bad_request("no such path"))?;
    parts.headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    // They are for us.
    parts.headers.remove(header::AUTHORIZATION);
    parts.headers.remove(header::ORIGIN);
    parts.headers.remove(header::COOKIE);
    parts.headers.insert(NAMED_ASKS, HeaderValue::from_static("1"));
    let body = Limited::new(body, MAX_BODY).collect().await;
    let mut body = body.map_err(|error| Error::bad_request(format!("cannot read the body: {error}")))?.to_bytes();
    let told = Told::of(&parts.method, rest, &body);
    if told.is_some()
        && let Some(ended) = hub.fleet.ended(&id).await
    {
        // Its sidecar may be about to end, and would take a message to its grave.
        return Err(ended);
    }
    if let Some(Told::Answer(answer)) = &told {
        check_names_ask(answer)?;
        // For us: a sidecar of an earlier version would refuse it.
        let onward = Answer { shown: None, ..Answer::clone(answer) };
        body = serde_json::to_vec(&onward).map_err(|error| Error::internal(error.to_string()))?.into();
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    if let Some(Told::Waiting) = told {
        // It is answered only when the message is taken, and until then the agent is not to be taken for done.
        hub.fleet.call(FleetRequest::Queued(id.clone()), &by).await?;
    }
    let mut response = match way {
        Way::Sidecar(connect) => {
            let stream = match connect().await {
                Ok(stream) => stream,
                Err(error) => return Err(lost(hub, &id, error).await),
            };
            let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = shaken.map_err(|error| unreachable(&id, error))?;
            tokio::spawn(connection.with_upgrades());
            let sent = sender.send_request(hyper::Request::from_parts(parts, Full::new(body))).await;
            let response = sent.map_err(|error| unreachable(&id, error))?;
            if response.status() == StatusCode::BAD_GATEWAY {
                // No sidecar says so: one elsewhere cannot be reached, or is gone.
                let why = response.into_body().collect().await.map_err(|error| unreachable(&id, error))?.to_bytes();
                return Err(lost(hub, &id, String::from_utf8_lossy(&why)).await);
            }
            response.map(Body::new)
        }
        Way::Here(router) => {
            let Ok(response) = router.oneshot(Request::from_parts(parts, Body::from(body))).await;
            response
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut response);
        let shutdown = hub.shutdown.clone();
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                tokio::select! {
                    // Either side may go at any time.
                    _ = copy_bidirectional(&mut ours, &mut theirs) => {}
                    () = shutdown.cancelled() => {}
                }
            }
        });
        return Ok(response.map(|_| Body::empty()).into_response());
    }
    match told {
        Some(told) if response.status().is_success() => note(hub, id, told, &by, response).await,
        Some(_) | None => Ok(response),
    }
}

/// A person answers one ask of many, seen in a list. Without its id, another that the agent opened meanwhile would be answered.
pub(crate) fn check_names_ask(answer: &Answer) -> Result<(), Error> {
    if answer.ask.is_some() || answer.is_denial() {
        return Ok(());
    }
    Err(Error::bad_request(
        "an answer has to name its \"ask\", as GET /api/v1/asks has it; only \"accept\": false need not",
    ))
}

/// Says why nobody listens: the agent has ended, or it cannot be reached.
async fn lost<F: Fleet>(hub: &Hub<F>, id: &AgentId, why: impl std::fmt::Display) -> Error {
    hub.fleet.ended(id).await.unwrap_or_else(|| unreachable(id, why))
}

/// Has what a person did written down. It was done, so the answer stays a yes; but if it is not written down, and may never
/// be, then the answer says that too.
async fn note<F: Fleet>(
    hub: &Hub<F>,
    id: AgentId,
    told: Told,
    by: &str,
    response: Response,
) -> Result<Response, Error> {
    let (mut parts, body) = response.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await;
    let body = body.map_err(|error| unreachable(&id, error))?.to_bytes();
    let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let agent = id.clone();
    let Err(error) = hub.fleet.call(told.request(id, &answer), by).await else {
        return Ok(Response::from_parts(parts, Body::from(body)));
    };
    tracing::error!(%agent, by, %error, "what a person did could not be written down");
    if let Some(answer) = answer.as_object_mut() {
        answer.insert(NOTED.to_owned(), false.into());
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(answer.to_string())))
}

/// Returns what the sidecar is asked for. The token stays here: it is the fleet's, and a sidecar may be on another machine.
fn onward(rest: &str, query: Option<&str>) -> String {
    let path = if rest == "ws" { "/ws".to_owned() } else { format!("/api/v1/{rest}") };
    let kept: Vec<_> =
        query.iter().flat_map(|query| query.split('&')).filter(|pair| !pair.starts_with("token=")).collect();
    if kept.is_empty() { path } else { format!("{path}?{}", kept.join("&")) }
}

/// What a person tells an agent, which the fleet has to know.
enum Told {
    Message,
    /// A message for which somebody waits until the agent is idle.
    Waiting,
    Answer(Box<Answer>),
}

impl Told {
    fn of(method: &Method, rest: &str, body: &[u8]) -> Option<Self> {
        match (method, rest) {
            (&Method::POST, "agent/nudge") if waits(body) => Some(Self::Waiting),
            (&Method::POST, "agent/nudge" | "agent/interrupt" | "input" | "input/keys") => Some(Self::Message),
            (&Method::POST, "agent/respond") => serde_json::from_slice(body).ok().map(Box::new).map(Self::Answer),
            _ => None,
        }
    }

    /// Returns what the fleet is told, after this was answered so.
    fn request(self, id: AgentId, answer: &Value) -> FleetRequest {
        match self {
            Self::Message if answer["queued"] == true => FleetRequest::Queued(id),
            Self::Message | Self::Waiting => FleetRequest::Steered(id),
            Self::Answer(answer) => FleetRequest::Decided(id, answer),
        }
    }
}

fn waits(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body["when"] == "idle" && body["wait"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever waits for a message to be taken is answered only then, and the job it was for was done meanwhile.
    #[test]
    fn a_message_that_somebody_waits_for_is_known_before_it_is_taken() {
        let told = |body: &str| Told::of(&Method::POST, "agent/nudge", body.as_bytes());
        assert!(matches!(told(r#"{"message":"a","when":"idle","wait":true}"#), Some(Told::Waiting)));
        for body in [r#"{"message":"a","when":"idle"}"#, r#"{"message":"a","wait":true}"#, "not JSON"] {
            assert!(matches!(told(body), Some(Told::Message)), "{body}");
        }
    }

    #[test]
    fn only_a_denial_may_leave_the_ask_out() {
        for (answer, is_good) in [
            (r#"{"accept":true}"#, false),
            (r#"{"option":1}"#, false),
            (r#"{"text":"Redis"}"#, false),
            (r#"{"answers":[{"option":1}]}"#, false),
            (r#"{"accept":false,"text":"no"}"#, true),
            (r#"{"ask":"ask-1","accept":true}"#, true),
            (r#"{"ask":"ask-1","option":1,"shown":{"surface":"page","characters":3,"whole":true}}"#, true),
        ] {
            let Some(Told::Answer(parsed)) = Told::of(&Method::POST, "agent/respond", answer.as_bytes()) else {
                panic!("{answer} is an answer")
            };
            assert_eq!(check_names_ask(&parsed).is_ok(), is_good, "{answer}");
        }
    }

    #[test]
    fn the_token_of_the_fleet_is_not_passed_on() {
        assert_eq!(onward("ws", Some("token=hush&mode=raw")), "/ws?mode=raw");
        assert_eq!(onward("agent", Some("token=hush")), "/api/v1/agent");
        assert_eq!(onward("output", Some("offset=1&token=a&limit=2")), "/api/v1/output?offset=1&limit=2");
        assert_eq!(onward("output", None), "/api/v1/output");
    }
}
