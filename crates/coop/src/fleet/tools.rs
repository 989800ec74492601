//! What agents in workspaces may do by their tools.

use std::path::Path;

use coop_api::{AgentId, Error, ErrorCode};
use coop_fleet::definition::Definition;
use coop_fleet::engine::Agent;
use coop_fleet::fleet::{Notice, Notify, Outside};
use coop_fleet::store::{Defined, Store};
use coop_fleet::workspace::{Intruders, Project, Workspace};
use coop_server::mcp::{ToolCall, args};
use coop_server::workspaces::{AgentBody, Caller, CreateBody, DeleteBody};
use serde_json::{Value, json};

use super::family::Family;
use super::hub::said;
use super::leaving::deletion;
use super::places::{Places, is_there, wrong};
use super::tools_agents::from_agent;

impl Places {
    /// Returns who has this token, as long as it lives.
    pub(super) async fn caller(&self, token: &str) -> Option<Caller> {
        let agent = self.identities.find(token)?;
        let id = agent.clone();
        let look = move |store: &Store| Ok((store.agent(&id)?, store.defined(&id)?, Family::read(store)?.depth(&id)));
        let (record, defined, depth) = self.fleet.look(look).await.ok()?;
        // What is decided to end has ended for this: its process may take a moment to go.
        record.filter(|record| is_there(record) && record.outcome.is_none())?;
        let workspace = self.workspaces.workspace_path(Path::new(&defined?.folder))?;
        Some(Caller { agent, workspace, depth })
    }

    pub(super) async fn tool(&self, caller: &Caller, call: ToolCall) -> Result<Value, Error> {
        let by = &format!("agent {}", caller.agent);
        match call {
            ToolCall::WorkspaceGetStatus(args) => {
                let shown = self.show(&self.own(caller).await?, args.refresh).await?;
                let told = ["isDirty", "unmergedCommits", "agent"].map(|key| (key.to_owned(), shown[key].clone()));
                Ok(Value::Object(told.into_iter().collect()))
            }
            ToolCall::WorkspaceGetMetadata(_) => Ok(json!(self.own(caller).await?.metadata)),
            ToolCall::WorkspaceSetMetadata(args) => {
                self.note(&self.own(caller).await?, args.key, args.value.as_deref()).await?;
                Ok(Value::Null)
            }
            ToolCall::WorkspaceDelete(args) => self.delete_by_tool(caller, args, by).await,
            ToolCall::WorkspaceCreate(args) => self.create_by_tool(caller, args, by).await,
            ToolCall::WorkspaceExecuteCommand(args) => self.execute(caller, args).await,
            ToolCall::WorkspaceGetAgentSession(_) => self.own_session(caller).await,
            ToolCall::WorkspaceRestartAgentServer(_) => self.restart_servers(caller, by).await,
            ToolCall::WorkspaceHibernate(args) => {
                let workspace = self.reached(caller, args.workspace_path.as_deref()).await?;
                Ok(self.hibernate_later(workspace, by))
            }
            ToolCall::WorkspaceWake(args) => {
                let workspace = self.reached(caller, args.workspace_path.as_deref()).await?;
                self.check_woken(caller, &workspace).await?;
                self.wake(&workspace, by).await
            }
            ToolCall::ProjectList(_) => self.projects(|project| self.reaches(caller, &project.id)).await,
            ToolCall::AgentList(_) => self.agent_list(caller).await,
            ToolCall::AgentSpawn(args) => {
                let workspace = self.reached(caller, args.workspace_path.as_deref()).await?;
                self.check_child_writes_there(caller, &workspace).await?;
                let body = self.child(caller, args.agent, args.prompt).await?;
                let spawned = self.spawn(&workspace, body, by, Some(&caller.agent)).await?;
                Ok(json!({ "id": spawned.id }))
            }
            ToolCall::AgentSend(args) => self.agent_send(caller, args, by).await,
            ToolCall::AgentWait(args) => self.agent_wait(caller, args).await,
            ToolCall::AgentRead(args) => self.agent_read(caller, args).await,
            ToolCall::AskList(_) => {
                let asks = self.fleet.look(|store| store.open_asks()).await.map_err(said)?;
                let mut told = Vec::new();
                for (agent, ask) in asks {
                    if self.reachable(caller, &agent).await.is_ok() {
                        told.push(json!({ "agent": agent, "ask": ask }));
                    }
                }
                Ok(json!({ "asks": told }))
            }
            ToolCall::NotifyUser(args) => self.notify_user(caller, args.message).await,
        }
    }

