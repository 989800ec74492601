//! With a token set, nothing leaks a byte without it.

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use coop_server::ROUTES;
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use prost::Message as _;
use prost_types::MethodDescriptorProto;
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tower::ServiceExt;

use crate::fake::{LIMIT, Live};
use crate::transports::{connect, grpc_client, next, proto};

/// Returns the path of every RPC that is served, and of one that is not.
fn rpcs() -> Vec<String> {
    let descriptors = [
        &include_bytes!("../../src/grpc/descriptor.bin")[..],
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    ];
    let mut paths = vec!["/no.such.Service/Method".to_owned()];
    for descriptor in descriptors {
        for file in prost_types::FileDescriptorSet::decode(descriptor).expect("a descriptor").file {
            for service in &file.service {
                let path = |method: &MethodDescriptorProto| {
                    format!("/{}.{}/{}", file.package(), service.name(), method.name())
                };
                paths.extend(service.method.iter().map(path));
            }
        }
    }
    assert!(paths.contains(&"/coop.v1.Coop/GetHealth".to_owned()), "the descriptors are not read: {paths:?}");
    paths
}

async fn ask(live: &Live, request: axum::http::request::Builder) -> (StatusCode, axum::http::HeaderMap, String) {
    let request = request.body(Body::empty()).expect("a request");
    let response = live.server.router().oneshot(request).await.expect("the router never fails");
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn no_route_and_no_rpc_answers_without_the_token() {
    let live = Live::start(Some("s3cret")).await;
    for authorization in [None, Some("Bearer wrong"), Some("Basic s3cret"), Some("s3cret")] {
        let with = |request: axum::http::request::Builder| match authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        for route in ROUTES.iter().filter(|route| route.path != "/ws") {
            let request = HttpRequest::builder().method(route.method).uri(route.path).header("host", "localhost");
            let (status, _, body) = ask(&live, with(request)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{}", route.path);
            assert!(!body.contains("secret") && body.contains("UNAUTHORIZED"), "{}: {body}", route.path);
        }
        for path in ["/nothing", "/api/v1/nothing", "/api/v1/screen/", "//api/v1/screen"] {
            let (status, _, _) = ask(&live, with(HttpRequest::builder().uri(path).header("host", "localhost"))).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        }
        for rpc in rpcs() {
            let request = HttpRequest::builder().method("POST").uri(&rpc).header("host", "localhost");
            let (_, headers, body) = ask(&live, with(request.header("content-type", "application/grpc"))).await;
            assert_eq!(headers["grpc-status"], "16", "{rpc}");
            assert!(body.is_empty(), "{rpc}");
        }
    }
    assert!(live.fake.asked().is_empty(), "nothing was asked of the agent");
    let ok = HttpRequest::builder()
        .uri("/api/v1/health")
        .header("host", "localhost")
        .header("authorization", "Bearer s3cret");
    assert_eq!(ask(&live, ok).await.0, StatusCode::OK);
    let ok = HttpRequest::builder().uri("/api/v1/health?token=s3cret").header("host", "localhost");
    assert_eq!(ask(&live, ok).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_websocket_says_nothing_before_the_token() {
    let live = Live::start(Some("s3cret")).await;
    for query in ["token=wrong", "token="] {
        let mut socket = connect(&live, query).await;
        let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it was not closed") };
        assert_eq!(u16::from(frame.code), 4401);
    }
    for first in [json!({"type":"ping"}), json!({"type":"auth","token":"wrong"}), json!({"type":"screen_request"})] {
        let mut socket = connect(&live, "mode=all").await;
        live.fake.write(b"hidden");
        socket.send(Message::text(first.to_string())).await.expect("it is open");
        let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it was not closed") };
        assert_eq!(u16::from(frame.code), 4401);
        assert!(timeout(LIMIT, socket.next()).await.expect("in time").is_none_or(|message| message.is_err()));
    }
    assert!(live.fake.asked().is_empty(), "nothing was asked of the agent");
    let mut socket = connect(&live, "mode=screen").await;
    socket.send(Message::text(r#"{"type":"auth","token":"s3cret"}"#)).await.expect("it is open");
    assert!(matches!(next(&mut socket).await, Message::Text(text) if text.contains("secret")));
    let mut socket = connect(&live, "mode=screen&token=s3cret").await;
    assert!(matches!(next(&mut socket).await, Message::Text(text) if text.contains("secret")));
}

#[tokio::test]
async fn grpc_takes_the_token_as_metadata() {
    let live = Live::start(Some("s3cret")).await;
    let mut client = grpc_client(&live).await;
    let refused = client.get_screen(proto::GetScreenRequest::default()).await;
    assert_eq!(refused.map(|_| ()).map_err(|status| status.code()), Err(tonic::Code::Unauthenticated));
    let mut request = tonic::Request::new(proto::GetScreenRequest::default());
    request.metadata_mut().insert("authorization", "Bearer s3cret".parse().expect("metadata"));
    client.get_screen(request).await.expect("the token is right");
}

#[tokio::test]
async fn foreign_pages_and_hosts_are_refused_everywhere() {
    let live = Live::start(None).await;
    for (host, origin) in
        [("evil.example", None), ("localhost", Some("http://evil.example")), ("localhost", Some("null"))]
    {
        for route in ROUTES {
            let mut request = HttpRequest::builder().method(route.method).uri(route.path).header("host", host);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let (status, headers, body) = ask(&live, request).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{} {host} {origin:?}", route.path);
            assert!(body.contains("FORBIDDEN") && !headers.contains_key("access-control-allow-origin"));
        }
        for rpc in rpcs() {
            let mut request = HttpRequest::builder().method("POST").uri(&rpc).header("host", host);
            request = request
                .header("content-type", "application/grpc")
                .header("origin", origin.unwrap_or("http://evil.example"));
            assert_eq!(ask(&live, request).await.1["grpc-status"], "7", "{rpc}");
        }
    }
    assert!(live.fake.asked().is_empty(), "nothing was asked of the agent");
}

#[tokio::test]
async fn probes_get_health_and_nothing_else() {
    use coop_api::Token;
    use coop_server::{Config, Listener, Server, Surface};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let fake = crate::fake::Fake::new();
    let token = Some(Token::new("s3cret").expect("a token"));
    let server = Server::new(fake, Config { token, ..Config::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    server.listen(Listener::Tcp(listener), Surface::Health);
    for (path, expected) in
        [("/api/v1/health", "HTTP/1.1 200"), ("/api/v1/screen", "HTTP/1.1 404"), ("/ws", "HTTP/1.1 404")]
    {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is open");
        let mut answer = String::new();
        timeout(LIMIT, stream.read_to_string(&mut answer)).await.expect("in time").expect("text");
        assert!(answer.starts_with(expected), "{path}: {answer}");
    }
}
