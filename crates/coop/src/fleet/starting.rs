//! An agent begins in a workspace: it gets an id and a token for its tools, and is started.

use std::path::Path;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::adapter::can_be_id;
use coop_fleet::fleet::FleetError;
use coop_fleet::store::Defined;
use coop_fleet::workspace::Workspace;
use coop_server::workspaces::{AgentBody, Caller};

use super::hub::said;
use super::places::Places;

/// Ids that are tried for a new agent.
const MOST_IDS: u32 = 10_000;

impl Places {
    /// Starts an agent in a workspace, and returns its id.
    pub(super) async fn spawn(
        &self,
        workspace: &Workspace,
        body: AgentBody,
        by: &str,
        depth: u32,
    ) -> Result<AgentId, Error> {
        if workspace.is_hibernated() {
            let why = format!("the agents of {} are asleep; wake them first", workspace.name);
            return Err(Error::new(ErrorCode::NotReady, why));
        }
        let folder = workspace.path.to_str().ok_or_else(|| Error::internal("a workspace's path is not UTF-8"))?;
        let defined =
            Defined { text: body.definition, name: body.name, folder: folder.to_owned(), prompt: body.prompt };
        if defined.rules().is_none() {
            return Err(Error::bad_request(format!("no agent {:?} is defined there, or not well", defined.name)));
        }
        let _naming = self.naming.lock().await;
        let id = match body.id {
            Some(id) => id,
            None => self.free_id(&defined.name)?,
        };
        self.check_id(&id, &defined.driver().unwrap_or_default())?;
        self.admit(&id, &workspace.path, depth)?;
        let spawned = self.fleet.spawn(&id, defined, by).await;
        if spawned.is_err() {
            self.identities.take(&id);
        }
        spawned.map_err(said)?;
        Ok(id)
    }

    /// Refuses an id that no new agent can have, before anything is written down or anybody is asked.
    pub(super) fn check_id(&self, id: &AgentId, driver: &str) -> Result<(), Error> {
        if !can_be_id(id) {
            return Err(said(FleetError::BadId(id.clone())));
        }
        if self.fleet.is_taken(id) {
            return Err(said(FleetError::Exists(id.clone())));
        }
        // One behind a shim is a process of this machine, wherever the others run.
        match self.sidecars.refuses(id).filter(|_| driver != "shim") {
            Some(why) => Err(Error::bad_request(why)),
            None => Ok(()),
        }
    }

    /// Gives an agent that is about to be started in a workspace its token; elsewhere there are no tools.
    pub(super) fn admit(&self, id: &AgentId, folder: &Path, depth: u32) -> Result<(), Error> {
        let Some(workspace) = self.workspaces.workspace_path(folder).filter(|path| path.is_dir()) else {
            return Ok(());
        };
        let given = self.identities.give(Caller { agent: id.clone(), workspace, depth });
        given.map_err(|error| Error::internal(format!("cannot write down who {id} is: {error}")))
    }

    /// Returns an id that no agent has: the name, or the name and a number.
    pub(super) fn free_id(&self, name: &str) -> Result<AgentId, Error> {
        let numbered = (2..MOST_IDS).map(|number| AgentId(format!("{name}-{number}")));
        let mut ids = std::iter::once(AgentId(name.to_owned())).chain(numbered);
        ids.find(|id| !self.fleet.is_taken(id)).ok_or_else(|| Error::internal("there are too many agents"))
    }
}
