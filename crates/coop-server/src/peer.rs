//! The process at the other end of a connection, and what it may do.
//!
//! What an agent runs may look at everything, and its hooks report; but an agent that could answer its own asks, or type into
//! its own terminal, would be its own supervisor. What an agent runs in a sandbox looks only by the agent's own socket: the
//! sandbox hides the other agents.

use std::net::SocketAddr;
use std::sync::Arc;

use coop_api::{Error, ErrorCode};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;

use crate::ancestry::{Ancestry, Origin, TcpClient, tcp_client};
use crate::app::Config;

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    end: End,
    origin: OnceCell<Origin>,
}

#[derive(Debug)]
enum End {
    Unix,
    Tcp {
        /// The client's address and ours, unless the client had gone already.
        addresses: Option<(SocketAddr, SocketAddr)>,
        ancestry: Arc<Ancestry>,
        socket: OnceCell<TcpClient>,
    },
    /// The socket that coop gives to the agent itself.
    AgentSocket,
    /// A caller inside this process vouches for it.
    Vouched,
}

impl Peer {
    /// Looks at once: a process that ends leaves its number to another.
    pub(crate) fn unix(stream: &UnixStream, ancestry: &Ancestry) -> Self {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
        Self::known(End::Unix, pid.map_or(Origin::Unknown, |pid| ancestry.origin(pid)))
    }

    /// Looks when it matters, because that takes a while.
    pub(crate) fn tcp(stream: &TcpStream, ancestry: &Arc<Ancestry>) -> Self {
        let addresses = stream.peer_addr().ok().zip(stream.local_addr().ok());
        let end = End::Tcp { addresses, ancestry: Arc::clone(ancestry), socket: OnceCell::new() };
        Self { end, origin: OnceCell::new() }
    }

    /// Returns the peer of a connection on the agent's own socket: whatever connects there acts for the agent.
    pub(crate) fn agent() -> Self {
        Self::known(End::AgentSocket, Origin::Agent)
    }

    /// Returns the peer of a connection whose owner vouches for it.
    pub(crate) fn vouched() -> Self {
        Self::known(End::Vouched, Origin::Outside)
    }

    fn known(end: End, origin: Origin) -> Self {
        Self { end, origin: OnceCell::new_with(Some(origin)) }
    }

    /// Tells whether no browser can be at the other end.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.end, End::Unix | End::AgentSocket)
    }

    /// Lets a request without the token look, if it may: a port belongs to the user that coop runs as.
    pub(crate) async fn check_may_look(&self, config: &Config) -> Result<(), Error> {
        if config.needs_token() {
            let why = "a token is needed; send it as `Authorization: Bearer TOKEN`";
            return Err(Error::new(ErrorCode::Unauthorized, why));
        }
        let own = rustix::process::geteuid().as_raw();
        let is_own = match self.tcp_client().await {
            None => true,
            // Root can do whatever this user can.
            Some(TcpClient::Local { uid, .. }) => uid == own || uid == 0,
            Some(TcpClient::Closed | TcpClient::Remote) => false,
        };
        match &config.token {
            _ if is_own => self.check_is_not_sandboxed(config).await,
            Some(_) => {
                let why = "this port belongs to another user; open the link that coop printed, or send its token as \
                           `Authorization: Bearer TOKEN`";
                Err(Error::new(ErrorCode::Unauthorized, why))
            }
            None => {
                let why = "this port belongs to another user; to share it, that user starts coop with --auth-token";
                Err(Error::new(ErrorCode::Forbidden, why))
            }
        }
    }

    /// Refuses a process in an agent's sandbox. Where there is a token, a process that coop cannot see has to send it.
    async fn check_is_not_sandboxed(&self, config: &Config) -> Result<(), Error> {
        let why = match (&self.end, self.origin().await) {
            (End::AgentSocket | End::Vouched, _) | (_, Origin::Outside | Origin::Agent) => return Ok(()),
            (_, Origin::Unknown) if config.token.is_none() || self.is_unix() => return Ok(()),
            (_, Origin::Unknown) => {
                let why = "coop cannot see which process asks; open the link that coop printed, or send its token as \
                           `Authorization: Bearer TOKEN`";
                return Err(Error::new(ErrorCode::Unauthorized, why));
            }
            (_, Origin::Sandbox) => "a program in an agent's sandbox reaches only its own agent, at COOP_SOCKET",
        };
        Err(Error::new(ErrorCode::Forbidden, why))
    }

    /// Lets those through that may do more than look. A process that coop cannot see needs the token.
    pub(crate) async fn check_may_steer(&self, config: &Config, has_token: bool) -> Result<(), Error> {
        if let Some(who) = config.steered_by {
            let why = format!("{who} steers this agent; here it can only be looked at");
            return Err(Error::new(ErrorCode::Forbidden, why));
        }
        self.check_is_outside(config, has_token).await
    }

    /// Lets those through that are no agent's. A process that coop cannot see needs the token.
    pub(crate) async fn check_is_outside(&self, config: &Config, has_token: bool) -> Result<(), Error> {
        let why = match self.origin().await {
            Origin::Outside => return Ok(()),
            Origin::Unknown if has_token => return Ok(()),
            Origin::Unknown if config.token.is_some() => {
                "coop cannot see which process asks, so it may look but not steer; send the token"
            }
            Origin::Unknown => {
                "coop cannot see which process asks, so it may look but not steer; start coop with --auth-token and \
                 send the token"
            }
            Origin::Agent | Origin::Sandbox => "what an agent runs may look but not steer; ask from outside of it",
        };
        Err(Error::new(ErrorCode::Forbidden, why))
    }

    async fn tcp_client(&self) -> Option<TcpClient> {
        let End::Tcp { addresses, socket, .. } = &self.end else { return None };
        let Some((client, server)) = *addresses else { return Some(TcpClient::Closed) };
        Some(*socket.get_or_init(|| in_background(move || tcp_client(client, server), TcpClient::Closed)).await)
    }

    async fn origin(&self) -> Origin {
        let look = || async {
            let End::Tcp { ancestry, .. } = &self.end else { return Origin::Unknown };
            match self.tcp_client().await {
                Some(TcpClient::Local { inode, .. }) => {
                    let ancestry = Arc::clone(ancestry);
                    in_background(move || ancestry.origin_of_socket(inode), Origin::Unknown).await
                }
                Some(TcpClient::Remote) => Origin::Outside,
                Some(TcpClient::Closed) | None => Origin::Unknown,
            }
        };
        *self.origin.get_or_init(look).await
    }
}

/// Reads `/proc` beside the runtime, which has other clients.
async fn in_background<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static, otherwise: T) -> T {
    tokio::task::spawn_blocking(read).await.unwrap_or(otherwise)
}
