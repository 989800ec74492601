//! `coop wrap`: a person's own `claude` or `opencode`, in the conversation of the workspace that it is run in.
//!
//! coop becomes the agent's program, so its exit code and every signal are the agent's own, and there is no second try. Where
//! there is nothing to add, as in any other folder or without a daemon, it is the agent as it was called.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use coop_api::{ErrorCode, Token};
use coop_drivers::{At, Chosen, Conversation, Plan, Wrapped, claude_logs};
use coop_policy::quoted;
use serde_json::json;
use tokio::time::timeout;

use super::ask::Daemon;
use super::cli::{Asking, StateOption};
use super::sessions::{Session, Sessions};
use super::ws::encoded;
use super::{bin_folder, socket, state_folder, state_path};
use crate::cli::parse_token;
use crate::client::Refused;
use crate::install;
use crate::paths::{self, text};
use crate::record::{self, Record, Server};
use crate::shield::SECRETS;

/// How long the daemon may take to answer; whoever types a command waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The exit codes that shells give for a program that is not there, and for one that cannot be run.
const MISSING: i32 = 127;
const BROKEN: i32 = 126;
/// A line by which a script of ours is known, so that it does not run itself.
const MARK: &str = "# Made by `coop wrap --dir`; written anew by it.";

#[derive(Debug, Args)]
pub(crate) struct Wrap {
    #[command(flatten)]
    state: StateOption,
    /// The daemon's token
    #[arg(long, env = "COOP_AUTH_TOKEN", value_name = "TOKEN", hide_env_values = true, value_parser = parse_token)]
    auth_token: Option<Token>,
    /// Make a folder with a `claude` and an `opencode` that are wrapped, to be put first on PATH, and print where it is
    #[arg(long, conflicts_with = "words")]
    dir: bool,
    /// The agent, `claude` or `opencode`, and what it is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "AGENT", required_unless_present = "dir")]
    words: Vec<OsString>,
}

pub(crate) async fn run(options: Wrap) -> anyhow::Result<i32> {
    if options.dir {
        let folder = make_folder(&state_folder(options.state.state.as_deref())?)?;
        writeln!(io::stdout(), "{}", folder.display())?;
        return Ok(0);
    }
    let mut words = options.words.into_iter();
    let name = words.next().unwrap_or_default();
    let Some(agent) = Wrapped::ALL.into_iter().find(|agent| name == agent.name()) else {
        bail!("there is a wrapper for claude and for opencode, and none for {}", name.display());
    };
    let words: Vec<_> = words.collect();
    let state = options.state.state.clone();
    let found = match texts(&words) {
        Some(texts) if is_outermost() => {
            look(agent, &texts, Asking { state: options.state, auth_token: options.auth_token, json: false }).await
        }
        // What an agent runs is its own matter, and of what is no text nobody can tell what it means.
        _ => Found::default(),
    };
    let command = match found.plan {
        Plan::AsItIs => program(agent).map(|mut command| {
            command.args(found.settings).args(&words);
            command
        }),
        Plan::With(texts) => program(agent).map(|mut command| {
            command.args(found.settings).args(&texts).envs(found.env).current_dir(found.folder);
            command
        }),
        Plan::Attach(id) => {
            let mut command = Command::new(env::current_exe().context("cannot find coop's own program file")?);
            command.args(["attach", &id]).env("COOP_STATE", state_path(state.as_deref())?);
            Some(command)
        }
        Plan::Refuse(why) => bail!(why),
    };
    let Some(mut command) = command else {
        writeln!(io::stderr(), "coop: {0} is not on PATH; `coop install {0}` installs it", agent.name())?;
        return Ok(MISSING);
    };
    // Only a failure comes back.
    let error = command.exec();
    writeln!(io::stderr(), "coop: cannot run {}: {error}", command.get_program().display())?;
    Ok(BROKEN)
}

