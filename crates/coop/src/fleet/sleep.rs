//! Agents of a workspace sleep and wake, and any agent goes on with its conversation, unless a person has that open.

use std::collections::BTreeMap;
use std::sync::Arc;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::workspace::Workspace;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::hub::said;
use super::places::{Places, is_there, wrong};

/// Agents that are just being let go on.
pub(super) type Reviving = Arc<Mutex<BTreeMap<AgentId, Shared<BoxFuture<'static, Result<(), Error>>>>>>;

impl Places {
    /// Ends the agents of a workspace and remembers which.
    pub(super) async fn hibernate(&self, workspace: &Workspace, by: &str) -> Result<Value, Error> {
        let asleep = noted(workspace)?;
        let awake = self.agents_in(&workspace.path).await?.into_iter().filter(is_there).map(|agent| agent.id);
        let mut ids: Vec<AgentId> = awake.collect();
        let all: Vec<_> = asleep.into_iter().filter(|id| !ids.contains(id)).chain(ids.iter().cloned()).collect();
        // First: whoever is ended and not noted would not be woken.
        let note = serde_json::to_string(&all).unwrap_or_default();
        self.workspaces.hibernated(workspace, Some(&note)).await.map_err(wrong)?;
        for id in ids.drain(..) {
            self.fleet.dismiss(&id, by).await.map_err(said)?;
        }
        Ok(json!({ "agents": all }))
    }

    /// Lets the agents of a workspace go on, and no other that a note might name. One that cannot is told of, and keeps no other from it. One whose conversation
    /// a person has open sleeps on: it can be woken when that has ended.
    pub(super) async fn wake(&self, workspace: &Workspace, by: &str) -> Result<Value, Error> {
        let (mut woken, mut failed, mut asleep) = (Vec::new(), Vec::new(), Vec::new());
        let own: Vec<_> = self.agents_in(&workspace.path).await?.into_iter().map(|agent| agent.id).collect();
        for id in noted(workspace)?.into_iter().filter(|id| own.contains(id)) {
            match self.revive(&id, by).await {
                Ok(()) => woken.push(id),
                Err(error) => {
                    failed.push(json!({ "id": id, "why": error.message }));
                    if error.code == ErrorCode::AgentBusy {
                        asleep.push(id);
                    }
                }
            }
        }
        let note = (!asleep.is_empty()).then(|| serde_json::to_string(&asleep).unwrap_or_default());
        self.workspaces.hibernated(workspace, note.as_deref()).await.map_err(wrong)?;
        Ok(json!({ "agents": woken, "failed": failed }))
    }

    /// Lets an agent go on with its conversation in a new process. Whoever asks for it while that is begun gets the same one.
    pub(super) async fn revive(&self, id: &AgentId, by: &str) -> Result<(), Error> {
        let reviving = {
            let mut all = self.reviving.lock().await;
            match all.get(id) {
                Some(reviving) => reviving.clone(),
                None => {
                    let (places, id, by) = (self.clone(), id.clone(), by.to_owned());
                    let known = id.clone();
                    let reviving = async move {
                        let revived = places.revive_once(&id, &by).await;
                        places.reviving.lock().await.remove(&id);
                        revived
                    };
                    let reviving = reviving.boxed().shared();
                    // It goes on when nobody waits for it any more.
                    tokio::spawn(reviving.clone());
                    all.insert(known, reviving.clone());
                    reviving
                }
            }
        };
        reviving.await
    }

    /// Does so unless a person has the conversation open. One in which nothing was said yet nobody goes on with.
    async fn revive_once(&self, id: &AgentId, by: &str) -> Result<(), Error> {
        let named = id.clone();
        let conversation = self.fleet.look(move |store| {
            let has_begun = store.agent(&named)?.is_some_and(|agent| agent.turn > 0);
            if has_begun { store.conversation(&named) } else { Ok(None) }
        });
        if let Some(conversation) = conversation.await.map_err(said)? {
            self.guests.check(&conversation)?;
        }
        self.fleet.revive(id, by).await.map_err(said)
    }
}

/// Returns the agents of a workspace that are asleep.
fn noted(workspace: &Workspace) -> Result<Vec<AgentId>, Error> {
    let Some(note) = workspace.metadata.get("hibernated") else { return Ok(Vec::new()) };
    let unread =
        |error| Error::internal(format!("which agents of {} are asleep cannot be read: {error}", workspace.name));
    serde_json::from_str(note).map_err(unread)
}
