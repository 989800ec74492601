//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    Version,
    /// Serves the protocol on a Unix socket, or on standard input and output.
    Server {
        socket: Option<PathBuf>,
    },
    Interface,
    Exec,
}

#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) what: What,
    /// The server that the interface is a client of; without one it has its own.
    pub(crate) remote: Option<PathBuf>,
    /// The conversation to go on with.
    pub(crate) resume: Option<String>,
    pub(crate) prompt: Option<String>,
    /// What a conversation is begun with.
    pub(crate) settings: Value,
}

impl Args {
    pub(crate) fn parse(args: Vec<OsString>) -> anyhow::Result<Self> {
        let args: Vec<String> =
            args.into_iter().map(|arg| arg.into_string().ok().context("not UTF-8")).collect::<Result<_, _>>()?;
        let cwd = std::env::current_dir()?;
        let mut parsed = Self {
            what: What::Interface,
            remote: None,
            resume: None,
            prompt: None,
            settings: json!({ "cwd": cwd.to_str() }),
        };
        let (mut words, mut socket, mut json_lines) = (Vec::new(), None, false);
        let mut rest = args.into_iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("a value is required for '{arg}'"));
            match arg.as_str() {
                "--version" | "-V" => parsed.what = What::Version,
                "--listen" => socket = Some(unix(&value()?)?),
                "--remote" => parsed.remote = Some(unix(&value()?)?),
                "-m" | "--model" => parsed.settings["model"] = json!(value()?),
                "-a" | "--ask-for-approval" => parsed.settings["approvalPolicy"] = json!(value()?),
                "-s" | "--sandbox" => parsed.settings["sandbox"] = json!(value()?),
                "-c" | "--config" | "--enable" | "--disable" | "-p" | "--profile" => drop(value()?),
                "--json" => json_lines = true,
                "--no-daemon" | "--skip-git-repo-check" | "--no-alt-screen" => {}
                _ if arg.starts_with('-') => bail!("error: unexpected argument '{arg}' found"),
                _ => words.push(arg),
            }
        }
        let mut words = words.into_iter().peekable();
        match words.peek().map(String::as_str) {
            Some("app-server") => {
                parsed.what = What::Server { socket };
                return Ok(parsed);
            }
            Some("exec") if !json_lines => bail!("only exec --json is simulated"),
            Some("exec") => {
                parsed.what = What::Exec;
                words.next();
            }
            _ => {}
        }
        if words.peek().is_some_and(|word| word == "resume") {
            words.next();
            parsed.resume = words.next();
        }
        parsed.prompt = words.next();
        Ok(parsed)
    }

    /// Returns the folder with its conversations.
    pub(crate) fn home(&self) -> anyhow::Result<PathBuf> {
        if let Some(home) = std::env::var_os("CODEX_HOME").filter(|home| !home.is_empty()) {
            return Ok(home.into());
        }
        let home = std::env::var_os("HOME").context("HOME is not set")?;
        Ok(PathBuf::from(home).join(".codex"))
    }
}

fn unix(address: &str) -> anyhow::Result<PathBuf> {
    address.strip_prefix("unix://").map(PathBuf::from).with_context(|| format!("only unix:// is simulated: {address}"))
}
