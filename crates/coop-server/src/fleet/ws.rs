//! What happens to all agents, over a WebSocket. It takes no orders.
//!
//! ```text
//! {"type":"snapshot","newest":N,"agents":[…],"asks":[…]}      first: everything as it is at number N
//! {"type":"entry","id":M,"agent":…,"at":…,"input":…}          each that happened after the cursor, once, in order
//! {"type":"agent","newest":M,"agent":{…},"asks":[…]}          after them: each agent that they were about, as it is at M
//! {"type":"lagged","through":M}                               before them: up to M some are gone, with their agents
//! {"type":"workspace:status-changed","data":{…}}              between them: what happens to workspaces, as on the event stream
//! ```
//!
//! The cursor is `after`, or N without it. The snapshot is as new as can be in either case, so that entries up to N which
//! a client missed come after it: they tell what happened, and the snapshot what is.

use std::future::ready;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use coop_api::Error;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::events::{EventParams, LAGGED, PAGE};
use super::routes::Shared;
use super::{Fleet, FleetRequest, Hub};
use crate::body::Params;
use crate::error::Failure;
use crate::peer::Peer;
use crate::serve::Place;
use crate::workspaces::Telling;
use crate::ws::{BEFORE_AUTH, GOING_AWAY, Pass, READ_BUFFER, SEND_LIMIT, close, patiently, say_goodbye, text};

/// The most that a client may say: there is nothing to say but a token.
const MOST: usize = BEFORE_AUTH as usize;
/// Refusals that may wait for a client that does not read.
const REFUSALS: usize = 4;

pub(super) async fn upgrade<F: Fleet>(
    State(hub): Shared<F>,
    uri: Uri,
    headers: HeaderMap,
    place: Option<Extension<Place>>,
    Extension(peer): Extension<Arc<Peer>>,
    Params(params): Params<EventParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| Error::bad_request(format!("this is a WebSocket: {}", error.body_text())))?;
    let pass = Pass::of(&uri, &headers, &hub.config, &peer).await;
    let upgrade = upgrade.max_message_size(MOST).max_frame_size(MOST).read_buffer_size(READ_BUFFER);
    Ok(upgrade.on_upgrade(move |socket| async move {
        serve(&hub, socket, params.after, pass).await;
        drop(place);
    }))
}

async fn serve<F: Fleet>(hub: &Hub<F>, mut socket: WebSocket, after: Option<u64>, pass: Pass) {
    let verdict = tokio::select! {
        verdict = pass.redeem(&hub.config, &mut socket) => verdict,
        () = hub.shutdown.cancelled() => return,
    };
    if let Err(error) = verdict {
        return close(socket, &error).await;
    }
    let (sink, mut stream) = socket.split();
    let (refusals, waiting) = mpsc::channel(REFUSALS);
    tokio::select! {
        () = listen(&mut stream, refusals) => {}
        () = tell(hub, sink, waiting, after) => {
            // The client gets the time to close its side, so that what it has not read yet is not taken back.
            patiently(&hub.shutdown, async { while let Some(Ok(_)) = stream.next().await {} }).await;
        }
    }
}

/// Hears when the client goes, and that it says what nobody takes.
async fn listen(stream: &mut SplitStream<WebSocket>, refusals: mpsc::Sender<Message>) {
    while let Some(Ok(message)) = stream.next().await {
        if let Message::Text(_) | Message::Binary(_) = message {
            let error = Error::bad_request("this WebSocket only tells; agents have their own, and HTTP takes orders");
            if refusals.send(text(&error.into())).await.is_err() {
                return;
            }
        }
    }
}

