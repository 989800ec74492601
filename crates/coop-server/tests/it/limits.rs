//! What is too much is refused and costs little.

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tower::ServiceExt;

use crate::fake::{LIMIT, Live};
use crate::transports::{connect, http, next_json};

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let live = Live::start(None).await;
    let (status, answer) = http(&live, "POST", "/api/v1/input", json!({"text": "x".repeat(25 << 20)})).await;
    let error = json!({"code": "BAD_REQUEST", "message": "the body is larger than 24 MiB, the most that is taken"});
    assert_eq!((status, &answer["error"]), (StatusCode::PAYLOAD_TOO_LARGE, &error));
    let (status, _) = http(&live, "POST", "/api/v1/input", json!({"text": "x".repeat(10 << 20)})).await;
    assert_eq!(status, StatusCode::OK);
}

/// A client without the token sent 24 MiB to the login and kept the connection open: all of it was held.
#[tokio::test]
async fn a_login_reads_no_more_than_a_token() {
    let live = Live::start(Some("secret")).await;
    for path in ["/api/v1/login", "/api/v1/logout"] {
        let large = json!({"token": "x".repeat(5 << 10)});
        let request = axum::http::Request::builder().method("POST").uri(path).header("host", "localhost");
        let request = request.header("authorization", "Bearer secret").body(Body::from(large.to_string()));
        let answer = live.server.router().oneshot(request.expect("a request")).await.expect("the router never fails");
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers()["cross-origin-resource-policy"], "same-origin");
    }
    // The server refuses what is announced before any of it has come, and so it is never held.
    let mut stream = tokio::net::TcpStream::connect(&live.address).await.expect("it listens");
    let head = format!("POST /api/v1/login HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 24 << 20);
    stream.write_all(head.as_bytes()).await.expect("it is open");
    let mut answer = [0; 12];
    timeout(LIMIT, stream.read_exact(&mut answer)).await.expect("in time").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn wrong_logins_are_refused_unseen_after_a_few() {
    let live = Live::start(Some("secret")).await;
    let mut refused = Vec::new();
    for token in ["wrong"; 10].into_iter().chain(["secret"]) {
        let request = axum::http::Request::builder().method("POST").uri("/api/v1/login").header("host", "localhost");
        let request = request.body(Body::from(json!({ "token": token }).to_string())).expect("a request");
        refused.push(live.server.router().oneshot(request).await.expect("the router never fails").status());
    }
    let (last, others) = refused.split_last().expect("some");
    assert!(others.iter().all(|status| *status == StatusCode::UNAUTHORIZED), "{others:?}");
    assert_eq!(*last, StatusCode::TOO_MANY_REQUESTS, "also the right one, or guessing would cost nothing");
}

/// Structures were read from arrays as well, field by field.
#[tokio::test]
async fn only_objects_are_taken() {
    let live = Live::start(None).await;
    for body in [json!(["typed", true, false]), json!("typed")] {
        let (status, answer) = http(&live, "POST", "/api/v1/input", body).await;
        let message = "the body must be a JSON object, such as {}";
        assert_eq!((status, &answer["error"]["message"]), (StatusCode::BAD_REQUEST, &json!(message)));
    }
    let mut socket = connect(&live, "mode=state").await;
    socket.send(Message::text(r#"["input", "typed"]"#)).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["code"], "BAD_REQUEST");
    assert!(live.fake.asked().iter().all(|request| !matches!(request, coop_api::Request::Write { .. })));
}

#[tokio::test]
async fn a_wrong_query_is_told_in_our_words() {
    let live = Live::start(None).await;
    let (_, answer) = http(&live, "GET", "/api/v1/screen/text?scrollback=many", json!({})).await;
    let message = "the query is not what this route takes: scrollback: invalid digit found in string";
    assert_eq!(answer["error"]["message"], message);
}

#[tokio::test]
async fn a_frame_beyond_the_limit_ends_the_connection() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=state").await;
    // The server may cut us off before all of it is sent.
    let _ = socket.send(Message::binary(vec![b'x'; 25 << 20])).await;
    let end = timeout(LIMIT, socket.next()).await.expect("in time");
    assert!(matches!(end, None | Some(Err(_) | Ok(Message::Close(_)))), "{end:?}");
    assert!(live.fake.asked().iter().all(|request| !matches!(request, coop_api::Request::Write { .. })));
}

/// A message is kept until it is whole, and the first one is judged only then.
#[tokio::test]
async fn who_has_brought_no_token_cannot_send_much() {
    let live = Live::start(Some("secret")).await;
    let url = format!("ws://{}/ws?mode=state", live.address);
    let (mut socket, _) = tokio_tungstenite::client_async(
        url.as_str(),
        tokio::net::TcpStream::connect(&live.address).await.expect("it listens"),
    )
    .await
    .expect("it is let in to bring the token");
    // More than the kernel keeps, so it is all sent only if the server reads it.
    let sent = timeout(LIMIT, socket.send(Message::binary(vec![b'x'; 23 << 20]))).await.expect("in time");
    assert!(sent.is_err(), "the server read all of it");
    let stream = tokio::net::TcpStream::connect(&live.address).await.expect("it listens");
    let (mut socket, _) = tokio_tungstenite::client_async(url.as_str(), stream).await.expect("it is let in");
    socket.send(Message::text(r#"{"type":"auth","token":"secret"}"#)).await.expect("it is open");
    // With the token it may.
    let text = json!({"type": "input", "text": "x".repeat(10 << 20), "id": 1}).to_string();
    socket.send(Message::text(text)).await.expect("it is open");
    let answer = timeout(LIMIT, socket.next()).await.expect("in time").expect("an answer").expect("it is open");
    assert!(answer.to_text().expect("text").contains("written"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_read_can_still_type_and_slows_nobody() {
    let live = Live::start(None).await;
    let mut stalled = connect(&live, "mode=raw").await;
    let mut reader = connect(&live, "mode=raw").await;
    for _ in 0..200 {
        live.fake.write(&[b'x'; 64 * 1024]);
    }
    let mut read = 0;
    while read < 200 * 64 * 1024 {
        let message = next_json(&mut reader).await;
        read = message["offset"].as_u64().expect("a number") as usize + 64 * 1024;
    }
    stalled.send(Message::text(r#"{"type":"input","text":"typed"}"#)).await.expect("it is open");
    let typed = async {
        loop {
            let asked = live.fake.asked();
            if asked.iter().any(|request| matches!(request, coop_api::Request::Write { .. })) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, typed).await.expect("what it types arrives");
}
