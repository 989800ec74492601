//! The page's files, with what keeps anything else out of it.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use coop_api::{Error, ErrorCode};

use crate::error::Failure;

/// One file, as it is and packed.
struct Asset {
    /// Its path below the page's root.
    path: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// What is served while the page was not built.
static NO_PAGE: Asset = Asset { path: "index.html", plain: include_bytes!("none.html"), gzip: None, brotli: None };

/// Nothing but the page's own files is run, loaded or asked. The terminal makes style sheets as it goes, so styles may be
/// written in place; they can load nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types svelte-trusted-html";
/// A file's name changes with what is in it.
const FOREVER: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";

pub(super) async fn index(headers: HeaderMap) -> Response {
    send(find("index.html").unwrap_or(&NO_PAGE), &headers, ASK_AGAIN)
}

pub(super) async fn icon(headers: HeaderMap) -> Response {
    file("favicon.svg", &headers, ASK_AGAIN)
}

pub(super) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&format!("assets/{path}"), &headers, FOREVER)
}

fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

fn file(path: &str, headers: &HeaderMap, keep: &'static str) -> Response {
    match find(path) {
        Some(asset) => send(asset, headers, keep),
        None => Failure(Error::new(ErrorCode::NotFound, format!("the page has no file {path}"))).into_response(),
    }
}

fn send(asset: &'static Asset, headers: &HeaderMap, keep: &'static str) -> Response {
    let (coding, bytes) = match asset {
        Asset { brotli: Some(bytes), .. } if takes(headers, "br") => (Some("br"), *bytes),
        Asset { gzip: Some(bytes), .. } if takes(headers, "gzip") => (Some("gzip"), *bytes),
        Asset { plain, .. } => (None, *plain),
    };
    let mut response = bytes.into_response();
    let fixed: [(HeaderName, &'static str); 9] = [
        (header::CONTENT_TYPE, kind(asset.path)),
        (header::CACHE_CONTROL, keep),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    let coding = coding.map(|coding| (header::CONTENT_ENCODING, coding));
    for (name, value) in fixed.into_iter().chain(coding) {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

/// Tells whether the client takes a coding; one with the weight 0 it does not.
fn takes(headers: &HeaderMap, coding: &str) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|entry| {
        let (name, weight) = entry.split_once(';').unwrap_or((entry, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case(coding) && weight.is_none_or(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    static SCRIPT: Asset =
        Asset { path: "assets/main-abc.js", plain: b"plain", gzip: Some(b"gzip"), brotli: Some(b"brotli") };

    async fn sent(accepted: &str) -> (Option<String>, String) {
        let headers = [(header::ACCEPT_ENCODING, accepted.parse().expect("a header value"))].into_iter().collect();
        let response = send(&SCRIPT, &headers, FOREVER);
        let coding = response.headers().get(header::CONTENT_ENCODING);
        let coding = coding.map(|coding| coding.to_str().expect("text").to_owned());
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (coding, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn a_file_is_sent_packed_as_the_client_takes_it() {
        for (accepted, coding, body) in [
            ("gzip, deflate, br, zstd", Some("br"), "brotli"),
            ("gzip;q=0.8, br;q=0", Some("gzip"), "gzip"),
            ("gzip", Some("gzip"), "gzip"),
            ("identity", None, "plain"),
            ("brisk", None, "plain"),
        ] {
            assert_eq!(sent(accepted).await, (coding.map(str::to_owned), body.to_owned()), "{accepted}");
        }
    }

    #[test]
    fn the_policy_lets_nothing_in() {
        let response = send(&NO_PAGE, &HeaderMap::new(), ASK_AGAIN);
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
        let scripts =
            policy.split(';').find(|part| part.trim().starts_with("script-src")).expect("it is about scripts");
        assert_eq!(scripts.trim(), "script-src 'self'");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("http"), "{policy}");
        assert_eq!(response.headers()[header::CACHE_CONTROL], ASK_AGAIN);
    }
}