/// What is to be run, and how.
#[derive(Debug)]
struct Found {
    plan: Plan,
    /// The conversation that it writes into, as far as that is known, if others must not then.
    conversation: Option<String>,
    env: BTreeMap<String, String>,
    /// Where the conversation is at home.
    folder: PathBuf,
    /// An option by which its hooks report.
    settings: Option<String>,
}

impl Default for Found {
    fn default() -> Self {
        Self { plan: Plan::AsItIs, conversation: None, env: BTreeMap::new(), folder: PathBuf::new(), settings: None }
    }
}

/// Looks what coop knows. Whatever goes wrong with that, the agent is run as it was called, and why is said.
async fn look(agent: Wrapped, words: &[String], asking: Asking) -> Found {
    let Ok(state) = state_path(asking.state.state.as_deref()) else { return Found::default() };
    if !socket(&state).exists() {
        return Found::default();
    }
    let asked = async {
        let daemon = Daemon::new(asking)?;
        let here = env::current_dir().and_then(fs::canonicalize).context("cannot tell the current folder")?;
        let here = text(&here)?;
        let told = daemon.get(&format!("sessions?folder={}", encoded(&here))).await?;
        let sessions: Sessions = serde_json::from_value(told)?;
        if sessions.workspace_path.is_none() {
            return Ok(Found::default());
        }
        let mut found = find(agent, words, sessions, &state)?;
        if found.plan == Plan::AsItIs {
            found.conversation = match agent.chosen(words) {
                Chosen::Named(id) => Some(id),
                Chosen::Last => last(&here),
                Chosen::Open => None,
            };
        }
        arrive(&daemon, agent, words, &here, found).await
    };
    let asked = timeout(PATIENCE, asked).await.unwrap_or_else(|_| bail!("the daemon does not answer"));
    asked.unwrap_or_else(|error| {
        say(&format!("{} is run as it is: {error:#}", agent.name()));
        Found::default()
    })
}

/// Tells the daemon who comes. If somebody else has the conversation open, a person who has not named it gets a new one, and
/// one who has is refused.
async fn arrive(
    daemon: &Daemon,
    agent: Wrapped,
    words: &[String],
    here: &str,
    mut found: Found,
) -> anyhow::Result<Found> {
    let is_run = matches!(found.plan, Plan::AsItIs | Plan::With(_));
    if !is_run || !(agent.converses(words) || found.conversation.is_some()) {
        return Ok(found);
    }
    // We become the agent, so our process is the one to follow.
    let hooks = agent.takes_hooks(words);
    let guest = |conversation: Option<&str>| {
        let (pid, driver) = (std::process::id(), agent.name());
        json!({ "folder": here, "pid": pid, "driver": driver, "sessionId": conversation, "hooks": hooks })
    };
    let mut told = daemon.post("guests", &guest(found.conversation.as_deref())).await;
    if let Err(error) = &told
        && let Some(Refused(held)) = error.downcast_ref().filter(|Refused(error)| error.code == ErrorCode::AgentBusy)
    {
        if found.plan == Plan::AsItIs {
            return Ok(Found {
                plan: Plan::Refuse(format!("{}: two would lose each other's work", held.message)),
                ..found
            });
        }
        say(&format!("{}; this {} begins a new one", held.message, agent.name()));
        found = Found::default();
        told = daemon.post("guests", &guest(None)).await;
    }
    found.settings = told?["settings"].as_str().map(|path| format!("--settings={path}"));
    Ok(found)
}

fn say(what: &str) {
    // There may be nobody to tell.
    let _ = writeln!(io::stderr(), "coop: {what}");
}

