//! The fleet as its server sees it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::fleet::{Fleet, FleetError};
use coop_fleet::launcher::Running;
use coop_fleet::shim::{LocalHttp, ShimAgent};
use coop_fleet::store::{Condition, StoreError};
use coop_server::fleet::types::{Ending, FleetHealth, Named, Orphan, Orphans, StoreHealth};
use coop_server::fleet::{Fate, FleetRequest, Way};
use coop_server::mcp::ToolCall;
use coop_server::workspaces::{Caller, Telling, WorkspaceRequest, Workspaces};
use coop_server::{Config, Links, Recorded, Server};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc, watch};

use super::cluster::{self, ClusterLauncher};
use super::places::Places;

/// How long after it was begun to look for an agent whoever asks for it waits until it is found.
const FOUND: Duration = Duration::from_secs(10);

pub(super) struct Hub {
    pub(super) fleet: Fleet,
    pub(super) adapter: SidecarAdapter,
    state: PathBuf,
    shims: LocalHttp,
    pub(super) began: Instant,
    down: mpsc::Sender<Fate>,
    pub(super) places: Places,
    /// What kind of store there is.
    store: &'static str,
    /// The cluster that agents are in. They do not see the folders of this machine then.
    pub(super) cluster: Option<ClusterLauncher>,
}

impl Hub {
    pub(super) fn new(
        fleet: Fleet,
        adapter: SidecarAdapter,
        shims: LocalHttp,
        state: &Path,
        down: mpsc::Sender<Fate>,
        places: Places,
        store: &'static str,
    ) -> Self {
        let (state, began) = (state.to_owned(), Instant::now());
        Self { fleet, adapter, shims, state, began, down, places, store, cluster: None }
    }

    /// The same with agents in a cluster.
    pub(super) fn over(self, cluster: Option<ClusterLauncher>) -> Self {
        Self { cluster, ..self }
    }

    pub(super) fn agents(&self) -> PathBuf {
        self.state.join("agents")
    }

    /// Finds an agent by its id, or by as much of it as only it has.
    pub(super) fn find(&self, named: &AgentId) -> Result<AgentId, Error> {
        let agents = self.fleet.agents();
        if agents.contains(named) {
            return Ok(named.clone());
        }
        let mut begin: Vec<AgentId> = agents.into_iter().filter(|agent| agent.0.starts_with(&named.0)).collect();
        if begin.len() > 1 {
            let ids: Vec<_> = begin.iter().map(|agent| agent.0.as_str()).collect();
            return Err(Error::bad_request(format!("{named} could be any of {}", ids.join(", "))));
        }
        begin.pop().ok_or_else(|| Error::new(ErrorCode::NotFound, format!("there is no agent {named}")))
    }

    /// It does not ask the store, so that it is there also when that is not.
    async fn status(&self) -> Result<Value, Error> {
        words(&FleetHealth {
            status: "running".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            agents: self.fleet.agents().len(),
            orphans: self.orphans().await.len(),
            newest: *self.fleet.newest().borrow(),
            store: store_health(self.store, self.fleet.condition()),
            cluster: self.cluster.as_ref().map(cluster::health),
        })
    }
}

fn store_health(kind: &str, condition: Condition) -> StoreHealth {
    let (condition, lasted, why) = match condition {
        Condition::Fine => ("fine", None, None),
        Condition::Slow(lasted) => ("slow", Some(lasted), None),
        Condition::Lost(lasted, why) => ("lost", Some(lasted), Some(why)),
    };
    StoreHealth { kind: kind.to_owned(), condition: condition.to_owned(), secs: lasted.map(|time| time.as_secs()), why }
}

impl Workspaces for Hub {
    async fn ask(&self, request: WorkspaceRequest, by: &str) -> Result<Value, Error> {
        self.places.ask(request, by).await
    }

    fn tellings(&self) -> broadcast::Receiver<Telling> {
        self.places.tellings()
    }

    async fn caller(&self, token: &str) -> Option<Caller> {
        self.places.caller(token).await
    }

    async fn tool(&self, caller: &Caller, call: ToolCall) -> Result<Value, Error> {
        self.places.tool(caller, call).await
    }
}

