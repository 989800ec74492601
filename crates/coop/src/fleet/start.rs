//! Agents that come to a fleet: those that are started, and those whose sidecars run already.

use std::path::Path;

use coop_api::{AgentId, Error, ErrorCode};
use coop_drivers::KNOWN;
use coop_fleet::definition::Definition;
use coop_fleet::launcher::{RunOwner, Running};
use coop_fleet::store::Defined;
use coop_server::fleet::types::{Named, SpawnBody, Spawned};
use serde_json::Value;

use super::adhoc;
use super::hub::{Hub, said, words};

/// What a definition can name beside the agents coop knows: by its command, none of them, and one behind a shim.
const OTHER_DRIVERS: [&str; 3] = ["auto", "unknown", "shim"];

impl Hub {
    /// What cannot be is refused before anything is written down.
    pub(super) async fn spawn(&self, body: SpawnBody, by: &str) -> Result<Value, Error> {
        let definition = Definition::parse(&body.definition).map_err(|wrong| Error::bad_request(wrong.to_string()))?;
        let names = || definition.agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let unknown =
            || Error::bad_request(format!("no agent {:?} is defined there; there is: {}", body.name, names()));
        let defined = definition.agents.get(&body.name).ok_or_else(unknown)?;
        check_driver(&defined.driver)?;
        self.places.check_actions(&defined.actions)?;
        let folder = Path::new(&body.folder).join(defined.folder.as_deref().unwrap_or_default());
        let folder = folder.to_str().ok_or_else(|| Error::bad_request("the folder's name is not UTF-8"))?;
        let folder = match folder.trim_end_matches('/') {
            "" => folder,
            folder => folder,
        };
        let folder = folder.to_owned();
        if !folder.starts_with('/') {
            return Err(Error::bad_request("the folder is not a whole path"));
        }
        if self.cluster.is_none() && !Path::new(&folder).is_dir() {
            return Err(Error::bad_request(format!("there is no folder {folder} for it to work in")));
        }
        // Until it is written down nobody else gets this id, nor its token.
        let _naming = self.places.naming.lock().await;
        let id = match body.id {
            Some(id) => id,
            None => self.places.free_id(&body.name)?,
        };
        self.places.check_id(&id, &defined.driver)?;
        self.places.admit(&id, Path::new(&folder))?;
        let defined = Defined {
            text: body.definition,
            name: body.name,
            folder,
            prompt: body.prompt,
            parent: None,
            run_owner: RunOwner::Fleet,
        };
        match self.fleet.spawn(&id, defined, by).await {
            Ok(warnings) => words(&Spawned { id, warnings }),
            Err(error) => {
                self.places.identities.take(&id);
                Err(said(error))
            }
        }
    }

    /// Returns the sidecars that run and that the store does not know.
    pub(super) async fn orphans(&self) -> Vec<Running> {
        let mut running = self.adapter.running().await;
        let known = self.fleet.agents();
        running.retain(|found| !known.contains(&found.agent));
        running
    }

    /// Takes over an agent of which only its sidecar is left. What was to be done about it is not known, so a person is
    /// called for everything.
    pub(super) async fn adopt(&self, id: &AgentId, by: &str) -> Result<Value, Error> {
        let missing = || Error::new(ErrorCode::NotFound, format!("no sidecar {id} runs that is not known"));
        let found = self.orphans().await.into_iter().find(|found| found.agent == *id).ok_or_else(missing)?;
        let text = adhoc::definition(&found);
        Definition::parse(&text).map_err(|wrong| Error::bad_request(format!("it cannot be taken over: {wrong}")))?;
        let folder = found.folder.to_str().ok_or_else(|| Error::bad_request("its folder's name is not UTF-8"))?;
        let defined = Defined {
            text,
            name: id.0.clone(),
            folder: folder.to_owned(),
            prompt: None,
            parent: None,
            run_owner: found.run_owner,
        };
        self.fleet.adopt(id, defined, by).await.map_err(said)?;
        words(&Named { id: id.clone() })
    }
}

fn check_driver(driver: &str) -> Result<(), Error> {
    let mut names = KNOWN.iter().map(|known| known.name).chain(OTHER_DRIVERS);
    if names.clone().any(|name| name == driver) {
        return Ok(());
    }
    let first = names.next().unwrap_or_default().to_owned();
    let names = names.fold(first, |all, name| format!("{all}, {name}"));
    Err(Error::bad_request(format!("coop knows no driver {driver:?}; it knows {names}")))
}
