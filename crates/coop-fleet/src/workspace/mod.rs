//! Projects and their workspaces: git worktrees, each with a branch and a folder of its own, in which agents work.
//!
//! ```text
//! STATE/projects/FOLDER-HASH/project.json     where the repository is
//!                            workspaces/NAME  the worktrees; "/" in a name is "%" here
//!                            notes.json       what coop notes about them
//!                            trash/           what is being deleted
//! ```
//!
//! Which workspaces there are is git's to say (`git worktree list`). What others note about them is in git's configuration, what
//! coop notes itself in `notes.json` here. Nothing is touched outside of the project's folder here and of the repository's own
//! records, and no program that a repository names is run.

mod command;
mod condition;
mod create;
mod delete;
mod deletion;
mod error;
mod feed;
mod git;
mod inside;
mod keep;
mod metadata;
mod name;
mod status;
mod sweep;
#[cfg(test)]
mod tests;
mod worktree;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use coop_api::lasting_hash;
use coop_folder::Location;
use serde::{Deserialize, Serialize};

pub(crate) use self::command::COMMAND_LIMIT;
pub use self::command::{CommandEnd, CommandError, NamedCommand};
pub use self::condition::{Condition, Freshness};
pub use self::create::NewWorkspace;
pub use self::deletion::{DeleteError, Deleted, Deletion, Gates, Intruders, Progress, Step, StepState, Tenants};
pub use self::error::WorkspaceError;
use self::error::file;
pub use self::feed::StatusFeed;
pub use self::git::GitError;
use self::git::Repository;
pub use self::inside::Blocker;
pub use self::metadata::Metadata;
use self::metadata::Notes;
pub use self::name::{Key, NameError, WorkspaceName};
pub use self::status::{AgentStatus, Counts, Mood, StatusChange, Statuses};
pub use self::sweep::Swept;
use self::worktree::Worktree;

/// More than this is no note. It also has to fit on a command line.
const LONGEST_VALUE: usize = 16 * 1024;

/// A repository that workspaces are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its name for all calls: its folder's name and a hash of its path.
    pub id: String,
    /// Its folder's name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Where git keeps its data.
    #[serde(skip)]
    pub(crate) git_dir: PathBuf,
}

/// A worktree of a project that coop has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Of which project.
    pub project_id: String,
    /// Its name.
    pub name: WorkspaceName,
    /// What is checked out there; nothing has a name if it is a single commit.
    pub branch: Option<String>,
    /// What is noted about it.
    pub metadata: Metadata,
    /// Where it is.
    pub path: PathBuf,
    /// The commit it is at.
    #[serde(skip)]
    pub(crate) head: String,
    /// Why git must not remove it, if somebody said so.
    #[serde(skip)]
    pub(crate) locked: Option<String>,
}

impl Workspace {
    /// Tells whether its agents are put to sleep.
    pub fn is_hibernated(&self) -> bool {
        self.metadata.contains_key("hibernated")
    }
}

/// What is in `project.json`.
#[derive(Serialize, Deserialize)]
struct Kept {
    path: PathBuf,
    /// Without it, `.git` in there.
    #[serde(default)]
    git_dir: Option<PathBuf>,
}

