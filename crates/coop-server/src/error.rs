//! The one table from failures to what each transport says.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use coop_api::{Agents, Error, ErrorCode};
use serde_json::json;
use tonic::Code;

use crate::app::App;

/// How a failure looks on each transport.
pub(crate) struct Mapping {
    pub(crate) http: StatusCode,
    pub(crate) grpc: Code,
    /// The WebSocket's close code, where the failure ends the connection.
    pub(crate) close: Option<u16>,
}

pub(crate) fn mapping(code: ErrorCode) -> Mapping {
    let (http, grpc, close) = match code {
        ErrorCode::NotReady => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, Some(4503)),
        ErrorCode::Exited => (StatusCode::GONE, Code::NotFound, None),
        ErrorCode::WriterBusy => (StatusCode::CONFLICT, Code::ResourceExhausted, None),
        ErrorCode::Unauthorized => (StatusCode::UNAUTHORIZED, Code::Unauthenticated, Some(4401)),
        ErrorCode::Forbidden => (StatusCode::FORBIDDEN, Code::PermissionDenied, Some(4403)),
        ErrorCode::BadRequest => (StatusCode::BAD_REQUEST, Code::InvalidArgument, None),
        ErrorCode::NotFound => (StatusCode::NOT_FOUND, Code::NotFound, None),
        ErrorCode::NoDriver => (StatusCode::NOT_FOUND, Code::Unimplemented, None),
        ErrorCode::Unsupported => (StatusCode::NOT_IMPLEMENTED, Code::Unimplemented, None),
        ErrorCode::AgentBusy => (StatusCode::CONFLICT, Code::FailedPrecondition, None),
        ErrorCode::NoPrompt => (StatusCode::CONFLICT, Code::FailedPrecondition, None),
        ErrorCode::AlreadyAnswered => (StatusCode::CONFLICT, Code::FailedPrecondition, None),
        ErrorCode::NoSuchOption => (StatusCode::CONFLICT, Code::FailedPrecondition, None),
        ErrorCode::Unconfirmed => (StatusCode::GATEWAY_TIMEOUT, Code::DeadlineExceeded, None),
        ErrorCode::Internal => (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, None),
    };
    Mapping { http, grpc, close }
}

/// A failure on its way out over HTTP.
pub(crate) struct Failure(pub(crate) Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = mapping(self.0.code).http;
        (status, Json(json!({ "error": self.0 }))).into_response()
    }
}

/// A nudge or an answer that was not delivered: the failure, and in the same breath what clients of either spelling look
/// for.
pub(crate) struct Undelivered {
    error: Error,
    state: Option<&'static str>,
}

impl Undelivered {
    pub(crate) async fn new<A: Agents>(app: &App<A>, error: Error) -> Self {
        let state = app.agent_state().await.ok().map(|report| report.state.as_str());
        Self { error, state }
    }
}

impl IntoResponse for Undelivered {
    fn into_response(self) -> Response {
        let status = mapping(self.error.code).http;
        let reason = self.error.code.as_str().to_ascii_lowercase();
        let body = json!({ "error": self.error, "delivered": false, "reason": reason, "state": self.state });
        (status, Json(body)).into_response()
    }
}

pub(crate) fn status(error: Error) -> tonic::Status {
    tonic::Status::new(mapping(error.code).grpc, error.message)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn the_table_is_the_seeds() {
        let table: Vec<_> = ErrorCode::ALL
            .into_iter()
            .map(|code| {
                let to = mapping(code);
                format!("{code} {} {:?} {:?}", to.http.as_u16(), to.grpc, to.close)
            })
            .collect();
        assert_snapshot!(table.join("\n"), @r"
        NOT_READY 503 Unavailable Some(4503)
        EXITED 410 NotFound None
        WRITER_BUSY 409 ResourceExhausted None
        UNAUTHORIZED 401 Unauthenticated Some(4401)
        FORBIDDEN 403 PermissionDenied Some(4403)
        BAD_REQUEST 400 InvalidArgument None
        NOT_FOUND 404 NotFound None
        NO_DRIVER 404 Unimplemented None
        UNSUPPORTED 501 Unimplemented None
        AGENT_BUSY 409 FailedPrecondition None
        NO_PROMPT 409 FailedPrecondition None
        ALREADY_ANSWERED 409 FailedPrecondition None
        NO_SUCH_OPTION 409 FailedPrecondition None
        UNCONFIRMED 504 DeadlineExceeded None
        INTERNAL 500 Internal None
        ");
    }
}
