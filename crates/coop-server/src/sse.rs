//! Events as server-sent events: the number as `id`, the kind as `event`, the event itself as `data`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use coop_api::{Agents, Error, Event, Seq};
use futures_util::Stream;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::body::Params;
use crate::error::Failure;
use crate::follow::{Follower, Item, Wants};

/// Often enough for every proxy, seldom enough to cost nothing.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
pub(crate) struct EventParams {
    after: Option<Seq>,
}

pub(crate) async fn events<A: Agents>(
    State(app): State<Arc<App<A>>>,
    headers: HeaderMap,
    Params(params): Params<EventParams>,
) -> Result<Sse<impl Stream<Item = Result<Frame, Infallible>>>, Failure> {
    // What a browser sends when it connects again.
    let last = headers.get("last-event-id").map(|id| id.to_str().ok().and_then(|id| id.parse().ok()).map(Seq));
    if last == Some(None) {
        return Err(Error::bad_request("Last-Event-ID is not an event's number").into());
    }
    let wants = Wants { output: None, screen: false, events: true };
    let follower = Follower::new(&app, wants, last.flatten().or(params.after))?;
    let frames = stream::unfold(follower, async |mut follower| {
        let frame = match follower.next().await {
            Ok(Some(Item::Event(event))) => frame(&event),
            Ok(Some(Item::Lagged { from, to })) => {
                Frame::default().event("lagged").data(json!({ "from": from, "to": to }).to_string())
            }
            Ok(Some(Item::Output { .. } | Item::Gap { .. } | Item::Resync(_) | Item::Screen(_))) => {
                Frame::default().comment("not an event")
            }
            Ok(None) | Err(_) => return None,
        };
        Some((Ok(frame), follower))
    });
    Ok(Sse::new(frames).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn frame(event: &Event) -> Frame {
    let data = serde_json::to_string(event).unwrap_or_default();
    Frame::default().id(event.seq.to_string()).event(event.body.kind()).data(data)
}
