//! Agents that are each in a sidecar, wherever a launcher runs it.
//!
//! ```text
//! STATE/agents/ID/agent-config.json   settings, stop and start
//!                 coop.sock           the sidecar's socket, or ours that leads to it
//!                 coop.log            what it writes; locked by it as long as it lives (local)
//!                 sidecar.json        which process it is, for people (local)
//!                 session.json        how others come to its conversation
//!                 terminal.cast       what its terminal showed, and terminal.cast.old what it showed before
//! ```
//!
//! A sidecar lives on when we end, and stays when its agent has ended, with the exit code, until [`AgentAdapter::kill`] lets
//! it go. So whatever happens while nobody follows it can still be told.

mod way;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use coop_api::{AgentId, PROTOCOL, Seq};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{AgentAdapterError, AgentHandle, can_be_id};
use crate::Fact;
use crate::claims::Claims;
use crate::engine::Input;
use crate::sidecar::launcher::{Address, Dismissal, Launcher, Running, Sidecar};
use crate::sidecar::{
    Bridge, Client, ClientError, Ending, Identity, LocalLauncher, Pings, RECORDING, Relay, container_folder,
};

/// How long a sidecar may take to end its agent and itself: its own patience with the agent, and some.
const FAREWELL: Duration = Duration::from_secs(20);

/// Agents by their sidecars.
#[derive(Clone, Debug)]
pub struct SidecarAdapter {
    launcher: Arc<dyn Launcher>,
    agents: PathBuf,
    known: Arc<Mutex<BTreeMap<AgentId, Known>>>,
    claims: Claims,
}

/// What is known of an agent.
#[derive(Clone, Debug)]
enum Known {
    /// It is followed, or was to its end.
    Followed(Box<Followed>),
    /// The same, and its sidecar has ended too. Nothing leads to it any more.
    Over,
}

#[derive(Clone, Debug)]
struct Followed {
    client: Client,
    sidecar: Sidecar,
    /// Who listens on its socket, if it does not itself.
    relay: Option<Arc<Relay>>,
    is_gone: bool,
    /// Why it is left alone, if it says what we do not know. It can be ended all the same.
    stranger: Option<String>,
    bridge: Option<AbortHandle>,
}

impl SidecarAdapter {
    /// Returns an adapter of this launcher's sidecars that keeps what belongs to agents below this folder.
    pub fn new(launcher: Arc<dyn Launcher>, state: &Path) -> Self {
        Self { launcher, agents: state.join("agents"), known: Arc::default(), claims: Claims::default() }
    }

    /// Returns one of processes of this machine, that run this `coop`.
    pub fn local(coop: &Path, state: &Path) -> Self {
        Self::new(Arc::new(LocalLauncher::new(coop)), state)
    }

    /// Returns one that goes on with no conversation that somebody else has open.
    pub fn heeding(self, claims: Claims) -> Self {
        Self { claims, ..self }
    }

    /// Returns where the terminal of the agent with this folder is recorded. In a container that is a part of the folder that
    /// the agent can write: what is there must not be followed if it is a link.
    pub fn recording(folder: &Path) -> PathBuf {
        let inside = container_folder(folder).join(RECORDING);
        if inside.symlink_metadata().is_ok() { inside } else { folder.join(RECORDING) }
    }

