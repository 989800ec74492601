//! The write lock over what has no connection to hold it by: its holder is a number.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::fake::Live;
use crate::transports::{grpc_client, http, proto};

async fn post(live: &Live, path: &str, body: Value) -> (StatusCode, Value) {
    http(live, "POST", path, body).await
}

#[tokio::test]
async fn a_writer_without_a_connection_holds_the_lock_by_its_number() {
    let live = Live::start(None).await;
    let (status, locked) = post(&live, "/api/v1/lock", json!({"action":"acquire"})).await;
    assert_eq!((status, &locked["held"]), (StatusCode::OK, &json!(true)));
    let writer = &locked["writer"];
    let (status, refused) = post(&live, "/api/v1/input", json!({"text":"x"})).await;
    assert_eq!((status, &refused["error"]["code"]), (StatusCode::CONFLICT, &json!("WRITER_BUSY")));
    for (path, mut body) in [("/api/v1/input", json!({"text":"x"})), ("/api/v1/input/keys", json!({"keys":["Enter"]}))]
    {
        body["writer"] = writer.clone();
        assert_eq!(post(&live, path, body).await.0, StatusCode::OK, "{path}");
    }
    // The same writer over another transport.
    let mut client = grpc_client(&live).await;
    let mut input = proto::SendInputRequest { text: "x".into(), ..Default::default() };
    let refused = client.send_input(input.clone()).await.map(|_| ()).map_err(|status| status.code());
    assert_eq!(refused, Err(tonic::Code::ResourceExhausted));
    input.writer = writer.as_u64();
    client.send_input(input).await.expect("it is the holder");
    let release = proto::LockRequest { action: proto::lock_request::Action::Release.into(), writer: writer.as_u64() };
    let released = client.lock(release).await.expect("it is the holder").into_inner();
    assert_eq!((released.held, Some(released.writer)), (false, writer.as_u64()));
    assert_eq!(post(&live, "/api/v1/input", json!({"text":"x"})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn only_a_writer_that_was_named_can_be_one() {
    let live = Live::start(None).await;
    for (path, body) in [
        ("/api/v1/lock", json!({"action":"release"})),
        ("/api/v1/lock", json!({"action":"acquire","writer":4711})),
        ("/api/v1/input", json!({"text":"x","writer":4711})),
    ] {
        let (status, refused) = post(&live, path, body).await;
        assert_eq!((status, &refused["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("BAD_REQUEST")), "{path}");
    }
    assert!(live.fake.asked().is_empty(), "nothing was asked of the agent");
}
