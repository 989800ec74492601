//! How long streams of events last, on each transport.

use axum::body::Body;
use axum::http::Request as HttpRequest;
use http_body_util::BodyExt;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tonic::Streaming;
use tower::ServiceExt;

use crate::fake::{LIMIT, Live};
use crate::transports::proto::{AgentEvent, AgentStateEvent, StreamEventsRequest, StreamStateRequest};
use crate::transports::{Socket, connect, grpc_client, next};

struct Streams {
    sse: Body,
    socket: Socket,
    events: Streaming<AgentEvent>,
    states: Streaming<AgentStateEvent>,
}

impl Streams {
    async fn open(live: &Live) -> Self {
        let request = HttpRequest::builder().uri("/api/v1/events").header("host", "localhost");
        let request = request.body(Body::empty()).expect("a request");
        let sse = live.server.router().oneshot(request).await.expect("the router never fails").into_body();
        let mut client = grpc_client(live).await;
        Self {
            sse,
            socket: connect(live, "mode=state").await,
            events: client.stream_events(StreamEventsRequest { after: None }).await.expect("it answers").into_inner(),
            states: client.stream_state(StreamStateRequest {}).await.expect("it answers").into_inner(),
        }
    }

    /// Waits until each stream of all events has told this.
    async fn tell(&mut self, sse: &str, socket: &str, event: &str) {
        let told = async {
            loop {
                let frame = self.sse.frame().await.expect("it goes on").expect("no error");
                if String::from_utf8_lossy(frame.data_ref().expect("data")).contains(sse) {
                    break;
                }
            }
            while !matches!(next(&mut self.socket).await, Message::Text(text) if text.contains(socket)) {}
            while !self.events.message().await.expect("no error").expect("it goes on").json.contains(event) {}
        };
        timeout(LIMIT, told).await.expect("in time");
    }
}

/// gRPC's streams of events did not agree: one ended with the child, the other never. All others go on, since a sidecar
/// that lingers may start the child again.
#[tokio::test]
async fn an_exit_ends_no_stream_of_events_and_the_end_of_coop_ends_all() {
    let live = Live::start(None).await;
    let mut streams = Streams::open(&live).await;
    live.fake.exit(3);
    streams.tell(r#""what":"exited""#, r#""type":"exit""#, r#""what":"exited""#).await;
    let state = timeout(LIMIT, streams.states.message()).await.expect("in time").expect("no error").expect("a state");
    assert_eq!(state.next, "exited");
    // One that is opened now waits for what comes, too.
    let mut late = Streams::open(&live).await;
    live.fake.start_again(8);
    for streams in [&mut streams, &mut late] {
        streams.tell(r#""what":"started""#, r#""type":"started""#, r#""what":"started""#).await;
    }
    live.fake.exit(0);
    for streams in [&mut streams, &mut late] {
        streams.tell(r#""what":"exited""#, r#""type":"exit""#, r#""what":"exited""#).await;
        let state = timeout(LIMIT, streams.states.message()).await.expect("in time").expect("no error");
        assert_eq!(state.expect("a state").next, "exited");
    }
    let ended = async |mut streams: Streams| {
        assert!(streams.sse.frame().await.is_none());
        assert!(
            matches!(next(&mut streams.socket).await, Message::Close(Some(frame)) if u16::from(frame.code) == 1001)
        );
        assert_eq!(streams.events.message().await.expect("no error"), None);
        assert_eq!(streams.states.message().await.expect("no error"), None);
    };
    let all = async { tokio::join!(live.server.shut_down(LIMIT), ended(streams), ended(late)) };
    timeout(LIMIT, all).await.expect("in time");
}
