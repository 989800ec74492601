//! The API over HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use super::Cluster;
use super::store::{Place, Refusal};

pub(super) fn router(cluster: Cluster) -> Router {
    Router::new().fallback(answer).with_state(cluster)
}

async fn answer(
    State(cluster): State<Cluster>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    let place = match Place::parse(uri.path()) {
        Ok(place) => place,
        Err(refusal) => return refused(&refusal),
    };
    let is_watch = matches!(query.get("watch").map(String::as_str), Some("true" | "1"));
    let verb = if is_watch { "WATCH" } else { method.as_str() };
    *cluster.lock().calls.entry(format!("{verb} {}", place.word())).or_default() += 1;
    let labels = query.get("labelSelector").cloned().unwrap_or_default();
    if is_watch {
        let since = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        let lines = Body::from_stream(watch(cluster, place, labels, since));
        return ([(header::CONTENT_TYPE, "application/json")], lines).into_response();
    }
    let object: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match method {
        Method::GET if place.name.is_empty() => {
            let store = cluster.lock();
            let metadata = json!({ "resourceVersion": store.version().to_string() });
            Ok(
                json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": store.list(&place, &labels) }),
            )
        }
        Method::GET => cluster.lock().get(&place),
        Method::POST => cluster.change(|store| store.create(&place, object)),
        Method::PUT => cluster.change(|store| store.replace(&place, &object)),
        Method::PATCH => cluster.change(|store| store.patch(&place, &object)),
        Method::DELETE => cluster.change(|store| store.delete(&place, &object)),
        _ => return StatusCode::METHOD_NOT_ALLOWED.into_response(),
    };
    match result {
        Ok(object) => axum::Json(object).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) -> Response {
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::BAD_REQUEST);
    (code, axum::Json(refusal.status())).into_response()
}

/// Tells every change after a number, a line each, for as long as somebody listens.
fn watch(cluster: Cluster, place: Place, labels: String, since: u64) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let versions = cluster.version.subscribe();
    stream::unfold(Some((cluster, versions, since)), move |state| {
        let (place, labels) = (place.clone(), labels.clone());
        async move {
            let (cluster, mut versions, mut since) = state?;
            loop {
                versions.borrow_and_update();
                let (news, version) = {
                    let store = cluster.lock();
                    (store.since(&place, &labels, since), store.version())
                };
                match news {
                    Ok(events) if events.is_empty() => since = version,
                    Ok(events) => {
                        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
                        return Some((Ok(lines.into()), Some((cluster, versions, version))));
                    }
                    Err(refusal) => {
                        let last = json!({ "type": "ERROR", "object": refusal.status() });
                        return Some((Ok(format!("{last}\n").into()), None));
                    }
                }
                versions.changed().await.ok()?;
            }
        }
    })
}
