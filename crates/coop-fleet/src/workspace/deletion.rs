//! What is said of a deletion: how it is wanted, how far it is, and why not.

use std::future::Future;
use std::path::Path;

use serde::Serialize;

use super::inside::Blocker;
use super::{WorkspaceError, git};

/// How a workspace is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Whether its branch stays.
    pub keep_branch: bool,
    /// What is looked at first.
    pub gates: Gates,
    /// What becomes of processes that work there.
    pub intruders: Intruders,
}

/// Whether anything can be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gates {
    /// Not what is in no commit, nor commits that are in no other branch.
    #[default]
    Closed,
    /// Anything.
    Ignored,
}

/// What becomes of processes that work in a workspace, beside its agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intruders {
    /// They are in the way.
    #[default]
    Block,
    /// They are ended.
    End,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// Whether there was anything to delete.
    pub was_there: bool,
    /// Whether its branch is gone too.
    pub branch_deleted: bool,
}

/// Why a workspace was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// There are changes in no commit.
    #[error("{0} has changes that are in no commit; commit them, or say that they may be lost")]
    Dirty(String),
    /// There are commits in no other branch.
    #[error(
        "{name} has {count} commits that {base} does not have; merge them, keep the branch, or say that they may be lost"
    )]
    Unmerged {
        /// Which workspace.
        name: String,
        /// How many.
        count: u64,
        /// What it is compared with.
        base: String,
    },
    /// Somebody has locked it.
    #[error("{name} is locked in git: {why}")]
    Locked {
        /// Which workspace.
        name: String,
        /// What they said.
        why: String,
    },
    /// Processes work there.
    #[error("processes work in {name}: {}", list(blockers))]
    Blocked {
        /// Which workspace.
        name: String,
        /// Which processes.
        blockers: Vec<Blocker>,
    },
    /// Its agents did not end.
    #[error("its agents did not end: {0}")]
    Tenants(String),
    /// It could not be done, or not be told whether it may be.
    #[error(transparent)]
    Failed(#[from] WorkspaceError),
}

impl From<git::GitError> for DeleteError {
    fn from(error: git::GitError) -> Self {
        Self::Failed(error.into())
    }
}

fn list(blockers: &[Blocker]) -> String {
    let told: Vec<_> = blockers.iter().map(|blocker| format!("{} ({})", blocker.pid, blocker.name)).collect();
    told.join(", ")
}

/// Who works in workspaces by leave of the fleet.
pub trait Tenants: Sync {
    /// Returns the processes that have agents of this workspace below them.
    fn keepers(&self, workspace: &Path) -> impl Future<Output = Vec<u32>> + Send;

    /// Ends the agents of a workspace, and waits until they are gone.
    fn leave(&self, workspace: &Path) -> impl Future<Output = Result<(), String>> + Send;
}

/// A step of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Whether it may be deleted.
    CheckGates,
    /// Its agents end.
    StopAgents,
    /// Other processes end, or are found.
    KillBlockers,
    /// Its folder goes.
    CleanupWorkspace,
    /// Its branch goes.
    DeleteBranch,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Done,
    /// It went wrong.
    Error,
}

/// How far a deletion is: all steps, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress(pub Vec<(Step, StepState)>);

impl Progress {
    pub(super) fn new() -> Self {
        use Step::{CheckGates, CleanupWorkspace, DeleteBranch, KillBlockers, StopAgents};
        let steps = [CheckGates, StopAgents, KillBlockers, CleanupWorkspace, DeleteBranch];
        Self(steps.map(|step| (step, StepState::Pending)).to_vec())
    }
}
