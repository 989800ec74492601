//! What was cut off, and what nobody knows any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::condition::commit_of;
use super::git::Repository;
use super::{Project, WorkspaceError, Workspaces, file};

/// How often a folder is emptied into which something is still being written.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(200);

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Folders that belonged to no workspace, and are gone.
    pub removed: Vec<PathBuf>,
    /// What was left alone, and why.
    pub left: Vec<(PathBuf, String)>,
}

impl Workspaces {
    /// Removes folders among the workspaces that git knows nothing of. Nothing is followed out of there: a link, or a file, is
    /// left alone, and told.
    pub async fn sweep(&self, project: &Project) -> Result<Swept, WorkspaceError> {
        let _turn = self.turn(&project.id).await;
        finish(self, project).await?;
        let repository = Repository::open(project).await?;
        let root = self.folder(&project.id).join("workspaces");
        let mut swept = Swept::default();
        let entries = fs::read_dir(&root).map_err(|source| file("cannot read", &root, source))?;
        for entry in entries {
            let path = entry.map_err(|source| file("cannot read", &root, source))?.path();
            // Asked for each: without git's word nothing is nobody's.
            if is_known(&repository, &path).await? {
                continue;
            }
            match path.symlink_metadata() {
                Ok(kind) if kind.is_dir() => {}
                Ok(_) => {
                    swept.left.push((path, "it is no folder".to_owned()));
                    continue;
                }
                Err(error) => {
                    swept.left.push((path, error.to_string()));
                    continue;
                }
            }
            match empty(&path).await {
                Ok(()) => swept.removed.push(path),
                Err(error) => swept.left.push((path, error.to_string())),
            }
        }
        Ok(swept)
    }
}

/// Finishes deletions: git forgets the worktree, the branch goes if it is as it was, the trash is emptied. The caller has the
/// project's turn.
pub(super) async fn finish(workspaces: &Workspaces, project: &Project) -> Result<(), WorkspaceError> {
    let root = workspaces.folder(&project.id).join("workspaces");
    let repository = &Repository::open(project).await?;
    let notes = workspaces.notes(project, repository);
    let closing = notes.read_all().await?.into_iter();
    let closing = closing.filter_map(|(name, notes)| Some((name, notes.get("closing")?.clone())));
    for (name, fate) in closing {
        let path = root.join(name.replace('/', "%"));
        if path.symlink_metadata().is_ok() {
            // It was never moved, so it is whole.
            notes.remove(&name, "closing").await?;
            continue;
        }
        forget(repository, &path).await?;
        if fate != "keep" {
            delete_branch(repository, &name, &fate).await?;
        }
        notes.clear(&name).await?;
    }
    let trash = workspaces.folder(&project.id).join("trash");
    let entries = match fs::read_dir(&trash) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(file("cannot read", &trash, source)),
    };
    for entry in entries.flatten() {
        empty(&entry.path()).await.map_err(|source| file("cannot remove", &entry.path(), source))?;
    }
    Ok(())
}

/// Lets git forget a worktree whose folder is gone; this one, and no other that is not there.
async fn forget(repository: &Repository, path: &Path) -> Result<(), WorkspaceError> {
    if is_known(repository, path).await? {
        let wrong = || WorkspaceError::Wrong("the state folder is not UTF-8".to_owned());
        let path = path.to_str().ok_or_else(wrong)?;
        // Twice: also if it is locked. That was looked at before.
        repository.git(&["worktree", "remove", "--force", "--force", path]).await?;
    }
    Ok(())
}

async fn is_known(repository: &Repository, path: &Path) -> Result<bool, WorkspaceError> {
    Ok(repository.worktrees().await?.iter().any(|worktree| worktree.path == path))
}

/// Deletes a branch that is where it was when it was looked at. One that has moved on meanwhile stays.
async fn delete_branch(at: &Repository, name: &str, commit: &str) -> Result<(), WorkspaceError> {
    let branch = format!("refs/heads/{name}");
    match commit_of(at, &branch).await? {
        None => {}
        Some(now) if now == commit => {
            at.change(&["update-ref", "-d", &branch, commit]).await?;
            let section = format!("branch.{name}");
            let pattern = format!(r"^branch\.{}\.[^.]*$", escaped(name));
            if at.ask_config(&["--name-only", "--get-regexp", &pattern]).await?.is_some() {
                at.change_config(&["--remove-section", &section]).await?;
            }
        }
        Some(_) => tracing::warn!(name, "the branch has moved on, and stays"),
    }
    Ok(())
}

fn escaped(name: &str) -> String {
    name.replace('.', r"\.")
}

/// Removes a folder with all that is in it. Links are removed, and not followed.
async fn empty(path: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        let target = path.to_owned();
        let removed = tokio::task::spawn_blocking(move || {
            if target.symlink_metadata()?.is_dir() { fs::remove_dir_all(&target) } else { fs::remove_file(&target) }
        });
        match removed.await.map_err(io::Error::other)? {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            removed => return removed,
        }
    }
}