impl coop_server::fleet::Fleet for Hub {
    async fn call(&self, request: FleetRequest, by: &str) -> Result<Value, Error> {
        match request {
            FleetRequest::Status => self.status().await,
            FleetRequest::List => self.list().await,
            FleetRequest::Show(id) => self.show(&id).await,
            FleetRequest::Spawn(body) => self.spawn(*body, by).await,
            FleetRequest::Orphans => {
                let orphan = |found: Running| Orphan {
                    id: found.agent,
                    pid: found.pid,
                    driver: found.driver,
                    command: found.command,
                    folder: found.folder.display().to_string(),
                };
                words(&Orphans { orphans: self.orphans().await.into_iter().map(orphan).collect() })
            }
            FleetRequest::Adopt(id) => self.adopt(&id, by).await,
            FleetRequest::Dismiss(id) => {
                let id = self.find(&id)?;
                self.fleet.dismiss(&id, by).await.map_err(said)?;
                words(&Named { id })
            }
            FleetRequest::Revive(id) => {
                let id = self.find(&id)?;
                self.places.revive(&id, by).await?;
                words(&Named { id })
            }
            FleetRequest::Asks => self.asks().await,
            FleetRequest::Audit { most } => self.audit(most).await,
            FleetRequest::Snapshot => self.snapshot().await,
            FleetRequest::News { after, most } => self.news(after, most).await,
            FleetRequest::History { text, most } => self.history(text, most).await,
            FleetRequest::Stats => self.stats().await,
            FleetRequest::Log { agent, after, most } => {
                let agent = match agent {
                    Some(named) => Some(self.find(&named)?),
                    None => None,
                };
                let page = self.fleet.look(move |store| store.log(agent.as_ref(), after, most)).await.map_err(said)?;
                Ok(json!(page))
            }
            FleetRequest::Steered(id) => {
                let id = self.find(&id)?;
                self.fleet.steered(&id, by).await.map_err(said)?;
                Ok(json!({}))
            }
            FleetRequest::Queued(id) => {
                let id = self.find(&id)?;
                self.fleet.queued(&id, by).await.map_err(said)?;
                Ok(json!({}))
            }
            FleetRequest::Decided(id, answer) => {
                let id = self.find(&id)?;
                self.fleet.decided(&id, *answer, by).await.map_err(said)?;
                Ok(json!({}))
            }
            FleetRequest::Down(fate) => {
                // It is being ended already if nobody listens.
                let _ = self.down.send(fate).await;
                words(&Ending { status: "ending".to_owned() })
            }
        }
    }

    fn newest(&self) -> watch::Receiver<u64> {
        self.fleet.newest()
    }

    async fn way(&self, agent: &AgentId) -> Result<Way, Error> {
        let id = self.find(agent)?;
        // Before that nobody knows how it is reached.
        self.fleet.looked_for(&id, FOUND).await;
        Ok(match ShimAgent::of(&self.shims, &id) {
            Some(agent) => Way::Here(Server::new(agent, Config::default()).router()),
            None => {
                let adapter = self.adapter.clone();
                Way::Sidecar(Box::new(move || Box::pin(async move { adapter.connect(&id).await })))
            }
        })
    }

    async fn ended(&self, agent: &AgentId) -> Option<Error> {
        self.end_of(agent).await
    }

    async fn recording(&self, agent: &AgentId) -> Result<Recorded, Error> {
        let id = self.find(agent)?;
        let path = SidecarAdapter::recording(&self.agents().join(&id.0));
        Ok(Recorded { path, name: id.0, links: Links::Refused })
    }
}

/// Returns the name that something has on the wire.
pub(super) fn word(value: &impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

pub(super) fn words(body: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(body).map_err(|wrong| Error::internal(wrong.to_string()))
}

pub(super) fn said(error: FleetError) -> Error {
    let code = match &error {
        FleetError::NoSuchAgent(_) => ErrorCode::NotFound,
        FleetError::Exists(_) | FleetError::BadId(_) | FleetError::Store(StoreError::Undefined { .. }) => {
            ErrorCode::BadRequest
        }
        FleetError::Over | FleetError::Store(StoreError::Lost { .. }) => ErrorCode::NotReady,
        FleetError::NotDone(_) | FleetError::Store(_) => ErrorCode::Internal,
    };
    Error::new(code, error.to_string())
}
