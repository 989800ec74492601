//! What would be lost with a workspace.

use coop_folder::{Location, Remotes};
use serde::Serialize;

use super::git::{GitError, Repository};
use super::{Project, Workspace, WorkspaceError, Workspaces};

/// How deep submodules are looked at. What is deeper counts as changed.
const DEEPEST_SUBMODULE: u32 = 8;

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
        let repository = Repository::open(&project).await?;
        let base = base(&repository, workspace).await?;
        if freshness == Freshness::Fetched {
            fetch(&repository, &base).await;
        }
        let unmerged_commits = unmerged(&repository, &base, &workspace.head).await?;
        Ok(Condition { is_dirty: is_dirty(&repository, workspace).await?, unmerged_commits })
    }

    /// Returns the branch that a new workspace begins at if nobody says otherwise.
    pub async fn default_base(&self, project: &Project) -> Result<String, WorkspaceError> {
        let at = &Repository::open(project).await?;
        let remote = at.ask(&["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]).await?;
        let own = at.ask(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await?;
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
pub(super) async fn base(repository: &Repository, workspace: &Workspace) -> Result<String, WorkspaceError> {
    let unknown = || {
        WorkspaceError::Wrong(format!(
            "what {} was made from is not known, so nobody can tell what is new there",
            workspace.name
        ))
    };
    let base = workspace.metadata.get("base").cloned().ok_or_else(unknown)?;
    // A base that looks like an option would be one.
    if base.starts_with('-') || commit_of(repository, &base).await?.is_none() {
        return Err(WorkspaceError::Wrong(format!("{base:?}, the base of {}, is not there any more", workspace.name)));
    }
    Ok(base)
}

/// Tells whether something is in no commit. Submodules are looked at by their own, with the same care: git would run another
/// git in them, which heeds the configuration that it finds there.
pub(super) async fn is_dirty(repository: &Repository, workspace: &Workspace) -> Result<bool, GitError> {
    let mut left = vec![(repository.work_tree(&workspace.path)?, 0)];
    while let Some((repository, depth)) = left.pop() {
        // Whatever the configuration says should not be shown.
        let args = ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"];
        if !repository.git(&args).await?.is_empty() {
            return Ok(true);
        }
        let listed = repository.git(&["-c", "core.quotePath=true", "ls-files", "--stage"]).await?;
        for name in listed.lines().filter_map(submodule) {
            // A name in quotes is not read.
            if depth == DEEPEST_SUBMODULE || name.starts_with('"') {
                return Ok(true);
            }
            let Some(location) = Location::at(&repository.location().work_tree.join(name))? else { continue };
            left.push((Repository::open_at(location, Remotes::Unknown).await?, depth + 1));
        }
    }
    Ok(false)
}

/// Returns the path of a submodule from a line of `git ls-files --stage`: mode, object and stage, a tab, the path.
fn submodule(line: &str) -> Option<&str> {
    line.strip_prefix("160000 ")?.split_once('\t').map(|(_, path)| path)
}

/// Counts the commits of a head that the base does not have, not even as the same change.
pub(super) async fn unmerged(repository: &Repository, base: &str, head: &str) -> Result<u64, GitError> {
    let range = format!("{base}...{head}");
    let args = ["rev-list", "--count", "--cherry-pick", "--right-only", &range, "--"];
    let said = repository.git(&args).await?;
    said.trim().parse().map_err(|_| GitError::Unread { what: "rev-list".to_owned(), said })
}

/// Brings the remote of a remote branch up to date, if it can be.
pub(super) async fn fetch(repository: &Repository, base: &str) {
    let Some((remote, _)) = base.split_once('/') else { return };
    let remotes = repository.git(&["remote"]).await.unwrap_or_default();
    if remotes.lines().any(|known| known == remote)
        && let Err(error) = repository.git(&["fetch", "--quiet", "--no-recurse-submodules", remote]).await
    {
        tracing::info!(%error, remote, "it cannot be fetched; what is known of it counts");
    }
}

/// Returns the commit that something names, if it names one.
pub(super) async fn commit_of(repository: &Repository, name: &str) -> Result<Option<String>, GitError> {
    let commit = format!("{name}^{{commit}}");
    let found = repository.ask(&["rev-parse", "--quiet", "--verify", "--end-of-options", &commit]).await?;
    Ok(found.map(|commit| commit.trim().to_owned()))
}
