//! Messages over a WebSocket on a Unix socket.

use coop_drivers::Say;
use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::{News, Pauses};
use crate::agent_files::AgentFiles;

/// A message larger than this is none.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

pub(super) async fn keep(path: String, files: AgentFiles, mut said: mpsc::Receiver<Say>, tell: mpsc::Sender<News>) {
    let mut pauses = Pauses::new();
    loop {
        if let Ok(stream) = files.connect(path.as_ref()).await {
            match use_up(stream, &mut said, &tell).await {
                None => return,
                Some(true) => pauses = Pauses::broke(),
                Some(false) => {}
            }
        }
        if pauses.wait(&tell).await.is_none() {
            return;
        }
    }
}

/// Carries messages until the link breaks. Returns whether there was one; nothing once nobody wants it any more.
async fn use_up(stream: UnixStream, said: &mut mpsc::Receiver<Say>, tell: &mpsc::Sender<News>) -> Option<bool> {
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let opened = tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config)).await;
    let Ok((mut socket, _)) = opened else { return Some(false) };
    tell.send(News::Up).await.ok()?;
    loop {
        let broken = tokio::select! {
            what = said.recv() => match what? {
                Say::Message(message) => socket.send(Message::text(message.to_string())).await.is_err(),
                what @ (Say::Call(_) | Say::Serve(_) | Say::Show(_)) => {
                    tracing::error!(?what, "this link carries only messages");
                    false
                }
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    match serde_json::from_str(&text) {
                        Ok(value) => tell.send(News::Message(value)).await.ok()?,
                        Err(error) => tracing::warn!(%error, "the agent's protocol said what is no JSON"),
                    }
                    false
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => true,
                Some(Ok(_)) => false,
            },
        };
        if broken {
            return tell.send(News::Down).await.ok().map(|()| true);
        }
    }
}
