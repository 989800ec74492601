//! The daemon's own routes over gRPC. What only the engine can say comes as JSON within the messages.
//!
//! An agent's own service, `coop.v1.Coop`, is on its sidecar's socket.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use coop_api::{AgentId, Error};
use futures_util::{Stream, stream};
use serde_json::Value;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::events::Follower;
use super::routes::BY;
use super::types::SpawnBody;
use super::{Fleet, FleetRequest, Hub};
use crate::error::status;
use proto::fleet_server::{Fleet as Rpc, FleetServer};
use proto::*;

#[expect(unreachable_pub, reason = "generated")]
#[rustfmt::skip]
mod proto {
    include!("../grpc/coop.fleet.v1.rs");
}

const DESCRIPTOR: &[u8] = include_bytes!("../grpc/fleet.bin");

/// Tells whether an RPC only looks; what is not known to look steers.
pub(super) fn only_looks(path: &str) -> bool {
    const LOOKING: [&str; 6] = ["ListAgents", "GetAgent", "ListOpenAsks", "ListDecisions", "GetStats", "StreamFleet"];
    let looks = path.strip_prefix("/coop.fleet.v1.Fleet/").is_some_and(|method| LOOKING.contains(&method));
    looks || path.starts_with("/grpc.reflection.v1.ServerReflection/")
}

pub(super) fn router<F: Fleet>(hub: &Arc<Hub<F>>) -> Router {
    let mut routes = Routes::new(FleetServer::new(Service(Arc::clone(hub))));
    let reflection = tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTOR);
    // The descriptor is part of the program, and a test lists the service through it.
    if let Ok(reflection) = reflection.build_v1() {
        routes = routes.add_service(reflection);
    }
    routes.into_axum_router()
}

struct Service<F>(Arc<Hub<F>>);

type Answer<T> = Result<Response<T>, Status>;

impl<F: Fleet> Service<F> {
    async fn ask(&self, request: FleetRequest, metadata: &MetadataMap) -> Result<Value, Status> {
        let by = metadata.get(BY).and_then(|name| name.to_str().ok()).filter(|name| !name.is_empty());
        self.0.fleet.call(request, by.unwrap_or("somebody")).await.map_err(status)
    }

    /// Asks for something that is answered with an agent's id.
    async fn id(&self, request: FleetRequest, metadata: &MetadataMap) -> Result<String, Status> {
        Ok(text(&self.ask(request, metadata).await?["id"]))
    }
}

#[tonic::async_trait]
impl<F: Fleet> Rpc for Service<F> {
    type StreamFleetStream = Pin<Box<dyn Stream<Item = Result<FleetEvent, Status>> + Send>>;

    async fn list_agents(&self, request: Request<ListAgentsRequest>) -> Answer<ListAgentsResponse> {
        let listed = self.ask(FleetRequest::List, request.metadata()).await?;
        Ok(Response::new(ListAgentsResponse { agents: items(&listed["agents"]).iter().map(agent).collect() }))
    }

    async fn get_agent(&self, request: Request<GetAgentRequest>) -> Answer<FleetAgent> {
        let id = AgentId(request.get_ref().id.clone());
        Ok(Response::new(agent(&self.ask(FleetRequest::Show(id), request.metadata()).await?)))
    }

    async fn spawn_agent(&self, request: Request<SpawnAgentRequest>) -> Answer<SpawnAgentResponse> {
        let (metadata, _, body) = request.into_parts();
        let SpawnAgentRequest { definition, name, folder, id, prompt } = body;
        let body = SpawnBody { definition, name, folder, id: id.map(AgentId), prompt };
        let id = self.id(FleetRequest::Spawn(Box::new(body)), &metadata).await?;
        Ok(Response::new(SpawnAgentResponse { id }))
    }

    async fn dismiss_agent(&self, request: Request<DismissAgentRequest>) -> Answer<DismissAgentResponse> {
        let id = AgentId(request.get_ref().id.clone());
        let id = self.id(FleetRequest::Dismiss(id), request.metadata()).await?;
        Ok(Response::new(DismissAgentResponse { id }))
    }

    async fn revive_agent(&self, request: Request<ReviveAgentRequest>) -> Answer<ReviveAgentResponse> {
        let id = AgentId(request.get_ref().id.clone());
        let id = self.id(FleetRequest::Revive(id), request.metadata()).await?;
        Ok(Response::new(ReviveAgentResponse { id }))
    }

    async fn list_open_asks(&self, request: Request<ListOpenAsksRequest>) -> Answer<ListOpenAsksResponse> {
        let listed = self.ask(FleetRequest::Asks, request.metadata()).await?;
        let open = |open: &Value| OpenAsk {
            agent: text(&open["agent"]),
            id: text(&open["ask"]["id"]),
            kind: text(&open["ask"]["kind"]),
            json: open.to_string(),
        };
        Ok(Response::new(ListOpenAsksResponse { asks: items(&listed["asks"]).iter().map(open).collect() }))
    }

    async fn list_decisions(&self, request: Request<ListDecisionsRequest>) -> Answer<ListDecisionsResponse> {
        let listed = self.ask(FleetRequest::Audit { most: None }, request.metadata()).await?;
        let json = items(&listed["decisions"]).iter().map(Value::to_string).collect();
        Ok(Response::new(ListDecisionsResponse { json }))
    }

    async fn get_stats(&self, request: Request<GetStatsRequest>) -> Answer<GetStatsResponse> {
        let stats = self.ask(FleetRequest::Stats, request.metadata()).await?;
        Ok(Response::new(GetStatsResponse { json: stats.to_string() }))
    }

    async fn stream_fleet(&self, request: Request<StreamFleetRequest>) -> Answer<Self::StreamFleetStream> {
        let follower = Follower::new(Arc::clone(&self.0), request.get_ref().after);
        let events = stream::unfold(follower, async |mut follower| {
            let entry = follower.next().await?;
            let id = entry["id"].as_u64().unwrap_or_default();
            let event = FleetEvent { id, agent: text(&entry["agent"]), json: entry.to_string() };
            Some((Ok(event), follower))
        });
        Ok(Response::new(Box::pin(events)))
    }
}

fn agent(card: &Value) -> FleetAgent {
    FleetAgent {
        id: text(&card["id"]),
        phase: text(&card["phase"]),
        outcome: card["outcome"]["outcome"].as_str().map(str::to_owned),
        needs: card["needs"].as_str().map(str::to_owned),
        asks: items(&card["asks"]).iter().map(text).collect(),
        run: card["run"].as_u64().and_then(|run| u32::try_from(run).ok()).unwrap_or_default(),
        turn: card["turn"].as_u64().unwrap_or_default(),
        last_message: card["last_message"].as_str().map(str::to_owned),
        json: card.to_string(),
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a refusal as gRPC has it.
pub(super) fn refusal(error: Error) -> axum::response::Response {
    status(error).into_http()
}
