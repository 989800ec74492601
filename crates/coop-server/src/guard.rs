//! Who may ask at all: the token, the host the request is for, and the page it comes from. And who may only look.
//!
//! A browser sends requests for any page it shows, also to this machine. So a request must be for a name that cannot
//! be somebody's trick (DNS rebinding), and a page it comes from must be our own.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coop_api::{Agents, Error, ErrorCode, Token};

use crate::app::{App, Config};
use crate::error::{Failure, status};
use crate::page::{LOGIN_PATH, LOGOUT_PATH, Visitor, is_file};
use crate::peer::Peer;

/// The WebSocket's path.
pub(crate) const WS_PATH: &str = "/ws";

/// Where the agent's hooks report; they carry a token of their own.
pub(crate) const HOOKS_PATH: &str = "/api/v1/hooks/";
/// The header with the hooks' token.
const HOOK_TOKEN: &str = "x-coop-hook-token";

pub(crate) const WRONG_TOKEN: &str = "the token is wrong; it is the one coop was started with (--auth-token or COOP_AUTH_TOKEN), or that of the link it printed";

/// What only looks, beside HTTP's own GET. Everything else that is served over gRPC steers.
const LOOKING: [&str; 16] = [
    "/coop.v1.Coop/GetHealth",
    "/coop.v1.Coop/GetScreen",
    "/coop.v1.Coop/GetDump",
    "/coop.v1.Coop/GetStatus",
    "/coop.v1.Coop/StreamOutput",
    "/coop.v1.Coop/StreamScreen",
    "/coop.v1.Coop/GetAgentState",
    "/coop.v1.Coop/StreamState",
    "/coop.v1.Coop/Explain",
    "/coop.v1.Coop/ListAsks",
    "/coop.v1.Coop/ListNudges",
    "/coop.v1.Coop/GetTranscript",
    "/coop.v1.Coop/GetUsage",
    "/coop.v1.Coop/StreamEvents",
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
];

pub(crate) async fn guard<A: Agents>(State(app): State<Arc<App<A>>>, request: Request, next: Next) -> Response {
    let visitor = Visitor { method: request.method(), uri: request.uri(), headers: request.headers() };
    let path = visitor.uri.path();
    let entry = match path {
        WS_PATH | LOGIN_PATH => Entry::Open,
        path if is_file(visitor.method, path) => Entry::Open,
        path if path.starts_with(HOOKS_PATH) => Entry::Hook,
        _ => Entry::Token,
    };
    let demand = match only_looks(visitor.method, path) {
        true if shows_files(path) => Demand::ReadFiles,
        true => Demand::Look,
        false => Demand::Steer,
    };
    match admit(request.extensions(), &visitor, &app.config, entry, demand).await {
        Ok(()) => next.run(request).await,
        Err(error) if is_grpc(request.headers()) => status(error).into_http(),
        Err(error) => Failure(error).into_response(),
    }
}

/// What a request has to bring where there is a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The token.
    Token,
    /// Nothing yet: the page's files, the login, a WebSocket whose first message may be the token, a route with tokens of its
    /// own.
    Open,
    /// The hooks' token.
    Hook,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    Look,
    /// What files in the agent's folder hold. A sandbox may hide some of them from the agent, so what an agent runs gets none.
    ReadFiles,
    Steer,
}

/// Lets a request in, or says why not. Every server's guard asks here.
pub(crate) async fn admit(
    extensions: &Extensions,
    visitor: &Visitor<'_>,
    config: &Config,
    entry: Entry,
    demand: Demand,
) -> Result<(), Error> {
    let peer = extensions.get::<Arc<Peer>>().ok_or_else(|| Error::internal("a connection came without its peer"))?;
    // Unix sockets are out of browsers' reach.
    if !peer.is_unix() {
        check_source(visitor.uri, visitor.headers, config)?;
    }
    let has_token = match entry {
        Entry::Token => has_token(visitor, config)?,
        Entry::Hook => hook_token(visitor.headers).map(|_| false)?,
        Entry::Open => false,
    };
    let is_open = entry != Entry::Token && config.token.is_some();
    if !has_token && !is_open {
        peer.check_may_look(config).await?;
    }
    match demand {
        Demand::Look => Ok(()),
        Demand::ReadFiles => peer.check_is_outside(config, has_token).await,
        Demand::Steer => peer.check_may_steer(config, has_token).await,
    }
}

