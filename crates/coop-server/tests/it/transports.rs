//! Every row of the seed's reference, over each transport that has it, from one table.

use axum::body::Body;
use axum::http::{Method, Request as HttpRequest, StatusCode};
use coop_api::{Answer, Error, ErrorCode, Input, Request};
use coop_server::ROUTES;
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tower::ServiceExt;

use crate::fake::{LIMIT, Live};

/// What the fake must have been asked, told apart by what matters.
fn names(asked: &[Request]) -> Vec<String> {
    asked
        .iter()
        .filter(|request| !matches!(request, Request::Events(_)))
        .map(|request| match request {
            Request::Write { input: Input::Bytes(bytes), .. } => {
                format!("bytes {}", String::from_utf8_lossy(bytes).escape_debug())
            }
            Request::Write { input: Input::Keys(keys), .. } => format!("keys {keys:?}"),
            Request::Write { input: Input::Paste { text, enter }, .. } => format!("paste {text} {enter}"),
            Request::Resize { size, .. } => format!("resize {}x{}", size.cols(), size.rows()),
            Request::Signal(signal) => format!("signal {}", signal.as_str()),
            Request::Nudge { nudge, .. } => format!("nudge {} {:?} {}", nudge.message, nudge.when, nudge.wait),
            Request::Respond { answer, .. } => {
                let Answer { accept, option, text, .. } = answer;
                let more = if *answer
                    == (Answer { accept: *accept, option: *option, text: text.clone(), ..Answer::default() })
                {
                    String::new()
                } else {
                    format!(
                        " {:?} {} {:?} {:?} {:?}",
                        answer.ask, answer.always, answer.options, answer.answers, answer.input
                    )
                };
                format!("respond {accept:?} {option:?} {text:?}{more}")
            }
            Request::Interrupt { .. } => "interrupt".to_owned(),
            Request::ResolveStop(decision) => format!("stop {decision:?}"),
            Request::CancelNudge(id) => format!("cancel {id}"),
            Request::Hook(call) => format!("hook {} {}", call.event, call.payload),
            Request::Configure(settings) => format!("configure {:?} {:?}", settings.mode, settings.model),
            Request::Lock { action, .. } => format!("lock {action:?}"),
            other => format!("{other:?}").to_lowercase(),
        })
        .collect()
}

pub(crate) async fn http(live: &Live, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request = HttpRequest::builder()
        .method(Method::from_bytes(method.as_bytes()).expect("a method"))
        .uri(path)
        .header("host", "localhost")
        .body(body)
        .expect("a request");
    let response = live.server.router().oneshot(request).await.expect("the router never fails");
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let value =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into()));
    (status, value)
}

