//! `WS /events`: what is kept, then what is new, one frame each. The socket stays open when a run ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
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
    let mut cursor = 0;
    let writer = async {
        loop {
            pulse.borrow_and_update();
            let (frames, end) = shim.journal.after(cursor);
            for frame in frames {
                match timeout(PATIENCE, sink.send(Message::Text(frame))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
            cursor = end;
            shim.journal.sent(end);
            if pulse.changed().await.is_err() {
                return;
            }
        }
    };
    // Pings are answered while it is read.
    let reader = async { while let Some(Ok(_)) = stream.next().await {} };
    tokio::select! {
        () = writer => {}
        () = reader => {}
        () = shim.shutdown.cancelled() => {}
    }
}
