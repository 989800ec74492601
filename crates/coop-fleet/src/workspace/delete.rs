//! The end of a workspace.
//!
//! ```text
//! gates ─► stop agents ─► end processes ─► gates again ─► move to trash ─► git's records ─► branch ─► empty the trash
//!   no: nothing has happened                  no: whole, its agents stopped        cut off here: finished at the next open
//! ```
//!
//! Until the folder is moved away, which is one step, all of it is there. Whatever git cannot tell is a no. The branch is deleted
//! only if coop made it, and only as it was when the gates looked at it.

use std::fs;
use std::future::Future;
use std::path::Path;

use super::condition::{base, fetch, is_dirty, unmerged};
use super::deletion::{DeleteError, Deleted, Deletion, Gates, Intruders, Progress, Step, StepState, Tenants};
use super::git::Repository;
use super::inside::{self, Blocker};
use super::name::Key;
use super::{Project, Workspace, WorkspaceError, Workspaces, file, sweep};

/// Tells of the steps as they begin and end.
struct Teller<'a> {
    progress: Progress,
    tell: &'a (dyn Fn(&Progress) + Sync),
}

impl Teller<'_> {
    async fn step<T>(
        &mut self,
        step: Step,
        work: impl Future<Output = Result<T, DeleteError>> + Send,
    ) -> Result<T, DeleteError> {
        self.set(step, StepState::InProgress);
        let done = work.await;
        self.set(step, if done.is_ok() { StepState::Done } else { StepState::Error });
        done
    }

    fn set(&mut self, step: Step, state: StepState) {
        self.progress.0.iter_mut().filter(|(known, _)| *known == step).for_each(|known| known.1 = state);
        (self.tell)(&self.progress);
    }
}

impl Workspaces {
    /// Looks whether a workspace may be deleted, and does nothing.
    pub async fn check_deletion(
        &self,
        workspace: &Workspace,
        deletion: Deletion,
        tenants: &impl Tenants,
    ) -> Result<(), DeleteError> {
        let project = self.project(&workspace.project_id)?;
        self.gates(&project, workspace, deletion).await?;
        let keepers = tenants.keepers(&workspace.path).await;
        let found = inside::find(&workspace.path, &keepers);
        let is_own = |blocker: &Blocker| blocker.pid == std::process::id();
        match deletion.intruders {
            Intruders::Block if !found.is_empty() => Err(blocked(workspace, found)),
            Intruders::End if found.iter().any(is_own) => Err(blocked(workspace, found)),
            Intruders::Block | Intruders::End => Ok(()),
        }
    }

    /// Deletes the workspace at a path. That there is none any more is what was wanted.
    pub async fn delete(
        &self,
        path: &Path,
        deletion: Deletion,
        tenants: &impl Tenants,
        tell: &(dyn Fn(&Progress) + Sync),
    ) -> Result<Deleted, DeleteError> {
        let missing = || WorkspaceError::NoSuchWorkspace(path.display().to_string());
        let id = self.project_of(path).ok_or_else(missing)?;
        let project = self.project(&id)?;
        let _turn = self.turn(&id).await;
        let workspaces = self.workspaces(&project).await?;
        let Some(workspace) = workspaces.into_iter().find(|workspace| workspace.path == path) else {
            sweep::finish(self, &project).await?;
            return Ok(Deleted { was_there: false, branch_deleted: false });
        };
        let mut teller = Teller { progress: Progress::new(), tell };
        teller.step(Step::CheckGates, self.check_deletion(&workspace, deletion, tenants)).await?;
        let left = async { tenants.leave(path).await.map_err(DeleteError::Tenants) };
        teller.step(Step::StopAgents, left).await?;
        teller.step(Step::KillBlockers, clear(&workspace, deletion)).await?;
        // Whoever was there until now may have changed something.
        let gone = async {
            let head = self.gates(&project, &workspace, deletion).await?;
            self.remove(&project, &workspace, deletion, head).await
        };
        let branch_deleted = teller.step(Step::CleanupWorkspace, gone).await?;
        teller.step(Step::DeleteBranch, async { Ok(sweep::finish(self, &project).await?) }).await?;
        Ok(Deleted { was_there: true, branch_deleted })
    }

    /// Refuses what would lose something, and what cannot be told. Returns the commit that was looked at.
    async fn gates(&self, project: &Project, known: &Workspace, deletion: Deletion) -> Result<String, DeleteError> {
        let name = || known.name.to_string();
        // As it is now, and not as it was when somebody looked it up.
        let workspaces = self.workspaces(project).await?;
        let missing = || WorkspaceError::NoSuchWorkspace(name());
        let workspace = workspaces.into_iter().find(|found| found.path == known.path).ok_or_else(missing)?;
        if deletion.gates == Gates::Ignored {
            return Ok(workspace.head);
        }
        if let Some(why) = &workspace.locked {
            return Err(DeleteError::Locked { name: name(), why: why.clone() });
        }
        let repository = &Repository::open(project).await?;
        if is_dirty(repository, &workspace).await? {
            return Err(DeleteError::Dirty(name()));
        }
        // A single commit that no branch has is lost with the workspace, whatever becomes of the branch.
        if deletion.keep_branch && workspace.branch.is_some() {
            return Ok(workspace.head);
        }
        let base = base(repository, &workspace).await?;
        let mut count = unmerged(repository, &base, &workspace.head).await?;
        if count > 0 {
            fetch(repository, &base).await;
            count = unmerged(repository, &base, &workspace.head).await?;
        }
        if count > 0 {
            return Err(DeleteError::Unmerged { name: name(), count, base });
        }
        Ok(workspace.head)
    }

    /// Moves the folder away and lets git forget it. Returns whether the branch goes with it.
    async fn remove(
        &self,
        project: &Project,
        workspace: &Workspace,
        deletion: Deletion,
        head: String,
    ) -> Result<bool, DeleteError> {
        let name = workspace.name.as_str();
        let is_ours = workspace.metadata.get("made").is_some_and(|made| made == "branch");
        let is_there = workspace.branch.as_deref() == Some(name);
        let deletes = !deletion.keep_branch && is_ours && is_there;
        // From here on it is finished by whoever opens the project next, if not by us.
        let fate = if deletes { head } else { "keep".to_owned() };
        let notes = self.notes(project, &Repository::open(project).await?);
        notes.set(name, &Key::own("closing"), &fate).await?;
        let trash = self.folder(&project.id).join("trash").join(format!("{:016x}", fastrand::u64(..)));
        if let Err(source) = fs::rename(&workspace.path, &trash) {
            notes.remove(name, "closing").await?;
            return Err(file("cannot move", &workspace.path, source).into());
        }
        Ok(deletes)
    }
}

/// Ends what still works in a workspace, if it may.
async fn clear(workspace: &Workspace, deletion: Deletion) -> Result<(), DeleteError> {
    let left = match deletion.intruders {
        Intruders::Block => inside::outlast(&workspace.path).await,
        Intruders::End => inside::end(&workspace.path).await,
    };
    if left.is_empty() { Ok(()) } else { Err(blocked(workspace, left)) }
}

fn blocked(workspace: &Workspace, blockers: Vec<Blocker>) -> DeleteError {
    DeleteError::Blocked { name: workspace.name.to_string(), blockers }
}
