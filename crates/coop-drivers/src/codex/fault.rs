//! What kind of error Codex gave up on, or tries again after.

use coop_api::{Fault, FaultKind, Retry};
use serde_json::Value;

/// Returns the fault for an error of a turn: a message, and often a name with the status of the model's server in it.
pub(super) fn of_error(error: &Value) -> Fault {
    let info = &error["codexErrorInfo"];
    let named = info.as_object().and_then(|fields| fields.iter().next());
    let (name, details) = match named {
        Some((name, details)) => (name.as_str(), Some(details)),
        None => (info.as_str().unwrap_or_default(), None),
    };
    let status = details.and_then(|details| details["httpStatusCode"].as_u64());
    let message = error["message"].as_str().unwrap_or("the turn failed");
    let details = error["additionalDetails"].as_str().unwrap_or_default();
    fault(name, message, details, status.and_then(|status| status.try_into().ok()))
}

/// Returns the fault for an error of which there is only a text.
pub(super) fn of_text(message: &str) -> Fault {
    fault("", message, "", None)
}

/// Returns the fault for a request of ours that was refused.
pub(super) fn of_reply(error: &Value) -> Fault {
    let message = error["message"].as_str().unwrap_or("Codex does not say why").to_owned();
    Fault { kind: FaultKind::Request, message, status: None, until: None }
}

/// Returns the fault for a turn that ended in an error nobody told us of.
pub(super) fn unknown() -> Fault {
    let message = "Codex says that there was an error in its conversation".to_owned();
    Fault { kind: FaultKind::Other, message, status: None, until: None }
}

fn fault(name: &str, message: &str, details: &str, status: Option<u16>) -> Fault {
    let status = status.or_else(|| status_in(message)).or_else(|| status_in(details));
    let words = format!("{message} {details}").to_ascii_lowercase();
    let has = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    let kind = match (name, status) {
        ("unauthorized", _) | (_, Some(401 | 403)) => FaultKind::Auth,
        ("usageLimitExceeded" | "rateLimitExceeded" | "sessionBudgetExceeded", _) | (_, Some(429)) => {
            FaultKind::RateLimit
        }
        ("serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable", _) | (_, Some(503 | 529)) => {
            FaultKind::Overload
        }
        ("badRequest" | "contextWindowExceeded" | "modelNotFound", _) | (_, Some(400 | 404 | 413 | 422)) => {
            FaultKind::Request
        }
        _ if has(&["usage limit", "rate limit", "too many requests"]) => FaultKind::RateLimit,
        _ if has(&["unauthorized", "not logged in", "codex login"]) => FaultKind::Auth,
        _ if has(&["overloaded", "at capacity"]) => FaultKind::Overload,
        ("httpConnectionFailed" | "responseStreamConnectionFailed" | "responseStreamDisconnected", None) => {
            FaultKind::Network
        }
        _ if has(&["connection", "network", "stream disconnected", "error sending request", "timed out"]) => {
            FaultKind::Network
        }
        _ => FaultKind::Other,
    };
    Fault { kind, message: message.trim().to_owned(), status, until: until(message) }
}

/// Finds the status in `unexpected status 401 Unauthorized` and `last status: 429 Too Many Requests`.
fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status")?;
    let digits = rest.trim_start_matches([':', ' ']);
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok().filter(|status| (400..600).contains(status))
}

/// Finds when a limit is over, in the agent's words: `try again at 3:15 PM`.
fn until(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("try again at ")?;
    let end = rest.find(['\n', '.']).unwrap_or(rest.len());
    Some(rest[..end].trim().to_owned()).filter(|text| !text.is_empty())
}

/// Finds which attempt it is in `Reconnecting... 2/5`.
pub(super) fn attempt(message: &str) -> Retry {
    let counted = || {
        let (attempt, max) = message.rsplit(' ').find_map(|word| word.split_once('/'))?;
        Some((attempt.parse().ok()?, max.parse().ok()?))
    };
    match counted() {
        Some((attempt, max)) => Retry { attempt, max: Some(max), delay_ms: None },
        None => Retry { attempt: 1, max: None, delay_ms: None },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let kind = |error: Value| of_error(&error).kind;
        let named = |name: &str, status: u16| json!({ "codexErrorInfo": { name: { "httpStatusCode": status } } });
        assert_eq!(kind(named("httpConnectionFailed", 401)), FaultKind::Auth);
        assert_eq!(kind(named("responseTooManyFailedAttempts", 429)), FaultKind::RateLimit);
        assert_eq!(kind(json!({ "codexErrorInfo": "serverOverloaded", "message": "x" })), FaultKind::Overload);
        assert_eq!(kind(json!({ "message": "unexpected status 400 Bad Request: no" })), FaultKind::Request);
        assert_eq!(kind(json!({ "message": "stream disconnected before completion" })), FaultKind::Network);
        let limit = of_text("You've hit your usage limit. Try Plus, or try again at 3:15 PM.");
        assert_eq!((limit.kind, limit.until.as_deref()), (FaultKind::RateLimit, Some("3:15 PM")));
        assert_eq!(attempt("Reconnecting... 2/5"), Retry { attempt: 2, max: Some(5), delay_ms: None });
    }
}
