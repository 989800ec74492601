//! What is new.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use coop_api::{Agents, Offset};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::message::{Telling, frame, text};
use super::{patiently, reason};
use crate::app::App;
use crate::error::mapping;
use crate::follow::Follower;

/// A client that takes nothing for this long is cut off.
pub(crate) const SEND_LIMIT: Duration = Duration::from_secs(30);
/// The close code for a server that goes away.
pub(crate) const GOING_AWAY: u16 = 1001;

/// What the reader wants the writer to do.
pub(super) enum Order {
    Send(Message),
    Replay(Offset),
    Close(u16, String),
}

pub(super) async fn run<A: Agents>(
    app: Arc<App<A>>,
    mut sink: SplitSink<WebSocket, Message>,
    mut orders: mpsc::Receiver<Order>,
    mut follower: Follower<A>,
    telling: Telling,
) {
    loop {
        let message = tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Send(message)) => message,
                Some(Order::Replay(offset)) => match follower.replay(offset) {
                    Ok(()) => continue,
                    Err(error) => text(&error.into()),
                },
                Some(Order::Close(code, why)) => return say_goodbye(sink, &app.shutdown, code, &why).await,
                None => return,
            },
            item = follower.next() => match item {
                Ok(Some(item)) => match frame(&item, telling) {
                    Some(message) => message,
                    None => continue,
                },
                Ok(None) => {
                    let is_ending = app.shutdown.is_cancelled();
                    let why = if is_ending { "coop is shutting down" } else { "the session is over" };
                    return say_goodbye(sink, &app.shutdown, GOING_AWAY, why).await;
                }
                Err(error) => {
                    let code = mapping(error.code).close.unwrap_or(GOING_AWAY);
                    return say_goodbye(sink, &app.shutdown, code, &error.message).await;
                }
            },
        };
        if !matches!(timeout(SEND_LIMIT, sink.send(message)).await, Ok(Ok(()))) {
            return;
        }
    }
}

pub(crate) async fn say_goodbye(
    mut sink: SplitSink<WebSocket, Message>,
    shutdown: &CancellationToken,
    code: u16,
    why: &str,
) {
    let frame = CloseFrame { code, reason: reason(why).to_owned().into() };
    // The client may be gone already, or stuck.
    patiently(shutdown, sink.send(Message::Close(Some(frame)))).await;
}
