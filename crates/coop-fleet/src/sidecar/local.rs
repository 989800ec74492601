//! Sidecars as processes of this machine.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use coop_api::{AgentId, PermissionMode, is_own_agent_setting};
use coop_sandbox::BUBBLEWRAP_VARIABLE;
use tokio::process::Command;

use super::client::Client;
use super::config::AGENT_CONFIG;
use super::launcher::{Address, Dismissal, Found, LastSidecar, LaunchError, Launcher, RunOwner, Running, Sidecar};
use super::process::{Identity, Launched, is_log_locked, is_sidecar_of, launch, search, watch_child, watch_other};
use crate::adapter::AgentConfig;
use crate::bounded;
use crate::definition::{OWN_AGENT, Sandbox};

/// What the terminal of an agent is recorded to.
pub(crate) const RECORDING: &str = "terminal.cast";

/// Runs each sidecar as a process that leads a session of its own. It lives on when we end.
#[derive(Clone, Debug)]
pub struct LocalLauncher {
    coop: PathBuf,
}

impl LocalLauncher {
    /// Returns a launcher that runs this `coop`.
    pub fn new(coop: &Path) -> Self {
        Self { coop: coop.to_owned() }
    }

    fn command(&self, config: &AgentConfig, folder: &Path) -> Command {
        let mut command = bounded::command(&self.coop);
        let bubblewrap = std::env::var_os(BUBBLEWRAP_VARIABLE).map(|path| (BUBBLEWRAP_VARIABLE, path));
        command.envs(bubblewrap);
        if config.driver == OWN_AGENT {
            // Only coop's own agent gets its settings and its key.
            command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_own_agent_setting)));
        }
        command.envs(&config.env).current_dir(&config.folder);
        command.args(["--own-session", "--socket"]).arg(folder.join("coop.sock"));
        command.args(config.sandbox.iter().flat_map(|sandbox| sandbox_words(sandbox, folder)));
        command.args(words(config, folder));
        command
    }
}

/// Returns the options for an agent in a sandbox. `folder` is `STATE/agents/ID`; the sandbox hides STATE.
fn sandbox_words(sandbox: &Sandbox, folder: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--sandbox".into()];
    if let Some(state) = folder.ancestors().nth(2) {
        words.extend(["--sandbox-hide".into(), state.into()]);
    }
    for (option, paths) in [("--sandbox-write", &sandbox.write), ("--sandbox-hide", &sandbox.hide)] {
        words.extend(paths.iter().flat_map(|path| [option, path]).map(OsString::from));
    }
    if sandbox.no_network {
        words.push("--sandbox-no-network".into());
    }
    words
}

/// Returns the rest of a sidecar's command line, for one that sees the agent's folder where it is here.
pub(crate) fn words(config: &AgentConfig, folder: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    words.extend(["--linger", "forever", "--agent", &config.driver, "--agent-config"].map(Into::into));
    words.push(folder.join(AGENT_CONFIG).into());
    if let Some(runtime) = &config.runtime {
        words.extend(["--runtime", runtime].map(Into::into));
    }
    if config.isolate {
        words.push("--isolate".into());
    }
    if config.trust {
        words.push("--trust".into());
    }
    if let Some(mode) = config.permission_mode {
        words.extend(["--permission-mode", mode.as_str()].map(Into::into));
    }
    if config.ask_first {
        words.push("--ask-first".into());
    }
    if let Some(limit) = config.record {
        words.extend(["--record".into(), folder.join(RECORDING).into()]);
        words.extend(["--record-limit".into(), limit.to_string().into()]);
    }
    if let Some(conversation) = &config.resume {
        words.extend(["--resume", conversation].map(Into::into));
    }
    words.push("--".into());
    words.extend(config.command.iter().map(Into::into));
    words
}

/// Returns the sidecar that listens on an agent's socket.
async fn listener(folder: &Path) -> Option<Identity> {
    let pid = Client::new(&folder.join("coop.sock")).listener().await.ok()??;
    let identity = Identity::of(pid)?;
    is_sidecar_of(pid, folder).then_some(identity)
}

/// Finds a sidecar that the store does not name, because the store is lost or the daemon was killed while the sidecar started.
async fn unrecorded(folder: &Path) -> Option<Identity> {
    match listener(folder).await {
        None if is_log_locked(folder) => search(folder),
        found => found,
    }
}

fn sidecar_of(identity: &Identity) -> Found {
    Found::Running(Sidecar { name: identity.name(), address: Address::Socket, ended: watch_other(identity) })
}

#[async_trait]
impl Launcher for LocalLauncher {
    fn makes_sandboxes(&self) -> bool {
        true
    }

