//! What would be lost with a workspace.

use serde::Serialize;

use super::git::{self, GitError};
use super::{Project, Workspace, WorkspaceError, Workspaces};

/// What is in a workspace and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Whether there are changes that are not committed, or files that git does not know and was not told to ignore.
    pub is_dirty: bool,
    /// Commits that the base does not have.
    pub unmerged_commits: u64,
}

/// Whether remote branches are fetched first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// As they were last known.
    AsKnown,
    /// As they are now. If they cannot be fetched it is as if nobody had asked.
    Fetched,
}

impl Workspaces {
    /// Looks what would be lost. What cannot be told is an error.
    pub async fn condition(&self, workspace: &Workspace, freshness: Freshness) -> Result<Condition, WorkspaceError> {
        let project = self.project(&workspace.project_id)?;
        let base = base(&project, workspace).await?;
        if freshness == Freshness::Fetched {
            fetch(&project, &base).await;
        }
        let unmerged_commits = unmerged(&project, &base, &workspace.head).await?;
        Ok(Condition { is_dirty: is_dirty(workspace).await?, unmerged_commits })
    }

    /// Returns the branch that a new workspace begins at if nobody says otherwise.
    pub async fn default_base(&self, project: &Project) -> Result<String, WorkspaceError> {
        let at = &project.path;
        let remote = git::ask(at, &["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]).await?;
        let own = git::ask(at, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await?;
        let named = [remote, own].into_iter().flatten().map(|name| name.trim().to_owned());
        let usual = ["origin/main", "main", "origin/master", "master"].map(str::to_owned);
        for name in named.chain(usual) {
            if commit_of(at, &name).await?.is_some() {
                return Ok(name);
            }
        }
        Err(WorkspaceError::Wrong("the repository has no commit to begin at".to_owned()))
    }
}

/// Returns what a workspace is compared with.
pub(super) async fn base(project: &Project, workspace: &Workspace) -> Result<String, WorkspaceError> {
    let unknown = || {
        WorkspaceError::Wrong(format!(
            "what {} was made from is not known, so nobody can tell what is new there",
            workspace.name
        ))
    };
    let base = workspace.metadata.get("base").cloned().ok_or_else(unknown)?;
    // A base that looks like an option would be one.
    if base.starts_with('-') || commit_of(&project.path, &base).await?.is_none() {
        return Err(WorkspaceError::Wrong(format!("{base:?}, the base of {}, is not there any more", workspace.name)));
    }
    Ok(base)
}

pub(super) async fn is_dirty(workspace: &Workspace) -> Result<bool, GitError> {
    // Whatever the configuration says should not be shown.
    let args = ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=none"];
    Ok(!git::git(&workspace.path, &args).await?.is_empty())
}

/// Counts the commits of a head that the base does not have, not even as the same change.
pub(super) async fn unmerged(project: &Project, base: &str, head: &str) -> Result<u64, GitError> {
    let range = format!("{base}...{head}");
    let args = ["rev-list", "--count", "--cherry-pick", "--right-only", &range, "--"];
    let said = git::git(&project.path, &args).await?;
    said.trim().parse().map_err(|_| GitError::Unread { what: "rev-list".to_owned(), said })
}

/// Brings the remote of a remote branch up to date, if it can be.
pub(super) async fn fetch(project: &Project, base: &str) {
    let Some((remote, _)) = base.split_once('/') else { return };
    let remotes = git::git(&project.path, &["remote"]).await.unwrap_or_default();
    if remotes.lines().any(|known| known == remote)
        && let Err(error) = git::git(&project.path, &["fetch", "--quiet", remote]).await
    {
        tracing::info!(%error, remote, "it cannot be fetched; what is known of it counts");
    }
}

/// Returns the commit that something names, if it names one.
pub(super) async fn commit_of(at: &std::path::Path, name: &str) -> Result<Option<String>, GitError> {
    let commit = format!("{name}^{{commit}}");
    let found = git::ask(at, &["rev-parse", "--quiet", "--verify", "--end-of-options", &commit]).await?;
    Ok(found.map(|commit| commit.trim().to_owned()))
}
