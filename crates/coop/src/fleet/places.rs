//! Projects and workspaces of the daemon, and the agents in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::adapter::SidecarAdapter;
use coop_fleet::engine::{Agent, Phase};
use coop_fleet::fleet::{Fleet, Machine};
use coop_fleet::launcher::RunOwner;
use coop_fleet::store::{Store, StoreError};
use coop_fleet::workspace::{
    AgentStatus, Deletion, Freshness, Gates, Key, NewWorkspace, Project, StatusFeed, Workspace, WorkspaceError,
    WorkspaceName, Workspaces,
};
use coop_server::workspaces::{CreateBody, Place, Telling, WorkspaceRequest};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, broadcast};

use super::family::Family;
use super::guests::Guests;
use super::hub::{said, words};
use super::identity::Identities;
use super::leaving::deletion;
use super::sleep::Reviving;
use super::socket;
use super::tellings::Tellings;

/// How far agents may go by their tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolLimits {
    /// Whether they reach workspaces and agents of other projects.
    pub(super) all_projects: bool,
    /// How many agents below one another may be started by agents.
    pub(super) depth: u32,
    /// How many agents may live that one agent started, or agents below it.
    pub(super) width: u32,
}

#[derive(Clone)]
pub(super) struct Places {
    pub(super) fleet: Fleet,
    pub(super) sidecars: SidecarAdapter,
    pub(super) workspaces: Workspaces,
    pub(super) machine: Machine,
    pub(super) limits: ToolLimits,
    pub(super) identities: Identities,
    pub(super) agents: PathBuf,
    pub(super) guests: Guests,
    feed: Arc<StatusFeed>,
    tellings: Tellings,
    /// One agent at a time gets its id.
    pub(super) naming: Arc<Mutex<()>>,
    pub(super) reviving: Reviving,
}

