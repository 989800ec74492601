//! Who is at the other end of a connection, and whether it may steer.
//!
//! What the child runs may look at everything, and its hooks report; but an agent that could answer its own asks, or
//! type into its own terminal, would be its own supervisor.

use std::net::SocketAddr;

use coop_api::{Error, ErrorCode};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OnceCell;

use crate::app::Config;
use crate::kin::{self, Keepers, Standing};

/// The other end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    end: End,
    standing: OnceCell<Standing>,
}

#[derive(Clone, Debug)]
enum End {
    Unix,
    Tcp {
        client: SocketAddr,
        server: SocketAddr,
        keepers: Keepers,
    },
    /// Somebody else has accepted it.
    Brought,
}

impl Peer {
    /// Looks at once: a process that ends leaves its number to another.
    pub(crate) fn unix(stream: &UnixStream, keepers: &Keepers) -> Self {
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
        Self::known(End::Unix, pid.map_or(Standing::Unseen, |pid| kin::of_process(pid, &keepers.pids())))
    }

    /// Looks when it matters, because that takes a while.
    pub(crate) fn tcp(stream: &TcpStream, keepers: &Keepers) -> Self {
        match (stream.peer_addr(), stream.local_addr()) {
            (Ok(client), Ok(server)) => {
                let end = End::Tcp { client, server, keepers: keepers.clone() };
                Self { end, standing: OnceCell::new() }
            }
            _ => Self::known(End::Brought, Standing::Unseen),
        }
    }

    /// Returns the peer of a connection whose owner vouches for it.
    pub(crate) fn brought() -> Self {
        Self::known(End::Brought, Standing::Outside)
    }

    fn known(end: End, standing: Standing) -> Self {
        Self { end, standing: OnceCell::new_with(Some(standing)) }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.end, End::Unix)
    }

    /// Lets those through who may do more than look. Who cannot be seen may if there is a token: it was asked for
    /// already.
    pub(crate) async fn check_may_steer(&self, config: &Config) -> Result<(), Error> {
        if let Some(who) = config.steered_by {
            let why = format!("{who} steers this agent; here it can only be looked at");
            return Err(Error::new(ErrorCode::Forbidden, why));
        }
        let why = match self.standing().await {
            Standing::Outside => return Ok(()),
            Standing::Unseen if config.token.is_some() => return Ok(()),
            Standing::Unseen => {
                "coop cannot tell which process asks, so it may look but not steer; start coop with --auth-token and \
                 send the token"
            }
            Standing::Inside => "what the agent itself runs may look but not steer; ask from outside of it",
        };
        Err(Error::new(ErrorCode::Forbidden, why))
    }

    async fn standing(&self) -> Standing {
        let look = || async {
            let End::Tcp { client, server, keepers } = self.end.clone() else { return Standing::Unseen };
            let looked = tokio::task::spawn_blocking(move || kin::of_tcp(client, server, &keepers.pids())).await;
            looked.unwrap_or(Standing::Unseen)
        };
        *self.standing.get_or_init(look).await
    }
}
