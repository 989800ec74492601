//! What the sidecar runs, and with which environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context, bail};
use clap::Parser;
use coop_api::{is_coop_variable, is_own_agent_setting};
use coop_session::Queries;
use coop_term::Command;

use crate::bridge::Target;
use crate::cli::{Cli, Serve};
use crate::{install, paths};

/// Variables that tell of the terminal coop itself was started in, which is not the child's.
const OTHER_TERMINALS: &[&str] = &[
    "COLUMNS",
    "LINES",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "VTE_VERSION",
    "WT_SESSION",
    "KITTY_WINDOW_ID",
    "KITTY_PID",
    "ALACRITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "WEZTERM_UNIX_SOCKET",
];

/// Tells a shim where its backend is, and has the token for it.
pub(crate) const BOOTSTRAP: &str = "AGENT_BOOTSTRAP";

/// Returns the command, and who answers its terminal queries.
pub(crate) fn command(options: &Serve, socket: &Path) -> anyhow::Result<(Command, Queries)> {
    let (argv, queries) = match (&options.attach, options.command.as_slice()) {
        (Some(target), _) => (bridge(target)?, Queries::Left),
        (None, words) if options.is_own_agent() => (own_agent(words)?, Queries::Answered),
        (None, []) => bail!("there is nothing to run; give a command after --, such as `coop -- bash`, or --attach"),
        (None, command) => (installed(command.to_vec()), Queries::Answered),
    };
    let mut argv = argv.into_iter();
    let program = argv.next().unwrap_or_default();
    let inherited = env::vars_os().map(|(name, _)| name);
    Ok((
        Command { program, args: argv.collect(), env: environment(options, socket, inherited), ..Command::default() },
        queries,
    ))
}

/// Returns a command with the agent that coop has installed, if it names one that is not on PATH.
fn installed(mut command: Vec<OsString>) -> Vec<OsString> {
    if let Some(word) = command.first_mut()
        && let Some(name) = word.to_str()
        && paths::on_path(name).is_none()
        && let Some(program) = install::program(name)
    {
        *word = program.into();
    }
    command
}

/// Returns the command of coop's own agent, which is this program; the words are options of `coop run`.
fn own_agent(words: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let program = env::current_exe().context("cannot find coop's own program file")?;
    let command: Vec<OsString> = [program.into(), "run".into()].into_iter().chain(words.iter().cloned()).collect();
    // What is wrong is better said before anything runs.
    let as_run = command.iter().cloned().chain(["--acp".into()]);
    Cli::try_parse_from(as_run).unwrap_or_else(|error| error.exit());
    Ok(command)
}

fn bridge(target: &Target) -> anyhow::Result<Vec<OsString>> {
    let program = env::current_exe().context("cannot find coop's own program file")?;
    let (kind, name) = match target {
        Target::Tmux(name) => ("tmux", name),
        Target::Screen(name) => ("screen", name),
    };
    Ok(vec![program.into(), "bridge".into(), kind.into(), name.into()])
}

/// The child sees what coop was given, but none of coop's own settings: its token is not the child's business.
fn environment(
    options: &Serve,
    socket: &Path,
    inherited: impl Iterator<Item = OsString>,
) -> Vec<(OsString, Option<OsString>)> {
    // Those of the simulated agent and of our own are for the child.
    let is_for_child =
        |name: &str| name.starts_with("COOP_SIM_") || options.is_own_agent() && is_own_agent_setting(name);
    let is_ours =
        |name: &OsStr| is_coop_variable(name) && !name.to_str().is_some_and(is_for_child) || name == BOOTSTRAP;
    // The bridge to a multiplexer, though, must find the same one as its user would.
    let foreign = |name: &OsStr| options.attach.is_none() && OTHER_TERMINALS.iter().any(|other| name == *other);
    let mut changes: Vec<(OsString, Option<OsString>)> =
        inherited.filter(|name| is_ours(name) || foreign(name)).map(|name| (name, None)).collect();
    let set = |name: &str, value: OsString| (OsString::from(name), Some(value));
    changes.push(set("TERM", term(options).into()));
    changes.push(set("COLORTERM", "truecolor".into()));
    changes.push(set("COOP", "1".into()));
    changes.push(set("COOP_SOCKET", socket.into()));
    changes
}

fn term(options: &Serve) -> String {
    let inherited = env::var("TERM").ok().filter(|term| !matches!(term.as_str(), "" | "dumb" | "unknown"));
    options.term.clone().or(inherited).unwrap_or_else(|| "xterm-256color".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_agent_gets_its_settings_and_its_key() {
        let gone = |line: &[&str]| {
            let cli = Cli::parse_from(line);
            let inherited = ["COOP_API_KEY", "COOP_MODEL", "COOP_AUTH_TOKEN"].map(OsString::from);
            let changes = environment(&cli.serve, Path::new("/run/x.sock"), inherited.into_iter());
            let gone = changes.into_iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
            gone.filter_map(|name| name.into_string().ok()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(gone(&["coop", "--agent", "api"]), "COOP_AUTH_TOKEN");
        assert_eq!(gone(&["coop", "--", "claude"]), "COOP_API_KEY COOP_MODEL COOP_AUTH_TOKEN");
    }

    #[test]
    fn the_child_gets_no_secret_and_no_foreign_terminal() {
        let cli = Cli::parse_from(["coop", "--term", "vt220", "--auth-token", "hush", "--", "true"]);
        let inherited =
            ["PATH", "COOP_AUTH_TOKEN", "COOP_PORT", "TMUX", "COLUMNS", "HOME", BOOTSTRAP].map(OsString::from);
        let mut changes = environment(&cli.serve, Path::new("/run/x.sock"), inherited.into_iter());
        changes.sort();
        let shown: Vec<_> = changes.iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        "AGENT_BOOTSTRAP"=None
        "COLORTERM"=Some("truecolor")
        "COLUMNS"=None
        "COOP"=Some("1")
        "COOP_AUTH_TOKEN"=None
        "COOP_PORT"=None
        "COOP_SOCKET"=Some("/run/x.sock")
        "TERM"=Some("vt220")
        "TMUX"=None
        "#);
    }
}