/// All projects of one state folder. Clones are the same.
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: PathBuf,
    /// Who makes, deletes or notes something in a project does it alone.
    turns: Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Workspaces {
    /// Returns the projects that are kept below a state folder.
    pub fn new(state: &Path) -> Result<Self, WorkspaceError> {
        let root = state.join("projects");
        make_folder(&root)?;
        // Git tells paths without links in them, and ours are compared with its.
        let root = root.canonicalize().map_err(|source| file("cannot find", &root, source))?;
        Ok(Self { root, turns: Arc::default() })
    }

    /// Opens the project of a repository, finishes what was cut off in it, and returns it. Once is enough for good.
    pub async fn open(&self, folder: &Path) -> Result<Project, WorkspaceError> {
        let none = |why: String| WorkspaceError::NoRepository { path: folder.to_owned(), why };
        if !folder.is_dir() {
            return Err(none("there is no such folder".to_owned()));
        }
        let real = folder.canonicalize().map_err(|source| file("cannot find", folder, source))?;
        // A workspace belongs to the project that it was made of, whatever its `.git` says.
        if let Some(Ok(project)) = self.project_of(&real).map(|id| self.project(&id)) {
            let _turn = self.turn(&project.id).await;
            sweep::finish(self, &project).await?;
            return Ok(project);
        }
        let (path, git_dir) = main_folder(&real).map_err(none)?;
        let project = project_at(&path, &git_dir)?;
        let folder = self.folder(&project.id);
        make_folder(&folder.join("workspaces"))?;
        make_folder(&folder.join("trash"))?;
        let kept = serde_json::to_string(&Kept { path, git_dir: Some(git_dir) }).unwrap_or_default();
        let whole = folder.join("project.json");
        crate::private::write(&whole, kept).map_err(|source| file("cannot write", &whole, source))?;
        let _turn = self.turn(&project.id).await;
        self.notes(&project, &Repository::open(&project).await?).begin().await?;
        sweep::finish(self, &project).await?;
        Ok(project)
    }

    /// Returns all open projects.
    pub fn projects(&self) -> Result<Vec<Project>, WorkspaceError> {
        let entries = fs::read_dir(&self.root).map_err(|source| file("cannot read", &self.root, source))?;
        let mut projects = Vec::new();
        for entry in entries.flatten() {
            let kept = entry.path().join("project.json");
            let Ok(text) = fs::read_to_string(&kept) else { continue };
            let Ok(Kept { path, git_dir }) = serde_json::from_str(&text) else { continue };
            let id = entry.file_name().to_string_lossy().into_owned();
            let git_dir = git_dir.unwrap_or_else(|| path.join(".git"));
            projects.push(Project { id, name: folder_name(&path), path, git_dir });
        }
        projects.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(projects)
    }

    /// Returns the open project with this id, or at this path.
    pub fn project(&self, named: &str) -> Result<Project, WorkspaceError> {
        let is_it = |project: &Project| project.id == named || project.path == Path::new(named);
        let missing = || WorkspaceError::NoSuchProject(named.to_owned());
        self.projects()?.into_iter().find(is_it).ok_or_else(missing)
    }

    /// Forgets a project that has no workspaces.
    pub async fn close(&self, project: &Project) -> Result<(), WorkspaceError> {
        let _turn = self.turn(&project.id).await;
        let left = self.workspaces(project).await?;
        if let Some(workspace) = left.first() {
            return Err(WorkspaceError::Taken(format!("{} still has the workspace {}", project.id, workspace.name)));
        }
        let folder = self.folder(&project.id);
        for name in ["workspaces", "trash"] {
            // Only empty ones go.
            match fs::remove_dir(folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(file("cannot remove", &folder.join(name), error));
                }
                _ => {}
            }
        }
        let removed = fs::remove_dir_all(&folder);
        removed.map_err(|source| file("cannot remove", &folder, source))
    }

    /// Returns the workspaces of a project.
    pub async fn workspaces(&self, project: &Project) -> Result<Vec<Workspace>, WorkspaceError> {
        let repository = Repository::open(project).await?;
        let mut notes = self.notes(project, &repository).read_all().await?;
        let root = self.folder(&project.id).join("workspaces");
        let ours = repository.worktrees().await?.into_iter().filter(|worktree| worktree.path.parent() == Some(&root));
        let workspace = |worktree: Worktree| {
            let name = WorkspaceName::of_folder(&folder_name(&worktree.path)).ok()?;
            if !worktree.path.is_dir() {
                return None;
            }
            let metadata = notes.remove(name.as_str()).unwrap_or_default();
            Some(Workspace {
                project_id: project.id.clone(),
                name,
                branch: worktree.branch,
                metadata,
                path: worktree.path,
                head: worktree.head,
                locked: worktree.locked,
            })
        };
        Ok(ours.filter_map(workspace).collect())
    }

    /// Returns the workspace at a path, or that a path is in.
    pub async fn at(&self, path: &Path) -> Result<(Project, Workspace), WorkspaceError> {
        let missing = || WorkspaceError::NoSuchWorkspace(path.display().to_string());
        let id = self.project_of(path).ok_or_else(missing)?;
        let project = self.project(&id)?;
        let found = self.workspaces(&project).await?.into_iter().find(|workspace| path.starts_with(&workspace.path));
        Ok((project, found.ok_or_else(missing)?))
    }

    /// Returns the path that a workspace of this name has, whether there is one or not.
    pub fn path_of(&self, project: &Project, name: &WorkspaceName) -> PathBuf {
        self.folder(&project.id).join("workspaces").join(name.folder())
    }

    /// Returns the path of the workspace that a path would be in, whether there is one or not.
    pub fn workspace_path(&self, path: &Path) -> Option<PathBuf> {
        let id = self.project_of(path)?;
        let root = self.folder(&id).join("workspaces");
        let first = path.strip_prefix(&root).ok()?.components().next()?;
        Some(root.join(first))
    }

    /// Returns the id of the project whose workspaces a path is among.
    pub fn project_of(&self, path: &Path) -> Option<String> {
        let mut parts = path.strip_prefix(&self.root).ok()?.components();
        let id = parts.next()?.as_os_str().to_str()?;
        (parts.next()?.as_os_str() == "workspaces").then(|| id.to_owned())
    }

    /// Notes something about a workspace, or removes a note.
    pub async fn note(&self, workspace: &Workspace, key: &Key, value: Option<&str>) -> Result<(), WorkspaceError> {
        let project = self.project(&workspace.project_id)?;
        let _turn = self.turn(&project.id).await;
        let name = workspace.name.as_str();
        let notes = self.notes(&project, &Repository::open(&project).await?);
        match value {
            Some(value) if value.len() > LONGEST_VALUE || value.contains('\0') => {
                Err(WorkspaceError::Wrong(format!("a value has no NUL and {LONGEST_VALUE} bytes at most")))
            }
            Some(value) => notes.set(name, key, value).await,
            None => notes.remove(name, key.as_str()).await,
        }
    }

    /// Notes that the agents of a workspace are put to sleep, or that they are awake.
    pub async fn hibernated(&self, workspace: &Workspace, agents: Option<&str>) -> Result<(), WorkspaceError> {
        self.note(workspace, &Key::own("hibernated"), agents).await
    }

    fn notes(&self, project: &Project, repository: &Repository) -> Notes {
        Notes::new(repository, self.folder(&project.id).join("notes.json"))
    }

    fn folder(&self, project: &str) -> PathBuf {
        self.root.join(project)
    }

    async fn turn(&self, project: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            // The map is whole between any two statements that hold the lock.
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(project.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

/// Returns the folder with the files of the repository that a folder is in, and where its data is. A linked work tree leads to the
/// main one.
fn main_folder(folder: &Path) -> Result<(PathBuf, PathBuf), String> {
    let bare = || "it is bare, and has no files of its own".to_owned();
    if folder.join("HEAD").is_file() && folder.join("objects").is_dir() {
        return Err(bare());
    }
    let found = Location::discover(folder).map_err(|error| error.to_string())?;
    let found = found.ok_or_else(|| "neither it nor a folder above it has a .git".to_owned())?;
    if found.git_dir == found.common_dir {
        return Ok((found.work_tree, found.git_dir));
    }
    let main = found.common_dir.parent().filter(|_| found.common_dir.ends_with(".git"));
    Ok((main.ok_or_else(bare)?.to_owned(), found.common_dir))
}

fn project_at(path: &Path, git_dir: &Path) -> Result<Project, WorkspaceError> {
    let name = folder_name(path);
    let told = path.to_str().ok_or_else(|| WorkspaceError::Wrong("the project's path is not UTF-8".to_owned()))?;
    let hash = lasting_hash(told.as_bytes());
    Ok(Project { id: format!("{name}-{hash:016x}"), name, path: path.to_owned(), git_dir: git_dir.to_owned() })
}

fn folder_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(|| "root".to_owned())
}

fn make_folder(path: &Path) -> Result<(), WorkspaceError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| file("cannot make", path, source))
}