    /// Returns the caller's own workspace.
    async fn own(&self, caller: &Caller) -> Result<Workspace, Error> {
        Ok(self.workspaces.at(&caller.workspace).await.map_err(wrong)?.1)
    }

    /// Runs what the definition that the caller comes from has this name for, in the caller's workspace.
    async fn execute(&self, caller: &Caller, args: args::WorkspaceExecuteCommand) -> Result<Value, Error> {
        let defined = self.defined(&caller.agent).await?;
        let commands = Definition::parse(&defined.text).map(|definition| definition.commands).unwrap_or_default();
        let Some(command) = commands.get(&args.command) else {
            let names: Vec<_> = commands.keys().map(String::as_str).collect();
            let known = if names.is_empty() { String::new() } else { format!("; there are {}", names.join(", ")) };
            let why = format!("there is no editor here, and no command {:?} is defined{known}", args.command);
            return Err(Error::new(ErrorCode::Unsupported, why));
        };
        if let Some(why) = self.sidecars.refuses_commands() {
            return Err(Error::new(ErrorCode::Unsupported, why));
        }
        let sandbox = defined.sandbox();
        // In a sandbox it writes to no more than the agent, whose folder may be a part of the workspace.
        let folder = if sandbox.is_some() { Path::new(&defined.folder) } else { &caller.workspace };
        let end = command.run(folder, sandbox.as_ref(), self.machine.sandbox.as_ref(), &args.args).await;
        end.map(|end| json!(end)).map_err(|error| Error::internal(error.to_string()))
    }

    fn reaches(&self, caller: &Caller, project: &str) -> bool {
        self.limits.all_projects || self.workspaces.project_of(&caller.workspace).as_deref() == Some(project)
    }

    /// Returns a workspace that the caller may do something with.
    async fn reached(&self, caller: &Caller, path: Option<&str>) -> Result<Workspace, Error> {
        let Some(path) = path else { return self.own(caller).await };
        // The same for one that is not there and one that is none of its business.
        let missing = || Error::new(ErrorCode::NotFound, format!("there is no workspace {path} that you can reach"));
        let (project, workspace) = self.workspaces.at(Path::new(path)).await.map_err(|_| missing())?;
        if self.reaches(caller, &project.id) { Ok(workspace) } else { Err(missing()) }
    }

    async fn delete_by_tool(&self, caller: &Caller, args: args::WorkspaceDelete, by: &str) -> Result<Value, Error> {
        let workspace = self.reached(caller, args.workspace_path.as_deref()).await?;
        if workspace.path != caller.workspace {
            self.check_deletion_by_tool(caller, &workspace, args.ignore_warnings).await?;
        }
        let body = DeleteBody { keep_branch: args.keep_branch, ignore_warnings: args.ignore_warnings, kill: false };
        let mut wanted = deletion(body);
        // A refusal is told; from then on whoever asked may be ended by it.
        self.check_deletion(&workspace, wanted).await?;
        if workspace.path != caller.workspace {
            return Ok(json!(self.delete(workspace.path, wanted, by).await?));
        }
        // What its agents leave behind goes with them.
        wanted.intruders = Intruders::End;
        let (places, by) = (self.clone(), by.to_owned());
        tokio::spawn(async move {
            if let Err(error) = places.delete(workspace.path.clone(), wanted, &by).await {
                tracing::warn!(workspace = %workspace.name, %error, "it is not deleted");
            }
        });
        Ok(json!({ "started": true }))
    }

