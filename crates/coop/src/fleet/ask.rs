//! Commands that ask the daemon one thing.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use coop_api::{visible, visible_json};
use serde_json::{Value, json};

use super::adhoc::{self, Written};
use super::cli::{AdHoc, Asking, FleetCommand, Length};
use super::ws::encoded;
use super::{asks, db, down, logs, refusal, show, socket, state_path, table, wait, watch};
use crate::client::{self, Client, Refused};

/// A daemon, and how its answers are wanted.
pub(super) struct Daemon {
    pub(super) client: Client,
    pub(super) json: bool,
}

impl Daemon {
    pub(super) fn new(asking: Asking) -> anyhow::Result<Self> {
        let socket = socket(&state_path(asking.state.state.as_deref())?);
        if !socket.exists() {
            if client::own_socket().is_some() {
                bail!("this agent does not see the daemon; what an agent runs cannot steer agents");
            }
            bail!("no daemon runs; start one with `coop up --detach`");
        }
        Ok(Self { client: Client::daemon(&socket, asking.auth_token), json: asking.json })
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.client.get(&format!("/api/v1/{path}")).await?)?)
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.client.post(&format!("/api/v1/{path}"), body).await?)?)
    }

    pub(super) async fn delete(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.client.delete(&format!("/api/v1/{path}"), body).await?)?)
    }

    /// Returns what is known of an agent.
    pub(super) async fn agent(&self, agent: &str) -> anyhow::Result<Value> {
        self.get(&of(agent)?).await
    }

    /// Asks for something below an agent.
    pub(super) async fn get_of(&self, agent: &str, path: &str) -> anyhow::Result<Value> {
        let told = self.get(&format!("{}/{path}", of(agent)?)).await;
        told.map_err(|error| refusal::in_commands(self, agent, error))
    }

    /// Has something done with an agent.
    pub(super) async fn post_to(&self, agent: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let told = self.post(&format!("{}/{path}", of(agent)?), body).await;
        let told = told.map_err(|error| refusal::in_commands(self, agent, error))?;
        if told["noted"] == false {
            let why = "it was done, but it is not written down that it was you: the daemon's store does not answer";
            writeln!(io::stderr(), "coop: {why}; see `coop status`")?;
        }
        Ok(told)
    }

    /// Prints an answer: as JSON, or what people want of it.
    pub(super) fn tell(&self, answer: &Value, words: impl FnOnce(&Value) -> io::Result<()>) -> anyhow::Result<i32> {
        if self.json {
            writeln!(io::stdout(), "{}", visible_json(answer))?;
        } else {
            words(answer)?;
        }
        Ok(0)
    }

    /// Prints an answer that has nothing to tell people but that it was done.
    pub(super) fn done(&self, answer: &Value) -> anyhow::Result<i32> {
        self.tell(answer, |_| Ok(()))
    }
}

/// Returns where an agent is found.
fn of(agent: &str) -> anyhow::Result<String> {
    if agent.is_empty() {
        bail!("there is no agent without a name");
    }
    Ok(format!("agents/{}", encoded(agent)))
}

/// Does what is asked. With --json a refusal is JSON too, with its code.
pub(crate) async fn run(command: FleetCommand) -> anyhow::Result<i32> {
    let is_json = command.asking().is_some_and(|asking| asking.json);
    let done = dispatch(command).await;
    if let Err(error) = &done
        && let Some(Refused(error)) = error.downcast_ref().filter(|_| is_json)
    {
        writeln!(io::stdout(), "{}", visible_json(&json!({ "error": error })))?;
    }
    done
}

async fn dispatch(command: FleetCommand) -> anyhow::Result<i32> {
    match command {
        FleetCommand::Down { asking, kill } => down::down(&Daemon::new(asking)?, kill).await,
        FleetCommand::Status { asking } => {
            let daemon = Daemon::new(asking)?;
            let status = daemon.get("health").await?;
            daemon.tell(&status, |status| {
                writeln!(
                    io::stdout(),
                    "running, version {}, {}{}{}{}",
                    table::text(&status["version"]),
                    match status["agents"].as_u64() {
                        Some(1) => "1 agent".to_owned(),
                        count => format!("{} agents", count.unwrap_or_default()),
                    },
                    store_words(&status["store"]),
                    cluster_words(&status["cluster"]),
                    match status["orphans"].as_u64() {
                        Some(0) | None => String::new(),
                        Some(count) => format!("; {count} more run that it does not know, see `coop ls --orphans`"),
                    }
                )
            })
        }
        FleetCommand::Ls { asking, orphans: true, .. } => {
            let daemon = Daemon::new(asking)?;
            daemon.tell(&daemon.get("orphans").await?, orphans)
        }
        FleetCommand::Adopt { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.done(&daemon.post(&format!("orphans/{}/adopt", encoded(&agent)), &json!({})).await?)
        }
        FleetCommand::Ls { asking, watch: false, .. } => {
            let daemon = Daemon::new(asking)?;
            daemon.tell(&daemon.get("agents").await?, |agents| {
                write!(io::stdout(), "{}", list(agents, table::Paper::of_stdout()))
            })
        }
        FleetCommand::Ls { asking, watch: true, .. } => watch::watch(&Daemon::new(asking)?).await,
        FleetCommand::Show { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.tell(&daemon.agent(&agent).await?, show::agent)
        }
        FleetCommand::Spawn { asking, name, file, id, adhoc } => {
            spawn(&Daemon::new(asking)?, name, &file, id, &adhoc).await
        }
        FleetCommand::Send { asking, agent, message, when } => {
            let daemon = Daemon::new(asking)?;
            let body = json!({ "message": message, "when": when });
            let receipt = daemon.post_to(&agent, "agent/nudge", &body).await?;
            daemon.tell(&receipt, |receipt| match receipt["queued"] == true {
                true => writeln!(io::stdout(), "{} waits until {agent} is idle", table::text(&receipt["id"])),
                false => Ok(()),
            })
        }
        FleetCommand::Wait { asking, agent, what, timeout } => {
            wait::wait(&Daemon::new(asking)?, &agent, what, timeout).await
        }
        FleetCommand::Logs { asking, agent, follow } => {
            logs::logs(&Daemon::new(asking)?, &agent, Length::of(follow)).await
        }
        FleetCommand::Db(command) => db::look_after(command),
        FleetCommand::Events { asking, after } => wait::events(&Daemon::new(asking)?, after).await,
        FleetCommand::Asks { asking, agent } => asks::asks(&Daemon::new(asking)?, agent.as_deref()).await,
        FleetCommand::Respond { asking, agent, response } => {
            asks::respond(&Daemon::new(asking)?, &agent, &response).await
        }
        FleetCommand::Interrupt { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.done(&daemon.post_to(&agent, "agent/interrupt", &json!({})).await?)
        }
        FleetCommand::Kill { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.done(&daemon.post_to(&agent, "dismiss", &json!({})).await?)
        }
        FleetCommand::Resume { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.done(&daemon.post_to(&agent, "revive", &json!({})).await?)
        }
        FleetCommand::Explain { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.tell(&daemon.get_of(&agent, "agent/explain").await?, show::explained)
        }
        FleetCommand::Usage { asking, agent } => {
            let daemon = Daemon::new(asking)?;
            daemon.tell(&daemon.get_of(&agent, "session/usage").await?, show::usage)
        }
    }
}

