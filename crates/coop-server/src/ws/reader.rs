//! What a client wants.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use coop_api::{Agents, Error, Input, Request, WriterId};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite;

use super::message::text;
use super::writer::Order;
use crate::app::App;
use crate::body::is_object;
use crate::error::mapping;
use crate::peer::Peer;
use crate::wire::{AsksBody, ClientMessage, ServerMessage, from_base64};

/// A client silent for this long is asked whether it still lives; silent for as long again, it is taken for dead.
const PING_AFTER: Duration = Duration::from_secs(30);

pub(super) async fn run<A: Agents>(
    app: Arc<App<A>>,
    stream: &mut SplitStream<WebSocket>,
    orders: mpsc::Sender<Order>,
    writer: WriterId,
    peer: &Peer,
) {
    let mut asked = false;
    let mut deadline = Instant::now() + PING_AFTER;
    loop {
        let message = match timeout_at(deadline, stream.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) => return refuse(error, &orders).await,
            Ok(None) => return,
            Err(_) if asked => return,
            Err(_) => {
                asked = true;
                deadline = Instant::now() + PING_AFTER;
                // A writer that is stuck will not send it; then nothing comes back, and we go.
                let _ = orders.try_send(Order::Send(Message::Ping(Default::default())));
                continue;
            }
        };
        asked = false;
        deadline = Instant::now() + PING_AFTER;
        let mut id = None;
        let order = match message {
            Message::Text(json) if !is_object(json.as_bytes()) => {
                Err(Error::bad_request("the message must be a JSON object, such as {\"type\":\"ping\"}"))
            }
            Message::Text(json) => match serde_json::from_str(&json) {
                Ok(message) => {
                    id = ClientMessage::id(&message);
                    match admit(&app, &message, peer).await {
                        Ok(()) => handle(&app, message, writer).await,
                        Err(error) => Err(error),
                    }
                }
                Err(error) => {
                    id = serde_json::from_str(&json).ok().and_then(|message: Value| message["id"].as_u64());
                    Err(Error::bad_request(format!("the message is not one of docs/WEBSOCKET.md: {error}")))
                }
            },
            Message::Binary(bytes) => match peer.check_may_steer(&app.config).await {
                Ok(()) => write(&app, writer, Input::Bytes(bytes), None).await,
                Err(error) => Err(error),
            },
            // Reading on sends the answer to it, and then there is nothing more.
            Message::Close(_) => continue,
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let order = match order {
            Ok(Some(order)) => order,
            Ok(None) => continue,
            Err(error) => match mapping(error.code).close {
                Some(code) => Order::Close(code, error.message),
                None => Order::Send(text(&ServerMessage::failed(error, id))),
            },
        };
        if orders.send(order).await.is_err() {
            return;
        }
    }
}

/// Tells a client that broke the protocol so, and waits until it is told.
async fn refuse(error: axum::Error, orders: &mpsc::Sender<Order>) {
    let inner = error.into_inner();
    let code = match inner.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Protocol(_)) => 1002,
        Some(tungstenite::Error::Utf8(_)) => 1007,
        Some(tungstenite::Error::Capacity(_)) => 1009,
        // The connection is gone.
        _ => return,
    };
    let told = async {
        let _ = orders.send(Order::Close(code, inner.to_string())).await;
        orders.closed().await;
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
}

/// Lets a message through that only looks, or whose sender may do more.
async fn admit<A: Agents>(app: &App<A>, message: &ClientMessage, peer: &Peer) -> Result<(), Error> {
    if message.only_looks() { Ok(()) } else { peer.check_may_steer(&app.config).await }
}

async fn handle<A: Agents>(app: &App<A>, message: ClientMessage, writer: WriterId) -> Result<Option<Order>, Error> {
    let answer = match message {
        ClientMessage::Input { text, id } => return write(app, writer, Input::Bytes(text.into()), id).await,
        ClientMessage::InputRaw { data, id } => return write(app, writer, Input::Bytes(from_base64(&data)?), id).await,
        ClientMessage::Keys { keys, id } => return write(app, writer, Input::Keys(keys), id).await,
        ClientMessage::Resize(size) => {
            app.call(Request::Resize(size)).await?;
            return Ok(None);
        }
        ClientMessage::ScreenRequest {} => {
            let screen = app.screen().await?;
            return Ok(Some(Order::Send(Message::Text(super::message::screen_text(&screen)))));
        }
        ClientMessage::StateRequest {} => ServerMessage::State(Box::new(app.agent_state().await?.into())),
        ClientMessage::Nudge(nudge) => ServerMessage::Receipt(app.nudge(writer, nudge.into()).await?),
        ClientMessage::Respond(answer) => ServerMessage::Answered(app.respond(writer, answer).await?),
        ClientMessage::Interrupt {} => {
            app.call(Request::Interrupt { writer }).await?;
            ServerMessage::Done
        }
        ClientMessage::StopResolve(body) => {
            app.call(Request::ResolveStop(body.into())).await?;
            ServerMessage::Done
        }
        ClientMessage::AsksRequest {} => ServerMessage::Asks(AsksBody { asks: app.asks().await? }),
        ClientMessage::ExplainRequest {} => ServerMessage::Explanation(app.explain().await?),
        ClientMessage::UsageRequest {} => ServerMessage::Usage(app.usage().await?),
        ClientMessage::Replay { offset } => return Ok(Some(Order::Replay(offset))),
        ClientMessage::Lock { action } => {
            app.call(Request::Lock { writer, action }).await?;
            ServerMessage::Lock { held: action == coop_api::LockAction::Acquire }
        }
        // It has been let in already.
        ClientMessage::Auth { .. } => ServerMessage::Auth { ok: true },
        ClientMessage::Ping {} => ServerMessage::Pong,
        ClientMessage::Pong {} => return Ok(None),
    };
    Ok(Some(Order::Send(text(&answer))))
}

async fn write<A: Agents>(
    app: &App<A>,
    writer: WriterId,
    input: Input,
    id: Option<u64>,
) -> Result<Option<Order>, Error> {
    let written = app.write(writer, input).await?;
    Ok(id.map(|id| {
        let message = ServerMessage::Written { id, bytes_written: written.bytes_written, queued: written.queued };
        Order::Send(text(&message))
    }))
}
