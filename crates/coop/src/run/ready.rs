//! A model with its tools, ready to be given something to do.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use coop_llm::{Effect, Executor, Limits, McpConfig, McpServers, Root, RunCx, Tool, coding_tools};

use super::options::{ALL, Run, TOOLS};
use super::settings::{self, variable};

/// A model with its tools.
pub(super) struct Ready {
    /// Without a gate.
    pub(super) executor: Executor,
    pub(super) limits: Limits,
    // The programs of MCP servers go when this does.
    _servers: McpServers,
}

impl Ready {
    pub(super) async fn make(options: &Run, folder: &Path, cx: &RunCx) -> anyhow::Result<Self> {
        let settings = settings::read(options, folder)?;
        let agent = settings.agent.agent(variable)?;
        let root = Root::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
        let wanted = |name: &str| options.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name));
        let mut tools: Vec<_> = coding_tools(&root).into_iter().filter(|tool| wanted(&tool.spec().name)).collect();
        let servers = McpServers::connect(&servers(options.mcp_config.as_deref())?, cx).await?;
        tools.extend(servers.tools());
        let is_there = |name: &str| tools.iter().any(|tool| tool.spec().name == name);
        // One that is switched off may be named all the same.
        if let Some(name) =
            options.allow.iter().find(|name| *name != ALL && !is_there(name) && !TOOLS.contains(&&***name))
        {
            bail!("--allow {name}: there is no such tool");
        }
        let system = options.system.clone().unwrap_or_else(|| system(folder));
        let executor = Executor::new(agent)
            .tools(tools)
            .system(system)
            .prices(settings.agent.prices())
            .limits(settings.limits.clone());
        Ok(Self { executor, limits: settings.limits, _servers: servers })
    }
}

fn servers(path: Option<&Path>) -> anyhow::Result<McpConfig> {
    let Some(path) = path else { return Ok(McpConfig::default()) };
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read --mcp-config {name}"))?;
    // What serde says of a wrong value shows it, and a key may be in it.
    serde_json::from_str(&text).map_err(|error| {
        anyhow::anyhow!(
            "--mcp-config {name} cannot be used: it is wrong at line {}, column {}",
            error.line(),
            error.column()
        )
    })
}

/// What a model has to know to work in a folder.
fn system(folder: &Path) -> String {
    format!(
        "You are a careful software engineer at work in the folder {}. Paths are relative to it. Look before you change \
         anything, change no more than the task needs, and check what you did. A tool that is not allowed was refused by \
         the user or by their settings: do not try to get around that. When you are done, say briefly what you did and \
         what you did not.",
        folder.display()
    )
}

/// What may be used without being asked about.
#[derive(Debug)]
pub(super) struct Allowed(Mutex<HashSet<String>>);

impl Allowed {
    pub(super) fn new(names: &[String]) -> Self {
        Self(Mutex::new(names.iter().cloned().collect()))
    }

    pub(super) fn allows(&self, tool: &dyn Tool) -> bool {
        let allowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tool.effect() == Effect::Look || allowed.contains(ALL) || allowed.contains(&tool.spec().name)
    }

    /// Allows a tool from now on.
    pub(super) fn add(&self, tool: &dyn Tool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.spec().name.clone());
    }
}
