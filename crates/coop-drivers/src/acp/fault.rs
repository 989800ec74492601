//! What kind of error the agent gave up on.

use agent_client_protocol_schema::{Error, ErrorCode};
use coop_api::{Fault, FaultKind, FaultReport, Retry};
use serde_json::Value;

use crate::fault as by_words;

/// What the model's servers say when something is wrong.
const STATUSES: [u16; 12] = [400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504, 529];

/// Returns the fault for an error of the protocol. There is no word for its kind: some agents give the status of the
/// model's server as the code, others write it into the message.
pub(super) fn fault(error: &Error) -> Fault {
    let message = words(error);
    let code = u16::try_from(i32::from(error.code)).ok().filter(|code| (400..600).contains(code));
    let fault = by_words::fault("", &message, code.or_else(|| status_in(&message)));
    match error.code {
        ErrorCode::AuthRequired => Fault { kind: FaultKind::Auth, ..fault },
        _ => fault,
    }
}

pub(super) fn other(message: String) -> Fault {
    Fault { kind: FaultKind::Other, message, status: None, until: None }
}

/// Returns the report of an error after which the agent tries again.
pub(super) fn retry(params: &Value) -> FaultReport {
    let message = params["message"].as_str().unwrap_or_default();
    let fault = by_words::fault(params["error"].as_str().unwrap_or_default(), message, status_in(message));
    let attempt = params["attempt"].as_u64().and_then(|attempt| attempt.try_into().ok()).unwrap_or(1);
    FaultReport { fault, retry: Some(Retry { attempt, max: None, delay_ms: params["delayMs"].as_u64() }) }
}

/// Returns what an error says, without the wrapping that some put around it.
pub(super) fn words(error: &Error) -> String {
    let wrapped = serde_json::from_str::<Value>(&error.message).ok();
    let inner = wrapped.as_ref().and_then(|value| value["error"]["message"].as_str());
    let details = error.data.as_ref().and_then(|data| data["details"].as_str().or_else(|| data.as_str()));
    match (inner, details) {
        (Some(inner), _) => inner.to_owned(),
        (None, Some(details)) => format!("{}: {details}", error.message),
        (None, None) => error.message.clone(),
    }
}

fn status_in(message: &str) -> Option<u16> {
    let numbers = message.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.parse().ok());
    numbers.into_iter().find(|number| STATUSES.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_made_again_says_why_and_when() {
        let params =
            serde_json::json!({ "attempt": 2, "delayMs": 700, "error": "rate_limit", "message": "Slow (429)" });
        let report = retry(&params);
        assert_eq!((report.fault.kind, report.fault.status), (FaultKind::RateLimit, Some(429)));
        assert_eq!(report.retry, Some(Retry { attempt: 2, max: None, delay_ms: Some(700) }));
    }

    #[test]
    fn errors_are_told_apart() {
        let of = |code, message: &str, data: Option<Value>| {
            let found = fault(&Error::new(code, message).data(data));
            (found.kind, found.status, found.message)
        };
        let gemini = r#"{"error":{"code":401,"message":"mock HTTP 401","status":"UNAUTHENTICATED"}}"#;
        assert_eq!(of(401, gemini, None), (FaultKind::Auth, Some(401), "mock HTTP 401".into()));
        let opencode = of(-32603, "Internal error: mock HTTP 429", None);
        assert_eq!((opencode.0, opencode.1), (FaultKind::RateLimit, Some(429)));
        let details = of(-32603, "Internal error", Some(serde_json::json!({ "details": "fetch failed" })));
        assert_eq!(details, (FaultKind::Network, None, "Internal error: fetch failed".into()));
        assert_eq!(of(-32000, "Authentication required", None).0, FaultKind::Auth);
        assert_eq!(of(-32603, "it broke at 4291", None).0, FaultKind::Other);
    }
}
