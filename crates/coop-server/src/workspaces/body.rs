use coop_api::AgentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which repository is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenBody {
    /// A folder in it, as a whole path.
    pub path: String,
}

/// An agent that a person is about to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArriveBody {
    /// Where, as a whole path.
    pub folder: String,
    /// As which process.
    pub pid: u32,
    /// What kind of agent it is.
    pub driver: String,
    /// The conversation that it goes on with, if that is known. It is refused if somebody else has that open.
    pub session_id: Option<String>,
    /// Whether it gets hooks that report what it does.
    #[serde(default)]
    pub hooks: bool,
}

/// What a new workspace is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBody {
    /// The id of its project, or the path of the repository.
    pub project: String,
    /// Its name, which is also its branch's.
    pub name: String,
    /// What it begins at, and is compared with later.
    pub base: Option<String>,
    /// A remote branch that it begins at and follows.
    pub tracking: Option<String>,
    /// An agent that is started in it.
    pub agent: Option<AgentBody>,
}

/// An agent that is started in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentBody {
    /// The text of a `coop.toml`.
    pub definition: String,
    /// Which agent in it.
    pub name: String,
    /// Its id; one is made from the name without it.
    pub id: Option<AgentId>,
    /// Its first message, instead of the definition's.
    pub prompt: Option<String>,
}

/// How a workspace is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteBody {
    /// Its branch stays.
    pub keep_branch: bool,
    /// What is in no commit, and commits that are in no other branch, may be lost.
    pub ignore_warnings: bool,
    /// Processes that work there are ended.
    pub kill: bool,
}

/// A note about a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteBody {
    /// Its key.
    pub key: String,
    /// What is noted; null removes the note.
    pub value: Option<String>,
}
