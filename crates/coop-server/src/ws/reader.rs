//! What a client wants.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use coop_api::{Agents, Error, History, Input, Request, Signal, WriterId};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite;

use super::Sender;
use super::message::{screen_text, text};
use super::writer::Order;
use crate::app::App;
use crate::body::is_object;
use crate::error::mapping;
use crate::wire::{AsksBody, ClientMessage, HealthBody, NudgesBody, ServerMessage, StatusBody, from_base64, typed};

/// A client silent for this long is asked whether it still lives; silent for as long again, it is taken for dead.
const PING_AFTER: Duration = Duration::from_secs(30);

pub(super) async fn run<A: Agents>(
    app: Arc<App<A>>,
    stream: &mut SplitStream<WebSocket>,
    orders: mpsc::Sender<Order>,
    writer: WriterId,
    sender: &Sender<'_>,
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
        let (mut id, mut needs_child) = (None, true);
        let order = match message {
            Message::Text(json) if !is_object(json.as_bytes()) => {
                Err(Error::bad_request("the message must be a JSON object, such as {\"type\":\"ping\"}"))
            }
            Message::Text(json) => match serde_json::from_str(&json) {
                Ok(message) => {
                    id = ClientMessage::id(&message);
                    needs_child = ClientMessage::needs_child(&message);
                    match sender.admit(&app.config, &message).await {
                        Ok(()) => handle(&app, message, writer).await,
                        Err(error) => Err(error),
                    }
                }
                Err(error) => {
                    id = serde_json::from_str(&json).ok().and_then(|message: Value| message["id"].as_u64());
                    Err(Error::bad_request(format!("the message is not one of docs/WEBSOCKET.md: {error}")))
                }
            },
            Message::Binary(bytes) => match sender.check_may_steer(&app.config).await {
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
            // Without a child there is nothing to stay for; that something else is not ready is no reason to go.
            Err(error) => match mapping(error.code).close.filter(|_| needs_child) {
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

async fn handle<A: Agents>(app: &App<A>, message: ClientMessage, writer: WriterId) -> Result<Option<Order>, Error> {
    let request = match message {
        ClientMessage::Input { text, enter, paste, id } => {
            return write(app, writer, typed(text, enter, paste), id).await;
        }
        ClientMessage::InputRaw { data, id } => return write(app, writer, Input::Bytes(from_base64(&data)?), id).await,
        ClientMessage::Keys { keys, id } => return write(app, writer, Input::Keys(keys), id).await,
        ClientMessage::Lock { action } => {
            app.call(Request::Lock { writer, action }).await?;
            return say(ServerMessage::Lock { held: action == coop_api::LockAction::Acquire });
        }
        ClientMessage::Resize(size) => {
            app.call(Request::Resize { writer, size }).await?;
            return Ok(None);
        }
        ClientMessage::HealthRequest {} => {
            return say(ServerMessage::Health(HealthBody::new(app.health().await?, app.ws_clients())));
        }
        ClientMessage::StatusRequest {} => {
            return say(ServerMessage::Status(StatusBody::new(app.status().await?, app.ws_clients())));
        }
        ClientMessage::ScreenRequest { scrollback: 0 } => {
            let screen = app.screen().await?;
            return Ok(Some(Order::Send(Message::Text(screen_text(&screen)))));
        }
        ClientMessage::ScreenRequest { scrollback } => {
            let History { lines, screen } = app.history(scrollback).await?;
            return say(ServerMessage::screen(&screen, &lines));
        }
        ClientMessage::Replay { offset } => return Ok(Some(Order::Replay(offset))),
        ClientMessage::StateRequest {} => {
            return say(ServerMessage::State(Box::new(app.agent_body().await?)));
        }
        ClientMessage::ExplainRequest {} => return say(ServerMessage::Explanation(app.explain().await?)),
        ClientMessage::Nudge(nudge) => return say(ServerMessage::Receipt(app.nudge(writer, nudge.into()).await?)),
        ClientMessage::NudgesRequest {} => {
            return say(ServerMessage::Nudges(NudgesBody { nudges: app.agent_state().await?.queue }));
        }
        ClientMessage::AsksRequest {} => return say(ServerMessage::Asks(AsksBody { asks: app.asks().await? })),
        ClientMessage::Respond(answer) => return say(ServerMessage::Answered(app.respond(writer, answer).await?)),
        ClientMessage::TranscriptRequest {} => {
            // JSON is UTF-8; only the line that is just being written may be cut within a character.
            let lines = String::from_utf8_lossy(&app.transcript().await?).into_owned();
            return say(ServerMessage::Transcript { lines });
        }
        ClientMessage::UsageRequest {} => return say(ServerMessage::Usage(app.usage().await?)),
        // It has been let in already.
        ClientMessage::Auth { .. } => return say(ServerMessage::Auth { ok: true }),
        ClientMessage::Ping {} => return say(ServerMessage::Pong),
        ClientMessage::Pong {} => return Ok(None),
        ClientMessage::Signal(body) => Request::Signal(Signal::parse(&body.signal)?),
        ClientMessage::Restart {} => Request::Restart,
        ClientMessage::Shutdown {} => Request::Shutdown,
        ClientMessage::NudgeCancel { id } => Request::CancelNudge(id),
        ClientMessage::Interrupt {} => Request::Interrupt { writer },
        ClientMessage::Configure(settings) => Request::Configure(settings),
        ClientMessage::StopResolve(body) => Request::ResolveStop(body.into()),
    };
    app.call(request).await?;
    say(ServerMessage::Done)
}

fn say(message: ServerMessage) -> Result<Option<Order>, Error> {
    Ok(Some(Order::Send(text(&message))))
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
