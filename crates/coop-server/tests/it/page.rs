//! The page: its files are for everybody, what it shows is not.

use axum::body::Body;
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::fake::Live;

const HOST: (&str, &str) = ("host", "localhost:8080");
const OURS: (&str, &str) = ("origin", "http://localhost:8080");

async fn ask(live: &Live, line: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, HeaderMap, String) {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let mut request = HttpRequest::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).expect("a request");
    let response = live.server.router().oneshot(request).await.expect("the router never fails");
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

/// Logs in, and returns the cookie as the browser would send it.
async fn cookie(live: &Live) -> String {
    let (status, headers, _) = ask(live, "POST /api/v1/login", &[HOST, OURS], r#"{"token":"s3cret"}"#).await;
    assert_eq!(status, StatusCode::OK);
    let set = headers["set-cookie"].to_str().expect("text");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("s3cret"), "the token itself is not kept by the browser");
    set.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn the_page_itself_needs_no_token_and_says_nothing() {
    let live = Live::start(Some("s3cret")).await;
    let (status, headers, body) = ask(&live, "GET /", &[HOST], "").await;
    assert_eq!((status, headers["content-type"].as_bytes()), (StatusCode::OK, &b"text/html; charset=utf-8"[..]));
    assert!(headers["content-security-policy"].to_str().expect("text").contains("script-src 'self';"));
    assert_eq!(headers["cache-control"], "no-cache");
    assert!(!body.contains("s3cret"));
    for file in body.split('"').filter(|part| part.starts_with("/assets/")) {
        let (status, headers, _) = ask(&live, &format!("GET {file}"), &[HOST], "").await;
        assert_eq!(status, StatusCode::OK, "{file}");
        assert!(headers["cache-control"].to_str().expect("text").contains("immutable"), "{file}");
    }
    assert_eq!(ask(&live, "GET /assets/none.js", &[HOST], "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&live, "GET /", &[("host", "evil.example")], "").await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask(&live, "POST /", &[HOST], "").await.0, StatusCode::UNAUTHORIZED);
    assert!(live.fake.asked().is_empty(), "nothing was asked of the agent");
}

#[tokio::test]
async fn the_token_is_given_once_for_a_cookie() {
    let live = Live::start(Some("s3cret")).await;
    let (status, headers, _) = ask(&live, "POST /api/v1/login", &[HOST, OURS], r#"{"token":"wrong"}"#).await;
    assert_eq!((status, headers.get("set-cookie")), (StatusCode::UNAUTHORIZED, None));
    assert_eq!(ask(&live, "GET /api/v1/health", &[HOST], "").await.0, StatusCode::UNAUTHORIZED);
    let cookie = cookie(&live).await;
    let with = ("cookie", cookie.as_str());
    assert_eq!(ask(&live, "GET /api/v1/health", &[HOST, with], "").await.0, StatusCode::OK);
    let wrong = ("cookie", "coop_8080=0000");
    assert_eq!(ask(&live, "GET /api/v1/health", &[HOST, wrong], "").await.0, StatusCode::UNAUTHORIZED);
    // Another of us on another port is another one.
    let elsewhere = [("host", "localhost:8081"), with];
    assert_eq!(ask(&live, "GET /api/v1/health", &elsewhere, "").await.0, StatusCode::UNAUTHORIZED);
    let (status, headers, _) = ask(&live, "POST /api/v1/logout", &[HOST, OURS, with], "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(headers["set-cookie"].to_str().expect("text").contains("Max-Age=0"));
    assert_eq!(ask(&live, "GET /api/v1/health", &[HOST, with], "").await.0, StatusCode::UNAUTHORIZED);
}

/// A browser sends the cookie along whatever page asks, and a page of another port counts as the same site.
#[tokio::test]
async fn a_cookie_does_not_let_other_pages_in() {
    let live = Live::start(Some("s3cret")).await;
    let cookie = cookie(&live).await;
    let with = ("cookie", cookie.as_str());
    let resize = |headers: Vec<(&'static str, &'static str)>| {
        let (live, cookie) = (&live, cookie.as_str());
        async move {
            let headers: Vec<_> = [HOST, ("cookie", cookie)].into_iter().chain(headers).collect();
            ask(live, "POST /api/v1/resize", &headers, r#"{"cols":80,"rows":24}"#).await.0
        }
    };
    assert_eq!(resize(vec![OURS]).await, StatusCode::OK);
    assert_eq!(resize(vec![OURS, ("sec-fetch-site", "same-origin")]).await, StatusCode::OK);
    assert_eq!(resize(vec![("origin", "http://localhost:9000")]).await, StatusCode::FORBIDDEN);
    assert_eq!(resize(vec![]).await, StatusCode::UNAUTHORIZED, "a browser always says which page changes something");
    for site in ["same-site", "cross-site", "none"] {
        assert_eq!(resize(vec![("sec-fetch-site", site)]).await, StatusCode::UNAUTHORIZED, "{site}");
    }
    for site in ["same-site", "cross-site"] {
        let (status, ..) = ask(&live, "GET /api/v1/screen", &[HOST, with, ("sec-fetch-site", site)], "").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{site}");
    }
    let typed = [HOST, with, ("sec-fetch-site", "none")];
    assert_eq!(ask(&live, "GET /api/v1/screen", &typed, "").await.0, StatusCode::OK, "the person typed the address");
}