impl Places {
    pub(super) fn new(
        fleet: Fleet,
        sidecars: SidecarAdapter,
        guests: Guests,
        state: &Path,
        machine: Machine,
        limits: ToolLimits,
    ) -> Result<Self, WorkspaceError> {
        let workspaces = Workspaces::new(state)?;
        let tellings = guests.tellings();
        let feed = StatusFeed::start(fleet.clone(), workspaces.clone(), guests.doings());
        let (mut changes, told) = (feed.changes(), tellings.clone());
        tokio::spawn(async move {
            loop {
                match changes.recv().await {
                    Ok(change) => told.tell("workspace:status-changed", json!(change)),
                    Err(RecvError::Lagged(missed)) => told.tell("workspace:lagged", json!({ "missed": missed })),
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let agents = state.join("agents");
        let identities = Identities::load(&agents, &socket(state));
        let feed = Arc::new(feed);
        Ok(Self {
            fleet,
            sidecars,
            workspaces,
            machine,
            limits,
            identities,
            agents,
            guests,
            feed,
            tellings,
            naming: Arc::default(),
            reviving: Reviving::default(),
        })
    }

    pub(super) fn tellings(&self) -> broadcast::Receiver<Telling> {
        self.tellings.subscribe()
    }

    pub(super) fn tell(&self, name: &'static str, data: Value) {
        self.tellings.tell(name, data);
    }

    pub(super) async fn ask(&self, request: WorkspaceRequest, by: &str) -> Result<Value, Error> {
        match request {
            WorkspaceRequest::Projects => self.projects(|_| true).await,
            WorkspaceRequest::Arrive(body) => self.arrive(body).await,
            WorkspaceRequest::Sessions { folder } => self.sessions(&folder).await,
            WorkspaceRequest::Open(body) => {
                if !body.path.starts_with('/') {
                    return Err(Error::bad_request("the folder is not a whole path"));
                }
                Ok(json!(self.workspaces.open(Path::new(&body.path)).await.map_err(wrong)?))
            }
            WorkspaceRequest::Close(id) => {
                let project = self.workspaces.project(&id).map_err(wrong)?;
                self.workspaces.close(&project).await.map_err(wrong)?;
                Ok(json!({ "id": id }))
            }
            WorkspaceRequest::Sweep(id) => {
                let project = self.workspaces.project(&id).map_err(wrong)?;
                let swept = self.workspaces.sweep(&project).await.map_err(wrong)?;
                let left: Vec<_> = swept.left.iter().map(|(path, why)| json!({ "path": path, "why": why })).collect();
                Ok(json!({ "removed": swept.removed, "left": left }))
            }
            WorkspaceRequest::Create(body) => {
                let project = self.workspaces.project(&body.project).map_err(wrong)?;
                self.create(&project, *body, by, None).await
            }
            WorkspaceRequest::Show { place, refresh } => {
                let workspace = self.find(&place).await?;
                self.show(&workspace, refresh).await
            }
            WorkspaceRequest::Delete(place, body) => {
                let path = self.path(&place)?;
                Ok(json!(self.delete(path, deletion(body), by).await?))
            }
            WorkspaceRequest::Note(place, body) => {
                let workspace = self.find(&place).await?;
                self.note(&workspace, body.key, body.value.as_deref()).await?;
                Ok(json!({}))
            }
            WorkspaceRequest::Hibernate(place) => self.hibernate(&self.find(&place).await?, by).await,
            WorkspaceRequest::Wake(place) => self.wake(&self.find(&place).await?, by).await,
            WorkspaceRequest::Spawn(place, body) => {
                let workspace = self.find(&place).await?;
                words(&self.spawn(&workspace, *body, by, None).await?)
            }
        }
    }

    /// Returns the path that a workspace of this name has, whether there is one or not.
    fn path(&self, place: &Place) -> Result<PathBuf, Error> {
        let project = self.workspaces.project(&place.project).map_err(wrong)?;
        let name = WorkspaceName::new(&place.name).map_err(|error| wrong(error.into()))?;
        Ok(self.workspaces.path_of(&project, &name))
    }

    async fn find(&self, place: &Place) -> Result<Workspace, Error> {
        Ok(self.workspaces.at(&self.path(place)?).await.map_err(wrong)?.1)
    }

    pub(super) async fn projects(&self, is_wanted: impl Fn(&Project) -> bool) -> Result<Value, Error> {
        let mut told = Vec::new();
        for project in self.workspaces.projects().map_err(wrong)?.into_iter().filter(is_wanted) {
            let mut one = json!(project);
            one["agent"] = json!(self.feed.project(&project.id));
            match self.workspaces.workspaces(&project).await {
                Ok(workspaces) => {
                    one["workspaces"] = workspaces.iter().map(|workspace| self.card(workspace)).collect();
                    one["defaultBaseBranch"] = json!(self.workspaces.default_base(&project).await.ok());
                }
                // The others can be told all the same.
                Err(error) => one["error"] = json!(error.to_string()),
            }
            told.push(one);
        }
        Ok(json!({ "projects": told }))
    }

    fn card(&self, workspace: &Workspace) -> Value {
        let mut card = json!(workspace);
        card["agent"] = json!(self.status(workspace));
        card
    }

    fn status(&self, workspace: &Workspace) -> AgentStatus {
        self.feed.workspace(&workspace.path)
    }

    pub(super) async fn show(&self, workspace: &Workspace, refresh: bool) -> Result<Value, Error> {
        let freshness = if refresh { Freshness::Fetched } else { Freshness::AsKnown };
        let condition = self.workspaces.condition(workspace, freshness).await.map_err(wrong)?;
        let mut card = self.card(workspace);
        card["isDirty"] = json!(condition.is_dirty);
        card["unmergedCommits"] = json!(condition.unmerged_commits);
        Ok(card)
    }

    pub(super) async fn note(&self, workspace: &Workspace, key: String, value: Option<&str>) -> Result<(), Error> {
        let key = Key::of_others(key).map_err(|error| wrong(error.into()))?;
        self.workspaces.note(workspace, &key, value).await.map_err(wrong)
    }

    /// Makes a workspace with its agent, or nothing.
    pub(super) async fn create(
        &self,
        project: &Project,
        body: CreateBody,
        by: &str,
        parent: Option<&AgentId>,
    ) -> Result<Value, Error> {
        let name = WorkspaceName::new(body.name).map_err(|error| wrong(error.into()))?;
        let new = NewWorkspace { name, base: body.base, tracking: body.tracking };
        let workspace = self.workspaces.create(project, &new).await.map_err(wrong)?;
        let mut card = self.card(&workspace);
        if let Some(agent) = body.agent {
            match self.spawn(&workspace, agent, by, parent).await {
                Ok(spawned) => card["agentId"] = json!(spawned.id),
                Err(error) => {
                    // Nobody has worked there.
                    let all = Deletion { gates: Gates::Ignored, ..Deletion::default() };
                    self.delete(workspace.path, all, by).await?;
                    return Err(error);
                }
            }
        }
        Ok(card)
    }

    /// Returns which agents were started by which.
    pub(super) async fn family(&self) -> Result<Family, Error> {
        self.fleet.look(Family::read).await.map_err(said)
    }

    /// Returns the agents that were started below a folder.
    pub(super) async fn agents_in(&self, folder: &Path) -> Result<Vec<Agent>, Error> {
        let folder = folder.to_owned();
        let found = self.fleet.look(move |store| {
            let mut found = Vec::new();
            for agent in store.agents()? {
                if store.defined(&agent.id)?.is_some_and(|defined| Path::new(&defined.folder).starts_with(&folder)) {
                    found.push(agent);
                }
            }
            Ok(found)
        });
        found.await.map_err(said)
    }
}

pub(super) fn is_there(agent: &Agent) -> bool {
    agent.phase != Phase::Dead
}

/// Returns the agents that the fleet starts and ends, and with `Others` those that it only follows.
pub(super) fn agents_of(store: &Store, run_owner: RunOwner) -> Result<Vec<Agent>, StoreError> {
    let mut found = Vec::new();
    for agent in store.agents()? {
        if store.run_owner(&agent.id)? == run_owner {
            found.push(agent);
        }
    }
    Ok(found)
}

pub(super) fn wrong(error: WorkspaceError) -> Error {
    let code = match &error {
        WorkspaceError::NoSuchProject(_) | WorkspaceError::NoSuchWorkspace(_) => ErrorCode::NotFound,
        WorkspaceError::Name(_)
        | WorkspaceError::NoRepository { .. }
        | WorkspaceError::Taken(_)
        | WorkspaceError::Wrong(_) => ErrorCode::BadRequest,
        WorkspaceError::Git(_) | WorkspaceError::File { .. } => ErrorCode::Internal,
    };
    Error::new(code, error.to_string())
}
