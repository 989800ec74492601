//! The tools, as one table.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why a call is none.
pub(super) enum Unfit {
    NoSuchTool,
    Arguments(String),
}

/// What a tool may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing.
    Looks,
    /// Something.
    Changes,
    /// Something that cannot be had back.
    Destroys,
}

macro_rules! tools {
    ($($(#[doc = $doc:literal])+ $reach:ident $name:literal $(or $dotted:literal)? => $variant:ident $body:tt)+) => {
        /// A call of a tool, read.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ToolCall {
            $($(#[doc = $doc])+ $variant(args::$variant),)+
        }

        /// What the tools are called with.
        pub mod args {
            use super::*;
            $(
                $(#[doc = $doc])+
                #[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
                #[serde(rename_all = "camelCase", deny_unknown_fields)]
                pub struct $variant $body
            )+
        }

        impl ToolCall {
            /// Reads a call, by either name of the tool.
            pub(super) fn parse(name: &str, arguments: Value) -> Result<Self, Unfit> {
                match name {
                    $($name $(| $dotted)? => read(arguments).map(Self::$variant),)+
                    _ => Err(Unfit::NoSuchTool),
                }
            }
        }

        /// Returns the tools as they are listed. Those with two names are listed with the one that every agent can say: most
        /// turn a dot into an underscore, and would then have some of them twice.
        pub(super) fn list() -> Vec<Tool> {
            vec![$(tool::<args::$variant>($name, concat!($($doc),+), Reach::$reach)),+]
        }
    };
}

tools! {
    /// Returns the status of your workspace: whether it has changes in no commit, how many commits its base does not have,
    /// and what its agents do.
    Looks "workspace_get_status" or "workspace.getStatus" => WorkspaceGetStatus {
        /// Fetch the remote branches first.
        #[serde(default)]
        pub refresh: bool,
    }
    /// Returns all that is noted about your workspace; `base` is what it was made from.
    Looks "workspace_get_metadata" or "workspace.getMetadata" => WorkspaceGetMetadata {}
    /// Notes something about your workspace, or removes a note.
    Changes "workspace_set_metadata" or "workspace.setMetadata" => WorkspaceSetMetadata {
        /// Parts with dots between them, each a letter and then letters, digits and hyphens.
        pub key: String,
        /// What is noted; null removes the note.
        pub value: Option<String>,
    }
    /// Deletes a workspace of this project, by default yours: you end with it. It is refused while there is something in it
    /// that is nowhere else.
    Destroys "workspace_delete" or "workspace.delete" => WorkspaceDelete {
        /// Which; yours without it.
        pub workspace_path: Option<String>,
        /// Leave its branch.
        #[serde(default)]
        pub keep_branch: bool,
        /// Changes in no commit, and commits in no other branch, may be lost.
        #[serde(default)]
        pub ignore_warnings: bool,
    }
    /// Makes a workspace in this project, with a branch of its own, and starts an agent in it if there is a prompt.
    Changes "workspace_create" or "workspace.create" => WorkspaceCreate {
        /// Its name, which is also its branch's.
        pub name: String,
        /// What it begins at; the project's usual branch without it.
        pub base: Option<String>,
        /// A remote branch that it begins at and follows.
        pub tracking: Option<String>,
        /// The repository; yours without it.
        pub project_path: Option<String>,
        /// What an agent there is told first.
        pub prompt: Option<String>,
        /// Which agent of your definition that is; one like you without it.
        pub agent: Option<String>,
    }
    /// Runs a command that your definition has a name for, in your workspace. There is no editor, and none of its commands.
    Changes "workspace_execute_command" or "workspace.executeCommand" => WorkspaceExecuteCommand {
        /// Which.
        pub command: String,
        /// What it is given: JSON on its standard input.
        #[serde(default)]
        pub args: Vec<Value>,
    }
    /// Returns the conversation of an agent of your workspace, by which a person can attach to it, or null.
    Looks "workspace_get_agent_session" => WorkspaceGetAgentSession {}
    /// Restarts the agent server of your workspace, if it has one.
    Changes "workspace_restart_agent_server" => WorkspaceRestartAgentServer {}
    /// Puts the agents of a workspace to sleep, by default of yours: they end, and can go on later.
    Changes "workspace_hibernate" => WorkspaceHibernate {
        /// Which; yours without it.
        pub workspace_path: Option<String>,
    }
    /// Lets the agents of a workspace go on that were put to sleep.
    Changes "workspace_wake" => WorkspaceWake {
        /// Which; yours without it.
        pub workspace_path: Option<String>,
    }
    /// Lists the projects that you can reach, with their workspaces.
    Looks "project_list" => ProjectList {}
    /// Lists the agents that you can reach, and what they do.
    Looks "agent_list" => AgentList {}
    /// Starts another agent and returns its id. It works beside you.
    Changes "agent_spawn" => AgentSpawn {
        /// Which agent of your definition; one like you without it.
        pub agent: Option<String>,
        /// What it is told first.
        pub prompt: Option<String>,
        /// Where; in your workspace without it.
        pub workspace_path: Option<String>,
    }
    /// Tells another agent something.
    Changes "agent_send" => AgentSend {
        /// Its id.
        pub agent: String,
        /// What.
        pub message: String,
        /// When: now, which is refused if it is busy, or once it is idle.
        #[serde(default)]
        pub when: When,
    }
    /// Waits until another agent is idle, asks something, or has ended.
    Looks "agent_wait" => AgentWait {
        /// Its id.
        pub agent: String,
        /// For what.
        #[serde(default, rename = "for")]
        pub what: Awaited,
        /// How many seconds at most, up to 50; wait again if it was not enough.
        pub timeout: Option<f64>,
    }
    /// Returns what another agent said last, or what its terminal shows.
    Looks "agent_read" => AgentRead {
        /// Its id.
        pub agent: String,
        /// What of it.
        #[serde(default)]
        pub what: AgentWhat,
    }
    /// Lists what agents ask: `input` is whole, `preview` says how much it leaves out. Only people answer.
    Looks "ask_list" => AskList {}
    /// Calls a person, as the daemon was told to: they are shown your message and who you are.
    Changes "notify_user" => NotifyUser {
        /// What for.
        pub message: String,
    }
}

/// When a message is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// At once, or not at all.
    #[default]
    Now,
    /// Once the agent is idle.
    Idle,
}

/// What an agent is waited for to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Awaited {
    /// To wait for a message, or to have ended.
    #[default]
    Idle,
    /// To ask something.
    Ask,
    /// To have ended.
    Exit,
}

/// What of an agent is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentWhat {
    /// The last thing it said.
    #[default]
    Message,
    /// What its terminal shows.
    Screen,
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Unfit> {
    serde_path_to_error::deserialize(arguments).map_err(|wrong| Unfit::Arguments(wrong.to_string()))
}

fn tool<T: JsonSchema>(name: &'static str, description: &'static str, reach: Reach) -> Tool {
    // In place: some agents do not follow references.
    let settings =
        schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let mut schema = match schema.to_value() {
        Value::Object(schema) => schema,
        // A structure's schema is an object.
        _ => JsonObject::new(),
    };
    schema.remove("title");
    schema.remove("description");
    let hints =
        ToolAnnotations::new().read_only(reach == Reach::Looks).destructive(reach == Reach::Destroys).open_world(false);
    Tool::new(name, Cow::Borrowed(description.trim()), Arc::new(schema)).with_annotations(hints)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_six_of_seed_001_have_both_names_and_each_is_listed_once() {
        let both = [
            ("workspace_get_status", "workspace.getStatus", json!({})),
            ("workspace_get_metadata", "workspace.getMetadata", json!({})),
            ("workspace_set_metadata", "workspace.setMetadata", json!({ "key": "a", "value": null })),
            ("workspace_delete", "workspace.delete", json!({ "keepBranch": true })),
            ("workspace_create", "workspace.create", json!({ "name": "x" })),
            ("workspace_execute_command", "workspace.executeCommand", json!({ "command": "x" })),
        ];
        let parse = |name: &str, arguments: &Value| ToolCall::parse(name, arguments.clone()).ok();
        for (snake, dotted, arguments) in &both {
            let call = parse(snake, arguments);
            assert!(call.is_some() && call == parse(dotted, arguments), "{snake}");
        }
        let names: Vec<_> = list().into_iter().map(|tool| tool.name.into_owned()).collect();
        let is_plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(names.len() == 18 && names.iter().all(is_plain), "{names:?}");
        assert!(parse("workspace_fly", &json!({})).is_none());
        assert!(parse("workspace_set_metadata", &json!({ "value": "x" })).is_none(), "without a key");
        assert!(parse("workspace_get_status", &json!({ "refesh": true })).is_none(), "a word that is not known");
    }

    #[test]
    fn schemas_stand_alone_and_say_what_is_needed() {
        for tool in list() {
            let schema = Value::Object((*tool.input_schema).clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert!(!schema.to_string().contains("$ref"), "{schema}");
            assert!(tool.description.is_some_and(|told| told.len() > 20 && !told.contains("  ")), "{}", tool.name);
        }
        let set = list().into_iter().find(|tool| tool.name == "workspace_set_metadata").expect("it is listed");
        assert_eq!(set.input_schema["required"], json!(["key"]));
    }
}