    /// Refuses to end agents that a person started, or agents not below the caller; and to lose what they have not committed.
    async fn check_deletion_by_tool(
        &self,
        caller: &Caller,
        workspace: &Workspace,
        ignores_warnings: bool,
    ) -> Result<(), Error> {
        let agents = self.agents_in(&workspace.path).await?;
        let family = self.family().await?;
        let (below, others): (Vec<_>, Vec<_>) =
            agents.into_iter().partition(|agent| family.is_below(&agent.id, &caller.agent));
        let name = &workspace.name;
        let why = match others.iter().find(|agent| is_there(agent)) {
            Some(agent) => format!("{} works in {name}, and neither you nor agents below you started it", agent.id),
            None if ignores_warnings && (below.is_empty() || !others.is_empty()) => {
                format!("what is not committed in {name} is not only yours or of agents below you")
            }
            None => return Ok(()),
        };
        let person = format!("ask a person, who can delete it by `coop ws rm {name}`");
        Err(Error::new(ErrorCode::Forbidden, format!("{why}; {person}")))
    }

    /// Puts the agents of a workspace to sleep, once the caller has its answer: it may be one of them.
    fn hibernate_later(&self, workspace: Workspace, by: &str) -> Value {
        let (places, by) = (self.clone(), by.to_owned());
        tokio::spawn(async move {
            if let Err(error) = places.hibernate(&workspace, &by).await {
                tracing::warn!(workspace = %workspace.name, %error, "its agents are not put to sleep");
            }
        });
        json!({ "started": true })
    }

    async fn create_by_tool(&self, caller: &Caller, args: args::WorkspaceCreate, by: &str) -> Result<Value, Error> {
        let project = self.project(caller, args.project_path.as_deref())?;
        let agent = match (&args.prompt, &args.agent) {
            (None, None) => None,
            _ => Some(self.child(caller, args.agent, args.prompt).await?),
        };
        let body = CreateBody {
            project: project.id.clone(),
            name: args.name,
            base: args.base,
            tracking: args.tracking,
            agent,
        };
        self.create(&project, body, by, Some(&caller.agent)).await
    }

    fn project(&self, caller: &Caller, path: Option<&str>) -> Result<Project, Error> {
        let own = self.workspaces.project_of(&caller.workspace);
        let named = path.map(str::to_owned).or(own).unwrap_or_default();
        let missing = || Error::new(ErrorCode::NotFound, format!("there is no project {named} that you can reach"));
        let project = self.workspaces.project(&named).map_err(|_| missing())?;
        if self.reaches(caller, &project.id) { Ok(project) } else { Err(missing()) }
    }

    /// Refuses to let an agent in a sandbox start agents again that are in another sandbox or in none.
    async fn check_woken(&self, caller: &Caller, workspace: &Workspace) -> Result<(), Error> {
        let caller_defined = self.defined(&caller.agent).await?;
        for agent in self.agents_in(&workspace.path).await? {
            check_child_limits(&caller_defined, &self.defined(&agent.id).await?)?;
        }
        Ok(())
    }

    /// Refuses to let an agent in a sandbox start an agent in a workspace that it cannot write to, and where others may work.
    async fn check_child_writes_there(&self, caller: &Caller, workspace: &Workspace) -> Result<(), Error> {
        if workspace.path == caller.workspace || self.defined(&caller.agent).await?.sandbox().is_none() {
            return Ok(());
        }
        let agents = self.agents_in(&workspace.path).await?;
        let family = self.family().await?;
        if !agents.is_empty() && agents.iter().all(|agent| family.is_below(&agent.id, &caller.agent)) {
            return Ok(());
        }
        let why = format!(
            "your sandbox keeps you from {}, so you cannot start an agent there; ask a person, or start it together with \
             the workspace by workspace_create",
            workspace.name
        );
        Err(Error::new(ErrorCode::Forbidden, why))
    }

