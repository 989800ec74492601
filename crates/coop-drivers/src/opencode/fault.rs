//! What kind of error it gave up on, or tries to get over.

use coop_api::{Fault, FaultKind, FaultReport, Retry};
use serde_json::Value;

/// Returns the fault that an error of the server tells.
pub(super) fn fault(error: &Value) -> Fault {
    let name = error["name"].as_str().unwrap_or_default();
    let message = error["data"]["message"].as_str().filter(|text| !text.trim().is_empty()).unwrap_or(name);
    let status = error["data"]["statusCode"].as_u64().and_then(|status| status.try_into().ok());
    Fault { kind: kind(name, message, status), message: message.trim().to_owned(), status, until: None }
}

/// Returns the report of an error after which it tries again.
pub(super) fn retry(status: &Value, at: u64) -> FaultReport {
    let message = status["message"].as_str().unwrap_or_default();
    let attempt = status["attempt"].as_u64().and_then(|attempt| attempt.try_into().ok()).unwrap_or(1);
    let delay_ms = status["next"].as_u64().map(|next| next.saturating_sub(at));
    FaultReport {
        fault: Fault { kind: kind("", message, None), message: message.to_owned(), status: None, until: None },
        retry: Some(Retry { attempt, max: None, delay_ms }),
    }
}

fn kind(name: &str, message: &str, status: Option<u16>) -> FaultKind {
    let words = message.to_ascii_lowercase();
    let has = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    match (name, status) {
        ("ProviderAuthError", _) | (_, Some(401 | 403)) => FaultKind::Auth,
        (_, Some(429)) => FaultKind::RateLimit,
        (_, Some(503 | 529)) => FaultKind::Overload,
        ("ContextOverflowError" | "MessageOutputLengthError", _) | (_, Some(400 | 404 | 413 | 422)) => {
            FaultKind::Request
        }
        _ if has(&["429", "rate limit", "rate_limit", "too many requests", "usage limit"]) => FaultKind::RateLimit,
        _ if has(&["overloaded", "529", "503"]) => FaultKind::Overload,
        _ if has(&["unauthorized", "api key", "401"]) => FaultKind::Auth,
        _ if has(&["connect", "network", "socket", "econn", "timed out", "fetch failed", "dns"]) => FaultKind::Network,
        _ => FaultKind::Other,
    }
}
