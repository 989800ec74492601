//! Every request of the port can be made over every transport, from one table.

use ::coop_server::Config;
use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use coop_api::{Error, ErrorCode, EventBody, Lifecycle, LockAction, Request};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, SinkExt};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tower::ServiceExt;

use crate::fake::{LIMIT, Live, UNCONFIRMED};
use crate::transports::proto::*;
use crate::transports::{connect, grpc_client, http, next, next_json};

type Client = coop_client::CoopClient<tonic::transport::Channel>;

/// One request, and how each transport makes it and what its answer has in it.
struct Row {
    name: &'static str,
    asks: fn(&Request) -> bool,
    http: (&'static str, &'static str, Value, &'static str),
    ws: Ws,
    grpc: Grpc,
}

enum Ws {
    /// This message, and what the answer has in it.
    Say(Value, &'static str),
    /// This query, and what comes by itself then.
    Subscribe(&'static str, &'static str),
    None,
}

enum Grpc {
    Call(fn(Client) -> BoxFuture<'static, Result<String, tonic::Status>>, &'static str),
    None,
}

use Ws::{Say, Subscribe};

macro_rules! rpc {
    ($method:ident, $request:expr, $answer:expr) => {
        Grpc::Call(
            |mut client| async move { Ok(format!("{:?}", client.$method($request).await?.into_inner())) }.boxed(),
            $answer,
        )
    };
}

/// The table. Its patterns are matched without `_`, so a request without a row does not compile.
macro_rules! table {
    ($($request:pat => ($http:expr, $ws:expr, $grpc:expr),)*) => {
        fn rows() -> Vec<Row> {
            #[expect(dead_code, reason = "it need only compile")]
            fn every_request_has_a_row(request: &Request) {
                match request { $($request => {})* }
            }
            vec![$(Row {
                name: stringify!($request),
                asks: |request| matches!(request, $request),
                http: $http,
                ws: $ws,
                grpc: $grpc,
            }),*]
        }
    };
}

table! {
    Request::Health => (
        ("GET", "/api/v1/health", json!(null), r#""status":"running""#),
        Say(json!({"type":"health_request"}), r#"{"type":"health","status":"running""#),
        rpc!(get_health, GetHealthRequest {}, r#"status: "running""#)
    ),
    Request::Status => (
        ("GET", "/api/v1/status", json!(null), r#""bytes_read":10"#),
        Say(json!({"type":"status_request"}), r#""bytes_read":10"#),
        rpc!(get_status, GetStatusRequest {}, "bytes_read: 10")
    ),
    Request::Screen => (
        ("GET", "/api/v1/screen", json!(null), "$ secret"),
        Say(json!({"type":"screen_request"}), r#"{"type":"screen","lines":["$ secret""#),
        rpc!(get_screen, GetScreenRequest::default(), "$ secret")
    ),
    Request::History(_) => (
        ("GET", "/api/v1/screen/text?scrollback=1", json!(null), "older\n$ secret"),
        Say(json!({"type":"screen_request","scrollback":1}), r#""scrollback":["older"]"#),
        rpc!(get_screen, GetScreenRequest { scrollback: 1, ..Default::default() }, r#"scrollback: ["older"]"#)
    ),
    Request::Dump => (
        ("GET", "/api/v1/screen/dump", json!(null), r#""data":"G2NkdW1w""#),
        Subscribe("mode=raw&resync=1", r#"{"type":"resync","data":"G2NkdW1w""#),
        rpc!(get_dump, GetDumpRequest {}, "cdump")
    ),
    Request::Events(_) => (
        ("GET", "/api/v1/events?after=0", json!(null), r#""what":"started""#),
        Subscribe("mode=state&after=0", r#"{"type":"started""#),
        Grpc::Call(|mut client| async move {
            let mut events = client.stream_events(StreamEventsRequest { after: Some(0) }).await?.into_inner();
            Ok(format!("{:?}", events.message().await?))
        }.boxed(), "started")
    ),
    Request::Write { .. } => (
        ("POST", "/api/v1/input", json!({"text":"hi"}), r#""bytes_written":2"#),
        Say(json!({"type":"input","text":"hi","id":1}), r#""bytes_written":2"#),
        rpc!(send_input, SendInputRequest { text: "hi".into(), ..Default::default() }, "bytes_written: 2")
    ),
    Request::Lock { action: LockAction::Acquire, .. } => (
        ("POST", "/api/v1/lock", json!({"action":"acquire"}), r#""held":true"#),
        Say(json!({"type":"lock","action":"acquire"}), r#""held":true"#),
        rpc!(lock, LockRequest::default(), "held: true")
    ),
    Request::Lock { action: LockAction::Release, .. } => (
        ("POST", "/api/v1/lock", json!({"action":"release","writer":0}), r#""held":false"#),
        Say(json!({"type":"lock","action":"release"}), r#""held":false"#),
        rpc!(lock, LockRequest { action: lock_request::Action::Release.into(), writer: Some(0) }, "held: false")
    ),
    Request::Resize { .. } => (
        ("POST", "/api/v1/resize", json!({"cols":90,"rows":30}), r#""cols":90"#),
        // Everybody is told when it has happened.
        Say(json!({"type":"resize","cols":90,"rows":30}), ""),
        rpc!(resize, ResizeRequest { cols: 90, rows: 30, writer: None }, "cols: 90")
    ),
    Request::Signal(_) => (
        ("POST", "/api/v1/signal", json!({"signal":"SIGINT"}), r#""delivered":true"#),
        Say(json!({"type":"signal","signal":"SIGINT"}), r#"{"type":"done"}"#),
        rpc!(send_signal, SendSignalRequest { signal: "SIGINT".into() }, "delivered: true")
    ),
    Request::Restart => (
        ("POST", "/api/v1/restart", json!(null), r#""delivered":true"#),
        Say(json!({"type":"restart"}), r#"{"type":"done"}"#),
        rpc!(restart, RestartRequest {}, "RestartResponse")
    ),
    Request::Shutdown => (
        ("POST", "/api/v1/shutdown", json!(null), r#""delivered":true"#),
        Say(json!({"type":"shutdown"}), r#"{"type":"done"}"#),
        rpc!(shutdown, ShutdownRequest {}, "ShutdownResponse")
    ),
    Request::AgentState => (
        ("GET", "/api/v1/agent", json!(null), r#""stop_held":true"#),
        Say(json!({"type":"state_request"}), r#""stop_held":true"#),
        rpc!(get_agent_state, GetAgentStateRequest {}, "stop_held: true")
    ),
    Request::Explain => (
        ("GET", "/api/v1/agent/explain", json!(null), r#""verdict":"accepted""#),
        Say(json!({"type":"explain_request"}), r#""verdict":"accepted""#),
        rpc!(explain, ExplainRequest {}, r#"verdict: "accepted""#)
    ),
    Request::Nudge { .. } => (
        ("POST", "/api/v1/agent/nudge", json!({"message":"go"}), r#""confirmed_by":"a hook""#),
        Say(json!({"type":"nudge","message":"go"}), r#""confirmed_by":"a hook""#),
        rpc!(nudge, NudgeRequest { message: "go".into(), ..Default::default() }, r#"confirmed_by: Some("a hook")"#)
    ),
    Request::CancelNudge(_) => (
        ("DELETE", "/api/v1/agent/nudges/nudge-2", json!(null), r#""delivered":true"#),
        Say(json!({"type":"nudge_cancel","id":"nudge-2"}), r#"{"type":"done"}"#),
        rpc!(cancel_nudge, CancelNudgeRequest { id: "nudge-2".into() }, "CancelNudgeResponse")
    ),
    Request::Asks => (
        ("GET", "/api/v1/agent/asks", json!(null), r#""id":"ask-1""#),
        Say(json!({"type":"asks_request"}), r#""id":"ask-1""#),
        rpc!(list_asks, ListAsksRequest {}, "ask-1")
    ),
    Request::Respond { .. } => (
        ("POST", "/api/v1/agent/respond", json!({"accept":true}), r#""prompt_type":"permission""#),
        Say(json!({"type":"respond","accept":true}), r#""prompt_type":"permission""#),
        rpc!(respond, RespondRequest { accept: Some(true), ..Default::default() }, r#"prompt_type: "permission""#)
    ),
    Request::Interrupt { .. } => (
        ("POST", "/api/v1/agent/interrupt", json!(null), r#""delivered":true"#),
        Say(json!({"type":"interrupt"}), r#"{"type":"done"}"#),
        rpc!(interrupt, InterruptRequest {}, "InterruptResponse")
    ),
    Request::ResolveStop(_) => (
        ("POST", "/api/v1/stop/resolve", json!({"decision":"block"}), r#""delivered":true"#),
        Say(json!({"type":"stop_resolve","decision":"block"}), r#"{"type":"done"}"#),
        rpc!(resolve_stop, ResolveStopRequest::default(), "ResolveStopResponse")
    ),
    // No client's: the agent's own hooks make it, with a token that opens this one door.
    Request::Hook(_) => (
        ("POST", "/api/v1/hooks/Stop", json!({}), r#""heard":"Stop""#),
        Ws::None,
        Grpc::None
    ),
    Request::Transcript => (
        ("GET", "/api/v1/transcripts/catchup", json!(null), r#"{"type":"user"}"#),
        Say(json!({"type":"transcript_request"}), r#"{"type":"transcript","lines":"{\"type\":\"user\"}\n"}"#),
        rpc!(get_transcript, GetTranscriptRequest {}, "user")
    ),
    Request::Usage => (
        ("GET", "/api/v1/session/usage", json!(null), r#""requests":2"#),
        Say(json!({"type":"usage_request"}), r#""requests":2"#),
        rpc!(get_usage, GetUsageRequest {}, "requests: 2")
    ),
    Request::Configure(_) => (
        ("POST", "/api/v1/agent/configure", json!({"mode":"plan"}), r#""delivered":true"#),
        Say(json!({"type":"configure","mode":"plan"}), r#"{"type":"done"}"#),
        rpc!(configure, ConfigureRequest { mode: Some("plan".into()), model: None }, "ConfigureResponse")
    ),
}

/// A server of its own for each, so that no connection's end is taken for what the next one asked.
async fn live(failure: Option<&Error>) -> Live {
    let live = Live::with(Config::default()).await;
    live.fake.happen(EventBody::Lifecycle(Lifecycle::Started { pid: 7 }));
    live.fake.fail(failure.cloned());
    live
}

/// Makes the request over HTTP and reads until the answer has this in it, or ends.
async fn over_http(live: &Live, row: &Row, until: &str) -> (StatusCode, String) {
    let (method, path, body, _) = &row.http;
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request = HttpRequest::builder().method(*method).uri(*path).header("host", "localhost");
    let request = request.header("x-coop-hook-token", "h00k").body(body).expect("a request");
    let response = live.server.router().oneshot(request).await.expect("the router never fails");
    let status = response.status();
    let (mut body, mut text) = (response.into_body(), String::new());
    while !text.contains(until)
        && let Some(frame) = body.frame().await
    {
        text += &String::from_utf8_lossy(frame.expect("no error").data_ref().expect("data"));
    }
    (status, text)
}

/// Makes the request over a WebSocket, and returns all it tells until it has done so.
async fn over_ws(live: &Live, ws: &Ws, until: &str) -> Option<String> {
    let mut socket = match ws {
        Say(message, _) => {
            let mut socket = connect(live, "mode=state").await;
            socket.send(Message::text(message.to_string())).await.expect("it is open");
            socket.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it is open");
            socket
        }
        Subscribe(query, _) => connect(live, query).await,
        Ws::None => return None,
    };
    let mut told = String::new();
    loop {
        match next(&mut socket).await {
            Message::Text(text) if *text == *r#"{"type":"pong"}"# => return Some(told),
            Message::Text(text) => told += &text,
            Message::Close(frame) => return Some(format!("{told}{frame:?}")),
            other => panic!("unexpected {other:?}"),
        }
        if matches!(ws, Subscribe(..)) && told.contains(until) {
            return Some(told);
        }
    }
}

async fn over_grpc(live: &Live, grpc: &Grpc) -> Option<Result<String, tonic::Status>> {
    match grpc {
        Grpc::Call(call, _) => Some(call(grpc_client(live).await).await),
        Grpc::None => None,
    }
}

#[tokio::test]
async fn every_request_is_answered_on_every_transport() {
    let mut alone = Vec::new();
    for row in rows() {
        let asked = |live: &Live| assert!(live.fake.asked().iter().any(row.asks), "{} was not asked", row.name);
        let walk = async {
            let (server, expected) = (live(None).await, row.http.3);
            let (status, text) = over_http(&server, &row, expected).await;
            assert!(status == StatusCode::OK && text.contains(expected), "{} over HTTP: {status} {text}", row.name);
            asked(&server);
            let server = live(None).await;
            match &row.ws {
                ws @ (Say(_, expected) | Subscribe(_, expected)) => {
                    let told = over_ws(&server, ws, expected).await.unwrap_or_default();
                    let is_refused = told.contains(r#""type":"error""#);
                    assert!(told.contains(expected) && !is_refused, "{} over WebSocket: {told}", row.name);
                    asked(&server);
                }
                Ws::None => alone.push((row.name, "WebSocket")),
            }
            let server = live(None).await;
            match &row.grpc {
                grpc @ Grpc::Call(_, expected) => {
                    let answer = over_grpc(&server, grpc).await.expect("it is a call").expect("it answers");
                    assert!(answer.contains(expected), "{} over gRPC: {answer}", row.name);
                    asked(&server);
                }
                Grpc::None => alone.push((row.name, "gRPC")),
            }
        };
        timeout(LIMIT, walk).await.unwrap_or_else(|_| panic!("{} is not answered in time", row.name));
    }
    assert_eq!(alone, [("Request::Hook(_)", "WebSocket"), ("Request::Hook(_)", "gRPC")]);
}

#[tokio::test]
async fn what_the_port_refuses_is_refused_on_every_transport() {
    let error = Error::new(ErrorCode::AgentBusy, "not now");
    // The fake always tells events and always takes the lock back: those who are gone hold nothing.
    let never_fails = |row: &Row| row.name.contains("Events") || row.name.contains("Release");
    for row in rows().iter().filter(|row| !never_fails(row)) {
        let walk = async {
            let (status, text) = over_http(&live(Some(&error)).await, row, "not now").await;
            assert!(status == StatusCode::CONFLICT && text.contains("not now"), "{}: {status} {text}", row.name);
            if let Some(told) = over_ws(&live(Some(&error)).await, &row.ws, "not now").await {
                assert!(told.contains("not now"), "{} over WebSocket: {told}", row.name);
            }
            if let Some(answer) = over_grpc(&live(Some(&error)).await, &row.grpc).await {
                let refused = answer.map_err(|status| (status.code(), status.message().to_owned()));
                assert_eq!(refused, Err((tonic::Code::FailedPrecondition, "not now".into())), "{}", row.name);
            }
        };
        timeout(LIMIT, walk).await.unwrap_or_else(|_| panic!("{} is not refused in time", row.name));
    }
}

/// A message that is not confirmed is data, an answer that is not confirmed has failed: docs/API.md says why.
#[tokio::test]
async fn what_is_not_confirmed_is_a_receipt_for_a_message_and_an_error_for_an_answer() {
    let server = live(None).await;
    let (status, receipt) = http(&server, "POST", "/api/v1/agent/nudge", json!({"message":UNCONFIRMED})).await;
    assert_eq!(
        (status, &receipt["delivered"], &receipt["reason"]),
        (StatusCode::OK, &json!(false), &json!("unconfirmed"))
    );
    let mut socket = connect(&server, "mode=state").await;
    let message = json!({"type":"nudge","message":UNCONFIRMED}).to_string();
    socket.send(Message::text(message)).await.expect("it is open");
    let receipt = next_json(&mut socket).await;
    assert_eq!((&receipt["type"], &receipt["reason"]), (&json!("receipt"), &json!("unconfirmed")));
    let mut client = grpc_client(&server).await;
    let receipt = client.nudge(NudgeRequest { message: UNCONFIRMED.into(), ..Default::default() }).await;
    let receipt = receipt.expect("it answers").into_inner();
    assert_eq!((receipt.delivered, receipt.reason.as_deref()), (false, Some("unconfirmed")));

    server.fake.fail(Some(Error::new(ErrorCode::Unconfirmed, "who knows")));
    let (status, refused) = http(&server, "POST", "/api/v1/agent/respond", json!({"accept":false})).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!((&refused["delivered"], &refused["reason"]), (&json!(false), &json!("unconfirmed")));
    socket.send(Message::text(r#"{"type":"respond","accept":false}"#)).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["code"], "UNCONFIRMED");
    let refused = client.respond(RespondRequest { accept: Some(false), ..Default::default() }).await;
    assert_eq!(refused.map(|_| ()).map_err(|status| status.code()), Err(tonic::Code::DeadlineExceeded));
}