    /// Returns an agent that the caller may start: one of the definition that it comes from itself, so that it can run nothing
    /// that a person has not written down.
    async fn child(&self, caller: &Caller, name: Option<String>, prompt: Option<String>) -> Result<AgentBody, Error> {
        if caller.depth >= self.limits.depth {
            let why = format!("agents may start agents {} deep, and no deeper", self.limits.depth);
            return Err(Error::new(ErrorCode::Forbidden, why));
        }
        let caller_defined = self.defined(&caller.agent).await?;
        let child_defined =
            Defined { name: name.unwrap_or_else(|| caller_defined.name.clone()), ..caller_defined.clone() };
        check_child_limits(&caller_defined, &child_defined)?;
        let prompt = prompt.map(|prompt| from_agent(&caller.agent, &prompt));
        Ok(AgentBody { definition: child_defined.text, name: child_defined.name, id: None, prompt })
    }

    async fn defined(&self, agent: &AgentId) -> Result<Defined, Error> {
        let id = agent.clone();
        let defined = self.fleet.look(move |store| store.defined(&id)).await.map_err(said)?;
        defined.ok_or_else(|| Error::new(ErrorCode::NotFound, format!("there is no agent {agent} that you can reach")))
    }

    /// Returns an agent that the caller may do something with, and what defines it.
    pub(super) async fn reachable(&self, caller: &Caller, agent: &AgentId) -> Result<(Agent, Defined), Error> {
        let missing = || Error::new(ErrorCode::NotFound, format!("there is no agent {agent} that you can reach"));
        let defined = self.defined(agent).await?;
        let project = self.workspaces.project_of(Path::new(&defined.folder));
        if !self.limits.all_projects && !project.is_some_and(|project| self.reaches(caller, &project)) {
            return Err(missing());
        }
        let id = agent.clone();
        let record = self.fleet.look(move |store| store.agent(&id)).await.map_err(said)?;
        Ok((record.ok_or_else(missing)?, defined))
    }

    async fn notify_user(&self, caller: &Caller, message: String) -> Result<Value, Error> {
        let name = self.defined(&caller.agent).await?.name;
        self.tell("agent:notice", json!({ "agent": caller.agent, "message": message }));
        if self.machine.notify == Notify::default() {
            let why = "no way to call people is set up; who looks at the daemon's events sees it";
            return Ok(json!({ "notified": false, "why": why }));
        }
        let notice = Notice { agent: caller.agent.clone(), name, reason: message, ask: None };
        self.machine.notify(notice).await.map_err(Error::internal)?;
        Ok(json!({ "notified": true }))
    }
}

/// Refuses to let an agent in a sandbox start another that is in none, in another, or less isolated; and one that asks first
/// another that does not.
fn check_child_limits(caller: &Defined, other: &Defined) -> Result<(), Error> {
    let name = &other.name;
    if caller.asks_first() && !other.asks_first() {
        let why = format!("{name} does not ask first, and you do; ask a person to start it");
        return Err(Error::new(ErrorCode::Forbidden, why));
    }
    let why = match (caller.sandbox(), other.sandbox()) {
        (None, _) => return Ok(()),
        (Some(_), None) => format!("{name} has no sandbox, and you have one; ask a person to start it"),
        (Some(own), Some(others)) if own != others => {
            format!("the sandbox of {name} is not the same as yours; ask a person to start it")
        }
        _ if caller.is_isolated() && !other.is_isolated() => {
            format!("{name} is not isolated, and you are; ask a person to start it")
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorCode::Forbidden, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defined(more: &str) -> Defined {
        let text = format!("[agents.a]\ndriver = \"claude\"\n{more}");
        let (name, folder) = ("a".to_owned(), "/".to_owned());
        Defined { text, name, folder, prompt: None, parent: None, run_owner: Default::default() }
    }

    #[test]
    fn an_agent_that_asks_first_starts_no_agent_that_does_not() {
        let (asking, free) = (defined("ask_first = true\n"), defined(""));
        assert!(check_child_limits(&asking, &free).is_err_and(|error| error.message.contains("does not ask first")));
        for (caller, other) in [(&asking, &asking), (&free, &asking), (&free, &free)] {
            assert!(check_child_limits(caller, other).is_ok());
        }
    }
}
