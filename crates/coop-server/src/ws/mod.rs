//! The WebSocket: one task reads what the client wants, one writes what is new. Neither waits for the other, so a
//! client that does not read can still type, and one that types much still sees.

mod message;
mod reader;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use coop_api::{Agents, Error, ErrorCode, LockAction, Request};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::{App, Config};
use crate::body::{MAX_BODY, Params};
use crate::error::{Failure, mapping};
use crate::fleet::{NAMED_ASKS, check_names_ask};
use crate::follow::Follower;
use crate::guard::has_token;
use crate::meter::Meter;
use crate::page::Visitor;
use crate::peer::Peer;
use crate::serve::Place;
use crate::wire::ClientMessage;

pub(crate) use self::message::{Subscription, text};
pub(crate) use self::writer::{GOING_AWAY, SEND_LIMIT, say_goodbye};

/// How long a client may take to bring its token.
const AUTH_LIMIT: Duration = Duration::from_secs(30);
/// What a client may send before it is let in: a token, and a frame around it.
pub(crate) const BEFORE_AUTH: u64 = 16 * 1024;
/// Clients send little, and this much is kept, and cleared, for each of them.
pub(crate) const READ_BUFFER: usize = 4 * 1024;
/// How long a client may take for our close, and to answer it.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The close code for what is refused.
const POLICY: u16 = 1008;
/// Replies that may wait for a client that does not read; then its requests wait too.
const REPLIES: usize = 16;

pub(crate) async fn upgrade<A: Agents>(
    State(app): State<Arc<App<A>>>,
    uri: Uri,
    headers: HeaderMap,
    place: Option<Extension<Place>>,
    Extension(peer): Extension<Arc<Peer>>,
    Params(subscription): Params<Subscription>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| Error::bad_request(format!("this is a WebSocket: {}", error.body_text())))?;
    let pass = Pass::of(&uri, &headers, &app.config, &peer).await;
    let names_asks = headers.contains_key(NAMED_ASKS);
    let meter = place.as_ref().map(|Extension(place)| Arc::clone(&place.meter));
    if let (Pass::Awaited, Some(meter)) = (&pass, &meter) {
        meter.allow(BEFORE_AUTH);
    }
    let upgrade = upgrade.max_message_size(MAX_BODY).max_frame_size(MAX_BODY).read_buffer_size(READ_BUFFER);
    Ok(upgrade.on_upgrade(move |socket| async move {
        serve(app, socket, subscription, pass, meter, &peer, names_asks).await;
        drop(place);
    }))
}

/// Whether a client may come in.
pub(crate) enum Pass {
    Given { has_token: bool },
    Awaited,
    Refused(Error),
}

impl Pass {
    pub(crate) async fn of(uri: &Uri, headers: &HeaderMap, config: &Config, peer: &Peer) -> Self {
        match has_token(&Visitor { method: &Method::GET, uri, headers }, config) {
            Ok(true) => Self::Given { has_token: true },
            Ok(false) => match peer.check_may_look(config).await {
                Ok(()) => Self::Given { has_token: false },
                Err(_) => Self::Awaited,
            },
            Err(error) => Self::Refused(error),
        }
    }

    /// Lets the client in, if need be by its first message, and tells whether it has brought the token.
    pub(crate) async fn redeem(self, config: &Config, socket: &mut WebSocket) -> Result<bool, Error> {
        match self {
            Self::Given { has_token } => Ok(has_token),
            Self::Awaited => await_token(config, socket).await.map(|()| true),
            Self::Refused(error) => Err(error),
        }
    }
}

