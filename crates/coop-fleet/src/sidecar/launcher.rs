//! Who starts sidecars, finds them again and sees their end. What an agent is, is the same for all of them.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coop_api::{AgentId, PermissionMode, Token};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::config::AGENT_CONFIG;
use crate::adapter::AgentConfig;
use crate::definition::Sandbox;

/// Starts sidecars and knows what has become of them.
#[async_trait]
pub trait Launcher: fmt::Debug + Send + Sync + 'static {
    /// Tells why no new agent can be called so here, if that is known without asking anybody.
    fn refuses(&self, _agent: &AgentId) -> Option<String> {
        None
    }

    /// Tells whether agents run in the sandbox that their definition describes. Containers and pods are walls of their own.
    fn makes_sandboxes(&self) -> bool {
        false
    }

    /// Tells why gates and named commands are not run for agents of this launcher, if they are not.
    fn refuses_commands(&self) -> Option<&'static str> {
        None
    }

    /// Starts a sidecar and returns when it can be reached. There is never a second one for an agent. `folder` is the
    /// agent's own, with its `agent-config.json`.
    async fn start(&self, config: &AgentConfig, folder: &Path) -> Result<Sidecar, LaunchError>;

    /// Gives up a start of this agent's that is under way, as soon as that can be: nobody wants it any more. A start that takes no
    /// longer than anybody waits may come to its end.
    fn give_up(&self, _agent: &AgentId) {}

    /// Finds the sidecar of an agent, and waits while the launcher has no answer. What the agent's folder holds decides nothing,
    /// because agents write there; `last` comes from the store.
    async fn find(&self, agent: &AgentId, folder: &Path, last: &LastSidecar) -> Found;

    /// Begins to end a sidecar in order, if that is not for the sidecar itself to do.
    async fn dismiss(&self, agent: &AgentId, sidecar: &str) -> Result<Dismissal, String>;

    /// Ends a sidecar that does not end when it is asked, if that can be done without harm.
    async fn kill(&self, agent: &AgentId, sidecar: &str);

    /// Removes what is left of an agent whose sidecar has ended. One that runs is left alone.
    async fn bury(&self, agent: &AgentId) -> Result<(), String>;

    /// Returns all sidecars that run, whoever started them; `agents` has the folders of agents.
    async fn running(&self, agents: &Path) -> Vec<Running>;
}

/// A sidecar that runs.
#[derive(Clone, Debug)]
pub struct Sidecar {
    /// No other ever has this name.
    pub name: String,
    /// How it is reached.
    pub address: Address,
    /// Tells when it has ended.
    pub ended: Watch,
}

/// Tells once when a sidecar has really ended, with its exit code if that is known.
pub type Watch = watch::Receiver<Option<Option<i32>>>;

/// How a sidecar is reached.
#[derive(Clone, Debug)]
pub enum Address {
    /// It listens on its agent's socket itself.
    Socket,
    /// It listens elsewhere. On its agent's socket somebody of ours listens and passes on.
    Elsewhere {
        /// Makes a connection.
        dial: Arc<dyn Dial>,
        /// What it wants to be shown.
        token: Token,
    },
}

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Makes connections to one sidecar.
#[async_trait]
pub trait Dial: fmt::Debug + Send + Sync {
    /// Makes one.
    async fn dial(&self) -> io::Result<Box<dyn Stream>>;
}

#[async_trait]
impl Dial for SocketAddr {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(TcpStream::connect(self).await?))
    }
}

/// What became of a sidecar.
#[derive(Clone, Debug)]
pub enum Found {
    /// It runs.
    Running(Sidecar),
    /// It has ended.
    Ended {
        /// Its name.
        name: String,
        /// Its exit code, if that is known.
        code: Option<i32>,
    },
    /// There never was one, as far as anybody knows.
    Nobody,
    /// It runs, and there is no way to it; why.
    Unreachable(String),
}

/// Who ends a sidecar in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dismissal {
    /// It does that itself when it is asked.
    ItIsAsked,
    /// Somebody else, who has begun.
    UnderWay {
        /// How long that may take.
        within: Duration,
    },
}

/// Why there is no sidecar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// One of this agent's is there already.
    #[error("there is one already")]
    Exists,
    /// It said why, or we saw it.
    #[error("{0}")]
    Failed(String),
}

/// A sidecar as whoever does not know its agent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The agent it was started for.
    pub agent: AgentId,
    /// Its process, if it is one of this machine's.
    pub pid: Option<u32>,
    /// What kind of agent it runs, as `coop --agent` takes it.
    pub driver: String,
    /// The command it runs.
    pub command: Vec<String>,
    /// Where.
    pub folder: PathBuf,
    /// Whether it has a configuration of its own.
    pub isolate: bool,
    /// Its sandbox, if it has one.
    pub sandbox: Option<Sandbox>,
    /// The permission mode that it was started in, if that was said.
    pub permission_mode: Option<PermissionMode>,
    /// Whether it asks before it uses any tool.
    pub ask_first: bool,
    /// Who decides whether it runs.
    pub run_owner: RunOwner,
}

/// What the store has of an agent's last sidecar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastSidecar {
    /// Its name, if the daemon has recorded one.
    pub name: Option<String>,
    /// Who decides whether the agent runs.
    pub run_owner: RunOwner,
}

/// Who decides whether an agent runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOwner {
    /// The fleet that has made it.
    #[default]
    Fleet,
    /// Others: a fleet sees and steers it, and neither starts nor ends it unless a person says so.
    Others,
}

impl RunOwner {
    /// Tells whether the fleet decides.
    pub fn is_fleet(&self) -> bool {
        *self == Self::Fleet
    }
}

/// Returns an agent's settings without what names files and sockets that only this machine has.
pub fn portable_settings(folder: &Path) -> io::Result<String> {
    let mut settings: serde_json::Value = serde_json::from_slice(&fs::read(folder.join(AGENT_CONFIG))?)?;
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("tools");
        settings.remove("session");
    }
    Ok(settings.to_string())
}
