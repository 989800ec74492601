//! A person's terminal on an agent.
//!
//! The agent's bytes are not passed through: they go to a screen of our own, and what that shows is painted. So the
//! person's terminal never answers the child's queries a second time, a viewer may have another size than the agent's
//! terminal, and a gap is mended by painting anew.

mod input;
mod local;
mod paint;
mod view;

use std::time::Duration;

use anyhow::Context;
use coop_api::Size;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use self::input::{Detector, Typed};
use self::local::Local;
use self::paint::Painter;
use self::view::{News, View};
use crate::cli::Attach;
use crate::client::{Client, WebSocket};

/// Painted at most this often.
const FRAME: Duration = Duration::from_millis(16);
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// How watching one connection ended.
enum Outcome {
    Detached,
    Exited(i32),
    Lost(String),
}

pub(crate) async fn run(options: Attach) -> anyhow::Result<i32> {
    let client = Client::new(options.target.as_deref(), options.token.auth_token.clone())?;
    let detector = Detector::new(&options.detach_key)?;
    // Connect first: what fails here is told on an untouched terminal.
    let mut socket = Some(client.web_socket(QUERY).await?);
    let mut local = Local::take().context("attach needs a terminal; use `coop screen` in scripts")?;
    let mut person = Person::new(detector)?;
    let mut painter = Painter::new(client.name(), &options.detach_key, options.read_only);
    let mut retry = FIRST_RETRY;
    let code = loop {
        let outcome = match socket.take() {
            Some(socket) => {
                retry = FIRST_RETRY;
                watch(socket, &mut local, &mut person, &mut painter, options.read_only).await?
            }
            None => Outcome::Lost("it does not answer".to_owned()),
        };
        match outcome {
            Outcome::Detached => break None,
            Outcome::Exited(code) => break Some(code),
            Outcome::Lost(why) => {
                painter.status(format!("lost the agent ({why}); connecting again…"));
                local.write(&painter.paint(None, local.size()?))?;
                if person.wait(Instant::now() + retry).await {
                    break None;
                }
                retry = (retry * 2).min(LAST_RETRY);
                socket = client.web_socket(QUERY).await.ok();
            }
        }
    };
    drop(local);
    say(code, &client);
    Ok(code.unwrap_or(0))
}

const QUERY: &str = "mode=raw&binary=1&resync=1";

#[expect(clippy::print_stderr, reason = "the last word to a person")]
fn say(code: Option<i32>, client: &Client) {
    match code {
        Some(code) => eprintln!("[the agent exited with code {code}]"),
        None => eprintln!("[detached; `coop attach {}` comes back]", client.name()),
    }
}

/// What a person does.
enum Act {
    Type(Vec<u8>),
    Resize,
    /// With what was typed just before.
    Leave(Vec<u8>),
}

/// What comes from the person: keys, and a terminal that changes its size.
struct Person {
    typed: mpsc::Receiver<Vec<u8>>,
    resized: tokio::signal::unix::Signal,
    ended: [tokio::signal::unix::Signal; 2],
    detector: Detector,
}

impl Person {
    fn new(detector: Detector) -> anyhow::Result<Self> {
        let (sender, typed) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut stdin = tokio::io::stdin();
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stdin.read(&mut buffer).await {
                if sender.send(buffer[..read].to_vec()).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            typed,
            resized: signal(SignalKind::window_change())?,
            ended: [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?],
            detector,
        })
    }

    async fn next(&mut self) -> Act {
        let [terminate, hang_up] = &mut self.ended;
        tokio::select! {
            typed = self.typed.recv() => match typed.map(|bytes| self.detector.scan(&bytes)) {
                Some(Typed { text, detach: false }) => Act::Type(text),
                Some(Typed { text, detach: true }) => Act::Leave(text),
                None => Act::Leave(Vec::new()),
            },
            _ = self.resized.recv() => Act::Resize,
            _ = terminate.recv() => Act::Leave(Vec::new()),
            _ = hang_up.recv() => Act::Leave(Vec::new()),
        }
    }

    /// Waits, unless the person wants to go first.
    async fn wait(&mut self, until: Instant) -> bool {
        loop {
            tokio::select! {
                act = self.next() => if matches!(act, Act::Leave(_)) { return true },
                () = sleep_until(until) => return false,
            }
        }
    }
}

async fn watch(
    mut socket: WebSocket,
    local: &mut Local,
    person: &mut Person,
    painter: &mut Painter,
    read_only: bool,
) -> anyhow::Result<Outcome> {
    let mut view = View::default();
    let mut paint_at: Option<Instant> = None;
    let mut painted = Instant::now();
    painter.forget();
    painter.status(String::new());
    if !read_only {
        socket.send(resize(local.size()?)).await?;
    }
    loop {
        tokio::select! {
            message = socket.next() => {
                let message = match message {
                    Some(Ok(message)) => message,
                    Some(Err(error)) => return Ok(Outcome::Lost(error.to_string())),
                    None => return Ok(Outcome::Lost("the connection is closed".to_owned())),
                };
                match view.take(message)? {
                    News::Nothing => {}
                    News::Shown => paint_at = paint_at.or(Some(painted + FRAME)),
                    News::Said(text) => {
                        painter.status(text);
                        paint_at = paint_at.or(Some(painted + FRAME));
                    }
                    News::Exited(code) => return Ok(Outcome::Exited(code)),
                    News::Closed(why) => return Ok(Outcome::Lost(why)),
                }
            }
            act = person.next() => match act {
                Act::Leave(bytes) => {
                    if !read_only && !bytes.is_empty() {
                        socket.send(Message::Binary(bytes.into())).await?;
                    }
                    return Ok(Outcome::Detached);
                }
                Act::Type(_) if read_only => {}
                Act::Type(bytes) => socket.send(Message::Binary(bytes.into())).await?,
                Act::Resize => {
                    painter.forget();
                    if !read_only {
                        socket.send(resize(local.size()?)).await?;
                    }
                    paint_at = paint_at.or(Some(Instant::now()));
                }
            },
            () = sleep_until(paint_at.unwrap_or_else(Instant::now)), if paint_at.is_some() => {
                paint_at = None;
                painted = Instant::now();
                local.write(&painter.paint(view.screen(), local.size()?))?;
            }
        }
    }
}

/// The agent gets all but the status line.
fn resize(local: Size) -> Message {
    let rows = local.rows().saturating_sub(1).max(1);
    Message::Text(json!({ "type": "resize", "cols": local.cols(), "rows": rows }).to_string().into())
}