    async fn start(&self, config: &AgentConfig, folder: &Path) -> Result<Sidecar, LaunchError> {
        let Launched { identity, child } = launch(&mut self.command(config, folder), folder).await?;
        Ok(Sidecar { name: identity.name(), address: Address::Socket, ended: watch_child(child) })
    }

    async fn find(&self, _agent: &AgentId, folder: &Path, last: &LastSidecar) -> Found {
        let recorded = last.name.as_deref().and_then(Identity::named);
        if let Some(identity) = recorded.as_ref().filter(|identity| identity.is_alive()) {
            return sidecar_of(identity);
        }
        match (unrecorded(folder).await, recorded) {
            (Some(identity), _) => sidecar_of(&identity),
            // Only who has started a process is told what it ended with.
            (None, Some(identity)) => Found::Ended { name: identity.name(), code: None },
            (None, None) => Found::Nobody,
        }
    }

    async fn dismiss(&self, _agent: &AgentId, _sidecar: &str) -> Result<Dismissal, String> {
        Ok(Dismissal::ItIsAsked)
    }

    async fn kill(&self, _agent: &AgentId, sidecar: &str) {
        if let Some(identity) = Identity::named(sidecar) {
            identity.kill();
        }
    }

    async fn bury(&self, _agent: &AgentId) -> Result<(), String> {
        Ok(())
    }

    async fn running(&self, agents: &Path) -> Vec<Running> {
        let folders = fs::read_dir(agents).into_iter().flatten().flatten();
        let names: Vec<_> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let mut running = Vec::new();
        for agent in names.into_iter().map(AgentId) {
            if let Some(identity) = listener(&agents.join(&agent.0)).await {
                running.extend(looked_at(agent, identity.pid(), agents));
            }
        }
        running
    }
}

/// Reads off a sidecar's own command line what it runs.
fn looked_at(agent: AgentId, pid: u32, agents: &Path) -> Option<Running> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let own = words.iter().position(|word| word == "--")?;
    let driver = words[..own].iter().position(|word| word == "--agent").and_then(|at| words.get(at + 1))?.clone();
    // The last word ends with a NUL too.
    let command = words[own + 1..words.len().saturating_sub(1).max(own + 1)].to_vec();
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let (isolate, sandbox) = (is_isolated(&words[..own]), sandbox_of(&words[..own], agents.parent()));
    let (permission_mode, ask_first) = (mode_of(&words[..own]), asks_first(&words[..own]));
    let pid = Some(pid);
    let run_owner = RunOwner::Fleet;
    Some(Running { agent, pid, driver, command, folder, isolate, sandbox, permission_mode, ask_first, run_owner })
}

/// Returns the permission mode that a sidecar's own words name.
pub(crate) fn mode_of(words: &[String]) -> Option<PermissionMode> {
    let named = words.windows(2).find(|pair| pair[0] == "--permission-mode");
    named.and_then(|pair| PermissionMode::by_name(&pair[1]))
}

/// Tells whether a sidecar's own words have its agent ask before it uses any tool.
pub(crate) fn asks_first(words: &[String]) -> bool {
    words.iter().any(|word| word == "--ask-first")
}

/// Tells whether a sidecar's own words give its agent a configuration of its own.
pub(crate) fn is_isolated(words: &[String]) -> bool {
    words.iter().any(|word| word == "--isolate")
}

/// Returns the sandbox that a sidecar's own words ask for, as [`sandbox_words`] wrote them.
fn sandbox_of(words: &[String], state: Option<&Path>) -> Option<Sandbox> {
    let has = |option: &str| words.iter().any(|word| word == option);
    let values = |option: &str| {
        let pairs = words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].clone());
        pairs.collect::<Vec<_>>()
    };
    has("--sandbox").then(|| Sandbox {
        write: values("--sandbox-write"),
        hide: values("--sandbox-hide").into_iter().filter(|path| Some(Path::new(path)) != state).collect(),
        no_network: has("--sandbox-no-network"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_read_from_the_command_line_that_it_was_written_to() {
        let folder = Path::new("/state/agents/a");
        let some = Sandbox { write: vec!["/w".into(), "/x y".into()], hide: vec!["/h".into()], no_network: true };
        for sandbox in [Sandbox::default(), some] {
            let words = sandbox_words(&sandbox, folder).into_iter().map(|word| word.into_string().expect("UTF-8"));
            let words: Vec<_> = words.collect();
            assert_eq!(sandbox_of(&words, Some(Path::new("/state"))), Some(sandbox));
        }
        assert_eq!(sandbox_of(&["--isolate".to_owned()], None), None);
    }
}
