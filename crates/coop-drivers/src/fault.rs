//! What kind of error an agent gave up on.

use coop_api::{Fault, FaultKind};

/// Returns the fault for an error's name, what the agent said of it and the server's status.
pub(crate) fn fault(error: &str, message: &str, status: Option<u16>) -> Fault {
    let status = status.or_else(|| status_in(message));
    let words = format!("{error} {message}").to_ascii_lowercase();
    let has = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    let kind = match status {
        Some(401 | 403) => FaultKind::Auth,
        Some(429) => FaultKind::RateLimit,
        Some(529 | 503) => FaultKind::Overload,
        _ if has(&["rate_limit", "rate limit", "usage limit", "limit reached", "hit your limit", "billing"]) => {
            FaultKind::RateLimit
        }
        _ if has(&["authentication", "invalid api key", "please run /login", "oauth"]) => FaultKind::Auth,
        _ if has(&["overloaded"]) => FaultKind::Overload,
        Some(400 | 404 | 413 | 422) => FaultKind::Request,
        _ if has(&[
            "connection",
            "network",
            "enotfound",
            "econn",
            "timed out",
            "fetch failed",
            "unable to connect",
        ]) =>
        {
            FaultKind::Network
        }
        _ => FaultKind::Other,
    };
    Fault { kind, message: message.trim().to_owned(), status, until: until(message) }
}

/// Finds the status in `API Error: 529 …` and `API Error: Request rejected (429) · …`.
fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("API Error: ")?;
    let (said, _) = rest.split_once('·').unwrap_or((rest, ""));
    let after = said.split_once('(').map_or("", |(_, after)| after);
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    [rest, after].into_iter().filter_map(number).find(|status| (400..600).contains(status))
}

/// Finds when a limit is over, in the agent's words: `resets 3pm (UTC)`, `resets at 15:00`.
fn until(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("resets ")?;
    let rest = rest.strip_prefix("at ").unwrap_or(rest);
    let end = rest.find(['\n', '.', '·']).unwrap_or(rest.len());
    Some(rest[..end].trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let kind = |error, message| fault(error, message, None).kind;
        assert_eq!(kind("", "Failed to authenticate. API Error: 401 mock authentication_error"), FaultKind::Auth);
        assert_eq!(kind("", "API Error: 529 overloaded"), FaultKind::Overload);
        assert_eq!(kind("", "API Error: 400 mock invalid_request_error"), FaultKind::Request);
        assert_eq!(kind("unknown", "Unable to connect to API (ECONNREFUSED)"), FaultKind::Network);
        let limit = fault("rate_limit", "You've hit your limit · resets 3pm (UTC)", None);
        assert_eq!((limit.kind, limit.until.as_deref()), (FaultKind::RateLimit, Some("3pm (UTC)")));
        let rejected = fault("rate_limit", "API Error: Request rejected (429) · mock rate_limit_error", None);
        assert_eq!((rejected.kind, rejected.status), (FaultKind::RateLimit, Some(429)));
        let limit = fault("rate_limit", "You've hit your limit · resets Oct 9, 5pm (UTC)", None);
        assert_eq!(limit.until.as_deref(), Some("Oct 9, 5pm (UTC)"));
    }
}
