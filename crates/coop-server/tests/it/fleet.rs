//! The daemon's routes, over a fleet that only remembers what it was asked.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request as HttpRequest;
use axum::{Json, Router};
use coop_api::{AgentId, Error, ErrorCode, Token};
use coop_server::fleet::{Fleet, FleetRequest, FleetServer, ROUTES, Way};
use coop_server::mcp::ToolCall;
use coop_server::workspaces::{Caller, Telling, WorkspaceRequest, Workspaces};
use coop_server::{Config, Listener, Recorded};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tower::ServiceExt;

use crate::fake::LIMIT;

#[allow(clippy::all, unreachable_pub, reason = "generated")]
#[rustfmt::skip]
mod proto {
    include!("../../src/grpc/coop.fleet.v1.rs");
}

#[derive(Clone, Default)]
struct Fake {
    asked: Arc<Mutex<Vec<(String, String)>>>,
    newest: watch::Sender<u64>,
    /// What its one agent answers to everything, if there is one.
    agent: Option<Value>,
    /// Whether nothing can be written down.
    is_lost: bool,
    /// Whether the agent has ended.
    has_ended: bool,
    /// Who tells of workspaces, if anybody does.
    tells: Option<broadcast::Sender<Telling>>,
}

impl Fleet for Fake {
    async fn call(&self, request: FleetRequest, by: &str) -> Result<Value, Error> {
        self.asked.lock().expect("no panic").push((format!("{request:?}"), by.to_owned()));
        let card = json!({
            "id": "fixer", "phase": "asking", "outcome": null, "needs": "it asks", "asks": ["a1"], "run": 1, "turn": 2
        });
        let entry = |id: u64| json!({ "id": id, "agent": "fixer", "at": 5, "input": { "what": "idle" } });
        match request {
            FleetRequest::Decided(..) | FleetRequest::Queued(_) if self.is_lost => {
                Err(Error::new(ErrorCode::NotReady, "the store cannot be reached"))
            }
            FleetRequest::List => Ok(json!({ "agents": [card] })),
            FleetRequest::Show(AgentId(id)) if id == "nobody" => {
                Err(Error::new(ErrorCode::NotFound, "there is no agent nobody"))
            }
            FleetRequest::Show(_) => Ok(card),
            FleetRequest::Spawn(body) => Ok(json!({ "id": body.name })),
            FleetRequest::Dismiss(id) | FleetRequest::Revive(id) => Ok(json!({ "id": id })),
            FleetRequest::Asks => {
                Ok(json!({ "asks": [{ "agent": "fixer", "ask": { "id": "a1", "kind": "permission" } }] }))
            }
            FleetRequest::Audit { .. } => Ok(json!({ "decisions": [{ "agent": "fixer", "accept": false }] })),
            // Something happens all the time.
            FleetRequest::News { after, .. } => {
                Ok(json!({ "entries": [entry(after + 1)], "agents": [], "asks": [], "newest": after + 1 }))
            }
            FleetRequest::Log { after, .. } => Ok((after + 1..=*self.newest.borrow()).map(entry).collect()),
            _ => Ok(json!({ "newest": 0 })),
        }
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    async fn way(&self, _: &AgentId) -> Result<Way, Error> {
        let answer = self.agent.clone().ok_or_else(|| Error::internal("there are no sidecars"))?;
        Ok(Way::Here(Router::new().fallback(async move || Json(answer))))
    }

    async fn ended(&self, agent: &AgentId) -> Option<Error> {
        self.has_ended.then(|| Error::new(ErrorCode::Exited, format!("{agent} has ended")))
    }

    async fn recording(&self, agent: &AgentId) -> Result<Recorded, Error> {
        Err(Error::new(ErrorCode::NotFound, format!("there is no recording of {agent}")))
    }
}

impl Workspaces for Fake {
    async fn ask(&self, _: WorkspaceRequest, _: &str) -> Result<Value, Error> {
        Err(Error::internal("there are no workspaces"))
    }

    fn tellings(&self) -> broadcast::Receiver<Telling> {
        self.tells.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe)
    }

    async fn caller(&self, _: &str) -> Option<Caller> {
        None
    }

    async fn tool(&self, _: &Caller, _: ToolCall) -> Result<Value, Error> {
        Err(Error::internal("there are no tools"))
    }
}

type Client = proto::fleet_client::FleetClient<tonic::transport::Channel>;

