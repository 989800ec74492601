//! Every request parser: a route, a query and a body over HTTP, a gRPC frame, a WebSocket message.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::http::Request as HttpRequest;
use coop_api::{AgentId, Agents, Error, Feed, Offset, Pulse, Read, Reply, Request, Seq, Size, Tap};
use coop_server::{Config, ROUTES, Server};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tower::ServiceExt;

const RPCS: &[&str] = &[
    "GetHealth",
    "GetScreen",
    "GetDump",
    "GetStatus",
    "SendInput",
    "SendKeys",
    "Lock",
    "Resize",
    "SendSignal",
    "Restart",
    "Shutdown",
    "StreamOutput",
    "StreamScreen",
    "GetAgentState",
    "Explain",
    "Nudge",
    "ListNudges",
    "CancelNudge",
    "ListAsks",
    "Respond",
    "Interrupt",
    "Configure",
    "ResolveStop",
    "GetTranscript",
    "GetUsage",
    "StreamState",
    "StreamEvents",
];

struct NoAgents;

struct EmptyTap;

impl Tap for EmptyTap {
    fn read(&self, _: Offset) -> Read {
        Read::UpToDate
    }

    fn range(&self) -> (Offset, Offset) {
        (Offset(0), Offset(0))
    }
}

impl Agents for NoAgents {
    fn list(&self) -> Vec<AgentId> {
        vec![AgentId("none".into())]
    }

    async fn call(&self, _: &AgentId, _: Request) -> Result<Reply, Error> {
        Err(Error::internal("there is no agent"))
    }

    fn feed(&self, _: &AgentId) -> Result<Feed, Error> {
        let zero = Seq(0);
        let pulse = Pulse { written: Offset(0), screen: zero, events: zero, size: Size::DEFAULT, ended: true };
        Ok(Feed { pulse: watch::channel(pulse).1, tap: Arc::new(EmptyTap) })
    }
}

static SERVER: LazyLock<(Runtime, Router)> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let router = runtime.block_on(async { Server::new(NoAgents, Config::default()).router() });
    (runtime, router)
});

/// Parses a request: the first byte chooses the parser.
pub fn fuzz_requests(data: &[u8]) {
    let [which, rest @ ..] = data else { return };
    let (runtime, router) = &*SERVER;
    let which = usize::from(*which);
    let request = match which.checked_sub(ROUTES.len()) {
        None => {
            let route = ROUTES[which];
            let (query, body) = rest.split_at(rest.iter().position(|byte| *byte == b'\n').unwrap_or(0));
            let query: String = String::from_utf8_lossy(query).chars().filter(char::is_ascii_graphic).collect();
            let uri = format!("{}?{query}", route.path);
            HttpRequest::builder()
                .method(route.method)
                .uri(uri)
                .header("host", "localhost")
                .body(Body::from(body.to_vec()))
        }
        Some(n) if n < RPCS.len() => {
            let uri = format!("/coop.v1.Coop/{}", RPCS[n]);
            let mut frame = vec![0];
            frame.extend((rest.len() as u32).to_be_bytes());
            frame.extend(rest);
            let request = HttpRequest::builder().method("POST").uri(uri).header("host", "localhost");
            request.header("content-type", "application/grpc").header("te", "trailers").body(Body::from(frame))
        }
        Some(_) => {
            coop_server::parse_client_message(&String::from_utf8_lossy(rest));
            return;
        }
    };
    let Ok(request) = request else { return };
    runtime.block_on(async {
        let response = router.clone().oneshot(request).await.expect("the router never fails");
        assert!(response.status().as_u16() < 600);
    });
}