#[tokio::test]
async fn every_http_route_asks_the_port_and_answers_as_the_seed_says() {
    let live = Live::start(None).await;
    live.fake.write(b"hello");
    let cases = [
        (
            "GET",
            "/api/v1/health",
            json!(null),
            "health",
            json!({"protocol":1,"status":"running","pid":7,"uptime_secs":3,"agent":"unknown","terminal":{"cols":200,"rows":50},"ws_clients":0,"version":"0.1.0"}),
        ),
        (
            "GET",
            "/api/v1/status",
            json!(null),
            "status",
            json!({"state":"running","pid":7,"uptime_secs":3,"exit_code":null,"exit_signal":null,"screen_seq":42,"bytes_read":10,"bytes_written":20,"ws_clients":0,"epoch":1}),
        ),
        ("GET", "/api/v1/screen/text", json!(null), "screen", json!("$ secret\n\n")),
        ("GET", "/api/v1/screen/text?scrollback=1", json!(null), "history(1)", json!("older\n$ secret\n\n")),
        (
            "GET",
            "/api/v1/output",
            json!(null),
            "",
            json!({"data":"aGVsbG8=","offset":0,"next_offset":5,"total_written":5}),
        ),
        (
            "GET",
            "/api/v1/output?offset=1&limit=3",
            json!(null),
            "",
            json!({"data":"ZWxs","offset":1,"next_offset":4,"total_written":5}),
        ),
        ("POST", "/api/v1/input", json!({"text":"hello","enter":true}), "bytes hello\\r", json!({"bytes_written":6})),
        (
            "POST",
            "/api/v1/input",
            json!({"text":"a","paste":true,"enter":true}),
            "paste a true",
            json!({"bytes_written":2}),
        ),
        (
            "POST",
            "/api/v1/input/keys",
            json!({"keys":["Escape","Enter","Ctrl-C"]}),
            "keys [\"Escape\", \"Enter\", \"Ctrl-C\"]",
            json!({"bytes_written":3}),
        ),
        ("GET", "/api/v1/screen/dump", json!(null), "dump", json!({"data":"G2NkdW1w","offset":5,"cols":200,"rows":50})),
        ("POST", "/api/v1/resize", json!({"cols":100,"rows":40}), "resize 100x40", json!({"cols":100,"rows":40})),
        ("POST", "/api/v1/signal", json!({"signal":"SIGINT"}), "signal SIGINT", json!({"delivered":true})),
        ("POST", "/api/v1/signal", json!({"signal":"term"}), "signal SIGTERM", json!({"delivered":true})),
        ("POST", "/api/v1/restart", json!(null), "restart", json!({"delivered":true})),
        ("POST", "/api/v1/shutdown", json!(null), "shutdown", json!({"delivered":true})),
        (
            "POST",
            "/api/v1/agent/nudge",
            json!({"message":"go","when":"idle","wait":true}),
            "nudge go Idle true",
            json!({"id":"nudge-1","delivered":true,"queued":false,"confirmed_by":"a hook","attempts":1,"ms":5,"state_before":"waiting_for_input"}),
        ),
        (
            "POST",
            "/api/v1/agent/respond",
            json!({"option":2}),
            "respond None Some(2) None",
            json!({"delivered":true,"ask":"ask-1","prompt_type":"permission","via":"hook"}),
        ),
        (
            "POST",
            "/api/v1/agent/respond",
            json!({"ask":"ask-1","accept":true,"always":true}),
            "respond Some(true) None None Some(AskId(\"ask-1\")) true [] [] None",
            json!({"delivered":true,"ask":"ask-1","prompt_type":"permission","via":"hook"}),
        ),
        ("POST", "/api/v1/agent/interrupt", json!(null), "interrupt", json!({"delivered":true})),
        (
            "POST",
            "/api/v1/agent/configure",
            json!({"mode":"plan"}),
            "configure Some(\"plan\") None",
            json!({"delivered":true}),
        ),
        ("DELETE", "/api/v1/agent/nudges/nudge-2", json!(null), "cancel nudge-2", json!({"delivered":true})),
        ("POST", "/api/v1/stop/resolve", json!(null), "stop Allow", json!({"delivered":true})),
        (
            "POST",
            "/api/v1/stop/resolve",
            json!({"decision":"block","reason":"more"}),
            "stop Block(\"more\")",
            json!({"delivered":true}),
        ),
        ("GET", "/api/v1/transcripts/catchup", json!(null), "transcript", json!({"type":"user"})),
        (
            "GET",
            "/api/v1/session/usage",
            json!(null),
            "usage",
            json!({"turn":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_usd":0.0},
                   "total":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_usd":0.0},
                   "requests":2}),
        ),
    ];
    for (method, path, body, asked, answer) in cases {
        assert_eq!(http(&live, method, path, body).await, (StatusCode::OK, answer), "{method} {path}");
        assert_eq!(names(&live.fake.asked()).join(" "), asked, "{method} {path}");
    }
    for path in ["/api/v1/agent", "/api/v1/agent/state"] {
        let (status, body) = http(&live, "GET", path, json!(null)).await;
        assert_eq!(
            (status, body["state"].as_str(), body["detection_tier"].as_str()),
            (StatusCode::OK, Some("unknown"), Some("none"))
        );
        assert_eq!(body["stop_held"], true);
    }
    let (_, text) = http(&live, "GET", "/api/v1/screen", json!(null)).await;
    assert_eq!(
        (&text["lines"], &text["cursor"]["col"], &text["sequence"], &text["alt_screen"]),
        (&json!(["$ secret", ""]), &json!(8), &json!(42), &json!(false))
    );
    let (_, styled) = http(&live, "GET", "/api/v1/screen?format=styled&cursor=false", json!(null)).await;
    assert_eq!((&styled["lines"][0]["text"], styled.get("cursor")), (&json!("$ secret"), None));
    let (_, openapi) = http(&live, "GET", "/api/v1/openapi.json", json!(null)).await;
    assert_eq!(openapi["openapi"], "3.1.0");
}

