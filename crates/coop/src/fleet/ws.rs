//! `coop ws`: projects and their workspaces.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::ask::{Daemon, items, pretty, spawned_words};
use super::ws_cli::{InProject, What, Ws};
use super::{refusal, table, wrap};

impl InProject {
    /// Returns the project's id.
    async fn id(&self, daemon: &Daemon) -> anyhow::Result<String> {
        let told = daemon.get("projects").await?;
        let here = env::current_dir().context("cannot tell the current folder")?;
        let is_in = |value: &Value| value["path"].as_str().is_some_and(|path| here.starts_with(path));
        let is_it = |project: &&Value| match &self.project {
            Some(named) => {
                let path = Path::new(named).canonicalize();
                let is_there = path.is_ok_and(|path| project["path"].as_str().map(Path::new) == Some(&path));
                project["id"] == named.as_str() || is_there
            }
            None => is_in(project) || items(project, "workspaces").iter().any(is_in),
        };
        match items(&told, "projects").iter().find(is_it) {
            Some(project) => Ok(table::text(&project["id"])),
            None => bail!("no such project is open; open it with `coop ws open PATH`"),
        }
    }

    /// Returns the path of a workspace in the API.
    async fn workspace(&self, daemon: &Daemon, name: &str) -> anyhow::Result<String> {
        Ok(format!("workspaces/{}/{}", encoded(&self.id(daemon).await?), encoded(name)))
    }
}

pub(crate) async fn run(Ws { what }: Ws) -> anyhow::Result<i32> {
    match what {
        What::Open { asking, path } => {
            let daemon = Daemon::new(asking)?;
            let path = std::path::absolute(path).context("cannot tell the current folder")?;
            let opened = daemon.post("projects", &json!({ "path": path })).await?;
            daemon.tell(&opened, |opened| writeln!(io::stdout(), "{}", table::text(&opened["id"])))
        }
        What::Close { asking, project } => {
            let daemon = Daemon::new(asking)?;
            let id = project.id(&daemon).await?;
            daemon.done(&daemon.delete(&format!("projects/{}", encoded(&id)), &json!({})).await?)
        }
        What::Ls { asking } => {
            let daemon = Daemon::new(asking)?;
            daemon.tell(&daemon.get("projects").await?, list)
        }
        What::Create { asking, project, name, base, tracking, agent, prompt, file } => {
            let daemon = Daemon::new(asking)?;
            let agent = agent.map(|agent| defined(&file, &agent, prompt.as_deref(), None)).transpose()?;
            let project = project.id(&daemon).await?;
            let body = json!({ "project": project, "name": name, "base": base, "tracking": tracking, "agent": agent });
            let created = daemon.post("workspaces", &body).await?;
            daemon.tell(&created, |created| writeln!(io::stdout(), "{}", table::text(&created["path"])))
        }
        What::Show { asking, project, name, refresh } => {
            let daemon = Daemon::new(asking)?;
            let path = project.workspace(&daemon, &name).await?;
            daemon.tell(&daemon.get(&format!("{path}?refresh={refresh}")).await?, pretty)
        }
        What::Rm { asking, project, name, keep_branch, ignore_warnings, kill } => {
            let daemon = Daemon::new(asking)?;
            let path = project.workspace(&daemon, &name).await?;
            let body = json!({ "keepBranch": keep_branch, "ignoreWarnings": ignore_warnings, "kill": kill });
            let deleted = daemon.delete(&path, &body).await.map_err(|error| refusal::of_a_deletion(&daemon, error))?;
            daemon.done(&deleted)
        }
        What::Note { asking, project, name, key, value } => {
            let daemon = Daemon::new(asking)?;
            let path = format!("{}/metadata", project.workspace(&daemon, &name).await?);
            daemon.done(&daemon.post(&path, &json!({ "key": key, "value": value })).await?)
        }
        What::Spawn { asking, project, name, agent, prompt, file, id } => {
            let daemon = Daemon::new(asking)?;
            let body = defined(&file, &agent, prompt.as_deref(), id.as_deref())?;
            let path = format!("{}/agents", project.workspace(&daemon, &name).await?);
            let spawned = daemon.post(&path, &body).await?;
            daemon.tell(&spawned, spawned_words)
        }
        What::Hibernate { asking, project, name } => {
            let daemon = Daemon::new(asking)?;
            let path = format!("{}/hibernate", project.workspace(&daemon, &name).await?);
            daemon.done(&daemon.post(&path, &json!({})).await?)
        }
        What::Wake { asking, project, name } => {
            let daemon = Daemon::new(asking)?;
            let path = format!("{}/wake", project.workspace(&daemon, &name).await?);
            let woken = daemon.post(&path, &json!({})).await?;
            let told = daemon.tell(&woken, |woken| {
                let failed = items(woken, "failed").iter();
                failed
                    .map(|one| [&one["id"], &one["why"]].map(table::text))
                    .try_for_each(|[id, why]| writeln!(io::stderr(), "{id} does not go on: {why}"))
            })?;
            Ok(if items(&woken, "failed").is_empty() { told } else { 1 })
        }
        What::Env { asking, project, name } => {
            let daemon = Daemon::new(asking)?;
            let shown = daemon.get(&project.workspace(&daemon, &name).await?).await?;
            let folder = encoded(shown["path"].as_str().unwrap_or_default());
            let told = daemon.get(&format!("sessions?folder={folder}")).await?;
            let environment = &told["environment"];
            // They are to be on the path.
            wrap::make_folder(Path::new(&table::text(&environment["COOP_STATE"])))?;
            daemon.tell(environment, exported)
        }
        What::Sweep { asking, project } => {
            let daemon = Daemon::new(asking)?;
            let id = project.id(&daemon).await?;
            daemon.tell(&daemon.post(&format!("projects/{}/sweep", encoded(&id)), &json!({})).await?, pretty)
        }
    }
}

fn defined(file: &Path, name: &str, prompt: Option<&str>, id: Option<&str>) -> anyhow::Result<Value> {
    let definition = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(json!({ "definition": definition, "name": name, "prompt": prompt, "id": id }))
}

fn list(answer: &Value) -> io::Result<()> {
    let mut rows = Vec::new();
    for project in items(answer, "projects") {
        let status = |of: &Value| table::text(&of["agent"]["type"]);
        let at = table::text(&project["path"]);
        rows.push(vec![table::text(&project["id"]), String::new(), status(project), at]);
        for workspace in items(project, "workspaces") {
            let asleep =
                if workspace["metadata"]["hibernated"].is_string() { "asleep".to_owned() } else { status(workspace) };
            rows.push(vec![String::new(), table::text(&workspace["name"]), asleep, table::text(&workspace["path"])]);
        }
    }
    table::write(&["PROJECT", "WORKSPACE", "AGENTS", "PATH"], &rows)
}

/// Writes variables as shells read them. Programs that are wrapped come first on the path.
fn exported(variables: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (name, value) in variables.as_object().into_iter().flatten() {
        writeln!(out, "export {name}={}", coop_policy::quoted(&table::text(value)))?;
    }
    writeln!(out, "export PATH=\"$COOP_WRAP_DIR:$PATH\"")
}

/// Returns a part of a path as it is written in a URL.
pub(super) fn encoded(part: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    part.bytes().map(byte).collect()
}
