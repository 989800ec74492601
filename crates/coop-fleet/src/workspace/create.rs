//! A new workspace.

use std::fs;
use std::io;
use std::path::Path;

use super::condition::commit_of;
use super::git::Repository;
use super::metadata::Notes;
use super::name::{Key, WorkspaceName};
use super::{Project, Workspace, WorkspaceError, Workspaces, file, keep};

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
        let worktrees = project.git_dir.join("worktrees");
        match fs::create_dir(&worktrees) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(file("cannot make", &worktrees, error));
            }
            _ => {}
        }
        let at = &Repository::open(project).await?;
        let notes = &self.notes(project, at);
        let name = new.name.as_str();
        if at.ask(&["check-ref-format", "--branch", name]).await.ok().flatten().is_none() {
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
        let branch = branch(at, new, &base_commit).await?;
        let mut args = vec!["worktree", "add", "--quiet", "--no-checkout"];
        let target = path.to_str().ok_or_else(|| WorkspaceError::Wrong("the state folder is not UTF-8".to_owned()))?;
        match (&branch, &new.tracking) {
            (Branch::Found, _) => args.extend([target, name]),
            (Branch::Made(_), Some(tracking)) => args.extend(["--track", "-b", name, target, tracking]),
            (Branch::Made(commit), None) => args.extend(["--no-track", "-b", name, target, commit]),
        }
        let made = async {
            at.git(&args).await?;
            // Git was told of a common folder that goes with this call, and wrote that down.
            let own = at.work_tree(&path)?;
            let pointer = path.join(".git");
            let text = format!("gitdir: {}\n", own.location().git_dir.display());
            fs::write(&pointer, text).map_err(|source| file("cannot write", &pointer, source))?;
            own.git(&["reset", "--quiet", "--hard", "--no-recurse-submodules"]).await?;
            if let Branch::Made(_) = branch {
                notes.set(name, &Key::own("made"), "branch").await?;
            }
            if new.tracking.is_some() {
                follow(at, name).await?;
            }
            notes.set(name, &Key::own("base"), &base).await
        };
        if let Err(error) = made.await {
            undo(at, notes, name, &path, &branch).await;
            return Err(error);
        }
        keep::copy(at, &path).await;
        let missing = || WorkspaceError::NoSuchWorkspace(name.to_owned());
        self.workspaces(project).await?.into_iter().find(|workspace| workspace.name == new.name).ok_or_else(missing)
    }
}

async fn branch(at: &Repository, new: &NewWorkspace, base: &str) -> Result<Branch, WorkspaceError> {
    let name = new.name.as_str();
    if commit_of(at, &format!("refs/heads/{name}")).await?.is_some() {
        if new.tracking.is_some() {
            let why = format!("there is a branch {name} already; it can be used, but not made to follow another");
            return Err(WorkspaceError::Taken(why));
        }
        let elsewhere = at.worktrees().await?.into_iter().find(|tree| tree.branch.as_deref() == Some(name));
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

/// Writes down in the repository's own configuration what a branch follows, as git has it.
async fn follow(at: &Repository, name: &str) -> Result<(), WorkspaceError> {
    for key in ["remote", "merge"] {
        let variable = format!("branch.{name}.{key}");
        if let Some(value) = at.ask(&["config", "--get", &variable]).await? {
            at.change_config(&["--replace-all", &variable, value.trim_end_matches('\n')]).await?;
        }
    }
    Ok(())
}

/// Takes back what was made of a workspace. What it cannot take back is logged: the caller has an error already.
async fn undo(at: &Repository, notes: &Notes, name: &str, path: &Path, branch: &Branch) {
    let mut left: Vec<WorkspaceError> = Vec::new();
    if path.symlink_metadata().is_ok()
        && let Some(target) = path.to_str()
    {
        left.extend(fs::remove_dir_all(path).map_err(|source| file("cannot remove", path, source)).err());
        let removed = at.git(&["worktree", "remove", "--force", "--force", target]).await;
        left.extend(removed.err().map(Into::into));
    }
    if let Branch::Made(commit) = branch {
        let name = format!("refs/heads/{name}");
        if commit_of(at, &name).await.ok().flatten().as_ref() == Some(commit) {
            left.extend(at.git(&["update-ref", "-d", &name, commit]).await.err().map(Into::into));
        }
    }
    left.extend(notes.clear(name).await.err());
    for error in left {
        tracing::warn!(name, %error, "a workspace that could not be made left something");
    }
}
