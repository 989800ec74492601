//! What happens to all agents, as server-sent events: the number as `id`, the entry as `data`. What happens to workspaces comes
//! between, with a name as `event` and without a number: it is not kept.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use coop_api::Error;
use futures_util::Stream;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::routes::Shared;
use super::{Fleet, FleetRequest, Hub};
use crate::body::Params;
use crate::error::Failure;

/// Often enough for every proxy, seldom enough to cost nothing.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// What is told to who was too slow for what is told of workspaces.
pub(super) const LAGGED: &str = "workspace:lagged";
/// Entries that are read at a time.
pub(super) const PAGE: u32 = 256;

#[derive(Deserialize)]
pub(super) struct EventParams {
    pub(super) after: Option<u64>,
}

/// A cursor in what happens.
pub(super) struct Follower<F> {
    hub: Arc<Hub<F>>,
    newest: watch::Receiver<u64>,
    after: u64,
    page: std::vec::IntoIter<Value>,
}

pub(super) async fn stream<F: Fleet>(
    State(hub): Shared<F>,
    headers: HeaderMap,
    Params(params): Params<EventParams>,
) -> Result<Sse<impl Stream<Item = Result<Frame, Infallible>>>, Failure> {
    // What a browser sends when it connects again.
    let last = headers.get("last-event-id").map(|id| id.to_str().ok().and_then(|id| id.parse().ok()));
    if last == Some(None) {
        return Err(Error::bad_request("Last-Event-ID is not an event's number").into());
    }
    let tellings = hub.fleet.tellings();
    let follower = Follower::new(hub, last.flatten().or(params.after));
    let frames = stream::unfold((follower, tellings), async |(mut follower, mut tellings)| {
        let frame = tokio::select! {
            entry = follower.next() => {
                let entry = entry?;
                Frame::default().id(follower.after.to_string()).data(entry.to_string())
            }
            telling = tellings.recv() => match telling {
                Ok(telling) => Frame::default().event(telling.name).data(telling.data.to_string()),
                Err(RecvError::Lagged(missed)) => {
                    Frame::default().event(LAGGED).data(json!({ "missed": missed }).to_string())
                }
                Err(RecvError::Closed) => return None,
            },
        };
        Some((Ok(frame), (follower, tellings)))
    });
    Ok(Sse::new(frames).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl<F: Fleet> Follower<F> {
    /// Stands after a number, or after all that has happened.
    pub(super) fn new(hub: Arc<Hub<F>>, after: Option<u64>) -> Self {
        let newest = hub.fleet.newest();
        let after = after.unwrap_or(*newest.borrow());
        Self { hub, newest, after, page: Vec::new().into_iter() }
    }

    /// Waits for the next entry. There is none any more when the daemon ends.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(entry) = self.page.next() {
                self.after = entry["id"].as_u64()?;
                return Some(entry);
            }
            self.newest.borrow_and_update();
            let request = FleetRequest::Log { agent: None, after: self.after, most: PAGE };
            let Value::Array(page) = self.hub.fleet.call(request, "").await.ok()? else { return None };
            if page.is_empty() {
                tokio::select! {
                    changed = self.newest.changed() => changed.ok()?,
                    () = self.hub.shutdown.cancelled() => return None,
                }
            }
            self.page = page.into_iter();
        }
    }
}
