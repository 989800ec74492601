//! How a known agent is run: what its driver wants done before, and where its files are.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use coop_drivers::{Known, Launch, Link, Rules, Runtime, Setup, UNKNOWN, Variables};
use coop_session::{AgentOptions, Prepared};
use coop_term::{Command, Streams};
use serde_json::Value;

use crate::cli::Serve;
use crate::config::AgentConfig;
use crate::hook;
use crate::paths;

/// A folder for one sidecar's files, removed with it.
pub(crate) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is run and as what.
pub(crate) struct Chosen {
    /// The agent's name; `unknown` if it is none that is known.
    pub(crate) name: &'static str,
    known: Option<(&'static Known, usize)>,
}

/// Tells which agent the command is, and checks that it can be run as wanted.
pub(crate) fn choose(options: &Serve, command: &Command) -> anyhow::Result<Chosen> {
    let argv = argv(command)?;
    let known = match options.agent.as_str() {
        "unknown" => None,
        "auto" => Known::of_command(&argv),
        name => {
            let known = Known::by_name(name).with_context(|| format!("coop does not know the agent {name}"))?;
            let at = known.program_in(&argv).or_else(|| (options.attach.is_some() || !hides(&argv)).then_some(0));
            let at = at.with_context(|| {
                format!("coop cannot tell which word of this command is {name}; run {name} itself, not by a shell")
            })?;
            Some((known, at))
        }
    };
    let name = known.map_or("unknown", |(known, _)| known.name);
    if let Some(wanted) = options.runtime.map(Runtime::from) {
        let offered = known.map_or(&[Runtime::Pty][..], |(known, _)| known.runtimes);
        if !offered.contains(&wanted) {
            let offered: Vec<_> = offered.iter().map(|runtime| runtime.as_str()).collect();
            bail!("--runtime {}: {name} can be run only as {}", wanted.as_str(), offered.join(" or "));
        }
    }
    Ok(Chosen { name, known })
}

/// Tells whether a command line hides the program from us: a shell reads it.
fn hides(argv: &[String]) -> bool {
    let program = argv.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    matches!(program, "sh" | "bash" | "zsh" | "dash" | "fish" | "ssh" | "docker" | "podman")
}

/// Returns how to run the agent, if it is one that is known.
pub(crate) fn agent(
    options: &Serve,
    chosen: &Chosen,
    config: AgentConfig,
    command: &Command,
    hook_token: &str,
) -> anyhow::Result<Option<(AgentOptions, Folder)>> {
    let (known, program_at) = match chosen.known {
        Some(known) => known,
        // What its screen looks like is all that is known of it.
        None if config.rules.is_some() => (&UNKNOWN, 0),
        None => return Ok(None),
    };
    let folder = Folder(private(paths::runtime_dir()?.join(std::process::id().to_string()))?);
    let rules = match config.rules {
        Some(rules) => rules,
        None => known.rules()?,
    };
    let launch = launch(options, known, program_at, command, config.settings, &folder.0)?;
    if options.attach.is_none() {
        // What is wrong is better said before anything runs.
        (known.new)(rules.clone(), &launch).setup(&launch)?;
    }
    let (command, token) = (command.clone(), hook_token.to_owned());
    let runs_already = options.attach.is_some();
    let prepare = move || {
        if runs_already {
            Ok(watch_only(known, &launch, &command, &rules))
        } else {
            prepare(known, &launch, &command, &rules, &token)
        }
    };
    let agent = AgentOptions {
        prepare: Arc::new(prepare),
        idle_grace: options.idle_grace,
        stop: config.stop,
        start: config.start,
        guard: Some(guard()?),
    };
    Ok(Some((agent, folder)))
}

/// Returns the command that ends the agent should we be killed.
fn guard() -> anyhow::Result<Command> {
    let program = env::current_exe().context("cannot find coop's own program file")?;
    Ok(Command { program: program.into(), args: vec!["guard".into()], ..Command::default() })
}

fn launch(
    options: &Serve,
    known: &Known,
    program_at: usize,
    command: &Command,
    settings: Option<Value>,
    folder: &Path,
) -> anyhow::Result<Launch> {
    let cwd = env::current_dir().and_then(fs::canonicalize).context("cannot tell the current folder")?;
    let program = env::current_exe().context("cannot find coop's own program file")?;
    let home = env::var("HOME").ok().filter(|home| !home.is_empty());
    let home = home.context("HOME is not set, so the agent's files cannot be found")?;
    let variable = |name: &&str| Some(((*name).to_owned(), env::var(name).ok()?));
    let mut launch = Launch {
        runtime: options.runtime.map_or(known.runtimes[0], Runtime::from),
        command: argv(command)?,
        program_at,
        cwd: text(&cwd)?,
        isolated: options.isolate.then(|| isolated(&home, known, &cwd)).transpose()?,
        home,
        hook_command: format!("{} hook", quoted(&text(&program)?)),
        folder: text(folder)?,
        is_roots: only_root_writes(folder),
        settings,
        variables: Variables(known.variables.iter().filter_map(variable).collect()),
        ..Launch::default()
    };
    for path in (known.reads)(&launch) {
        match fs::read_to_string(&path) {
            Ok(content) => drop(launch.contents.insert(path, content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !named(&launch, &path) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
    }
    Ok(launch)
}

/// Tells whether the command line names a file; then it has to be there.
fn named(launch: &Launch, path: &str) -> bool {
    launch.command.iter().any(|word| word.ends_with(path))
}

/// Makes ready for one more child, with a conversation of its own.
fn prepare(known: &Known, launch: &Launch, command: &Command, rules: &Rules, token: &str) -> io::Result<Prepared> {
    let launch = Launch {
        session_id: uuid::Uuid::new_v4().to_string(),
        secret: uuid::Uuid::new_v4().simple().to_string(),
        port: free_port()?,
        ..launch.clone()
    };
    let driver = (known.new)(rules.clone(), &launch);
    let Setup { command: argv, env, files, watch, companion, link, opening } =
        driver.setup(&launch).map_err(io::Error::other)?;
    for file in &files {
        write_private(Path::new(&file.path), &file.content)?;
    }
    let companion = companion.map(|companion| with(command, companion.command, companion.env));
    let mut command = with(command, argv, env);
    command.env.push((hook::TOKEN.into(), Some(token.into())));
    command.streams = match link {
        Link::Pipe => Streams::Pipes,
        Link::None | Link::Socket { .. } | Link::Http { .. } => Streams::Terminal,
    };
    Ok(Prepared { command, driver, runtime: launch.runtime, watch, companion, link, opening })
}

/// Returns a command with other words and more variables.
fn with(command: &Command, argv: Vec<String>, env: Vec<(String, String)>) -> Command {
    let mut argv = argv.into_iter().map(OsString::from);
    let mut command = Command { program: argv.next().unwrap_or_default(), args: argv.collect(), ..command.clone() };
    command.env.extend(env.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
    command
}

/// Returns a port that is free now. An agent's server that finds it taken says so, and is known by its secret anyway.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Follows an agent that somebody else has started: all there is to go by is its screen.
fn watch_only(known: &Known, launch: &Launch, command: &Command, rules: &Rules) -> Prepared {
    Prepared {
        command: command.clone(),
        driver: (known.new)(rules.clone(), launch),
        runtime: Runtime::Pty,
        watch: Vec::new(),
        companion: None,
        link: Link::None,
        opening: Vec::new(),
    }
}

fn argv(command: &Command) -> anyhow::Result<Vec<String>> {
    let words = [&command.program].into_iter().chain(&command.args);
    words.map(|word| word.clone().into_string().ok().context("the agent's command line is not UTF-8")).collect()
}

/// Returns a folder of coop's for the agent's configuration, by which no dialog comes up. Nobody else's is ever written.
fn isolated(home: &str, known: &Known, cwd: &Path) -> anyhow::Result<String> {
    let state = match env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(home).join(".local/state"),
    };
    let name: String = cwd.to_string_lossy().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    text(&private(state.join("coop/isolated").join(known.name).join(name))?)
}

/// Makes a folder that only this user can look into.
fn private(folder: PathBuf) -> anyhow::Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn write_private(path: &Path, content: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content.as_bytes())
}

/// Tells whether nobody but root can write to a folder or to one above it.
fn only_root_writes(folder: &Path) -> bool {
    let is_roots = |folder: &Path| {
        let found = fs::symlink_metadata(folder);
        found.is_ok_and(|found| found.is_dir() && found.uid() == 0 && found.mode() & 0o022 == 0)
    };
    folder.ancestors().all(is_roots)
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