    fn folder(&self, agent: &AgentId) -> PathBuf {
        self.agents.join(&agent.0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Known>> {
        // The map is whole between any two statements that hold the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn followed(&self, agent: &AgentId) -> Option<Followed> {
        match self.lock().get(agent)? {
            Known::Followed(followed) => Some(followed.as_ref().clone()),
            Known::Over => None,
        }
    }

    /// Changes what is known of an agent, if it still has this sidecar.
    fn change(&self, agent: &AgentId, sidecar: &str, change: impl FnOnce(&mut Known)) {
        let mut known = self.lock();
        let is_it = |known: &&mut Known| matches!(known, Known::Followed(one) if one.sidecar.name == sidecar);
        if let Some(known) = known.get_mut(agent).filter(is_it) {
            change(known);
        }
    }

    /// Returns the way to an agent that runs.
    fn client(&self, agent: &AgentId) -> Result<Client, AgentAdapterError> {
        let followed = self.followed(agent).filter(|followed| !followed.is_gone);
        let followed = followed.ok_or_else(|| AgentAdapterError::NotFound(agent.clone()))?;
        match followed.stranger {
            Some(why) => Err(AgentAdapterError::Unreachable { agent: agent.clone(), why }),
            None => Ok(followed.client),
        }
    }

    fn socket(&self, agent: &AgentId) -> PathBuf {
        self.folder(agent).join("coop.sock")
    }

    /// Sees to it that a sidecar is reached by its agent's socket.
    fn reach(&self, agent: &AgentId, sidecar: Sidecar) -> io::Result<Followed> {
        let socket = self.socket(agent);
        // One that others have started may have none here.
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder(agent))?;
        let (client, relay) = match &sidecar.address {
            Address::Socket => {
                let named = || io::Error::other(format!("{:?} is no name of a process", sidecar.name));
                (Client::to_process(&socket, Identity::named(&sidecar.name).ok_or_else(named)?), None)
            }
            Address::Elsewhere { dial, token } => {
                let own = Identity::of(std::process::id()).ok_or_else(|| io::Error::other("/proc cannot be read"))?;
                let relay = Arc::new(Relay::start(&socket, dial.clone(), token)?);
                (Client::to_process(&socket, own), Some(relay))
            }
        };
        Ok(Followed { client, sidecar, relay, is_gone: false, stranger: None, bridge: None })
    }

    /// Follows a sidecar from a number on, and remembers it.
    async fn follow(
        &self,
        agent: &AgentId,
        followed: Followed,
        cursor: Seq,
        resumed: bool,
        facts: mpsc::Sender<Fact>,
    ) -> AgentHandle {
        let name = followed.sidecar.name.clone();
        let bridge = Bridge {
            agent: agent.clone(),
            sidecar: name.clone(),
            client: followed.client.clone(),
            ended: followed.sidecar.ended.clone(),
            facts,
            cursor,
            pings: if followed.relay.is_some() { Pings::Yes } else { Pings::No },
        };
        // Before anybody hears of it, so that whoever does can ask for more.
        if let Some(Known::Followed(before)) = self.lock().insert(agent.clone(), Known::Followed(Box::new(followed)))
            && let Some(before) = before.bridge
        {
            before.abort();
        }
        let told = Some((name.clone(), Fact::SPAWNED));
        let spawned = Fact { agent: agent.clone(), told, input: Some(Input::Spawned { resumed }), event: None };
        // Nobody has to listen.
        let _ = bridge.facts.send(spawned).await;
        let task = tokio::spawn(self.clone().follow_to_end(bridge)).abort_handle();
        self.change(agent, &name, |known| {
            if let Known::Followed(followed) = known {
                followed.bridge = Some(task);
            }
        });
        AgentHandle { agent: agent.clone(), sidecar: name }
    }

    async fn follow_to_end(self, bridge: Bridge) {
        let (agent, name, facts) = (bridge.agent.clone(), bridge.sidecar.clone(), bridge.facts.clone());
        let mut ended = bridge.ended.clone();
        if bridge.run().await == Ending::Unheard {
            return;
        }
        self.change(&agent, &name, |known| {
            if let Known::Followed(followed) = known {
                followed.is_gone = true;
            }
        });
        // Whoever sees the end of the channel sees an agent that is gone.
        drop(facts);
        // What its terminal showed last can be had until its sidecar ends, and no longer.
        if ended.wait_for(Option::is_some).await.is_ok() {
            self.change(&agent, &name, |known| *known = Known::Over);
        }
    }

    /// Ends a sidecar, and waits until it has ended.
    async fn end(&self, agent: &AgentId, client: &Client, sidecar: Sidecar) -> Result<(), AgentAdapterError> {
        let Sidecar { name, mut ended, .. } = sidecar;
        let unreachable = |why: String| AgentAdapterError::Unreachable { agent: agent.clone(), why };
        let late = |_| unreachable("it does not end".to_owned());
        match self.launcher.dismiss(agent, &name).await.map_err(unreachable)? {
            // Whoever ends it does so with all that it takes, and once.
            Dismissal::UnderWay { within } => {
                timeout(within, ended.wait_for(Option::is_some)).await.map_err(late)?.ok();
            }
            Dismissal::ItIsAsked => {
                let is_ending = client.post("shutdown", &json!({})).await.is_ok();
                if !is_ending || timeout(FAREWELL, ended.wait_for(Option::is_some)).await.is_err() {
                    tracing::warn!(%agent, "a sidecar does not end; it is killed");
                    self.launcher.kill(agent, &name).await;
                    timeout(FAREWELL, ended.wait_for(Option::is_some)).await.map_err(late)?.ok();
                }
            }
        }
        Ok(())
    }

    /// Tells whether this sidecar of an agent's is followed, or was to its end.
    pub fn follows(&self, agent: &AgentId, sidecar: &str) -> bool {
        self.followed(agent).is_some_and(|followed| followed.sidecar.name == sidecar)
    }

    /// Connects to an agent's sidecar, also to one whose agent has ended. A socket that another process has put in its place is
    /// refused.
    pub async fn connect(&self, agent: &AgentId) -> io::Result<UnixStream> {
        self.any_client(agent)?.connect().await
    }

    /// Asks an agent's sidecar for something of its API.
    pub async fn get(&self, agent: &AgentId, path: &str) -> Result<Bytes, ClientError> {
        self.any_client(agent)?.get(path).await
    }

    /// Tells an agent's sidecar something.
    pub async fn post(&self, agent: &AgentId, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.any_client(agent)?.post(path, body).await
    }

    fn any_client(&self, agent: &AgentId) -> io::Result<Client> {
        let followed = self.followed(agent).map(|followed| followed.client);
        followed.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "it has no sidecar that coop knows"))
    }

    /// Returns the process of an agent's sidecar, if that is followed and runs on this machine.
    pub fn process(&self, agent: &AgentId) -> Option<u32> {
        let sidecar = self.followed(agent)?.sidecar;
        let identity = match sidecar.address {
            Address::Socket => Identity::named(&sidecar.name),
            Address::Elsewhere { .. } => None,
        };
        identity.filter(Identity::is_alive).map(|identity| identity.pid())
    }

    /// Tells why no new agent can be called so, if that is known without asking anybody.
    pub fn refuses(&self, agent: &AgentId) -> Option<String> {
        self.launcher.refuses(agent)
    }

    /// Tells whether agents run in the sandbox that their definition describes.
    pub(crate) fn makes_sandboxes(&self) -> bool {
        self.launcher.makes_sandboxes()
    }

    /// Tells why gates and named commands are not run for agents in sidecars, if they are not.
    pub fn refuses_commands(&self) -> Option<&'static str> {
        self.launcher.refuses_commands()
    }

    /// Returns the sidecars that run, whoever started them.
    pub async fn running(&self) -> Vec<Running> {
        self.launcher.running(&self.agents).await
    }

    /// Removes what is kept of an agent that is over and that nobody will ask for again.
    pub fn clear_away(&self, agent: &AgentId) {
        if self.followed(agent).is_some_and(|followed| followed.sidecar.ended.borrow().is_none()) {
            return;
        }
        self.lock().remove(agent);
        // An older store may know one whose id leads elsewhere.
        if !can_be_id(agent) {
            return;
        }
        if let Err(error) = fs::remove_dir_all(self.folder(agent)) {
            tracing::warn!(%agent, %error, "its folder cannot be removed");
        }
    }
}

/// Tells why a sidecar is not ours to follow: it was started by a later coop, and says what we do not know. One that does
/// not answer now may later.
async fn stranger(client: &Client) -> Option<String> {
    let health = client.get_json("health").await.ok()?;
    let theirs = health["protocol"].as_u64().unwrap_or(1);
    (theirs > u64::from(PROTOCOL)).then(|| {
        let version = health["version"].as_str().unwrap_or("a later version");
        format!(
            "its sidecar is of coop {version} and speaks protocol {theirs}; this coop knows {PROTOCOL}: start the daemon of \
             that version, or end the agent"
        )
    })
}
