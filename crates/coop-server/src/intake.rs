//! Request bodies on their way in: each has a size and a deadline, and all together have a budget.
//!
//! A body is read here as a whole, behind the guard, before a handler sees the request. Its bytes count against the budget until
//! the handler has answered.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use coop_api::{Error, ErrorCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::body::MAX_BODY;
use crate::error::{Failure, status};
use crate::guard::is_grpc;

/// The largest body before a login: a token and nothing else.
const LOGIN_BODY: usize = 4 * 1024;
/// The largest messages of a client that asks which RPCs there are. It may keep its stream open.
const REFLECTION_BODY: usize = 64 * 1024;
/// How long a body may take: 24 MiB over a slow line.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How much all bodies of this process hold together: a part of the memory that a small pod has.
const ALL_BODIES: usize = 64 * 1024 * 1024;

static BUDGET: Semaphore = Semaphore::const_new(ALL_BODIES);

/// Bounds the bodies that a router reads.
pub(crate) fn bounded(router: Router) -> Router {
    router.layer(middleware::from_fn(take_body))
}

/// Adds to every answer what keeps browsers from reading it as something else, or for pages of others.
pub(crate) fn marked(router: Router) -> Router {
    router.layer(middleware::map_response(|mut response: Response| async {
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let policy = HeaderName::from_static("cross-origin-resource-policy");
        headers.insert(policy, HeaderValue::from_static("same-origin"));
        response
    }))
}

async fn take_body(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let path = request.uri().path();
    let limit = match path {
        "/api/v1/login" | "/api/v1/logout" => LOGIN_BODY,
        _ if path.starts_with("/grpc.reflection.") => {
            return next.run(request.map(|body| Body::new(Limited::new(body, REFLECTION_BODY)))).await;
        }
        _ => MAX_BODY,
    };
    let speaks_grpc = is_grpc(request.headers());
    let (parts, body) = request.into_parts();
    match timeout(BODY_TIME, read(body, limit, &BUDGET)).await.unwrap_or(Err(Untaken::Late)) {
        Ok((bytes, _held)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(why) if speaks_grpc => status(why.error(limit)).into_http(),
        Err(why) => why.into_response(limit),
    }
}

/// Why a body was not taken.
#[derive(Debug, PartialEq, Eq)]
enum Untaken {
    TooLarge,
    Late,
    NoRoom,
    Broken(String),
}

impl Untaken {
    fn error(&self, limit: usize) -> Error {
        match self {
            Self::TooLarge if limit >= 1 << 20 => {
                Error::bad_request(format!("the body is larger than {} MiB, the most that is taken", limit >> 20))
            }
            Self::TooLarge => {
                Error::bad_request(format!("the body is larger than {} KiB, the most that is taken here", limit >> 10))
            }
            Self::Late => {
                let limit = BODY_TIME.as_secs();
                Error::bad_request(format!("the body did not arrive within {limit} s; send it again, or send less"))
            }
            Self::NoRoom => {
                let most = ALL_BODIES >> 20;
                let why =
                    format!("the requests under way hold {most} MiB, the most for all; send it again in a moment");
                Error::new(ErrorCode::NotReady, why)
            }
            Self::Broken(why) => Error::bad_request(format!("cannot read the body: {why}")),
        }
    }

    fn into_response(self, limit: usize) -> Response {
        let mut response = Failure(self.error(limit)).into_response();
        match self {
            Self::TooLarge => *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late => *response.status_mut() = StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => drop(response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"))),
            Self::Broken(_) => {}
        }
        response
    }
}

/// Reads a body into one buffer. What it holds of the budget is given back with the permit.
async fn read(mut body: Body, limit: usize, budget: &Semaphore) -> Result<(Bytes, SemaphorePermit<'_>), Untaken> {
    if body.size_hint().lower() > limit as u64 {
        return Err(Untaken::TooLarge);
    }
    let mut bytes = BytesMut::new();
    let mut held = budget.try_acquire_many(0).map_err(|_| Untaken::NoRoom)?;
    while let Some(frame) = body.frame().await {
        // Only data counts; coop reads no trailers.
        let Ok(data) = frame.map_err(|error| Untaken::Broken(error.to_string()))?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(Untaken::TooLarge);
        }
        let more = u32::try_from(data.len()).ok().and_then(|more| budget.try_acquire_many(more).ok());
        held.merge(more.ok_or(Untaken::NoRoom)?);
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), held))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(pieces: &'static [&'static [u8]]) -> Body {
        let pieces = pieces.iter().map(|piece| Ok::<_, std::convert::Infallible>(Bytes::from_static(piece)));
        Body::from_stream(futures_util::stream::iter(pieces))
    }

    #[tokio::test]
    async fn all_bodies_together_hold_no_more_than_the_budget() {
        let budget = Semaphore::new(10);
        let (bytes, first) = read(body(&[b"abc", b"def"]), 8, &budget).await.expect("there is room");
        assert_eq!((&bytes[..], budget.available_permits()), (&b"abcdef"[..], 4));
        assert_eq!(read(body(&[b"abc", b"de"]), 8, &budget).await.err(), Some(Untaken::NoRoom));
        assert_eq!(budget.available_permits(), 4, "a body that is refused holds nothing");
        drop(first);
        assert_eq!(read(body(&[b"abcd", b"efghi"]), 8, &budget).await.err(), Some(Untaken::TooLarge));
        assert_eq!(read(Body::from("123456789"), 8, &budget).await.err(), Some(Untaken::TooLarge));
        assert_eq!(budget.available_permits(), 10);
    }
}
