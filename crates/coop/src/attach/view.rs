//! The agent's terminal as we know it from its messages.

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coop_api::Size;
use coop_term::Screen;
use serde::Deserialize;
use tokio_tungstenite::tungstenite::Message;

#[derive(Default)]
pub(super) struct View {
    screen: Option<Screen>,
}

/// What a message brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    Shown,
    Said(String),
    /// Its exit code; it may be started again.
    Exited(i32),
    Started,
    Closed(String),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FromServer {
    Resync {
        data: String,
        cols: u32,
        rows: u32,
    },
    Resize {
        cols: u32,
        rows: u32,
    },
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
    },
    Error {
        message: String,
    },
    Stopping,
    Started,
    #[serde(other)]
    Other,
}

impl View {
    pub(super) fn screen(&mut self) -> Option<&mut Screen> {
        self.screen.as_mut()
    }

    pub(super) fn take(&mut self, message: Message) -> anyhow::Result<News> {
        match message {
            Message::Binary(frame) => {
                let (Some(screen), Some(output)) = (&mut self.screen, frame.get(8..)) else { return Ok(News::Nothing) };
                screen.feed(output);
                // The sidecar answers the child's queries; we only look.
                screen.take_replies();
                Ok(News::Shown)
            }
            Message::Text(text) => self.take_message(serde_json::from_str(&text).context("a message makes no sense")?),
            Message::Close(Some(frame)) if u16::from(frame.code) == 4401 => bail!("{}", frame.reason),
            Message::Close(frame) => Ok(News::Closed(frame.map_or_else(String::new, |frame| frame.reason.to_string()))),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(News::Nothing),
        }
    }

    fn take_message(&mut self, message: FromServer) -> anyhow::Result<News> {
        Ok(match message {
            FromServer::Resync { data, cols, rows } => {
                let mut screen = Screen::new(Size::new(cols, rows)?);
                screen.feed(&STANDARD.decode(data)?);
                self.screen = Some(screen);
                News::Shown
            }
            FromServer::Resize { cols, rows } => {
                if let Some(screen) = &mut self.screen {
                    screen.resize(Size::new(cols, rows)?);
                }
                News::Shown
            }
            FromServer::Exit { code, signal } => News::Exited(code.or(signal.map(|signal| 128 + signal)).unwrap_or(1)),
            FromServer::Error { message } => News::Said(message),
            FromServer::Stopping => News::Said("the agent is being stopped".to_owned()),
            FromServer::Started => News::Started,
            FromServer::Other => News::Nothing,
        })
    }
}
