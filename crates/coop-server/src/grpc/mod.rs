//! gRPC: the same operations as over HTTP.

mod agent;
mod calls;
mod stream;
mod terminal;

use std::sync::Arc;

use axum::Router;
use coop_api::Agents;
use tonic::service::Routes;

use self::proto::coop_server::CoopServer;
use crate::app::App;

#[expect(clippy::all, unreachable_pub, reason = "generated")]
#[rustfmt::skip]
pub(crate) mod proto {
    include!("coop.v1.rs");
}

const DESCRIPTOR: &[u8] = include_bytes!("descriptor.bin");

pub(crate) fn router<A: Agents>(app: &Arc<App<A>>) -> Router {
    let mut routes = Routes::new(CoopServer::new(Service(Arc::clone(app))));
    let (reporter, health) = tonic_health::server::health_reporter();
    // The service answers as long as the process does; whether the child runs is told by GetHealth.
    let serving = reporter.clone();
    tokio::spawn(async move { serving.set_serving::<CoopServer<Service<A>>>().await });
    routes = routes.add_service(health);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    // Both descriptor sets are part of the program, and a test lists the services through them.
    if let Ok(reflection) = reflection.build_v1() {
        routes = routes.add_service(reflection);
    }
    routes.into_axum_router()
}

pub(crate) struct Service<A>(Arc<App<A>>);