#[tokio::test]
async fn the_table_of_routes_is_what_is_served() {
    let live = Live::start(None).await;
    for route in ROUTES {
        if route.path == "/api/v1/events" {
            continue; // It never ends; the SSE test below has it.
        }
        if route.path.starts_with("/api/v1/hooks/") {
            continue; // It has a token of its own; the tests of tokens have it.
        }
        let other = if route.method == "GET" { "POST" } else { "GET" };
        assert_ne!(http(&live, route.method, route.path, json!(null)).await.0, StatusCode::NOT_FOUND, "{}", route.path);
        assert_eq!(
            http(&live, other, route.path, json!(null)).await.0,
            StatusCode::METHOD_NOT_ALLOWED,
            "{}",
            route.path
        );
    }
    let (status, body) = http(&live, "GET", "/api/v1/nothing", json!(null)).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::NOT_FOUND, &json!("NOT_FOUND")));
}

/// The seed's error table, for each code: HTTP status, whether a WebSocket is told or closed, gRPC code.
const ERRORS: &[(ErrorCode, u16, Option<u16>, tonic::Code)] = &[
    (ErrorCode::NotReady, 503, Some(4503), tonic::Code::Unavailable),
    (ErrorCode::Exited, 410, None, tonic::Code::NotFound),
    (ErrorCode::WriterBusy, 409, None, tonic::Code::ResourceExhausted),
    (ErrorCode::BadRequest, 400, None, tonic::Code::InvalidArgument),
    (ErrorCode::NoDriver, 404, None, tonic::Code::Unimplemented),
    (ErrorCode::Unsupported, 501, None, tonic::Code::Unimplemented),
    (ErrorCode::AgentBusy, 409, None, tonic::Code::FailedPrecondition),
    (ErrorCode::NoPrompt, 409, None, tonic::Code::FailedPrecondition),
    (ErrorCode::AlreadyAnswered, 409, None, tonic::Code::FailedPrecondition),
    (ErrorCode::NoSuchOption, 409, None, tonic::Code::FailedPrecondition),
    (ErrorCode::Unconfirmed, 504, None, tonic::Code::DeadlineExceeded),
    (ErrorCode::Internal, 500, None, tonic::Code::Internal),
];