/// Tells whether a route shows what files hold.
pub(crate) fn shows_files(path: &str) -> bool {
    path.ends_with("/changes")
}

/// Tells whether a request can change nothing. The WebSocket checks each message, hooks only report, and a login is worth
/// what the token is.
fn only_looks(method: &Method, path: &str) -> bool {
    if [WS_PATH, LOGIN_PATH, LOGOUT_PATH].contains(&path) || path.starts_with(HOOKS_PATH) {
        return true;
    }
    if path.starts_with("/api/v1/") {
        return matches!(*method, Method::GET | Method::HEAD);
    }
    // Not by the method: gRPC takes any.
    LOOKING.iter().any(|known| if known.ends_with('/') { path.starts_with(known) } else { path == *known })
}

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Tells whether a request carries the token in the header or the query, or the cookie that the token was given for.
pub(crate) fn has_token(visitor: &Visitor<'_>, config: &Config) -> Result<bool, Error> {
    let Some(token) = &config.token else { return Ok(false) };
    match given_token(visitor.uri, visitor.headers) {
        Some(given) if token.matches(&given) => Ok(true),
        Some(_) => Err(Error::new(ErrorCode::Unauthorized, WRONG_TOKEN)),
        None => Ok(visitor.is_logged_in(config)),
    }
}

/// Returns the token that a hook brings; the agent knows whether it is the right one. The API's token does not do:
/// whoever has it has better ways.
pub(crate) fn hook_token(headers: &HeaderMap) -> Result<Token, Error> {
    let given = headers.get(HOOK_TOKEN).and_then(|value| value.to_str().ok()).and_then(|value| Token::new(value).ok());
    given.ok_or_else(|| Error::new(ErrorCode::Unauthorized, "only the agent's own hooks may report here"))
}

/// Returns the token the request carries, wherever it carries it.
pub(crate) fn given_token(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some((scheme, token)) = header.and_then(|value| value.split_once(' '))
        && scheme.eq_ignore_ascii_case("bearer")
    {
        return Some(token.trim().to_owned());
    }
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token=")).map(percent_decoded)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(if byte == b'+' { b' ' } else { byte });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn check_source(uri: &Uri, headers: &HeaderMap, config: &Config) -> Result<(), Error> {
    let host = match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).and_then(|host| host.to_str().ok()),
    };
    let host = host.unwrap_or_default();
    if !host_is_allowed(host, config) {
        let message = format!("{host:?} is not a name of this server; add it with --allow-host, or use its address");
        return Err(Error::new(ErrorCode::Forbidden, message));
    }
    // Without a token nothing but the browser's word keeps a page of another site from asking, also for an image.
    let is_cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if config.token.is_none() && is_cross_site && !is_file(&Method::GET, uri.path()) {
        let message =
            "requests from pages of other sites are refused; open coop's own page, or start coop with a token";
        return Err(Error::new(ErrorCode::Forbidden, message));
    }
    match headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default()) {
        Some(origin) if !same_origin(origin, host) => {
            let message =
                format!("requests from pages of {origin:?} are refused; a page may ask only the server it is from");
            Err(Error::new(ErrorCode::Forbidden, message))
        }
        _ => Ok(()),
    }
}

