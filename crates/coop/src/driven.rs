//! How a known agent is run: what its driver wants done before, and where its files are.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use coop_drivers::{Claude, Driver, Launch, Rules, Runtime, Setup};
use coop_session::{AgentOptions, Prepared};
use coop_term::{Command, Streams};
use serde_json::Value;

use crate::cli::{RuntimeChoice, Serve};
use crate::config::AgentConfig;
use crate::hook;
use crate::paths;

/// How many of the last characters of a key the agent keeps to know it again.
const KEY_TAIL: usize = 20;

/// A folder for one sidecar's files, removed with it.
pub(crate) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns how to run the agent, if it is one that is known.
pub(crate) fn agent(
    options: &Serve,
    config: AgentConfig,
    command: &Command,
    hook_token: &str,
) -> anyhow::Result<Option<(AgentOptions, Folder)>> {
    if options.agent != "claude" {
        if options.runtime == Some(RuntimeChoice::Pipe) {
            bail!("--runtime pipe needs --agent claude; {} can only be run on a terminal", options.agent);
        }
        return Ok(None);
    }
    let folder = Folder(private(paths::runtime_dir()?.join(std::process::id().to_string()))?);
    let runtime = match options.runtime {
        Some(RuntimeChoice::Pipe) => Runtime::Pipe,
        Some(RuntimeChoice::Pty) | None => Runtime::Pty,
    };
    let rules = match config.rules {
        Some(rules) => rules,
        None => Claude::rules()?,
    };
    let launch = launch(options, runtime, command, config.settings, &folder.0)?;
    let (command, token) = (command.clone(), hook_token.to_owned());
    let runs_already = options.attach.is_some();
    let prepare = move || {
        if runs_already {
            Ok(watch_only(&launch, &command, &rules))
        } else {
            prepare(&launch, &command, &rules, &token)
        }
    };
    let agent = AgentOptions {
        prepare: Arc::new(prepare),
        idle_grace: options.idle_grace,
        stop: config.stop,
        start: config.start,
    };
    Ok(Some((agent, folder)))
}

fn launch(
    options: &Serve,
    runtime: Runtime,
    command: &Command,
    settings: Option<Value>,
    folder: &Path,
) -> anyhow::Result<Launch> {
    let cwd = env::current_dir().and_then(fs::canonicalize).context("cannot tell the current folder")?;
    let program = env::current_exe().context("cannot find coop's own program file")?;
    let argv = argv(command)?;
    if options.attach.is_none() {
        Claude::check(&argv)?;
    }
    let config_dir = config_dir(options, &cwd)?;
    let key = env::var("ANTHROPIC_API_KEY").ok().filter(|_| options.isolate);
    let tail = |key: String| key.chars().skip(key.chars().count().saturating_sub(KEY_TAIL)).collect();
    Ok(Launch {
        runtime,
        given_settings: given_settings(&argv)?,
        command: argv,
        cwd: text(&cwd)?,
        session_id: String::new(),
        hook_command: format!("{} hook", quoted(&text(&program)?)),
        folder: text(folder)?,
        config_dir: text(&config_dir)?,
        settings,
        isolated: options.isolate,
        api_key_tail: key.map(tail),
    })
}

/// Makes ready for one more child, with a conversation of its own.
fn prepare(launch: &Launch, command: &Command, rules: &Rules, token: &str) -> io::Result<Prepared> {
    let launch = Launch { session_id: uuid::Uuid::new_v4().to_string(), ..launch.clone() };
    let driver = Claude::new(rules.clone(), &launch);
    let Setup { command: argv, env, files, watch, opening } = driver.setup(&launch);
    for file in &files {
        write_private(Path::new(&file.path), &file.content)?;
    }
    let mut argv = argv.into_iter().map(OsString::from);
    let mut command = Command { program: argv.next().unwrap_or_default(), args: argv.collect(), ..command.clone() };
    command.env.push((hook::TOKEN.into(), Some(token.into())));
    command.env.extend(env.into_iter().map(|(name, value)| (name.into(), Some(value.into()))));
    command.streams = match launch.runtime {
        Runtime::Pty => Streams::Terminal,
        Runtime::Pipe => Streams::Pipes,
    };
    Ok(Prepared { command, driver: Box::new(driver), runtime: launch.runtime, watch, opening })
}

/// Follows an agent that somebody else has started: all there is to go by is its screen.
fn watch_only(launch: &Launch, command: &Command, rules: &Rules) -> Prepared {
    let driver = Box::new(Claude::new(rules.clone(), launch));
    Prepared { command: command.clone(), driver, runtime: Runtime::Pty, watch: Vec::new(), opening: Vec::new() }
}

fn argv(command: &Command) -> anyhow::Result<Vec<String>> {
    let words = [&command.program].into_iter().chain(&command.args);
    words.map(|word| word.clone().into_string().ok().context("the agent's command line is not UTF-8")).collect()
}

/// Returns the settings that the command line names: a file, or the settings themselves.
fn given_settings(argv: &[String]) -> anyhow::Result<Option<Value>> {
    let value = argv.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix("--settings") {
        Some("") => argv.get(at + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    let Some(value) = value else { return Ok(None) };
    let content = if value.trim_start().starts_with('{') {
        value.to_owned()
    } else {
        fs::read_to_string(value).with_context(|| format!("cannot read the settings {value}"))?
    };
    let settings = serde_json::from_str(&content).with_context(|| format!("the settings {value} are not JSON"))?;
    Ok(Some(settings))
}

/// Returns where the agent keeps its configuration. One of our own has no dialogs; nobody else's is ever written.
fn config_dir(options: &Serve, cwd: &Path) -> anyhow::Result<PathBuf> {
    let home =
        || env::var_os("HOME").map(PathBuf::from).context("HOME is not set, so the agent's files cannot be found");
    if options.isolate {
        let state = match env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => home()?.join(".local/state"),
        };
        let name: String = cwd.to_string_lossy().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        return private(state.join("coop/isolated").join(name));
    }
    match env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Ok(PathBuf::from(dir)),
        None => Ok(home()?.join(".claude")),
    }
}

/// Makes a folder that only this user can look into.
fn private(folder: PathBuf) -> anyhow::Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content.as_bytes())
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
