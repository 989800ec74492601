//! Which request asks for what.

use hyper::{Method, Uri};

use super::protocol::Protocol;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// An answer.
    Generate(Protocol),
    /// The number of tokens.
    Count(Protocol),
    Models,
    /// Whether anybody is there.
    Alive,
    /// What was asked so far.
    Requests,
    /// Which hosts were refused so far.
    Refused,
    /// To forget all that happened.
    Reset,
    /// Another host, of us as its proxy.
    Elsewhere(String),
    Unknown,
}

pub(crate) fn route(method: &Method, uri: &Uri) -> Route {
    // Only who takes us for a proxy names the host.
    if let Some(host) = uri.authority() {
        return Route::Elsewhere(host.to_string());
    }
    let path = uri.path();
    match method.as_str() {
        "POST" => match path {
            "/v1/messages" => Route::Generate(Protocol::Anthropic),
            "/v1/messages/count_tokens" => Route::Count(Protocol::Anthropic),
            "/v1/responses" => Route::Generate(Protocol::Responses),
            "/v1/chat/completions" => Route::Generate(Protocol::Chat),
            "/coop/reset" => Route::Reset,
            path => match path.rsplit_once(':') {
                Some((_, "generateContent" | "streamGenerateContent")) => Route::Generate(Protocol::Gemini),
                Some((_, "countTokens")) => Route::Count(Protocol::Gemini),
                _ => Route::Unknown,
            },
        },
        "GET" | "HEAD" => match path {
            "/" => Route::Alive,
            "/v1/models" => Route::Models,
            "/coop/requests" => Route::Requests,
            "/coop/refused" => Route::Refused,
            _ => Route::Unknown,
        },
        _ => Route::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, uri: &str) -> Route {
        route(&method, &uri.parse().unwrap())
    }

    #[test]
    fn a_query_changes_nothing() {
        assert_eq!(of(Method::POST, "/v1/messages?beta=true"), Route::Generate(Protocol::Anthropic));
        let gemini = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";
        assert_eq!(of(Method::POST, gemini), Route::Generate(Protocol::Gemini));
    }

    #[test]
    fn other_hosts_are_elsewhere() {
        assert_eq!(of(Method::CONNECT, "example.com:443"), Route::Elsewhere("example.com:443".to_owned()));
        assert_eq!(of(Method::GET, "http://example.com/v1/models"), Route::Elsewhere("example.com".to_owned()));
    }

    #[test]
    fn a_known_path_with_another_method_is_unknown() {
        assert_eq!(of(Method::GET, "/v1/messages"), Route::Unknown);
        assert_eq!(of(Method::POST, "/"), Route::Unknown);
        assert_eq!(of(Method::HEAD, "/"), Route::Alive);
    }
}
