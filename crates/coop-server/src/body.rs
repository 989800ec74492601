//! Request bodies and queries, with errors for people.

use std::error::Error as _;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use coop_api::Error;
use serde::de::DeserializeOwned;

use crate::error::Failure;

/// The largest body: a ten-megabyte paste with all of it escaped.
pub(crate) const MAX_BODY: usize = 24 * 1024 * 1024;

/// A JSON body, whatever content type it claims: `curl -d` claims the wrong one.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        // An absent body means the same as an empty object: everything at its default.
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        if !is_object(&bytes) {
            return Err(refused("the body must be a JSON object, such as {}".to_owned()));
        }
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(refused(format!("the body is not what this route takes: {error}"))),
        }
    }
}

fn unread(error: BytesRejection) -> Response {
    if error.status() != StatusCode::PAYLOAD_TOO_LARGE {
        return refused(format!("cannot read the body: {}", error.body_text()));
    }
    let mut response = refused(format!("the body is larger than {} MiB, the most that is taken", MAX_BODY >> 20));
    *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
    response
}

fn refused(message: String) -> Response {
    Failure(Error::bad_request(message)).into_response()
}

/// Tells whether this is JSON of an object, if it is JSON at all. Structures would else be read from arrays too.
pub(crate) fn is_object(json: &[u8]) -> bool {
    json.trim_ascii_start().first() == Some(&b'{')
}

/// The query, typed.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => {
                // Its source is the same without the library's own words before it.
                let reason = error.source().map_or_else(|| error.body_text(), ToString::to_string);
                Err(Error::bad_request(format!("the query is not what this route takes: {reason}")).into())
            }
        }
    }
}