#[tokio::test]
async fn every_failure_has_its_code_on_every_transport() {
    for (code, status, close, grpc) in ERRORS {
        let live = Live::start(None).await;
        let mut socket = connect(&live, "mode=state").await;
        let mut client = grpc_client(&live).await;
        live.fake.fail(Some(Error::new(*code, "why")));
        let (told, body) = http(&live, "POST", "/api/v1/input", json!({"text":"x"})).await;
        assert_eq!((told.as_u16(), body), (*status, json!({"error":{"code":code.as_str(),"message":"why"}})));
        let refused = client.send_input(proto::SendInputRequest { text: "x".into(), ..Default::default() }).await;
        assert_eq!(
            refused.map(|_| ()).map_err(|status| (status.code(), status.message().to_owned())),
            Err((*grpc, "why".into()))
        );
        socket.send(Message::text(r#"{"type":"input","text":"x"}"#)).await.expect("it is open");
        match (next(&mut socket).await, close) {
            (Message::Text(text), None) => {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(message, json!({"type":"error","code":code.as_str(),"message":"why"}));
            }
            (Message::Close(Some(frame)), Some(close)) => assert_eq!(u16::from(frame.code), *close),
            (message, _) => panic!("{code}: unexpected {message:?}"),
        }
    }
}

pub(crate) type Socket = tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>;

pub(crate) async fn connect(live: &Live, query: &str) -> Socket {
    let stream = tokio::net::TcpStream::connect(&live.address).await.expect("it listens");
    let url = format!("ws://{}/ws?{query}", live.address);
    tokio_tungstenite::client_async(url, stream).await.expect("it upgrades").0
}

pub(crate) async fn next(socket: &mut Socket) -> Message {
    timeout(LIMIT, socket.next()).await.expect("in time").expect("a message").expect("no error")
}

pub(crate) async fn next_json(socket: &mut Socket) -> Value {
    match next(socket).await {
        Message::Text(text) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("not text: {other:?}"),
    }
}

#[tokio::test]
async fn every_websocket_message_asks_the_port_and_is_answered() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=state").await;
    let receipt = json!({"type":"receipt","id":"nudge-1","delivered":true,"queued":false,"confirmed_by":"a hook","attempts":1,"ms":5,"state_before":"waiting_for_input"});
    let answered = json!({"type":"answered","delivered":true,"ask":"ask-1","prompt_type":"permission","via":"hook"});
    let cases = [
        (json!({"type":"input","text":"hello\r"}), "bytes hello\\r", None),
        (
            json!({"type":"input","text":"x","id":5}),
            "bytes x",
            Some(json!({"type":"written","id":5,"bytes_written":1,"queued":0})),
        ),
        (json!({"type":"input","text":"x","enter":true}), "bytes x\\r", None),
        (json!({"type":"input","text":"x","enter":true,"paste":true}), "paste x true", None),
        (json!({"type":"input_raw","data":"aGk="}), "bytes hi", None),
        (json!({"type":"keys","keys":["Escape"]}), "keys [\"Escape\"]", None),
        (json!({"type":"resize","cols":90,"rows":30}), "resize 90x30", None),
        (json!({"type":"nudge","message":"go"}), "nudge go Now false", Some(receipt)),
        (json!({"type":"respond","accept":true}), "respond Some(true) None None", Some(answered.clone())),
        (json!({"type":"respond","option":2}), "respond None Some(2) None", Some(answered.clone())),
        (json!({"type":"respond","text":"Redis"}), "respond None None Some(\"Redis\")", Some(answered)),
        (json!({"type":"interrupt"}), "interrupt", Some(json!({"type":"done"}))),
        (json!({"type":"stop_resolve"}), "stop Allow", Some(json!({"type":"done"}))),
        (json!({"type":"signal","signal":"int"}), "signal SIGINT", Some(json!({"type":"done"}))),
        (json!({"type":"restart"}), "restart", Some(json!({"type":"done"}))),
        (json!({"type":"shutdown"}), "shutdown", Some(json!({"type":"done"}))),
        (json!({"type":"nudge_cancel","id":"nudge-2"}), "cancel nudge-2", Some(json!({"type":"done"}))),
        (json!({"type":"configure","mode":"plan"}), "configure Some(\"plan\") None", Some(json!({"type":"done"}))),
        (
            json!({"type":"transcript_request"}),
            "transcript",
            Some(json!({"type":"transcript","lines":"{\"type\":\"user\"}\n"})),
        ),
        (json!({"type":"lock","action":"acquire"}), "lock Acquire", Some(json!({"type":"lock","held":true}))),
        (json!({"type":"lock","action":"release"}), "lock Release", Some(json!({"type":"lock","held":false}))),
        (json!({"type":"auth","token":"any"}), "", Some(json!({"type":"auth","ok":true}))),
        (json!({"type":"ping"}), "", Some(json!({"type":"pong"}))),
    ];
    for (message, asked, answer) in cases {
        socket.send(Message::text(message.to_string())).await.expect("it is open");
        if let Some(answer) = answer {
            assert_eq!(next_json(&mut socket).await, answer, "{message}");
        }
        // The answer to a ping shows that what came before it is through.
        socket.send(Message::text(r#"{"type":"ping"}"#)).await.expect("it is open");
        assert_eq!(next_json(&mut socket).await, json!({"type":"pong"}), "{message}");
        assert_eq!(names(&live.fake.asked()).join(" "), asked, "{message}");
    }
    socket.send(Message::text(r#"{"type":"screen_request"}"#)).await.expect("it is open");
    let screen = next_json(&mut socket).await;
    assert_eq!(
        (&screen["type"], &screen["lines"], &screen["seq"]),
        (&json!("screen"), &json!(["$ secret", ""]), &json!(42))
    );
    for (request, kind, field) in [
        ("health_request", "health", "status"),
        ("status_request", "status", "bytes_read"),
        ("state_request", "state", "stop_held"),
        ("nudges_request", "nudges", "nudges"),
        ("asks_request", "asks", "asks"),
        ("explain_request", "explanation", "signals"),
        ("usage_request", "usage", "total"),
    ] {
        socket.send(Message::text(json!({ "type": request }).to_string())).await.expect("it is open");
        let told = next_json(&mut socket).await;
        assert_eq!((&told["type"], told.get(field).is_some()), (&json!(kind), true), "{told}");
    }
    socket.send(Message::text("not json")).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["code"], "BAD_REQUEST");
    socket.send(Message::text(r#"{"type":"resize","cols":65535,"rows":65535}"#)).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["code"], "BAD_REQUEST");
}

/// The generated code, for its client's sake the server's messages are used with tonic's generic client.
#[allow(clippy::all, dead_code, unreachable_pub, reason = "generated")]
pub(crate) mod proto {
    include!("../../src/grpc/coop.v1.rs");
}

pub(crate) async fn grpc_client(live: &Live) -> proto::coop_client::CoopClient<tonic::transport::Channel> {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", live.address)).expect("a url");
    proto::coop_client::CoopClient::new(endpoint.connect().await.expect("it listens"))
}

#[tokio::test]
async fn every_rpc_asks_the_port_and_is_answered() {
    use proto::*;
    let live = Live::start(None).await;
    let mut client = grpc_client(&live).await;
    let health = client.get_health(GetHealthRequest {}).await.expect("it answers").into_inner();
    assert_eq!(
        health,
        GetHealthResponse {
            status: "running".into(),
            pid: Some(7),
            uptime_secs: 3,
            agent: "unknown".into(),
            ws_clients: 0
        }
    );
    let screen = client
        .get_screen(GetScreenRequest { format: 1, include_cursor: true, scrollback: 0 })
        .await
        .expect("it answers")
        .into_inner();
    assert_eq!(
        (screen.lines, screen.cursor, screen.sequence),
        (vec!["$ secret".to_owned(), String::new()], Some(CursorPosition { row: 0, col: 8 }), 42)
    );
    let status = client.get_status(GetStatusRequest {}).await.expect("it answers").into_inner();
    assert_eq!((status.state.as_str(), status.bytes_read, status.bytes_written), ("running", 10, 20));
    let written = client
        .send_input(SendInputRequest { text: "hello".into(), enter: true, ..Default::default() })
        .await
        .expect("it answers")
        .into_inner();
    assert_eq!(written, SendInputResponse { bytes_written: 6, queued: 0 });
    client.send_keys(SendKeysRequest { keys: vec!["Enter".into()], writer: None }).await.expect("it answers");
    client.resize(ResizeRequest { cols: 90, rows: 30, writer: None }).await.expect("it answers");
    client.send_signal(SendSignalRequest { signal: "SIGINT".into() }).await.expect("it answers");
    let state = client.get_agent_state(GetAgentStateRequest {}).await.expect("it answers").into_inner();
    assert_eq!((state.state.as_str(), state.detection_tier.as_str()), ("unknown", "none"));
    assert_eq!((state.name.as_str(), state.detail_json.as_str()), ("unknown", r#"{"state":"unknown"}"#));
    assert_eq!((state.queue.len(), state.stop_held), (1, true));
    client.nudge(NudgeRequest { message: "go".into(), when_idle: true, wait: false }).await.expect("it answers");
    client
        .respond(RespondRequest { accept: Some(false), text: Some("no".into()), ..RespondRequest::default() })
        .await
        .expect("it answers");
    assert_eq!(
        names(&live.fake.asked()),
        [
            "health",
            "screen",
            "status",
            "bytes hello\\r",
            "keys [\"Enter\"]",
            "resize 90x30",
            "signal SIGINT",
            "agentstate",
            "nudge go Idle false",
            "respond Some(false) None Some(\"no\")"
        ]
    );
    let explained = client.explain(ExplainRequest {}).await.expect("it answers").into_inner();
    assert_eq!((explained.state.as_str(), explained.signals.len()), ("waiting_for_input", 1));
    let asks = client.list_asks(ListAsksRequest {}).await.expect("it answers").into_inner();
    assert_eq!(asks.asks_json.len(), 1);
    client.cancel_nudge(CancelNudgeRequest { id: "nudge-2".into() }).await.expect("it answers");
    client.interrupt(InterruptRequest {}).await.expect("it answers");
    client.resolve_stop(ResolveStopRequest { block: true, reason: "more".into() }).await.expect("it answers");
    let lines = client.get_transcript(GetTranscriptRequest {}).await.expect("it answers").into_inner().lines;
    assert_eq!(lines, &b"{\"type\":\"user\"}\n"[..]);
    assert_eq!(client.get_usage(GetUsageRequest {}).await.expect("it answers").into_inner().requests, 2);
    client.shutdown(ShutdownRequest {}).await.expect("it answers");
    assert_eq!(
        names(&live.fake.asked()),
        ["explain", "asks", "cancel nudge-2", "interrupt", "stop Block(\"more\")", "transcript", "usage", "shutdown"]
    );
    let wrong = client
        .resize(ResizeRequest { cols: 65535, rows: 65535, writer: None })
        .await
        .map(|_| ())
        .map_err(|status| status.code());
    assert_eq!(wrong, Err(tonic::Code::InvalidArgument));

    let mut output =
        client.stream_output(StreamOutputRequest { from_offset: 0 }).await.expect("it answers").into_inner();
    let mut screens = client.stream_screen(StreamScreenRequest {}).await.expect("it answers").into_inner();
    let mut states = client.stream_state(StreamStateRequest {}).await.expect("it answers").into_inner();
    assert_eq!(
        timeout(LIMIT, screens.message()).await.expect("in time").expect("no error").expect("a screen").sequence,
        42
    );
    live.fake.write(b"hello");
    let chunk = timeout(LIMIT, output.message()).await.expect("in time").expect("no error").expect("a chunk");
    assert_eq!((&chunk.data[..], chunk.offset, chunk.gap_from), (&b"hello"[..], 0, None));
    live.fake.exit(3);
    let event = timeout(LIMIT, states.message()).await.expect("in time").expect("no error").expect("an event");
    assert_eq!((event.prev.as_str(), event.next.as_str()), ("unknown", "exited"));
    // Streams of output end with the child.
    assert_eq!(timeout(LIMIT, output.message()).await.expect("in time").expect("no error"), None);
    let mut late = client.stream_output(StreamOutputRequest { from_offset: 1 }).await.expect("it answers").into_inner();
    let chunk = timeout(LIMIT, late.message()).await.expect("in time").expect("no error").expect("a chunk");
    assert_eq!(&chunk.data[..], b"ello");
    assert_eq!(timeout(LIMIT, late.message()).await.expect("in time").expect("no error"), None);
}

#[tokio::test]
async fn events_that_are_gone_end_a_stream_of_states() {
    use proto::*;
    let live = Live::start(None).await;
    let mut client = grpc_client(&live).await;
    let mut states = client.stream_state(StreamStateRequest {}).await.expect("it answers").into_inner();
    for _ in 0..3 {
        live.fake.happen(coop_api::EventBody::Lifecycle(coop_api::Lifecycle::Stopping));
    }
    live.fake.forget_event();
    live.fake.forget_event();
    let end = timeout(LIMIT, states.message()).await.expect("in time").expect_err("something is lost");
    assert_eq!((end.code(), end.message()), (tonic::Code::DataLoss, "the events 1 to 2 are no longer kept"));
}

#[tokio::test]
async fn events_are_streamed_and_replayed_by_number() {
    let live = Live::start(None).await;
    live.fake.exit(0);
    let request = HttpRequest::builder()
        .uri("/api/v1/events?after=0")
        .header("host", "localhost")
        .header("last-event-id", "1")
        .body(Body::empty())
        .expect("a request");
    let response = live.server.router().oneshot(request).await.expect("the router never fails");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let frame = timeout(LIMIT, body.frame()).await.expect("in time").expect("a frame").expect("no error");
    let text = String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text");
    assert_eq!(
        text,
        "id: 2\nevent: lifecycle\ndata: {\"seq\":2,\"id\":\"fake-2\",\"ts\":\"2026-01-01T00:00:00.000Z\",\"agent\":\"fake\",\"run\":1,\
         \"offset\":0,\"body\":{\"kind\":\"lifecycle\",\"what\":\"exited\",\"code\":0,\"signal\":null}}\n\n"
    );
}

#[tokio::test]
async fn a_last_event_that_is_no_number_is_refused() {
    let live = Live::start(None).await;
    let request = HttpRequest::builder().uri("/api/v1/events").header("host", "localhost").header("last-event-id", "x");
    let request = request.body(Body::empty()).expect("a request");
    let response = live.server.router().oneshot(request).await.expect("the router never fails");
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn sizes_and_signals_are_checked_before_the_port_is_asked() {
    let live = Live::start(None).await;
    for (path, body) in [
        ("/api/v1/resize", json!({"cols":65535,"rows":65535})),
        ("/api/v1/resize", json!({"cols":1,"rows":10})),
        ("/api/v1/resize", json!({"cols":80,"rows":0})),
        ("/api/v1/resize", json!({"cols":80})),
        ("/api/v1/signal", json!({"signal":"SIGNOPE"})),
        ("/api/v1/input", json!({"txt":"a"})),
        ("/api/v1/input", json!([])),
        ("/api/v1/input/keys", json!({"keys":"Enter"})),
        ("/api/v1/input", json!(null)),
    ] {
        let (status, answer) = http(&live, "POST", path, body.clone()).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!("BAD_REQUEST")),
            "{path} {body}"
        );
    }
    for path in [
        "/api/v1/screen?format=html",
        "/api/v1/output?offset=-1",
        "/api/v1/output?offset=99",
        "/api/v1/screen?cursor=maybe",
    ] {
        assert_eq!(http(&live, "GET", path, json!(null)).await.0, StatusCode::BAD_REQUEST, "{path}");
    }
    assert!(names(&live.fake.asked()).is_empty());
}