/// An address cannot be rebound, `localhost` is always this machine, and other names must have been told to us.
fn host_is_allowed(host: &str, config: &Config) -> bool {
    let name = host_name(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok()
        || config.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
}

fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn same_origin(origin: &str, host: &str) -> bool {
    let at = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    at.is_some_and(|at| at.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().expect("a header value"))).collect()
    }

    fn source(host: &str, origin: Option<&str>) -> bool {
        let config = Config { hosts: vec!["box.example".into()], ..Config::default() };
        let mut headers = headers(&[(header::HOST, host)]);
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header value"));
        }
        check_source(&Uri::from_static("/api/v1/health"), &headers, &config).is_ok()
    }

    #[test]
    fn only_names_that_cannot_be_rebound_are_ours() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "[::1]", "10.1.2.3", "BOX.example:9"] {
            assert!(source(host, None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "evil.example:8080", "", "127.0.0.1.evil.example"] {
            assert!(!source(host, None), "{host}");
        }
    }

    #[test]
    fn only_our_own_page_may_ask() {
        assert!(source("localhost:8080", Some("http://localhost:8080")));
        assert!(source("box.example", Some("https://box.example")));
        for origin in ["http://evil.example", "null", "http://localhost:9999", "http://localhost", "file://", ""] {
            assert!(!source("localhost:8080", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn pages_of_other_sites_may_only_open_our_page_while_there_is_no_token() {
        let asked = |path: &'static str, site: &str, token: Option<&str>| {
            let token = token.map(|token| Token::new(token).expect("a token"));
            let mut headers = headers(&[(header::HOST, "localhost:8080")]);
            headers.insert("sec-fetch-site", site.parse().expect("a header value"));
            check_source(&Uri::from_static(path), &headers, &Config { token, ..Config::default() }).is_ok()
        };
        for path in ["/api/v1/screen", "/api/v1/workspaces/p/w?refresh=true", "/mcp", "/ws"] {
            assert!(!asked(path, "cross-site", None), "{path}");
            assert!(asked(path, "same-origin", None) && asked(path, "none", None), "{path}");
            assert!(asked(path, "cross-site", Some("secret")), "{path}: the token is asked for");
        }
        assert!(asked("/", "cross-site", None) && asked("/assets/a.js", "cross-site", None));
    }

    #[test]
    fn everything_that_can_change_something_is_known_to() {
        let mut steering: Vec<String> = Vec::new();
        for route in crate::ROUTES {
            let method = route.method.parse().expect("a method");
            if !only_looks(&method, route.path) {
                steering.push(format!("{} {}", route.method, route.path));
            }
        }
        let set = prost_types::FileDescriptorSet::decode(&include_bytes!("grpc/descriptor.bin")[..]);
        for file in set.expect("a descriptor").file {
            for service in &file.service {
                let path = |name: &str| format!("/{}.{}/{name}", file.package(), service.name());
                let rpcs = service.method.iter().map(|method| path(method.name()));
                // Whatever the method: gRPC does not look at it.
                steering.extend(rpcs.filter(|rpc| !only_looks(&Method::GET, rpc)));
            }
        }
        insta::assert_snapshot!(steering.join("\n"), @r"
        POST /api/v1/input
        POST /api/v1/input/keys
        POST /api/v1/lock
        POST /api/v1/resize
        POST /api/v1/signal
        POST /api/v1/restart
        POST /api/v1/shutdown
        POST /api/v1/agent/nudge
        DELETE /api/v1/agent/nudges/{id}
        POST /api/v1/agent/respond
        POST /api/v1/agent/interrupt
        POST /api/v1/agent/configure
        POST /api/v1/stop/resolve
        /coop.v1.Coop/SendInput
        /coop.v1.Coop/SendKeys
        /coop.v1.Coop/Lock
        /coop.v1.Coop/Resize
        /coop.v1.Coop/SendSignal
        /coop.v1.Coop/Restart
        /coop.v1.Coop/Shutdown
        /coop.v1.Coop/Nudge
        /coop.v1.Coop/Respond
        /coop.v1.Coop/CancelNudge
        /coop.v1.Coop/Interrupt
        /coop.v1.Coop/Configure
        /coop.v1.Coop/ResolveStop
        ");
        assert!(!only_looks(&Method::GET, "/no.such.Service/Method"));
        assert!(only_looks(&Method::POST, "/grpc.health.v1.Health/Check"));
    }

    #[test]
    fn the_token_is_read_wherever_it_may_stand() {
        let config = Config { token: Some(Token::new("s3cret!+").expect("a token")), ..Config::default() };
        let check = |uri: &'static str, pairs: &[(header::HeaderName, &str)]| {
            let (uri, headers) = (Uri::from_static(uri), headers(pairs));
            matches!(has_token(&Visitor { method: &Method::GET, uri: &uri, headers: &headers }, &config), Ok(true))
        };
        assert!(check("/x", &[(header::AUTHORIZATION, "Bearer s3cret!+")]));
        assert!(check("/x", &[(header::AUTHORIZATION, "bearer s3cret!+")]));
        assert!(check("/x?mode=raw&token=s3cret%21%2B", &[]));
        for (uri, pairs) in [
            ("/x", &[][..]),
            ("/x?token=", &[]),
            ("/x?token=s3cret", &[]),
            ("/x", &[(header::AUTHORIZATION, "Basic s3cret!+")]),
            ("/x?token=s3cret!%2B", &[(header::AUTHORIZATION, "Bearer wrong")]),
        ] {
            assert!(!check(uri, pairs), "{uri} {pairs:?}");
        }
    }
}