/// Chooses the conversation and what is to be done about it.
fn find(agent: Wrapped, words: &[String], sessions: Sessions, state: &Path) -> anyhow::Result<Found> {
    let mut of_its_kind = sessions.sessions.into_iter().filter(|session| session.driver == agent.name());
    let Some(session) = of_its_kind.next() else { return Ok(Found::default()) };
    let path = state.join("agents").join(&session.agent_id.0).join(record::FILE);
    let record = Record::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut env = record.env.clone();
    let at = match agent {
        Wrapped::Claude if session.is_running => At::Agent(session.agent_id.0.clone()),
        Wrapped::Claude if is_kept(&record, &session)? => At::Kept,
        Wrapped::Claude => At::Unbegun,
        Wrapped::OpenCode if !session.is_running => At::Kept,
        Wrapped::OpenCode => match record.server.filter(Server::answers) {
            Some(server) => {
                // On the command line others could read it.
                env.insert("OPENCODE_SERVER_PASSWORD".to_owned(), server.password);
                env.insert("OPENCODE_SERVER_USERNAME".to_owned(), server.username);
                At::Server(server.url)
            }
            None => At::Silent(session.agent_id.0.clone()),
        },
    };
    // A server has many clients, and sees to it that they do not disturb each other.
    let is_shared = matches!(at, At::Server(_));
    let plan = agent.plan(words, Some(&Conversation { id: session.session_id.clone(), at }));
    let conversation = session.session_id.filter(|_| !is_shared);
    Ok(Found { plan, conversation, env, folder: record.folder.into(), settings: None })
}

/// Tells whether Claude Code has written something down of a conversation, where it will look for it.
fn is_kept(record: &Record, session: &Session) -> anyhow::Result<bool> {
    let Some(id) = &session.session_id else { return Ok(false) };
    let config = record.env.get("CLAUDE_CONFIG_DIR").cloned().or_else(config_dir).context("HOME is not set")?;
    Ok(Path::new(&claude_logs(&config, &record.folder)).join(format!("{id}.jsonl")).is_file())
}

/// Returns the conversation of a folder that Claude Code has written into last.
fn last(folder: &str) -> Option<String> {
    let logs = fs::read_dir(claude_logs(&config_dir()?, folder)).ok()?.flatten();
    let logs = logs.filter(|log| log.path().extension().is_some_and(|extension| extension == "jsonl"));
    let dated = logs.filter_map(|log| Some((log.metadata().ok()?.modified().ok()?, log.path())));
    dated.max()?.1.file_stem()?.to_str().map(str::to_owned)
}

/// Returns where a person's own Claude Code keeps its files.
fn config_dir() -> Option<String> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME").map(|home| format!("{home}/.claude")))
}

/// Tells whether no agent of coop's runs this: it would come to its own conversation.
fn is_outermost() -> bool {
    ["COOP", "CLAUDECODE"].iter().all(|name| env::var_os(name).is_none())
}

fn texts(words: &[OsString]) -> Option<Vec<String>> {
    words.iter().map(|word| word.to_str().map(str::to_owned)).collect()
}

/// Returns the agent's own program: the first on PATH that is none of our scripts, or one that coop has installed.
fn program(agent: Wrapped) -> Option<Command> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut on_path = env::split_paths(&path).map(|folder| folder.join(agent.name()));
    let own = on_path.find(|file| paths::is_program(file) && !is_ours(file));
    let program = own.or_else(|| install::program(agent.name()))?;
    let mut command = Command::new(program);
    for secret in SECRETS {
        command.env_remove(secret);
    }
    Some(command)
}

fn is_ours(file: &Path) -> bool {
    let mut begin = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(256).read_to_end(&mut begin));
    read.is_ok() && String::from_utf8_lossy(&begin).contains(MARK)
}

/// Makes the folder with the scripts.
pub(super) fn make_folder(state: &Path) -> anyhow::Result<PathBuf> {
    let coop = env::current_exe().context("cannot find coop's own program file")?;
    let folder = paths::private(bin_folder(state))?;
    for agent in Wrapped::ALL {
        let (coop, state, name) = (quoted(&text(&coop)?), quoted(&text(state)?), agent.name());
        let script = format!("#!/bin/sh\n{MARK}\nexec {coop} wrap --state {state} {name} \"$@\"\n");
        let (file, new) = (folder.join(name), folder.join(format!(".{name}.{}", std::process::id())));
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(&new);
        let written = written.and_then(|mut file| file.write_all(script.as_bytes()));
        let written = written.and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o700)));
        let moved = written.and_then(|()| fs::rename(&new, &file));
        moved.with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(folder)
}
