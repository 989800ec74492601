//! A person's terminal on an agent.
//!
//! The agent's bytes are not passed through: they go to a screen of our own, and what that shows is painted. So the
//! person's terminal never answers the child's queries a second time, a viewer may have another size than the agent's
//! terminal, and a gap is mended by painting anew.

mod input;
mod local;
mod outbox;
mod paint;
mod view;

use std::io::{self, Write};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use coop_api::Size;
use coop_term::{FrameId, Screen};
use futures_util::StreamExt;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use self::input::{Detector, Typed};
use self::local::Local;
use self::outbox::Outbox;
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
    // It would show itself within itself, in one row less each time.
    if client.is_around_us() {
        bail!("this is the agent's own terminal; attach from another one, or unset COOP if it is not");
    }
    let detector = Detector::new(&options.detach_key)?;
    // Connect first: what fails here is told on an untouched terminal.
    client.knock().await?;
    let mut socket = Some(client.web_socket(QUERY).await?);
    let mut local = Local::take().context("attach needs a terminal; use `coop screen` in scripts")?;
    let mut person = Person::new(detector)?;
    let mut painter = Painter::new(client.name(), &options.detach_key, options.read_only);
    let mut retry = FIRST_RETRY;
    let code = loop {
        let outcome = match socket.take() {
            Some(socket) => {
                retry = FIRST_RETRY;
                watch(socket, &mut local, &mut person, &mut painter, &options).await?
            }
            None => Outcome::Lost("it does not answer".to_owned()),
        };
        match outcome {
            Outcome::Detached => break None,
            Outcome::Exited(code) => break Some(code),
            Outcome::Lost(why) => {
                painter.status(format!("lost the agent ({why}); connecting again…"));
                local.write(&painter.paint(None, local.size()?))?;
                let connect = async {
                    sleep(retry).await;
                    client.web_socket(QUERY).await.ok()
                };
                match person.during(connect).await {
                    Some(connected) => socket = connected,
                    None => break None,
                }
                retry = (retry * 2).min(LAST_RETRY);
            }
        }
    };
    drop(local);
    say(code, &client, &options);
    Ok(code.unwrap_or(0))
}

const QUERY: &str = "mode=raw&binary=1&resync=1";

fn say(code: Option<i32>, client: &Client, options: &Attach) {
    let flags = if options.read_only { "--read-only " } else { "" };
    // The terminal may be gone.
    let _ = match code {
        Some(code) => writeln!(io::stderr(), "[the agent exited with code {code}]"),
        None => writeln!(io::stderr(), "[detached; `coop attach {flags}{}` comes back]", client.name()),
    };
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

    /// Waits for something, unless the person wants to go first.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                act = self.next() => if matches!(act, Act::Leave(_)) { return None },
                done = work.as_mut() => return Some(done),
            }
        }
    }
}

async fn watch(
    socket: WebSocket,
    local: &mut Local,
    person: &mut Person,
    painter: &mut Painter,
    options: &Attach,
) -> anyhow::Result<Outcome> {
    let Attach { read_only, ref detach_key, .. } = *options;
    let (sink, mut stream) = socket.split();
    let mut outbox = Outbox::new(sink);
    let mut view = View::default();
    let mut paint_at: Option<Instant> = None;
    let mut painted = Instant::now();
    let mut frame_until: Option<(FrameId, Instant)> = None;
    let mut exited: Option<i32> = None;
    painter.forget();
    painter.status(String::new());
    let mut to_send = if read_only { None } else { Some(resize(local.size()?)) };
    loop {
        if let Some(message) = to_send.take()
            && let Err(why) = outbox.push(message)
        {
            painter.status(why.to_owned());
            paint_at = paint_at.or(Some(painted + FRAME));
        }
        tokio::select! {
            sent = outbox.send(), if !outbox.is_empty() => if let Err(error) = sent {
                return Ok(Outcome::Lost(error.to_string()));
            },
            message = stream.next() => {
                let news = match message {
                    Some(Ok(message)) => view.take(message)?,
                    Some(Err(error)) => News::Closed(error.to_string()),
                    None => News::Closed("the connection is closed".to_owned()),
                };
                match news {
                    News::Nothing => {}
                    News::Shown => {
                        let open = view.screen().and_then(|screen| screen.open_frame());
                        frame_until = open.map(|frame| match frame_until {
                            Some((known, until)) if known == frame => (known, until),
                            _ => (frame, Instant::now() + Screen::FRAME_PATIENCE),
                        });
                        paint_at = paint_at.or(Some(painted + FRAME));
                    }
                    News::Said(text) => {
                        painter.status(text);
                        paint_at = paint_at.or(Some(painted + FRAME));
                    }
                    // A sidecar that lingers may start it again; one that does not closes the connection now.
                    News::Exited(code) => {
                        exited = Some(code);
                        painter.status(format!("the agent exited with code {code}; {detach_key} leaves"));
                        paint_at = paint_at.or(Some(painted + FRAME));
                    }
                    News::Started => {
                        exited = None;
                        painter.status(String::new());
                    }
                    News::Closed(why) => return Ok(exited.map_or(Outcome::Lost(why), Outcome::Exited)),
                }
            }
            act = person.next() => match act {
                Act::Leave(bytes) => {
                    if !read_only && !bytes.is_empty() {
                        let _ = outbox.push(Message::Binary(bytes.into()));
                    }
                    outbox.send_last().await;
                    return Ok(exited.map_or(Outcome::Detached, Outcome::Exited));
                }
                Act::Type(_) if read_only => {}
                Act::Type(bytes) => to_send = Some(Message::Binary(bytes.into())),
                Act::Resize => {
                    painter.forget();
                    if !read_only {
                        to_send = Some(resize(local.size()?));
                    }
                    paint_at = paint_at.or(Some(Instant::now()));
                }
            },
            () = sleep_until(frame_until.map_or_else(Instant::now, |(_, until)| until)), if frame_until.is_some() => {
                frame_until = None;
                if let Some(screen) = view.screen() {
                    screen.end_frame();
                }
                paint_at = paint_at.or(Some(painted + FRAME));
            }
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
