//! `WS /events`: what is kept, then what is new, one frame each. The socket stays open when a run ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::time::timeout;

use super::Shim;
use super::host::Host;
use crate::serve::Place;

/// A client that takes nothing for so long is cut off; when it is back it gets what is kept.
const PATIENCE: Duration = Duration::from_secs(30);
/// It takes events too slowly: what it has not had is kept no longer.
const TOO_SLOW: u16 = 4008;
/// Clients have nothing to say.
const READ_BUFFER: usize = 4 * 1024;

pub(crate) async fn upgrade<H: Host>(
    State(shim): State<Arc<Shim<H>>>,
    place: Option<Extension<Place>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => {
            upgrade.max_message_size(READ_BUFFER).read_buffer_size(READ_BUFFER).on_upgrade(move |socket| async move {
                serve(&shim, socket).await;
                drop(place);
            })
        }
        Err(error) => {
            let detail = format!("this is a WebSocket: {}", error.body_text());
            (StatusCode::UPGRADE_REQUIRED, Json(json!({ "detail": detail }))).into_response()
        }
    }
}

async fn serve<H: Host>(shim: &Shim<H>, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let mut pulse = shim.journal.pulse();
    let mut cursor = None;
    let writer = async {
        loop {
            let is_last = shim.shutdown.is_cancelled();
            pulse.borrow_and_update();
            let page = shim.journal.after(cursor);
            if page.missed > 0 {
                let reason = format!("{} events came faster than they were taken; connect again", page.missed);
                let close = CloseFrame { code: TOO_SLOW, reason: reason.into() };
                // It may not take this either.
                let _ = timeout(PATIENCE, sink.send(Message::Close(Some(close)))).await;
                return;
            }
            for frame in page.frames {
                match timeout(PATIENCE, sink.send(Message::Text(frame))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
            cursor = Some(page.end);
            shim.journal.sent(page.end);
            if is_last {
                let close = CloseFrame { code: close_code::AWAY, reason: "the shim ends".into() };
                let _ = timeout(PATIENCE, sink.send(Message::Close(Some(close)))).await;
                return;
            }
            tokio::select! {
                // Itself a part of the shim, it does not go before it.
                _ = pulse.changed() => {}
                () = shim.shutdown.cancelled() => {}
            }
        }
    };
    // Pings are answered while it is read.
    let reader = async { while let Some(Ok(_)) = stream.next().await {} };
    tokio::select! {
        () = writer => {}
        () = reader => {}
    }
}
