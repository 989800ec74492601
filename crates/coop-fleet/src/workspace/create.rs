//! A new workspace.

use std::path::Path;

use super::condition::commit_of;
use super::name::{Key, WorkspaceName};
use super::{Project, Workspace, WorkspaceError, Workspaces, git, keep, metadata, worktrees};

/// What a new workspace is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkspace {
    /// Its name. A branch of that name that is there already is used as it is.
    pub name: WorkspaceName,
    /// What it begins at, and is compared with later; the project's usual branch without it.
    pub base: Option<String>,
    /// A remote branch that it begins at and follows.
    pub tracking: Option<String>,
}

/// Where the branch of a new workspace comes from.
enum Branch {
    /// It is there.
    Found,
    /// It is made, at this commit.
    Made(String),
}

impl Workspaces {
    /// Makes a workspace, or nothing.
    pub async fn create(&self, project: &Project, new: &NewWorkspace) -> Result<Workspace, WorkspaceError> {
        let _turn = self.turn(&project.id).await;
        let at = &project.path;
        let name = new.name.as_str();
        if git::ask(at, &["check-ref-format", "--branch", name]).await.ok().flatten().is_none() {
            return Err(WorkspaceError::Wrong(format!("git takes {name:?} for no branch's name")));
        }
        let base = match &new.base {
            Some(base) => base.clone(),
            None => self.default_base(project).await?,
        };
        let missing = |what: &str| WorkspaceError::Wrong(format!("there is no commit {what:?} to begin at"));
        let base_commit = commit_of(at, &base).await?.ok_or_else(|| missing(&base))?;
        let path = self.folder(&project.id).join("workspaces").join(new.name.folder());
        if path.symlink_metadata().is_ok() {
            return Err(WorkspaceError::Taken(format!("there is {} already", path.display())));
        }
        let branch = self.branch(project, new, &base_commit).await?;
        let mut args = vec!["worktree", "add", "--quiet"];
        let target = path.to_str().ok_or_else(|| WorkspaceError::Wrong("the state folder is not UTF-8".to_owned()))?;
        match (&branch, &new.tracking) {
            (Branch::Found, _) => args.extend([target, name]),
            (Branch::Made(_), Some(tracking)) => args.extend(["--track", "-b", name, target, tracking]),
            (Branch::Made(commit), None) => args.extend(["--no-track", "-b", name, target, commit]),
        }
        let made = async {
            git::git(at, &args).await?;
            if let Branch::Made(_) = branch {
                metadata::set(at, name, &Key::own("made"), "branch").await?;
            }
            Ok(metadata::set(at, name, &Key::own("base"), &base).await?)
        };
        if let Err(error) = made.await {
            self.undo(project, name, &path, &branch).await;
            return Err(error);
        }
        keep::copy(&project.path, &path).await;
        let missing = || WorkspaceError::NoSuchWorkspace(name.to_owned());
        self.workspaces(project).await?.into_iter().find(|workspace| workspace.name == new.name).ok_or_else(missing)
    }

    async fn branch(&self, project: &Project, new: &NewWorkspace, base: &str) -> Result<Branch, WorkspaceError> {
        let at = &project.path;
        let name = new.name.as_str();
        if commit_of(at, &format!("refs/heads/{name}")).await?.is_some() {
            if new.tracking.is_some() {
                let why = format!("there is a branch {name} already; it can be used, but not made to follow another");
                return Err(WorkspaceError::Taken(why));
            }
            let listed = git::worktrees(at).await?;
            let elsewhere = worktrees(&listed).into_iter().find(|tree| tree.branch.as_deref() == Some(name));
            return match elsewhere {
                Some(tree) => {
                    Err(WorkspaceError::Taken(format!("the branch {name} is checked out in {}", tree.path.display())))
                }
                None => Ok(Branch::Found),
            };
        }
        let Some(tracking) = &new.tracking else { return Ok(Branch::Made(base.to_owned())) };
        let followed = commit_of(at, &format!("refs/remotes/{tracking}")).await?;
        let missing = || WorkspaceError::Wrong(format!("{tracking:?} is no branch of a remote that is known here"));
        Ok(Branch::Made(followed.ok_or_else(missing)?))
    }

    /// Takes back what was made of a workspace. What it cannot take back is logged: the caller has an error already.
    async fn undo(&self, project: &Project, name: &str, path: &Path, branch: &Branch) {
        let at = &project.path;
        let mut left = Vec::new();
        if path.symlink_metadata().is_ok()
            && let Some(target) = path.to_str()
        {
            left.extend(git::git(at, &["worktree", "remove", "--force", target]).await.err());
        }
        if let Branch::Made(commit) = branch {
            let name = format!("refs/heads/{name}");
            if commit_of(at, &name).await.ok().flatten().as_ref() == Some(commit) {
                left.extend(git::git(at, &["update-ref", "-d", &name, commit]).await.err());
            }
        }
        left.extend(metadata::clear(at, name).await.err());
        for error in left {
            tracing::warn!(name, %error, "a workspace that could not be made left something");
        }
    }
}
