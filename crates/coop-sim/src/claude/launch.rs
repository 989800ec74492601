//! From the command line to a running agent, or to the reason why there is none.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use super::VERSION;
use super::args::{Args, Format, Refused, Resume};
use super::config::{self, Config, Env};
use super::engine::{Asker, Bypass, Engine, Setup};
use super::face::Face;
use super::ids::{Ids, SessionId};
use super::io::{self, Manner, Parts, Signals};
use super::log::{LogBook, LogSetup, Opened};
use super::notice::StartSource;
use super::permission::{PermissionMode, Rule, Rules};
use super::scenario::Scenario;
use super::settings::Settings;
use super::status::{Kind, StatusFile};
use super::stream::{LineOptions, Lines, Source, Stream};
use super::tui::{self, Menu, Tui, TuiSetup};

const DEFAULT_MODEL: &str = "claude-opus-4-8[1m]";
/// As measured.
const NOTIFY_AFTER: Duration = Duration::from_secs(6);

/// Everything the agent takes from its surroundings.
pub(crate) struct World {
    pub(crate) args: Vec<String>,
    pub(crate) env: Arc<Env>,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) signals: Signals,
}

impl World {
    pub(crate) fn of_process(args: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let cwd = std::env::current_dir().and_then(|cwd| cwd.canonicalize()).context("no working directory")?;
        Ok(Self {
            args: args.map(|word| word.to_string_lossy().into_owned()).collect(),
            env: Arc::new(|name: &str| std::env::var_os(name)),
            cwd,
            stdin: std::io::stdin().as_fd().try_clone_to_owned()?,
            stdout: std::io::stdout().as_fd().try_clone_to_owned()?,
            stderr: std::io::stderr().as_fd().try_clone_to_owned()?,
            signals: Signals::Caught,
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        (self.env)(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value == "1")
    }
}

pub(crate) fn launch(world: World) -> anyhow::Result<i32> {
    let args = match Args::parse(world.args.iter().cloned()) {
        Ok(args) => args,
        Err(Refused(message)) => return refuse(&world, &message),
    };
    if args.version {
        File::from(world.stdout).write_all(format!("{VERSION} (Claude Code)\n").as_bytes())?;
        return Ok(0);
    }
    let config = Config::find(&*world.env);
    let mut ids = Ids::random();
    let chosen = match choose_session(&args, &config, &world, &mut ids) {
        Ok(chosen) => chosen,
        Err(Refused(message)) => return refuse_session(&world, &args, ids, &message),
    };
    start(world, args, config, ids, chosen)
}

/// Which conversation it is to be.
struct Chosen {
    session: SessionId,
    source: StartSource,
    opened: Opened,
}

fn choose_session(args: &Args, config: &Config, world: &World, ids: &mut Ids) -> Result<Chosen, Refused> {
    let logs = config.logs(&world.cwd);
    let earlier = match &args.resume {
        Resume::No => None,
        Resume::Latest => {
            Some(config::latest(&logs).ok_or_else(|| Refused("No conversation found to continue".into()))?)
        }
        Resume::Session(id) => {
            let id = SessionId(id.clone());
            if !config::has_log(&logs, &id) {
                return Err(Refused(format!("No conversation found with session ID: {id}")));
            }
            Some(id)
        }
    };
    let wanted = args.session_id.clone().map(SessionId);
    match earlier {
        Some(session) if !args.fork => Ok(Chosen { session, source: StartSource::Resume, opened: Opened::Yes }),
        Some(earlier) => {
            let session = wanted.unwrap_or_else(|| ids.session());
            config::fork(&logs, &earlier, &session).map_err(|error| Refused(error.to_string()))?;
            Ok(Chosen { session, source: StartSource::Resume, opened: Opened::Yes })
        }
        None => {
            let session = wanted.unwrap_or_else(|| ids.session());
            if config::has_log(&logs, &session) {
                return Err(Refused(format!("Error: Session ID {session} is already in use.")));
            }
            Ok(Chosen { session, source: StartSource::Startup, opened: Opened::No })
        }
    }
}

/// How the agent begins: the flags and the settings taken together.
struct Character {
    manner: Manner,
    model: String,
    mode: PermissionMode,
    bypass: Bypass,
}

impl Character {
    fn new(world: &World, args: &Args, settings: &Settings) -> Self {
        let mode = match args.mode {
            None if args.skip_permissions => PermissionMode::BypassPermissions,
            None => settings.mode.unwrap_or_default(),
            Some(mode) => mode,
        };
        let may_bypass = args.skip_permissions || mode == PermissionMode::BypassPermissions;
        Self {
            manner: manner(world, args),
            model: args.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
            mode,
            bypass: if may_bypass { Bypass::Available } else { Bypass::Refused },
        }
    }
}

fn start(world: World, args: Args, config: Config, mut ids: Ids, chosen: Chosen) -> anyhow::Result<i32> {
    let scenario = Scenario::load(world.text("COOP_SIM_SCENARIO").as_deref())?;
    let mut settings = Settings::load(&config.folder, &world.cwd, args.settings.as_deref());
    let character = Character::new(&world, &args, &settings);
    let logs = config.logs(&world.cwd);
    let (face, kind, entrypoint, asker): (Box<dyn Face>, _, _, _) = match character.manner {
        Manner::Screen => {
            let asker = Asker::Screen { notify_after: notify_after(&world) };
            let menus = menus(&world, &config, &settings, character.mode);
            (Box::new(screen(&world, &args, &character, &chosen, menus, &logs)), Kind::Interactive, "cli", asker)
        }
        Manner::Pipe => {
            let asker = if args.prompts_on_stdio { Asker::Channel } else { Asker::Nobody };
            (Box::new(stream(&world, &args, &character, &chosen, ids.split())), Kind::Print, "sdk-cli", asker)
        }
    };
    let log = LogBook::new(LogSetup {
        logs: logs.clone(),
        cwd: world.cwd.clone(),
        entrypoint,
        model: character.model.clone(),
        mode: character.mode,
        session: chosen.session.clone(),
        opened: chosen.opened,
        ids: ids.split(),
    });
    let status = StatusFile::new(&config.folder, chosen.session.clone(), world.cwd.clone(), kind, io::now());
    let engine = Engine::new(Setup {
        ids,
        session: chosen.session,
        source: chosen.source,
        cwd: world.cwd.clone(),
        logs,
        model: character.model,
        mode: character.mode,
        bypass: character.bypass,
        rules: Rules {
            allow: rules(&args.allowed_tools, &mut settings.allow),
            deny: rules(&args.disallowed_tools, &mut settings.deny),
            ask: std::mem::take(&mut settings.ask),
        },
        scenario,
        asker,
        max_retries: world.text("CLAUDE_CODE_MAX_RETRIES").and_then(|count| count.parse().ok()),
    });
    io::run(Parts {
        engine,
        face,
        log,
        status,
        settings,
        config,
        gates: world.path("COOP_SIM_GATES"),
        state: world.path("COOP_SIM_STATE"),
        cwd: world.cwd,
        stdin: world.stdin,
        stdout: world.stdout,
        manner: character.manner,
        signals: world.signals,
    })
}

fn screen(world: &World, args: &Args, character: &Character, chosen: &Chosen, menus: Vec<Menu>, logs: &Path) -> Tui {
    let history = match chosen.opened {
        Opened::Yes => tui::history(&logs.join(format!("{}.jsonl", chosen.session))),
        Opened::No => Vec::new(),
    };
    Tui::new(TuiSetup {
        cwd: world.cwd.clone(),
        model: character.model.clone(),
        mode: character.mode,
        menus,
        prompt: args.prompt.clone(),
        history,
    })
}

fn stream(world: &World, args: &Args, character: &Character, chosen: &Chosen, ids: Ids) -> Stream {
    let lines = Lines {
        ids,
        session: chosen.session.clone(),
        cwd: world.cwd.clone(),
        model: character.model.clone(),
        mode: character.mode,
        mcp_servers: mcp_servers(world, args),
        options: LineOptions {
            partial_messages: args.partial_messages,
            state_events: world.is_on("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"),
            prompts_on_stdio: args.prompts_on_stdio,
        },
        agents: Vec::new(),
    };
    Stream::new(lines, source(args), args.output, character.bypass)
}

/// Without a terminal there is no screen, with or without `-p`.
fn manner(world: &World, args: &Args) -> Manner {
    if !args.print && world.stdin.is_terminal() && world.stdout.is_terminal() { Manner::Screen } else { Manner::Pipe }
}

fn source(args: &Args) -> Source {
    match (args.input, &args.prompt) {
        (Format::StreamJson, prompt) => Source::Channel(prompt.clone()),
        (Format::Text | Format::Json, Some(prompt)) => Source::Once(prompt.clone()),
        (Format::Text | Format::Json, None) => Source::Stdin,
    }
}

fn menus(world: &World, config: &Config, settings: &Settings, mode: PermissionMode) -> Vec<Menu> {
    let mut menus = Vec::new();
    if world.is_on("COOP_SIM_DIALOGS") {
        if !config.is_trusted(&world.cwd) {
            menus.push(Menu::trust(&world.cwd));
        }
        if let Some(key) = world.text("ANTHROPIC_API_KEY").filter(|key| !config.is_key_approved(key)) {
            menus.push(Menu::api_key(&key));
        }
        if mode == PermissionMode::BypassPermissions && !settings.skip_bypass_warning {
            menus.push(Menu::bypass());
        }
    }
    if !settings.errors.is_empty() {
        menus.push(Menu::settings(&settings.errors));
    }
    menus
}

fn rules(flags: &[String], settings: &mut Vec<Rule>) -> Vec<Rule> {
    flags.iter().map(|rule| Rule::parse(rule)).chain(settings.drain(..)).collect()
}

/// The names of the MCP servers; nothing here talks to them.
fn mcp_servers(world: &World, args: &Args) -> Vec<String> {
    let read = |config: &String| -> Option<Value> {
        let text = match config.trim_start().starts_with('{') {
            true => config.clone(),
            false => std::fs::read_to_string(world.cwd.join(config)).ok()?,
        };
        serde_json::from_str(&text).ok()
    };
    let names = |config: Value| -> Vec<String> {
        let servers = config.get("mcpServers").and_then(Value::as_object).into_iter().flatten();
        servers.map(|(name, _)| name.clone()).collect()
    };
    args.mcp_config.iter().filter_map(read).flat_map(names).collect()
}

fn notify_after(world: &World) -> Duration {
    let set = world.text("COOP_SIM_NOTIFY_MS").and_then(|millis| millis.parse().ok());
    set.map_or(NOTIFY_AFTER, Duration::from_millis)
}

fn refuse(world: &World, message: &str) -> anyhow::Result<i32> {
    let mut stderr = File::from(world.stderr.try_clone()?);
    stderr.write_all(format!("{message}\n").as_bytes())?;
    Ok(1)
}

/// A program that asked for a stream gets its refusal there too, as in recording A4b.
fn refuse_session(world: &World, args: &Args, ids: Ids, message: &str) -> anyhow::Result<i32> {
    if args.print && args.output == Format::StreamJson && args.resume != Resume::No {
        let session = match &args.resume {
            Resume::Session(id) => SessionId(id.clone()),
            Resume::No | Resume::Latest => SessionId(String::new()),
        };
        let mut lines = Lines {
            ids,
            session,
            cwd: world.cwd.clone(),
            model: String::new(),
            mode: PermissionMode::Default,
            mcp_servers: Vec::new(),
            options: LineOptions::default(),
            agents: Vec::new(),
        };
        let line = format!("{}\n", lines.failure(message));
        File::from(world.stdout.try_clone()?).write_all(line.as_bytes())?;
    }
    refuse(world, message)
}
