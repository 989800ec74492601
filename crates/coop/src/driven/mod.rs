//! How a known agent is run: what its driver wants done before, and where its files are.

mod check;
mod files;
pub(crate) mod minute;
mod prepare;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use anyhow::{Context, anyhow, bail};
use coop_api::Capability;
use coop_drivers::{Known, Launch, Link, McpServer, McpWay, Rules, Runtime, UNKNOWN, Variables};
use coop_folder::{only_root_writes, read_beneath};
use coop_policy::quoted;
use coop_session::{AgentOptions, Prepared};
use coop_term::Command;
use serde_json::Value;

pub(crate) use self::files::write_private;
use crate::cli::{Isolate, Serve};
use crate::config::AgentConfig;
use crate::paths::{private, text};
use crate::sandbox;

/// The socket in a sidecar's folder at which it serves the fleet's tools to an agent in a sandbox.
const TOOLS_SOCKET: &str = "tools.sock";

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
        name if options.is_own_agent() => {
            if options.attach.is_some() {
                bail!("--attach shows what runs in a terminal, and {name} has none");
            }
            if options.allowed().anything() {
                bail!(
                    "--acp-allow: {name} reads and writes by itself; `--allow` of `coop run` says what without asking"
                );
            }
            // The word after our own program is `run`.
            Known::by_name(name).map(|known| (known, 1))
        }
        name => {
            let known = Known::by_name(name).with_context(|| format!("coop does not know the agent {name}"))?;
            let at = known.program_said_in(&argv).or_else(|| options.attach.is_some().then_some(0));
            let at = at.with_context(|| {
                let shown = argv.join(" ");
                format!("coop cannot tell which word of {shown:?} is {name}, so it does not know where its options belong; run {name} itself, not by a shell")
            })?;
            Some((known, at))
        }
    };
    let name = known.map_or("unknown", |(known, _)| known.name);
    if let (None, Some((file, conversation))) = (known, options.resumed_by_file()) {
        let file = file.display();
        bail!(
            "{file} names the conversation {conversation}, and coop does not know whose: give --agent, or delete {file} to begin without"
        );
    }
    if known.is_none() && (options.resume.is_some() || options.allowed().anything()) {
        bail!("--resume and --acp-allow are for agents that coop knows; see --agent");
    }
    if known.is_none() && (options.ask_first || options.permission_mode.is_some()) {
        bail!(
            "--ask-first and --permission-mode are for agents that coop knows, and it cannot make any other ask; see --agent"
        );
    }
    if let Some(wanted) = options.runtime.map(Runtime::from) {
        let offered = known.map_or(&[Runtime::Pty][..], |(known, _)| known.runtimes);
        if !offered.contains(&wanted) {
            let offered: Vec<_> = offered.iter().map(|runtime| runtime.as_str()).collect();
            let what = if known.is_some() { name } else { "a program that coop does not know" };
            bail!("--runtime {}: {what} can be run only as {}", wanted.as_str(), offered.join(" or "));
        }
    }
    Ok(Chosen { name, known })
}

/// How an agent that is known is run.
pub(crate) struct Driven {
    pub(crate) agent: AgentOptions,
    /// Whether coop can go on with its conversations.
    pub(crate) resumes: bool,
    /// The fleet's tools, if the sidecar serves them because the agent does not reach the daemon.
    pub(crate) served_tools: Option<ServedTools>,
}

/// The fleet's tools, served by a sidecar to its agent.
pub(crate) struct ServedTools {
    pub(crate) socket: PathBuf,
    /// The file with the agent's token.
    pub(crate) identity: PathBuf,
}

