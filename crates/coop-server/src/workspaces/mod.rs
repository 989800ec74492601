//! Projects and workspaces: what can be asked of them over HTTP, and what agents in them may call.

mod body;
mod routes;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use coop_api::{AgentId, Error};
use serde_json::Value;
use tokio::sync::broadcast;

pub use self::body::{AgentBody, ArriveBody, CreateBody, DeleteBody, NoteBody, OpenBody};
pub(crate) use self::routes::routes;
use crate::mcp::ToolCall;

/// Names a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The id of its project.
    pub project: String,
    /// Its name.
    pub name: String,
}

/// What is asked of projects and workspaces. The replies are JSON, as docs/WORKSPACES.md has them.
#[derive(Clone, Debug)]
pub enum WorkspaceRequest {
    /// All projects with their workspaces.
    Projects,
    /// The conversations of the workspace that a folder is in.
    Sessions {
        /// The folder.
        folder: String,
    },
    /// Takes in an agent that a person runs in a workspace.
    Arrive(ArriveBody),
    /// Opens the project of a repository.
    Open(OpenBody),
    /// Forgets a project without workspaces.
    Close(String),
    /// Removes folders that belong to no workspace.
    Sweep(String),
    /// Makes a workspace, and starts an agent in it if one is named.
    Create(Box<CreateBody>),
    /// One workspace, with what would be lost with it.
    Show {
        /// Which.
        place: Place,
        /// Whether remote branches are fetched first.
        refresh: bool,
    },
    /// Deletes a workspace.
    Delete(Place, DeleteBody),
    /// Notes something, or removes a note.
    Note(Place, NoteBody),
    /// Puts the agents of a workspace to sleep.
    Hibernate(Place),
    /// Lets them go on.
    Wake(Place),
    /// Starts an agent in a workspace.
    Spawn(Place, Box<AgentBody>),
}

/// Something that is told of workspaces as it happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Telling {
    /// What kind: `workspace:status-changed`, `workspace:deletion-progress`.
    pub name: &'static str,
    /// What.
    pub data: Arc<Value>,
}

/// Who calls a tool: an agent, in its workspace. It is known by its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Which agent.
    pub agent: AgentId,
    /// In which workspace.
    pub workspace: PathBuf,
    /// How many agents above it were started by an agent.
    pub depth: u32,
}

/// Workspaces, as a server sees them.
pub trait Workspaces: Send + Sync + 'static {
    /// Asks for something in somebody's name.
    fn ask(&self, request: WorkspaceRequest, by: &str) -> impl Future<Output = Result<Value, Error>> + Send;

    /// Returns what is told from now on.
    fn tellings(&self) -> broadcast::Receiver<Telling>;

    /// Returns who has this token; an agent that has ended has none any more.
    fn caller(&self, token: &str) -> impl Future<Output = Option<Caller>> + Send;

    /// Does what an agent calls a tool for.
    fn tool(&self, caller: &Caller, call: ToolCall) -> impl Future<Output = Result<Value, Error>> + Send;
}