async fn spawn(
    daemon: &Daemon,
    name: Option<String>,
    file: &Path,
    id: Option<String>,
    adhoc: &AdHoc,
) -> anyhow::Result<i32> {
    let here = || std::path::absolute(".").context("cannot tell the current folder");
    let (body, place) = match name {
        Some(name) if adhoc.agent.is_none() && adhoc.command.is_empty() => {
            adhoc::check_is_defined(adhoc, file)?;
            let definition = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let file = std::path::absolute(file).context("cannot tell the current folder")?;
            let folder = adhoc.folder.as_deref().unwrap_or_else(|| file.parent().unwrap_or(Path::new("/")));
            let folder = std::path::absolute(folder).context("cannot tell the current folder")?;
            let prompt = &adhoc.prompt;
            let body = json!({ "definition": definition, "name": name, "folder": folder, "id": id, "prompt": prompt });
            (body, file.display().to_string())
        }
        name => {
            let Written { text, name } = adhoc::write(name.as_deref(), adhoc)?;
            let folder = adhoc.folder.as_deref().map_or_else(here, |folder| Ok(std::path::absolute(folder)?))?;
            (json!({ "definition": text, "name": name, "folder": folder, "id": id }), name)
        }
    };
    let spawned = daemon.post("agents", &body).await.context(place)?;
    daemon.tell(&spawned, spawned_words)
}

/// Prints the id of an agent that was started, and what a person should know about its rules.
pub(super) fn spawned_words(spawned: &Value) -> io::Result<()> {
    for warning in items(spawned, "warnings") {
        writeln!(io::stderr(), "warning: {}", coop_api::visible_line(&table::text(warning)))?;
    }
    writeln!(io::stdout(), "{}", table::text(&spawned["id"]))
}

/// Returns a word about the store, if it is not as it should be.
fn store_words(store: &Value) -> String {
    match store["condition"].as_str() {
        Some("fine") | None => String::new(),
        Some(condition) => {
            let why = store["why"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("; its store is {condition} for {} s{why}", store["secs"])
        }
    }
}

fn cluster_words(cluster: &Value) -> String {
    cluster["why"].as_str().map(|why| format!("; its cluster is lost ({why})")).unwrap_or_default()
}

pub(super) fn items<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns all agents as a list.
pub(super) fn list(answer: &Value, paper: table::Paper) -> String {
    let row = |agent: &Value| {
        let outcome = agent["outcome"]["outcome"].as_str();
        let state = outcome.map_or_else(|| table::text(&agent["phase"]), str::to_owned);
        let state = match agent["used_without_ask"].is_string() && outcome.is_none() {
            true => format!("{state} ({})", table::text(&agent["permission_mode"])),
            false => state,
        };
        let cells = [&agent["turn"], &agent["needs"], &agent["last_message"]].map(table::text);
        [[table::text(&agent["id"]), state].as_slice(), &cells].concat()
    };
    let rows: Vec<_> = items(answer, "agents").iter().map(row).collect();
    table::layout(&["AGENT", "STATE", "TURN", "NEEDS", "SAYS"], &rows, paper)
}

fn orphans(answer: &Value) -> io::Result<()> {
    let row = |orphan: &Value| {
        let command: Vec<_> = items(orphan, "command").iter().map(table::text).collect();
        let [id, pid, driver, folder] =
            [&orphan["id"], &orphan["pid"], &orphan["driver"], &orphan["folder"]].map(table::text);
        vec![id, pid, driver, folder, command.join(" ")]
    };
    let rows: Vec<_> = items(answer, "orphans").iter().map(row).collect();
    table::write(&["AGENT", "PID", "DRIVER", "FOLDER", "COMMAND"], &rows)
}

pub(super) fn pretty(answer: &Value) -> io::Result<()> {
    writeln!(io::stdout(), "{}", visible(&format!("{answer:#}")))
}