async fn tell<F: Fleet>(
    hub: &Hub<F>,
    mut sink: SplitSink<WebSocket, Message>,
    mut refusals: mpsc::Receiver<Message>,
    after: Option<u64>,
) {
    let mut newest = hub.fleet.newest();
    newest.borrow_and_update();
    // From before the snapshot on, so that nothing is missed in between.
    let mut tellings = hub.fleet.tellings();
    let mut snapshot = match hub.fleet.call(FleetRequest::Snapshot, "").await {
        Ok(snapshot) => snapshot,
        Err(error) => return say_goodbye(sink, &hub.shutdown, GOING_AWAY, &error.message).await,
    };
    let mut told_gone = 0;
    let mut after = after.or(snapshot["newest"].as_u64()).unwrap_or_default();
    snapshot["type"] = "snapshot".into();
    if !send(&mut sink, snapshot).await {
        return;
    }
    loop {
        newest.borrow_and_update();
        let mut news = match hub.fleet.call(FleetRequest::News { after, most: PAGE }, "").await {
            Ok(news) => news,
            Err(error) => return say_goodbye(sink, &hub.shutdown, GOING_AWAY, &error.message).await,
        };
        if let Some(through) = news["gone_through"].as_u64().filter(|through| *through > told_gone) {
            told_gone = through;
            if !send(&mut sink, json!({ "type": "lagged", "through": through })).await {
                return;
            }
        }
        let Value::Array(entries) = news["entries"].take() else { return };
        let is_all = entries.is_empty();
        for mut entry in entries {
            after = entry["id"].as_u64().unwrap_or(after);
            entry["type"] = "entry".into();
            if !send(&mut sink, entry).await {
                return;
            }
        }
        for card in changed(news) {
            if !send(&mut sink, card).await {
                return;
            }
        }
        // Which of several goes on is left to chance, so that nothing waits for ever behind what never ends.
        loop {
            tokio::select! {
                () = ready(()), if !is_all => break,
                changed = newest.changed(), if is_all => match changed {
                    Ok(()) => break,
                    Err(_) => return say_goodbye(sink, &hub.shutdown, GOING_AWAY, "the fleet has ended").await,
                },
                telling = tellings.recv() => match told(telling) {
                    None => return say_goodbye(sink, &hub.shutdown, GOING_AWAY, "the fleet has ended").await,
                    Some(telling) => if !send(&mut sink, telling).await {
                        return;
                    },
                },
                Some(refusal) = refusals.recv() => if !put(&mut sink, refusal).await {
                    return;
                },
                () = hub.shutdown.cancelled() => {
                    return say_goodbye(sink, &hub.shutdown, GOING_AWAY, "coop is shutting down").await;
                }
            }
        }
    }
}

/// Returns what is told of workspaces as a message. Who was too slow for some of it is told so; nothing follows the end.
fn told(telling: Result<Telling, RecvError>) -> Option<Value> {
    let (event, data) = match telling {
        Ok(telling) => (telling.name, (*telling.data).clone()),
        Err(RecvError::Lagged(missed)) => (LAGGED, json!({ "missed": missed })),
        Err(RecvError::Closed) => return None,
    };
    Some(json!({ "type": event, "data": data }))
}

/// Returns a message for each agent that something happened to.
fn changed(mut news: Value) -> Vec<Value> {
    let newest = news["newest"].take();
    let asks = news["asks"].take();
    let asks = asks.as_array().map(Vec::as_slice).unwrap_or_default();
    let Value::Array(cards) = news["agents"].take() else { return Vec::new() };
    let message = |card: Value| {
        let own: Vec<_> = asks.iter().filter(|open| open["agent"] == card["id"]).map(|open| &open["ask"]).collect();
        json!({ "type": "agent", "newest": newest, "asks": own, "agent": card })
    };
    cards.into_iter().map(message).collect()
}

async fn send(sink: &mut SplitSink<WebSocket, Message>, message: Value) -> bool {
    put(sink, Message::Text(message.to_string().into())).await
}

/// A client that takes nothing for long is cut off.
async fn put(sink: &mut SplitSink<WebSocket, Message>, message: Message) -> bool {
    matches!(timeout(SEND_LIMIT, sink.send(message)).await, Ok(Ok(())))
}
