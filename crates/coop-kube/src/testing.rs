//! Clients of an API server in this process, which fails when it is told to.

use axum::body::Body;
use coop_sim::cluster::Cluster;
use hyper::{Request, Response, StatusCode};
use kube::Client;
use serde_json::json;
use tower::ServiceExt;

use crate::trouble::Troubles;
use crate::way::Reached;

/// What becomes of a request.
pub(crate) enum Fate {
    Answer,
    /// It is never answered.
    Silence,
    /// It is refused with this code.
    Refuse(u16),
    /// Whoever asks panics.
    Panic,
}

pub(crate) fn client(cluster: &Cluster) -> Client {
    client_with(cluster, |_| Fate::Answer)
}

pub(crate) fn client_with(
    cluster: &Cluster,
    fate: impl Fn(&Request<kube::client::Body>) -> Fate + Send + 'static,
) -> Client {
    let router = cluster.router();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (router, fate) = (router.clone(), fate(&request));
        async move {
            match fate {
                Fate::Answer => router.oneshot(request.map(Body::new)).await,
                Fate::Silence => std::future::pending().await,
                Fate::Refuse(code) => {
                    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": "no", "reason": "", "code": code });
                    let mut refused = Response::new(Body::from(status.to_string()));
                    *refused.status_mut() = StatusCode::from_u16(code).expect("a code");
                    Ok(refused)
                }
                Fate::Panic => panic!("this is a test of a panic"),
            }
        }
    });
    Client::new(service, "team")
}

pub(crate) fn reached(client: Client) -> Reached {
    Reached { client, troubles: Troubles::at("https://cluster") }
}
