//! The end of a workspace: its agents go, then it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use coop_api::{Error, ErrorCode};
use coop_fleet::workspace::{DeleteError, Deleted, Deletion, Gates, Intruders, Progress, Tenants, Workspace};
use coop_server::workspaces::DeleteBody;
use serde_json::json;

use super::places::{Places, is_there, wrong};

impl Places {
    /// Deletes a workspace. It goes on when nobody waits for it any more.
    pub(super) async fn delete(&self, path: PathBuf, deletion: Deletion, by: &str) -> Result<Deleted, Error> {
        let places = self.clone();
        let by = by.to_owned();
        let work = tokio::spawn(async move {
            let tenants = Leaving { places: places.clone(), by };
            let tell = |progress: &Progress| {
                places.tell("workspace:deletion-progress", json!({ "path": path, "steps": progress }));
            };
            let deleted = places.workspaces.delete(&path, deletion, &tenants, &tell).await;
            if deleted.is_ok() {
                places.clear_after(&path).await;
            }
            deleted
        });
        work.await.map_err(|error| Error::internal(error.to_string()))?.map_err(kept)
    }

    /// Removes what is kept of the agents of a workspace that is gone: nothing of it can go on any more. What happened to them
    /// stays in the store.
    async fn clear_after(&self, path: &Path) {
        for agent in self.agents_in(path).await.unwrap_or_default() {
            self.identities.take(&agent.id);
            let folder = self.agents.join(&agent.id.0);
            if !is_there(&agent)
                && let Err(error) = fs::remove_dir_all(&folder)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(folder = %folder.display(), %error, "it cannot be removed");
            }
        }
    }

    /// Looks whether a workspace may be deleted.
    pub(super) async fn check_deletion(&self, workspace: &Workspace, deletion: Deletion) -> Result<(), Error> {
        let tenants = Leaving { places: self.clone(), by: String::new() };
        self.workspaces.check_deletion(workspace, deletion, &tenants).await.map_err(kept)
    }
}

/// The agents of a workspace that is deleted in somebody's name.
struct Leaving {
    places: Places,
    by: String,
}

impl Tenants for Leaving {
    async fn keepers(&self, workspace: &Path) -> Vec<u32> {
        let agents = self.places.agents_in(workspace).await.unwrap_or_default();
        agents.iter().filter_map(|agent| self.places.sidecars.process(&agent.id)).collect()
    }

    async fn leave(&self, workspace: &Path) -> Result<(), String> {
        let agents = self.places.agents_in(workspace).await.map_err(|error| error.message)?;
        for agent in agents {
            // A sidecar stays when its agent has ended, unless somebody has decided what became of it.
            if agent.outcome.is_none() || is_there(&agent) {
                let ended = self.places.fleet.dismiss(&agent.id, &self.by).await;
                ended.map_err(|error| format!("{}: {error}", agent.id))?;
            }
            self.places.identities.take(&agent.id);
        }
        Ok(())
    }
}

pub(super) fn deletion(body: DeleteBody) -> Deletion {
    Deletion {
        keep_branch: body.keep_branch,
        gates: if body.ignore_warnings { Gates::Ignored } else { Gates::Closed },
        intruders: if body.kill { Intruders::End } else { Intruders::Block },
    }
}

fn kept(error: DeleteError) -> Error {
    match error {
        DeleteError::Failed(error) => wrong(error),
        DeleteError::Dirty(_)
        | DeleteError::Unmerged { .. }
        | DeleteError::Locked { .. }
        | DeleteError::Blocked { .. } => Error::new(ErrorCode::Forbidden, error.to_string()),
        DeleteError::Tenants(_) => Error::internal(error.to_string()),
    }
}
