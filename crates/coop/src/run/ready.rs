//! A model with its tools, ready to be given something to do.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use coop_llm::{Effect, Executor, Limits, McpConfig, McpServers, Root, RunCx, Tool, coding_tools};

use serde_json::Value;
use tokio::time::Instant;

use super::Misuse;
use super::options::{ALL, NONE, Run, TOOLS};
use super::settings::{self, variable};

/// A model with its tools.
pub(super) struct Ready {
    /// Without a gate.
    pub(super) executor: Executor,
    pub(super) limits: Limits,
    /// Whether it is known what the model costs.
    pub(super) is_priced: bool,
    // The programs of MCP servers go when this does.
    _servers: McpServers,
}

impl Ready {
    pub(super) async fn make(options: &Run, folder: &Path, cx: &RunCx) -> anyhow::Result<Self> {
        let settings = settings::read(options, folder)?;
        let agent = settings.agent.agent(variable)?;
        let is_priced = settings.agent.prices().of(&agent.model().name).is_some();
        if options.tools.as_ref().is_some_and(|tools| tools.len() > 1 && tools.iter().any(|tool| tool == NONE)) {
            bail!(Misuse("--tools none is for no tools at all; leave out the others, or it".into()));
        }
        let root = Root::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
        let wanted = |name: &str| options.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name));
        let mut tools: Vec<_> = coding_tools(&root).into_iter().filter(|tool| wanted(&tool.spec().name)).collect();
        // The time for everything is also the time for this.
        let deadline = settings.limits.time.and_then(|time| Instant::now().checked_add(time));
        let cx = RunCx { deadline, ..cx.clone() };
        let servers = McpServers::connect(&servers(options.mcp_config.as_deref())?, &cx).await?;
        tools.extend(servers.tools());
        let is_there = |name: &str| tools.iter().any(|tool| tool.spec().name == name);
        // One that is switched off may be named all the same.
        let is_known = |name: &str| name == ALL || is_there(name) || TOOLS.contains(&name);
        for (option, names) in [("--allow", &options.allow), ("--ask", &options.ask)] {
            if let Some(name) = names.iter().find(|name| !is_known(name)) {
                let all: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).chain([ALL]).collect();
                let all = all.join(", ");
                bail!(Misuse(format!("{option} {name}: there is no such tool; there are {all}")));
            }
        }
        let system = options.system.clone().unwrap_or_else(|| system(folder));
        let executor = Executor::new(agent)
            .tools(tools)
            .system(system)
            .prices(settings.agent.prices())
            .limits(settings.limits.clone());
        Ok(Self { executor, limits: settings.limits, is_priced, _servers: servers })
    }
}

fn servers(path: Option<&Path>) -> anyhow::Result<McpConfig> {
    let Some(path) = path else { return Ok(McpConfig::default()) };
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read --mcp-config {name}"))?;
    let is_there = |config: &Value| config["mcpServers"].is_object();
    if serde_json::from_str::<Value>(&text).is_ok_and(|config| !is_there(&config)) {
        bail!("--mcp-config {name} cannot be used: it has no object \"mcpServers\"");
    }
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
pub(super) struct Allowed {
    named: Mutex<HashSet<String>>,
    /// Those that only look, and are asked about all the same.
    asked: Vec<String>,
}

impl Allowed {
    pub(super) fn new(options: &Run) -> Self {
        Self { named: Mutex::new(options.allow.iter().cloned().collect()), asked: options.ask.clone() }
    }

    pub(super) fn allows(&self, tool: &dyn Tool) -> bool {
        let name = &tool.spec().name;
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let is_asked = || self.asked.iter().any(|asked| asked == ALL || asked == name);
        named.contains(ALL) || named.contains(name) || tool.effect() == Effect::Look && !is_asked()
    }

    /// Allows a tool from now on.
    pub(super) fn add(&self, tool: &dyn Tool) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.spec().name.clone());
    }
}