async fn serve<A: Agents>(
    app: Arc<App<A>>,
    mut socket: WebSocket,
    subscription: Subscription,
    pass: Pass,
    meter: Option<Arc<Meter>>,
    peer: &Peer,
    names_asks: bool,
) {
    let verdict = tokio::select! {
        verdict = pass.redeem(&app.config, &mut socket) => verdict,
        () = app.shutdown.cancelled() => return,
    };
    let follower = verdict.and_then(|has_token| {
        let follower = Follower::new(&app, subscription.wants()?, subscription.after)?;
        Ok((follower, Sender { peer, has_token, names_asks }))
    });
    let (follower, sender) = match follower {
        Ok(admitted) => admitted,
        Err(error) => return close(socket, &error).await,
    };
    if let Some(meter) = meter {
        meter.allow_all();
    }
    app.ws_clients.fetch_add(1, Ordering::Relaxed);
    let (sink, mut stream) = socket.split();
    let (replies, waiting) = mpsc::channel(REPLIES);
    let writer_id = app.new_writer();
    let reader = reader::run(Arc::clone(&app), &mut stream, replies, writer_id, &sender);
    let writer = writer::run(Arc::clone(&app), sink, waiting, follower, subscription.telling());
    tokio::select! {
        () = reader => {}
        // A socket closed with something unread in it takes back what the client has not read yet. So the client gets
        // the time to close its side.
        () = writer => patiently(&app.shutdown, async { while let Some(Ok(_)) = stream.next().await {} }).await,
    }
    app.ws_clients.fetch_sub(1, Ordering::Relaxed);
    // Whoever is gone holds nothing.
    let _ = app.call(Request::Lock { writer: writer_id, action: LockAction::Release }).await;
}

/// Gives a client that is to go a little time; when the server ends, as much as whoever ends it gives all of them: one that is
/// behind has everything to read before it comes to the close.
pub(crate) async fn patiently(shutdown: &CancellationToken, work: impl Future) {
    let limit = async {
        sleep(CLOSE_LIMIT).await;
        if shutdown.is_cancelled() {
            sleep(SEND_LIMIT).await;
        }
    };
    tokio::select! {
        _ = work => {}
        () = limit => {}
    }
}

/// The client at the other end, for orders that it sends.
pub(crate) struct Sender<'a> {
    peer: &'a Peer,
    has_token: bool,
    /// Whether its answers have to name their ask.
    names_asks: bool,
}

impl Sender<'_> {
    /// Refuses a message that the client may not send.
    async fn admit(&self, config: &Config, message: &ClientMessage) -> Result<(), Error> {
        if message.only_looks() {
            return Ok(());
        }
        self.check_may_steer(config).await?;
        match message {
            ClientMessage::Respond(answer) if self.names_asks => check_names_ask(answer),
            _ => Ok(()),
        }
    }

    pub(crate) async fn check_may_steer(&self, config: &Config) -> Result<(), Error> {
        self.peer.check_may_steer(config, self.has_token).await
    }
}

/// Lets a client in whose first message is the token; says nothing before.
async fn await_token(config: &Config, socket: &mut WebSocket) -> Result<(), Error> {
    let refused = |message: &str| Error::new(ErrorCode::Unauthorized, message);
    let Some(token) = &config.token else { return Ok(()) };
    let first = timeout(AUTH_LIMIT, socket.recv()).await.map_err(|_| refused("no token came in time"))?;
    let Some(Ok(Message::Text(text))) = first else { return Err(refused("the first message must be auth")) };
    match serde_json::from_str(&text) {
        Ok(ClientMessage::Auth { token: given }) if token.matches(&given) => Ok(()),
        Ok(ClientMessage::Auth { .. }) => Err(refused("the token is wrong")),
        _ => Err(refused("the first message must be auth")),
    }
}

/// Says why and closes.
pub(crate) async fn close(mut socket: WebSocket, error: &Error) {
    let code = mapping(error.code).close.unwrap_or(POLICY);
    let frame = CloseFrame { code, reason: reason(&error.message).into() };
    // The client may be gone already.
    let _ = socket.send(Message::Close(Some(frame))).await;
}

/// A close frame has room for 123 bytes.
fn reason(message: &str) -> &str {
    let end = (0..=message.len().min(123)).rev().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
    &message[..end]
}
