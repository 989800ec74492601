//! The WebSocket's streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coop_api::{AgentState, Error, ErrorCode, EventBody, Evidence, EvidenceSource, Lifecycle, Seq, Size, StateChange};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::fake::{LIMIT, Live};
use crate::transports::{connect, next, next_json};

#[tokio::test]
async fn output_comes_in_order_as_json_and_as_binary() {
    let live = Live::start(None).await;
    live.fake.write(b"before");
    let mut text = connect(&live, "mode=raw").await;
    let mut binary = connect(&live, "mode=raw&binary=1&offset=2").await;
    assert_eq!(next(&mut binary).await, Message::binary([&2_u64.to_be_bytes()[..], b"fore"].concat()));
    live.fake.write(b"after");
    assert_eq!(next(&mut binary).await, Message::binary([&6_u64.to_be_bytes()[..], b"after"].concat()));
    assert_eq!(next_json(&mut text).await, json!({"type":"output","data":"YWZ0ZXI=","offset":6}));
    text.send(Message::text(r#"{"type":"replay","offset":0}"#)).await.expect("it is open");
    assert_eq!(next_json(&mut text).await, json!({"type":"output","data":"YmVmb3Jl","offset":0}));
    assert_eq!(next_json(&mut text).await, json!({"type":"output","data":"YWZ0ZXI=","offset":6}));
}

#[tokio::test]
async fn an_error_names_the_input_that_failed() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=state").await;
    let mut ask = async |message: &str| {
        socket.send(Message::text(message)).await.expect("it is open");
        let answer = next_json(&mut socket).await;
        (answer["code"].clone(), answer["id"].clone())
    };
    let bad = json!("BAD_REQUEST");
    assert_eq!(ask(r#"{"type":"input_raw","data":"?","id":7}"#).await, (bad.clone(), json!(7)));
    assert_eq!(ask(r#"{"type":"input","id":8}"#).await, (bad.clone(), json!(8)));
    // Without output there is nothing to replay.
    assert_eq!(ask(r#"{"type":"replay","offset":0}"#).await, (bad, json!(null)));
}

#[tokio::test]
async fn what_is_gone_is_told_and_a_resync_mends_it() {
    let live = Live::start(None).await;
    live.fake.write(b"one");
    live.fake.write(b"two");
    live.fake.forget();
    let mut plain = connect(&live, "mode=raw&offset=0").await;
    assert_eq!(next_json(&mut plain).await, json!({"type":"gap","from":0,"to":3}));
    assert_eq!(next_json(&mut plain).await, json!({"type":"output","data":"dHdv","offset":3}));
    let mut mended = connect(&live, "mode=raw&offset=0&resync=1").await;
    assert_eq!(next_json(&mut mended).await, json!({"type":"gap","from":0,"to":3}));
    assert_eq!(
        next_json(&mut mended).await,
        json!({"type":"resync","data":"G2NkdW1w","offset":6,"cols":200,"rows":50})
    );
    live.fake.write(b"!");
    assert_eq!(next_json(&mut mended).await, json!({"type":"output","data":"IQ==","offset":6}));
}

#[tokio::test]
async fn an_exit_follows_the_last_output() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=raw").await;
    live.fake.happen(EventBody::Lifecycle(Lifecycle::Resized { size: Size::DEFAULT }));
    assert_eq!(next_json(&mut socket).await, json!({"type":"resize","cols":200,"rows":50}));
    // So many that the server pauses between pieces to share its bandwidth: also then nothing overtakes the output.
    let mut others = Vec::new();
    for _ in 0..16 {
        others.push(connect(&live, "mode=raw").await);
    }
    const PIECE: usize = 64 * 1024;
    for _ in 0..50 {
        live.fake.write(&[b'x'; PIECE]);
    }
    live.fake.exit(3);
    let mut offsets = Vec::new();
    let state = loop {
        let message = next_json(&mut socket).await;
        match message["type"].as_str() {
            Some("output") => offsets.push(message["offset"].as_u64().expect("a number")),
            _ => break message,
        }
    };
    assert_eq!(offsets, (0..50).map(|n| n * PIECE as u64).collect::<Vec<_>>());
    let evidence = json!({"source":"process","detail":"exited"});
    assert_eq!(
        state,
        json!({"type":"state_change","prev":"unknown","next":"exited","seq":42,"event":2,"prompt":null,"evidence":evidence})
    );
    assert_eq!(next_json(&mut socket).await, json!({"type":"exit","code":3,"signal":null}));
}

/// From one tool to the next both states are `working`, and nobody could tell which tool it was.
#[tokio::test]
async fn a_change_of_the_tool_names_it() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=state").await;
    let working = |tool: Option<&str>| AgentState::Working { tool: tool.map(str::to_owned) };
    let evidence = Evidence { source: EvidenceSource::Hook, detail: "PreToolUse Bash".into() };
    for next in [working(Some("Bash")), working(None)] {
        live.fake.happen(EventBody::State(Box::new(StateChange {
            prev: working(Some("Read")),
            next,
            screen_seq: Seq(42),
            evidence: evidence.clone(),
            ask: None,
            last_message: None,
        })));
    }
    let with = next_json(&mut socket).await;
    assert_eq!((&with["prev"], &with["next"], &with["tool"]), (&json!("working"), &json!("working"), &json!("Bash")));
    assert_eq!(next_json(&mut socket).await.get("tool"), None);
}

/// Events waited until all output was sent: after what was written later, and never while a child writes without end.
#[tokio::test]
async fn an_event_comes_between_the_output_before_it_and_after_it() {
    let live = Live::start(None).await;
    live.fake.write(b"be");
    live.fake.write(b"fore");
    let resized = |cols| Lifecycle::Resized { size: Size::new(cols, 24).expect("within bounds") };
    live.fake.happen(EventBody::Lifecycle(resized(80)));
    live.fake.write(b"after");
    live.fake.happen(EventBody::Lifecycle(resized(90)));
    live.fake.happen(EventBody::Lifecycle(resized(100)));
    live.fake.write(b"last");
    let mut socket = connect(&live, "mode=raw&offset=0&after=0").await;
    let mut seen = Vec::new();
    while seen.len() < 7 {
        let message = next_json(&mut socket).await;
        seen.push(message["offset"].as_u64().or(message["cols"].as_u64()).expect("output or a size"));
    }
    assert_eq!(seen, [0, 2, 80, 6, 90, 100, 11]);
    // Also within what the ring has joined.
    live.fake.join();
    let mut socket = connect(&live, "mode=raw&offset=0&after=1").await;
    for expected in [
        json!({"type":"output","data":"YmVmb3JlYWZ0ZXI=","offset":0}),
        json!({"type":"resize","cols":90,"rows":24}),
        json!({"type":"resize","cols":100,"rows":24}),
        json!({"type":"output","data":"bGFzdA==","offset":11}),
    ] {
        assert_eq!(next_json(&mut socket).await, expected);
    }
}

/// The child's exit ends coop, and with it the server. A client that was behind lost the output it had not been sent
/// yet and the exit, because the server's end overtook them and no task that serves a WebSocket was waited for.
#[tokio::test]
async fn a_client_that_is_behind_gets_everything_before_the_server_ends() {
    let live = Live::start(None).await;
    let mut sockets = Vec::new();
    // So many that the server pauses between pieces.
    for _ in 0..8 {
        sockets.push(connect(&live, "mode=raw").await);
    }
    const PIECE: usize = 64 * 1024;
    for _ in 0..50 {
        live.fake.write(&[b'x'; PIECE]);
    }
    live.fake.exit(3);
    let done = Arc::new(AtomicUsize::new(0));
    let readers: Vec<_> = sockets
        .into_iter()
        .map(|mut socket| {
            let done = Arc::clone(&done);
            tokio::spawn(async move {
                let mut pieces = 0;
                let mut told = Vec::new();
                loop {
                    match next(&mut socket).await {
                        Message::Text(text) if text.contains(r#""type":"output""#) => pieces += 1,
                        Message::Text(text) => told.push(text.to_string()),
                        Message::Close(frame) => told.push(format!("{}", u16::from(frame.expect("a frame").code))),
                        other => panic!("unexpected {other:?}"),
                    }
                    if told.len() == 3 {
                        done.fetch_add(1, Ordering::Relaxed);
                        // Reading on answers the close.
                        assert!(socket.next().await.is_none());
                        return (pieces, told);
                    }
                }
            })
        })
        .collect();
    live.server.shut_down(LIMIT).await;
    assert_eq!(done.load(Ordering::Relaxed), readers.len(), "the server is gone before its clients have everything");
    for reader in readers {
        let (pieces, told) = reader.await.expect("no reader fails");
        assert_eq!(pieces, 50);
        assert_eq!(told[1..], [r#"{"type":"exit","code":3,"signal":null}"#, "1001"]);
    }
}

#[tokio::test]
async fn a_screen_comes_at_once_and_when_it_changes() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=screen").await;
    assert_eq!(next_json(&mut socket).await["lines"], json!(["$ secret", ""]));
    live.fake.write(b"x");
    assert_eq!(next_json(&mut socket).await["type"], "screen");
}

#[tokio::test]
async fn a_lock_goes_with_its_holder() {
    let live = Live::start(None).await;
    let mut holder = connect(&live, "mode=state").await;
    let mut other = connect(&live, "mode=state").await;
    holder.send(Message::text(r#"{"type":"lock","action":"acquire"}"#)).await.expect("it is open");
    assert_eq!(next_json(&mut holder).await, json!({"type":"lock","held":true}));
    other.send(Message::text(r#"{"type":"input","text":"x"}"#)).await.expect("it is open");
    assert_eq!(next_json(&mut other).await["code"], "WRITER_BUSY");
    drop(holder);
    // The lock is free once the server has seen the connection go.
    loop {
        other.send(Message::text(r#"{"type":"input","text":"x","id":1}"#)).await.expect("it is open");
        match next_json(&mut other).await["type"].as_str() {
            Some("written") => break,
            answer => assert_eq!(answer, Some("error")),
        }
    }
}

#[tokio::test]
async fn a_subscription_that_makes_no_sense_is_refused() {
    let live = Live::start(None).await;
    for (query, why) in [("mode=everything", "cannot be subscribed to"), ("mode=raw&offset=9", "the output ends at 0")]
    {
        let mut socket = connect(&live, query).await;
        let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it was not closed") };
        assert!(u16::from(frame.code) == 1008 && frame.reason.contains(why), "{frame:?}");
    }
    let mut socket = connect(&live, "mode=raw").await;
    socket.send(Message::text(r#"{"type":"replay","offset":9}"#)).await.expect("it is open");
    assert_eq!(next_json(&mut socket).await["code"], "BAD_REQUEST");
}

#[tokio::test]
async fn an_event_number_from_another_life_replays_everything() {
    let live = Live::start(None).await;
    live.fake.happen(EventBody::Lifecycle(Lifecycle::Started { pid: 7 }));
    let mut socket = connect(&live, "mode=state&after=4711").await;
    assert_eq!(next_json(&mut socket).await, json!({"type":"started","pid":7}));
}

/// That there is no conversation yet, or that a restart is under way, is no reason to lose the connection.
#[tokio::test]
async fn only_a_missing_child_ends_the_connection() {
    let live = Live::start(None).await;
    let mut socket = connect(&live, "mode=state").await;
    live.fake.fail(Some(Error::new(ErrorCode::NotReady, "not yet")));
    for kind in ["transcript_request", "restart"] {
        socket.send(Message::text(json!({ "type": kind }).to_string())).await.expect("it is open");
        let told = next_json(&mut socket).await;
        assert_eq!(told, json!({"type":"error","code":"NOT_READY","message":"not yet"}), "{kind}");
    }
    socket.send(Message::text(r#"{"type":"signal","signal":"SIGINT"}"#)).await.expect("it is open");
    let Message::Close(Some(frame)) = next(&mut socket).await else { panic!("it was not closed") };
    assert_eq!(u16::from(frame.code), 4503);
}

#[tokio::test]
async fn the_log_has_every_event_whole_and_in_place_of_other_messages() {
    let live = Live::start(None).await;
    live.fake.happen(EventBody::Lifecycle(Lifecycle::Started { pid: 7 }));
    live.fake.happen(EventBody::Lifecycle(Lifecycle::Exited { code: Some(3), signal: None }));
    let mut socket = connect(&live, "subscribe=log&after=1").await;
    let told = next_json(&mut socket).await;
    assert_eq!((&told["type"], &told["seq"]), (&json!("log"), &json!(2)));
    assert_eq!(told["body"], json!({"kind":"lifecycle","what":"exited","code":3,"signal":null}));
    assert!(told["id"].is_string() && told["ts"].is_string() && told["offset"].is_u64(), "{told}");
    live.fake.happen(EventBody::Lifecycle(Lifecycle::Stopping));
    assert_eq!(next_json(&mut socket).await["seq"], json!(3));
}