async fn live(fake: &Fake, token: Option<&str>) -> (FleetServer<Fake>, Client) {
    let token = token.map(|token| Token::new(token).expect("a token"));
    let server = FleetServer::new(fake.clone(), Config { token, ..Config::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    server.listen(Listener::Tcp(listener));
    let endpoint = tonic::transport::Endpoint::new(format!("http://{address}")).expect("an address").timeout(LIMIT);
    (server, Client::new(endpoint.connect().await.expect("it listens")))
}

#[tokio::test]
async fn grpc_asks_the_same_as_http() {
    use proto::*;
    let fake = Fake::default();
    fake.newest.send_replace(2);
    let (_server, mut client) = live(&fake, None).await;
    let agents = client.list_agents(ListAgentsRequest {}).await.expect("listed").into_inner().agents;
    let FleetAgent { id, phase, needs, asks, run, turn, .. } = agents[0].clone();
    assert_eq!((id, phase, needs), ("fixer".to_owned(), "asking".to_owned(), Some("it asks".to_owned())));
    assert_eq!((asks, run, turn), (vec!["a1".to_owned()], 1, 2));
    let shown = client.get_agent(GetAgentRequest { id: "fix".to_owned() }).await.expect("shown").into_inner();
    assert_eq!(shown, agents[0]);
    let nobody = client.get_agent(GetAgentRequest { id: "nobody".to_owned() }).await.expect_err("there is none");
    assert_eq!((nobody.code(), nobody.message()), (tonic::Code::NotFound, "there is no agent nobody"));
    let body = SpawnAgentRequest {
        name: "new".to_owned(),
        folder: "/x".to_owned(),
        prompt: Some("Begin.".to_owned()),
        ..SpawnAgentRequest::default()
    };
    let mut spawn = tonic::Request::new(body);
    spawn.metadata_mut().insert("x-coop-by", "ann".parse().expect("a name"));
    assert_eq!(client.spawn_agent(spawn).await.expect("spawned").into_inner().id, "new");
    let (asked, by) = fake.asked.lock().expect("no panic").last().cloned().expect("it was asked");
    assert!(asked.contains("folder: \"/x\"") && by == "ann", "{asked} {by}");
    assert!(asked.contains("prompt: Some(\"Begin.\")"), "{asked}");
    let dismissed = client.dismiss_agent(DismissAgentRequest { id: "a".to_owned() }).await.expect("done").into_inner();
    let revived = client.revive_agent(ReviveAgentRequest { id: "b".to_owned() }).await.expect("done").into_inner();
    assert_eq!((dismissed.id, revived.id), ("a".to_owned(), "b".to_owned()));
    let open = client.list_open_asks(ListOpenAsksRequest {}).await.expect("listed").into_inner().asks;
    assert_eq!((open[0].agent.as_str(), open[0].id.as_str(), open[0].kind.as_str()), ("fixer", "a1", "permission"));
    let decisions = client.list_decisions(ListDecisionsRequest {}).await.expect("listed").into_inner().json;
    assert_eq!(decisions, [r#"{"accept":false,"agent":"fixer"}"#]);
    let stats = client.get_stats(GetStatsRequest {}).await.expect("counted").into_inner().json;
    assert_eq!(stats, r#"{"newest":0}"#);
    // What happened, and then what happens.
    let stream = client.stream_fleet(StreamFleetRequest { after: Some(1) }).await.expect("followed");
    let mut stream = stream.into_inner();
    assert_eq!(stream.message().await.expect("an event").expect("an event").id, 2);
    fake.newest.send_replace(3);
    let event = stream.message().await.expect("an event").expect("an event");
    assert_eq!((event.id, event.agent.as_str()), (3, "fixer"));
}

async fn told(fake: &Fake, path: &str, body: &str) -> (u16, Value) {
    let server = FleetServer::new(fake.clone(), Config::default());
    let request = HttpRequest::post(format!("/api/v1/agents/fixer/{path}")).header("host", "localhost");
    let request = request.header("content-type", "application/json").body(Body::from(body.to_owned()));
    let response = server.router().oneshot(request.expect("a request")).await.expect("the router never fails");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&body).expect("JSON"))
}

/// An answer was told as if it were kept, while the store was lost and nobody would ever know whose it was.
#[tokio::test]
async fn what_is_not_written_down_is_not_told_as_if_it_were() {
    let fake = Fake { agent: Some(json!({ "delivered": true })), ..Fake::default() };
    let yes = r#"{"ask": "ask-1", "accept": true}"#;
    assert_eq!(told(&fake, "agent/respond", yes).await, (200, json!({ "delivered": true })));
    let lost = Fake { is_lost: true, ..fake.clone() };
    assert_eq!(told(&lost, "agent/respond", yes).await, (200, json!({ "delivered": true, "noted": false })));
    assert_eq!(told(&lost, "agent/nudge", "{}").await, (200, json!({ "delivered": true })), "that is kept");
}

/// The guard judges the path as it is written, and the sidecar gets it without escapes.
#[tokio::test]
async fn an_escape_in_the_path_to_an_agent_is_refused() {
    let fake = Fake { agent: Some(json!({})), ..Fake::default() };
    for path in ["%63hanges", "changes%3Fx", "agent%2Frespond"] {
        let (status, refused) = told(&fake, path, "").await;
        assert_eq!((status, &refused["error"]["code"]), (400, &"BAD_REQUEST".into()), "{path}: {refused}");
    }
    assert_eq!(told(&fake, "agent/explain?token=%41", "").await.0, 200, "a query may have one");
}

#[tokio::test]
async fn a_message_that_waits_is_told_of_as_one_and_none_is_taken_for_an_agent_that_has_ended() {
    let fake = Fake { agent: Some(json!({ "delivered": false, "queued": true })), ..Fake::default() };
    assert_eq!(told(&fake, "agent/nudge", "{}").await.0, 200);
    let (asked, _) = fake.asked.lock().expect("no panic").last().cloned().expect("it was told");
    assert_eq!(asked, r#"Queued(AgentId("fixer"))"#);
    let ended = Fake { has_ended: true, ..fake.clone() };
    let (status, refused) = told(&ended, "agent/nudge", "{}").await;
    assert_eq!((status, &refused["error"]["code"]), (410, &"EXITED".into()), "{refused}");
    assert_eq!(told(&ended, "agent/explain", "").await.0, 200, "whoever looks may");
}

/// While events came faster than they were sent, nothing else was: neither what happens to workspaces nor the end.
#[tokio::test]
async fn what_happens_to_workspaces_is_told_also_while_events_never_end() {
    let (tells, _kept) = broadcast::channel(16);
    let fake = Fake { tells: Some(tells.clone()), ..Fake::default() };
    let server = FleetServer::new(fake, Config::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    server.listen(Listener::Tcp(listener));
    let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let url = format!("ws://{address}/api/v1/ws");
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.expect("it upgrades");
    let mut events = 0;
    let told = async {
        while let Some(message) = socket.next().await {
            let message = message.expect("a message").into_text().expect("text").to_string();
            let message: Value = serde_json::from_str(&message).expect("JSON");
            match message["type"].as_str() {
                Some("entry") => events += 1,
                Some("workspace:status-changed") => return message,
                _ => {}
            }
            if events == 100 {
                let data = Arc::new(json!({ "name": "fix" }));
                tells.send(Telling { name: "workspace:status-changed", data }).expect("somebody listens");
            }
        }
        panic!("it ended")
    };
    let told = tokio::time::timeout(LIMIT, told).await.expect("in time");
    assert_eq!(told["data"]["name"], "fix");
}

/// Returns the path of every RPC.
fn rpcs() -> Vec<String> {
    let descriptor = &include_bytes!("../../src/grpc/fleet.bin")[..];
    let files = prost_types::FileDescriptorSet::decode(descriptor).expect("a descriptor").file;
    let methods = files[0].service[0].method.iter();
    methods.map(|method| format!("/coop.fleet.v1.Fleet/{}", method.name())).collect()
}

#[tokio::test]
async fn no_route_and_no_rpc_of_a_fleet_answers_without_the_token() {
    let fake = Fake::default();
    let (server, _) = live(&fake, Some("s3cret")).await;
    let ask = async |request: axum::http::request::Builder| {
        let request = request.header("host", "localhost").body(Body::empty()).expect("a request");
        let response = server.router().oneshot(request).await.expect("the router never fails");
        let (head, body) = response.into_parts();
        (head, body.collect().await.expect("a body").to_bytes())
    };
    for route in ROUTES.iter().filter(|route| route.path != "/api/v1/ws") {
        let (head, _) = ask(HttpRequest::builder().method(route.method).uri(route.path)).await;
        assert_eq!(head.status, 401, "{}", route.path);
    }
    assert_eq!(rpcs().len(), 9);
    for rpc in rpcs() {
        let request = HttpRequest::post(&rpc).header("content-type", "application/grpc");
        let (head, _) = ask(request).await;
        assert_eq!(head.headers.get("grpc-status").map(|code| code.as_bytes()), Some(&b"16"[..]), "{rpc}");
    }
    assert!(fake.asked.lock().expect("no panic").is_empty(), "nobody was asked");
}