/// Returns how to run the agent, if it is one that is known.
pub(crate) fn agent(
    options: &Serve,
    chosen: &Chosen,
    mut config: AgentConfig,
    command: &mut Command,
    folder: &Path,
) -> anyhow::Result<Option<Driven>> {
    if chosen.known.is_none() {
        config.without_optional_gate();
    }
    let (known, program_at) = match chosen.known {
        Some(known) => known,
        // What its screen looks like is all that is known of it.
        None if config.rules.is_some() => (&UNKNOWN, 0),
        None if options.isolate == Isolate::Always => {
            bail!(
                "--isolate is for agents that coop knows: say which it is with --agent, or --isolate=if-possible to run it without"
            )
        }
        None if config.says_how() => {
            bail!("an --agent-config with settings, stop or start is for agents that coop knows; see --agent")
        }
        None => {
            if options.isolate == Isolate::IfPossible {
                not_isolated("a program that coop does not know");
            }
            command.sandbox = sandbox::make(options, None, &agents_folder(options, folder)?, None)?;
            return Ok(None);
        }
    };
    if options.attach.is_some() && (options.isolate == Isolate::Always || config.says_how()) {
        bail!(
            "--isolate and an --agent-config with settings, stop or start are for agents that coop starts; leave them out with --attach"
        );
    }
    let rules = match config.rules.take() {
        Some(rules) => rules,
        None => known.rules()?,
    };
    let tools_socket = options.sandbox.is_wanted.then(|| folder.join(TOOLS_SOCKET));
    let folder = agents_folder(options, folder)?;
    let mut launch = launch(options, known, program_at, command, config.settings.take(), &folder)?;
    let mut own_folder = launch.isolated.clone();
    if let Some(variable) = known.state_variable.filter(|_| options.sandbox.is_wanted) {
        let state = files::isolated(&launch.home, known, Path::new(&launch.cwd), &options.sandbox)?;
        command.env.push((variable.into(), Some(state.clone().into())));
        own_folder = Some(state);
    }
    command.sandbox = sandbox::make(options, Some((known, &launch)), &folder, own_folder.as_deref())?;
    launch.mcp = std::mem::take(&mut config.mcp);
    let mut resumes = false;
    let mut served_tools = None;
    if options.attach.is_none() {
        if known.asks_version {
            launch.version = check::version(command, &launch);
        }
        // What is wrong is better said before anything runs.
        let mut driver = (known.new)(rules.clone(), &launch);
        if let Some(identity) = config.tools.take().filter(|_| driver.heeds().mcp) {
            launch.mcp.push(match &tools_socket {
                Some(socket) => own_tools("--via", socket)?,
                None => own_tools("--as", &identity)?,
            });
            driver = (known.new)(rules.clone(), &launch);
            served_tools = tools_socket.map(|socket| ServedTools { socket, identity });
        }
        check::heeded(driver.as_ref(), known, &launch, options.resumed_by_file())?;
        resumes = driver.heeds().resume;
        if !driver.capabilities().contains(&Capability::StopGate) {
            config.without_optional_gate();
        }
        check::offered(driver.as_ref(), known, &launch, &config.stop, &config.start)?;
        let setup = driver.setup(&launch).map_err(|wrong| check::with_file(wrong, options.resumed_by_file()))?;
        if options.sandbox.no_network && matches!(setup.link, Link::Http { .. }) {
            bail!("--sandbox-no-network: coop reaches {} over the network of this machine; leave it out", known.name);
        }
    }
    let command = command.clone();
    let session = config.session.take();
    let runs_already = options.attach.is_some();
    let prepare = move || {
        if runs_already {
            Ok(watch_only(known, &launch, &command, &rules))
        } else {
            prepare::prepare(known, &launch, &command, &rules, session.as_deref())
        }
    };
    let agent = AgentOptions {
        prepare: Arc::new(prepare),
        idle_grace: options.idle_grace,
        stop: config.stop,
        start: config.start,
        asks_before: config.asks_before,
    };
    Ok(Some(Driven { agent, resumes, served_tools }))
}

/// Returns the folder of a sidecar's files that the agent may use. In a sandbox the agent writes there, and not beside it.
fn agents_folder(options: &Serve, sidecar: &Path) -> anyhow::Result<PathBuf> {
    if options.sandbox.is_wanted { private(sidecar.join(sandbox::AGENT_FOLDER)) } else { Ok(sidecar.to_owned()) }
}

/// Says that an agent that should be isolated if possible is not: in the log, and if there is none for that, without it.
fn not_isolated(who: &str) {
    let said = format!(
        "--isolate=if-possible: not isolated: {who} cannot be given a configuration of its own, and has the user's"
    );
    if tracing::enabled!(tracing::Level::WARN) {
        tracing::warn!("{said}");
    } else {
        // There may be nobody to tell.
        let _ = writeln!(io::stderr(), "coop: {said}");
    }
}

