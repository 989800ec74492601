//! How a known agent is run: what its driver wants done before, and where its files are.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use coop_api::{Capability, Token};
use coop_drivers::{
    Driver, Existing, FileToWrite, Known, Launch, Link, Ready, Rules, Runtime, Setup, UNKNOWN, Variables, merge,
};
use coop_session::{AgentOptions, Prepared, ServiceOptions, StartConfig, StopConfig, StopMode};
use coop_term::{Command, Streams};
use serde_json::Value;

use crate::cli::Serve;
use crate::config::AgentConfig;
use crate::hook;
use crate::leftovers::Folder;
use crate::paths::private;

/// How long a program may take to say its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

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
            let at = known.program_said_in(&argv).or_else(|| options.attach.is_some().then_some(0));
            let at = at.with_context(|| {
                let shown = argv.join(" ");
                format!("coop cannot tell which word of {shown:?} is {name}, so it does not know where its options belong; run {name} itself, not by a shell")
            })?;
            Some((known, at))
        }
    };
    let name = known.map_or("unknown", |(known, _)| known.name);
    if known.is_none() && (options.resume.is_some() || options.allowed().anything()) {
        bail!("--resume and --acp-allow are for agents that coop knows; see --agent");
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

/// Returns how to run the agent, if it is one that is known.
pub(crate) fn agent(
    options: &Serve,
    chosen: &Chosen,
    config: AgentConfig,
    command: &Command,
) -> anyhow::Result<Option<(AgentOptions, Folder)>> {
    let (known, program_at) = match chosen.known {
        Some(known) => known,
        // What its screen looks like is all that is known of it.
        None if config.rules.is_some() => (&UNKNOWN, 0),
        None if options.isolate || config.says_how() => {
            bail!(
                "--isolate and an --agent-config with settings, stop or start are for agents that coop knows; see --agent"
            )
        }
        None => return Ok(None),
    };
    if options.attach.is_some() && (options.isolate || config.says_how()) {
        bail!(
            "--isolate and an --agent-config with settings, stop or start are for agents that coop starts; leave them out with --attach"
        );
    }
    let folder = Folder::make()?;
    let rules = match config.rules {
        Some(rules) => rules,
        None => known.rules()?,
    };
    let mut launch = launch(options, known, program_at, command, config.settings, folder.path())?;
    if options.attach.is_none() {
        if known.asks_version {
            launch.version = version(command, &launch);
        }
        // What is wrong is better said before anything runs.
        let driver = (known.new)(rules.clone(), &launch);
        check_heeded(driver.as_ref(), known, &launch)?;
        check_offered(driver.as_ref(), known, &launch, &config.stop, &config.start)?;
        driver.setup(&launch)?;
    }
    let command = command.clone();
    let runs_already = options.attach.is_some();
    let prepare = move || {
        if runs_already {
            Ok(watch_only(known, &launch, &command, &rules))
        } else {
            prepare(known, &launch, &command, &rules)
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

/// Refuses options of ours that an agent's driver would not heed.
fn check_heeded(driver: &dyn Driver, known: &Known, launch: &Launch) -> anyhow::Result<()> {
    let heeds = driver.heeds();
    let (name, runtime) = (known.name, launch.runtime.as_str());
    if launch.resume.is_some() && !heeds.resume {
        bail!("--resume: coop cannot do that for {name} run as {runtime}; give {name} its own option for it");
    }
    if launch.allowed.anything() && !heeds.allowed {
        bail!("--acp-allow: {name} run as {runtime} does not speak ACP");
    }
    if launch.isolated.is_some() && !heeds.isolated {
        bail!(
            "--isolate: coop cannot give {name} run as {runtime} a configuration of its own; set one by its own variables"
        );
    }
    if launch.settings.is_some() && !heeds.settings {
        bail!("--agent-config: coop has no way to hand settings to {name} run as {runtime}");
    }
    Ok(())
}

/// Refuses a gate that would hold nothing and a start text that nobody would be told.
fn check_offered(
    driver: &dyn Driver,
    known: &Known,
    launch: &Launch,
    stop: &StopConfig,
    start: &StartConfig,
) -> anyhow::Result<()> {
    let (name, runtime, offered) = (known.name, launch.runtime.as_str(), driver.capabilities());
    if stop.mode != StopMode::Allow && !offered.contains(&Capability::StopGate) {
        bail!("--agent-config: the end of a turn cannot be held for {name} run as {runtime}; use stop mode allow");
    }
    if *start != StartConfig::default() && !offered.contains(&Capability::StartContext) {
        bail!("--agent-config: {name} run as {runtime} cannot be told anything at its start; leave out start");
    }
    Ok(())
}

/// Returns what the agent's program says of its version; nothing if it says nothing in time.
fn version(command: &Command, launch: &Launch) -> Option<String> {
    let mut words = launch.split().0.iter();
    let mut asked = std::process::Command::new(words.next()?);
    asked.args(words).arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for (name, value) in &command.env {
        match value {
            Some(value) => asked.env(name, value),
            None => asked.env_remove(name),
        };
    }
    let mut child = asked.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = io::Read::read_to_string(&mut stdout, &mut text);
        // If nobody waits any more, it took too long.
        let _ = tell.send(read.map(|_| text));
    });
    let text = told.recv_timeout(VERSION_WITHIN);
    let _ = child.kill();
    let _ = child.wait();
    let text = text.ok()?.ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
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
        resume: options.resume.clone(),
        allowed: options.allowed(),
        variables: Variables(known.variables.iter().filter_map(variable).collect()),
        ..Launch::default()
    };
    for path in (known.reads)(&launch) {
        match fs::read_to_string(&path) {
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

/// Makes ready for one more child, with a conversation of its own and a token for its hooks alone.
fn prepare(known: &Known, launch: &Launch, command: &Command, rules: &Rules) -> io::Result<Prepared> {
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
        write_private(file)?;
    }
    let ready = companion.as_ref().and_then(|companion| companion.ready.clone());
    let argv = match ready {
        Some(ready) => once_ready(ready, argv)?,
        None => argv,
    };
    let companion = companion.map(|companion| with(command, companion.command, companion.env));
    let services = launch.allowed.anything().then(|| ServiceOptions {
        allowed: launch.allowed,
        folder: PathBuf::from(&launch.cwd),
        env: command.clone(),
    });
    let mut command = with(command, argv, env);
    let token = uuid::Uuid::new_v4().simple().to_string();
    command.env.push((hook::TOKEN.into(), Some(token.clone().into())));
    command.streams = match link {
        Link::Pipe => Streams::Pipes,
        Link::None | Link::Socket { .. } | Link::Http { .. } => Streams::Terminal,
    };
    let hook_token = Some(Token::new(token).map_err(io::Error::other)?);
    Ok(Prepared { command, driver, runtime: launch.runtime, watch, companion, link, opening, hook_token, services })
}

/// Returns the command that waits for the companion and becomes the agent.
fn once_ready(ready: Ready, argv: Vec<String>) -> io::Result<Vec<String>> {
    let coop = text(&env::current_exe()?).map_err(io::Error::other)?;
    let wait = [coop, "await".to_owned(), ready.socket, ready.missing, argv.len().to_string(), "--".to_owned()];
    Ok([wait.to_vec(), argv, ready.instead].concat())
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
        hook_token: None,
        services: None,
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
    text(&private(state.join("coop/isolated").join(known.name).join(folder_name(cwd)))?)
}

/// Returns a name for what belongs to a folder: readable, and another for each.
fn folder_name(folder: &Path) -> String {
    let readable = |c: char| if c.is_alphanumeric() { c } else { '-' };
    let name: String = folder.to_string_lossy().chars().map(readable).collect();
    // FNV-1a: it has to be the same tomorrow.
    let hash = folder
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{name}-{hash:016x}")
}

/// Writes a file that only this user can read. Whoever reads it meanwhile sees all of it or what was there before.
fn write_private(file: &FileToWrite) -> io::Result<()> {
    let path = Path::new(&file.path);
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let content = match file.existing {
        Existing::Replaced => file.content.clone(),
        Existing::Merged => merged(fs::read(path).ok(), &file.content)?,
    };
    let new = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let write = |mut file: File| file.write_all(content.as_bytes());
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(write);
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Returns JSON with the fields of both; what is there and is not JSON goes.
fn merged(there: Option<Vec<u8>>, more: &str) -> io::Result<String> {
    let mut all = there.and_then(|there| serde_json::from_slice(&there).ok()).unwrap_or(Value::Null);
    merge(&mut all, &serde_json::from_str(more)?);
    Ok(all.to_string())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two agents in one folder share it, and the second start lost what the first agent had written.
    #[test]
    fn what_an_agent_has_written_into_its_configuration_stays() {
        let there =
            json!({ "theme": "light", "own": 1, "approved": ["a"], "projects": { "/x": { "trusted": false } } });
        let more =
            json!({ "theme": "dark", "approved": ["a", "b"], "projects": { "/x": { "trusted": true }, "/y": {} } });
        let all = merged(Some(there.to_string().into()), &more.to_string()).expect("JSON");
        let expected = json!({ "theme": "dark", "own": 1, "approved": ["a", "b"],
                               "projects": { "/x": { "trusted": true }, "/y": {} } });
        assert_eq!(serde_json::from_str::<Value>(&all).expect("JSON"), expected);
        assert_eq!(merged(Some("half a fi".into()), "{}").expect("JSON"), "{}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f.json");
        let write = |content: &str, existing| {
            write_private(&FileToWrite { path: text(&path).expect("text"), content: content.to_owned(), existing })
        };
        write(r#"{"a":1}"#, Existing::Replaced).expect("written");
        write(r#"{"b":2}"#, Existing::Merged).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), r#"{"a":1,"b":2}"#);
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).expect("it is there"));
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn each_folder_has_a_name_of_its_own() {
        let names = ["/a/b.c", "/a/b-c", "/a/b/c"].map(|folder| folder_name(Path::new(folder)));
        assert!(names.iter().all(|name| name.starts_with("-a-b-c-")), "{names:?}");
        assert!(names[0] != names[1] && names[1] != names[2]);
        assert_eq!(names[0], folder_name(Path::new("/a/b.c")));
    }
}
