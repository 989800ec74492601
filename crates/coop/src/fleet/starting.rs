//! An agent begins in a workspace: it gets an id and a token for its tools, and is started.

use std::path::Path;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::adapter::can_be_id;
use coop_fleet::engine::Actions;
use coop_fleet::fleet::FleetError;
use coop_fleet::launcher::RunOwner;
use coop_fleet::store::Defined;
use coop_fleet::workspace::Workspace;
use coop_server::fleet::types::Spawned;
use coop_server::workspaces::AgentBody;

use super::hub::said;
use super::places::Places;

/// Ids that are tried for a new agent.
const MOST_IDS: u32 = 10_000;

impl Places {
    /// Starts an agent in a workspace.
    pub(super) async fn spawn(
        &self,
        workspace: &Workspace,
        body: AgentBody,
        by: &str,
        parent: Option<&AgentId>,
    ) -> Result<Spawned, Error> {
        if workspace.is_hibernated() {
            let why = format!("the agents of {} are asleep; wake them first", workspace.name);
            return Err(Error::new(ErrorCode::NotReady, why));
        }
        let folder = workspace.path.to_str().ok_or_else(|| Error::internal("a workspace's path is not UTF-8"))?;
        let (text, name, prompt) = (body.definition, body.name, body.prompt);
        let defined = Defined {
            text,
            name,
            folder: folder.to_owned(),
            prompt,
            parent: parent.cloned(),
            run_owner: RunOwner::Fleet,
        };
        let Some(rules) = defined.rules() else {
            return Err(Error::bad_request(format!("no agent {:?} is defined there, or not well", defined.name)));
        };
        self.check_actions(&rules.actions)?;
        let _naming = self.naming.lock().await;
        if let Some(parent) = parent {
            // One after another: of several at once each would be the last that may.
            let family = self.family().await?;
            family.check_width(parent, self.limits.width)?;
            family.check_budget(parent)?;
        }
        let id = match body.id {
            Some(id) => id,
            None => self.free_id(&defined.name)?,
        };
        self.check_id(&id, &defined.driver().unwrap_or_default())?;
        self.admit(&id, &workspace.path)?;
        let spawned = self.fleet.spawn(&id, defined, by).await;
        if spawned.is_err() {
            self.identities.take(&id);
        }
        Ok(Spawned { id, warnings: spawned.map_err(said)? })
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

    /// Refuses commands that would run on what an agent elsewhere writes.
    pub(super) fn check_actions(&self, actions: &Actions) -> Result<(), Error> {
        match self.sidecars.refuses_commands().filter(|_| actions.has_gate()) {
            Some(why) => Err(Error::bad_request(why)),
            None => Ok(()),
        }
    }

    /// Gives an agent that is about to be started in a workspace its token; elsewhere there are no tools.
    pub(super) fn admit(&self, id: &AgentId, folder: &Path) -> Result<(), Error> {
        if !self.workspaces.workspace_path(folder).is_some_and(|path| path.is_dir()) {
            return Ok(());
        }
        let given = self.identities.give(id);
        given.map_err(|error| Error::internal(format!("cannot write down who {id} is: {error}")))
    }

    /// Returns an id that no agent has: the name, or the name and a number.
    pub(super) fn free_id(&self, name: &str) -> Result<AgentId, Error> {
        let numbered = (2..MOST_IDS).map(|number| AgentId(format!("{name}-{number}")));
        let mut ids = std::iter::once(AgentId(name.to_owned())).chain(numbered);
        ids.find(|id| !self.fleet.is_taken(id)).ok_or_else(|| Error::internal("there are too many agents"))
    }
}