/// Returns the server of the fleet's own tools. What it is started with has no secret in it: that is in a file.
fn own_tools(option: &str, path: &Path) -> anyhow::Result<McpServer> {
    let program = env::current_exe().context("cannot find coop's own program file")?;
    let args = vec!["mcp".to_owned(), option.to_owned(), text(path)?];
    let way = McpWay::Program { command: text(&program)?, args, env: BTreeMap::new() };
    Ok(McpServer { name: "coop".to_owned(), way })
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
        home,
        hook_command: format!("{} hook", quoted(&text(&program)?)),
        folder: text(folder)?,
        is_roots: only_root_writes(folder),
        settings,
        resume: options.resume.clone(),
        allowed: options.allowed(),
        ask_first: options.ask_first,
        variables: Variables(known.variables.iter().filter_map(variable).collect()),
        ..Launch::default()
    };
    if let Some(mode) = options.permission_mode {
        let words = known.mode_words(mode).map_err(|why| anyhow!("--permission-mode: {why}"))?;
        if known.mode_in(&launch.command).is_some() {
            bail!("--permission-mode: the command chooses a permission mode itself; leave one of them out");
        }
        let at = (program_at + 1).min(launch.command.len());
        launch.command.splice(at..at, words.iter().map(|word| (*word).to_owned()));
    }
    let is_isolated = match options.isolate {
        Isolate::Always => true,
        Isolate::IfPossible => options.attach.is_none() && (known.new)(known.rules()?, &launch).heeds().isolated,
        Isolate::Never => false,
    };
    if options.trust && options.isolate == Isolate::Never {
        bail!("--trust is for an agent with a configuration of its own; add --isolate, or answer what the agent asks");
    }
    if is_isolated {
        launch.isolated = Some(files::isolated(&launch.home, known, &cwd, &options.sandbox)?);
        launch.trusts_folder = options.trust;
    } else if options.isolate == Isolate::IfPossible {
        match options.attach {
            Some(_) => not_isolated("what coop has not started"),
            None if known.name == UNKNOWN.name => not_isolated("a program that coop does not know"),
            None => not_isolated(&format!("{} run as {}", known.name, launch.runtime.as_str())),
        }
    }
    for path in (known.reads)(&launch) {
        // A file that the agent writes may be a link, or a pipe without a writer.
        let of_kind = known.folders.iter().map(|folder| Path::new(&launch.home).join(folder));
        let of_kind: Vec<_> = of_kind.filter(|_| options.sandbox.is_wanted).collect();
        let own = launch.isolated.as_deref().map(Path::new).into_iter().chain([cwd.as_path()]);
        let own = own.chain(of_kind.iter().map(PathBuf::as_path));
        let beneath = own.filter_map(|own| Some((own, Path::new(&path).strip_prefix(own).ok()?))).next();
        let read = match beneath {
            Some((own, within)) => read_beneath(own, within).and_then(|file| files::read_bounded(file, within)),
            None => fs::read_to_string(&path),
        };
        match read {
            Ok(content) => drop(launch.contents.insert(path, content)),
            // What the agent can read, and we cannot, it will tell by what it does.
            Err(_) if !named(&launch, &path) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
    }
    Ok(launch)
}

/// Tells whether the command line names a file; then it has to be there.
fn named(launch: &Launch, path: &str) -> bool {
    launch.command.iter().any(|word| word.ends_with(path))
}

/// Follows an agent that somebody else has started: all there is to go by is its screen.
fn watch_only(known: &Known, launch: &Launch, command: &Command, rules: &Rules) -> Prepared {
    Prepared {
        command: command.clone(),
        driver: (known.new)(rules.clone(), launch),
        runtime: Runtime::Pty,
        permission_mode: None,
        watch: Vec::new(),
        companion: None,
        link: Link::None,
        opening: Vec::new(),
        hook_token: None,
        services: None,
    }
}

fn argv(command: &Command) -> anyhow::Result<Vec<String>> {
    let words = [&command.program].into_iter().chain(&command.args);
    words.map(|word| word.clone().into_string().ok().context("the agent's command line is not UTF-8")).collect()
}
