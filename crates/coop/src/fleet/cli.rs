use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt, fs};

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use coop_api::{PermissionMode, Token};
use coop_fleet::store::Place;

use super::launch::LaunchOption;
use crate::cli::{LogFormat, LogLevel, agent_names, parse_host, parse_secs, parse_token, permission_mode};
use crate::shield::STORE_PASSWORD;

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) state: StateOption,
    #[command(flatten)]
    pub(crate) store: StoreOption,
    /// How long another program may keep the store's file locked
    #[arg(long, env = "COOP_STORE_PATIENCE", value_name = "SECS", default_value = "5", value_parser = parse_secs)]
    pub(crate) store_patience: Duration,
    #[command(flatten)]
    pub(crate) launch: LaunchOption,
    /// Go on in the background once it is ready
    #[arg(long)]
    pub(crate) detach: bool,
    /// TCP port beside the Unix socket; 0 picks a free one and prints it
    #[arg(long, env = "COOP_PORT", value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Address to bind the port to; any but loopback needs a token
    #[arg(long, env = "COOP_HOST", value_name = "ADDR", default_value = "127.0.0.1", value_parser = parse_host)]
    pub(crate) host: IpAddr,
    /// Token that every request must carry
    #[arg(long, env = "COOP_AUTH_TOKEN", value_name = "TOKEN", hide_env_values = true, value_parser = parse_token)]
    pub(crate) auth_token: Option<Token>,
    /// Name by which clients may address this server, beside IP addresses and localhost; may be given often
    #[arg(long, env = "COOP_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Call people by posting JSON here
    #[arg(long, env = "COOP_NOTIFY_WEBHOOK", value_name = "URL")]
    pub(crate) notify_webhook: Option<String>,
    /// Call people by running this with a shell, with JSON on its standard input
    #[arg(long, env = "COOP_NOTIFY_COMMAND", value_name = "COMMAND")]
    pub(crate) notify_command: Option<String>,
    /// Call people on the desktop, by notify-send
    #[arg(long, env = "COOP_NOTIFY_DESKTOP")]
    pub(crate) notify_desktop: bool,
    /// How far agents in workspaces reach by their tools: their own project, or all
    #[arg(long, env = "COOP_TOOLS_REACH", value_name = "REACH", default_value = "project")]
    pub(crate) tools_reach: ToolsReach,
    /// How many agents below one another may be started by agents
    #[arg(long, env = "COOP_SPAWN_DEPTH", value_name = "N", default_value = "2")]
    pub(crate) spawn_depth: u32,
    /// How many agents may run at a time that one agent started, or agents below it
    #[arg(long, env = "COOP_SPAWN_WIDTH", value_name = "N", default_value = "8")]
    pub(crate) spawn_width: u32,
    /// Forget agents that are over for so many days; 0 keeps them all
    #[arg(long, env = "COOP_KEEP_DAYS", value_name = "DAYS", default_value = "30")]
    pub(crate) keep_days: u32,
    /// How log lines on standard error look
    #[arg(long, env = "COOP_LOG_FORMAT", value_name = "FMT", default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// Which log lines are written
    #[arg(long, env = "COOP_LOG_LEVEL", value_name = "LVL", default_value = "info")]
    pub(crate) log_level: LogLevel,
    /// Lead a process session of its own (used by --detach)
    #[arg(long, hide = true)]
    pub(crate) own_session: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StateOption {
    /// The daemon's folder [default: $XDG_STATE_HOME/coop]
    #[arg(long, env = "COOP_STATE", value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Where the store is.
#[derive(Debug, Args)]
pub(crate) struct StoreOption {
    /// Keep the store in PostgreSQL: postgres://USER@HOST/DATABASE [default: fleet.db in the daemon's folder]
    #[arg(long, env = "COOP_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<StoreUrl>,
    /// File with the password for it, if neither the URL nor PGPASSWORD has it
    #[arg(long, env = "COOP_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub(crate) store_password_file: Option<PathBuf>,
}

impl StoreOption {
    /// Returns where the store of the daemon in this folder is.
    pub(super) fn place(&self, state: &Path) -> anyhow::Result<Place> {
        let Some(StoreUrl(url)) = &self.store else { return Ok(Place::File(state.join("fleet.db"))) };
        let place = Place::parse(url)?;
        let kept = |name: &str| env::var(name).ok().filter(|password| !password.is_empty());
        if let Some(password) = kept(STORE_PASSWORD).or_else(|| kept("PGPASSWORD")) {
            return Ok(place.with_password(&password));
        }
        let Some(path) = &self.store_password_file else { return Ok(place) };
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(place.with_password(text.trim_end_matches(['\r', '\n'])))
    }
}

/// As it was given, with a password in it perhaps. It is never printed, so it is understood later.
#[derive(Clone)]
pub(crate) struct StoreUrl(pub(crate) String);

impl From<String> for StoreUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(…)")
    }
}

/// Options of every command that asks the daemon.
#[derive(Debug, Args)]
pub(crate) struct Asking {
    #[command(flatten)]
    pub(crate) state: StateOption,
    /// The daemon's token
    #[arg(long, env = "COOP_AUTH_TOKEN", value_name = "TOKEN", hide_env_values = true, value_parser = parse_token)]
    pub(crate) auth_token: Option<Token>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How far agents reach by their tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsReach {
    Project,
    All,
}

/// What an agent is waited for to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    Idle,
    Ask,
    Exit,
}

/// How much of what happens is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    SoFar,
    Forever,
}

impl Length {
    pub(super) fn of(follow: bool) -> Self {
        if follow { Self::Forever } else { Self::SoFar }
    }
}

/// An agent that no file defines.
#[derive(Debug, Args)]
pub(crate) struct AdHoc {
    /// Start an agent that no file defines, of this kind
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(agent_names()))]
    pub(crate) agent: Option<String>,
    /// What it is told first, whatever the file says
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// What becomes of it when it is idle: a job is done then, for a crew somebody is called [default: crew]
    #[arg(long, value_name = "KIND", value_parser = ["job", "crew"])]
    pub(crate) kind: Option<String>,
    /// Where it works [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Give it a configuration of its own
    #[arg(long)]
    pub(crate) isolate: bool,
    /// Run the agent in a sandbox: it writes to nothing but its folder and its own configuration
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// Let an agent in a sandbox also write to PATH; may be given often
    #[arg(long, value_name = "PATH", requires = "sandbox", value_parser = full_path)]
    pub(crate) sandbox_write: Vec<String>,
    /// Also hide PATH from an agent in a sandbox; may be given often
    #[arg(long, value_name = "PATH", requires = "sandbox", value_parser = full_path)]
    pub(crate) sandbox_hide: Vec<String>,
    /// Cut an agent in a sandbox off from every network, also from this machine
    #[arg(long, requires = "sandbox")]
    pub(crate) sandbox_no_network: bool,
    /// Tell it that its folder is trusted; needs --isolate
    #[arg(long, requires = "isolate")]
    pub(crate) trust: bool,
    /// Start the agent in this permission mode: how it decides which tools it uses without asking
    #[arg(long, value_name = "MODE", value_parser = permission_mode())]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Have the agent ask before it uses a tool, whatever its permission mode. Codex does not ask about commands that only look
    #[arg(long)]
    pub(crate) ask_first: bool,
    /// A variable of its environment; may be given often
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// The command, if it is not the agent's usual one
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// An answer.
#[derive(Debug, Args)]
pub(crate) struct Response {
    /// Id of the ask. On a terminal it may be left out: the oldest open ask is shown whole first, and you confirm. `no` never needs it
    #[arg(long, value_name = "ID")]
    pub(crate) ask: Option<String>,
    /// Yes, no, or the number of an option as `coop asks` lists them; 1,3 where several can be chosen
    #[arg(value_name = "ANSWER", required_unless_present_any = ["answers", "text", "keys"])]
    pub(crate) answer: Option<String>,
    /// The answer to one of several questions, once for each in their order: a number, 1,3, or your own words
    #[arg(id = "answers", long = "answer", value_name = "ANSWER", conflicts_with = "answer")]
    pub(crate) answers: Vec<String>,
    /// Why not, or the answer in your own words
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Keys to press, for a screen whose options coop does not know: Down Enter
    #[arg(long, value_name = "KEY", num_args = 1.., conflicts_with_all = ["answer", "answers", "text"])]
    pub(crate) keys: Vec<String>,
}

/// The store's file.
#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Writes a whole copy of the file, also while a daemon uses it; of PostgreSQL, pg_dump does
    Backup {
        #[command(flatten)]
        state: StateOption,
        #[command(flatten)]
        store: StoreOption,
        /// Where to; nothing may be there yet
        file: PathBuf,
    },
    /// Checks that all of it is whole; in PostgreSQL, that all of it can be read
    Check {
        #[command(flatten)]
        state: StateOption,
        #[command(flatten)]
        store: StoreOption,
    },
}

/// What can be asked of the daemon. An agent is named by its id, or by as much of it as only it has.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Ends the daemon; its agents stay
    Down {
        #[command(flatten)]
        asking: Asking,
        /// End its own agents too
        #[arg(long)]
        kill: bool,
    },
    /// Tells whether the daemon runs
    Status {
        #[command(flatten)]
        asking: Asking,
    },
    /// Lists the agents
    Ls {
        #[command(flatten)]
        asking: Asking,
        /// Go on, and list them anew when something has changed
        #[arg(short, long)]
        watch: bool,
        /// List the sidecars that run and that the daemon does not know
        #[arg(long, conflicts_with = "watch")]
        orphans: bool,
    },
    /// Takes over an agent that `ls --orphans` lists
    Adopt {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
    /// Tells what is known of an agent, and what was done about it
    Show {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
    /// Starts an agent: one that coop.toml defines, or with --agent or a command any other
    Spawn {
        #[command(flatten)]
        asking: Asking,
        /// Its name in the file; or what to call it
        #[arg(required_unless_present_any = ["agent", "command"])]
        name: Option<String>,
        /// The file
        #[arg(long, value_name = "PATH", default_value = "coop.toml")]
        file: PathBuf,
        /// Its id [default: its name, with a number if that is taken]
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        #[command(flatten)]
        adhoc: Box<AdHoc>,
    },
    /// Tells an agent something
    Send {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
        /// What
        message: String,
        /// When: now, or once it is idle
        #[arg(long, value_name = "WHEN", default_value = "now", value_parser = ["now", "idle"])]
        when: String,
    },
    /// Waits until an agent is idle, asks, or has ended. 0: it is so. 3: it has ended, or is over, and never will be. 4: not
    /// in time
    Wait {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
        /// For what
        #[arg(long = "for", value_name = "WHAT")]
        what: Awaited,
        /// How long; without it, as long as it takes
        #[arg(long, value_name = "SECS", value_parser = parse_secs)]
        timeout: Option<Duration>,
    },
    /// Prints what happened to an agent
    Logs {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
        /// Go on with what happens
        #[arg(short, long)]
        follow: bool,
    },
    /// Prints what happens to all agents, as JSON lines, until it is stopped
    Events {
        #[command(flatten)]
        asking: Asking,
        /// The last number already known; only what is new without it
        #[arg(long, value_name = "N")]
        after: Option<u64>,
    },
    /// List open asks, each with its whole input
    Asks {
        #[command(flatten)]
        asking: Asking,
        /// Agent name, id or unique prefix; on a terminal, other lists are cut to 40 lines for each ask
        agent: Option<String>,
    },
    /// Answers what an agent asks
    Respond {
        #[command(flatten)]
        asking: Asking,
        /// Which agent
        agent: String,
        #[command(flatten)]
        response: Response,
    },
    /// Stops what an agent is doing
    Interrupt {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
    /// Ends an agent for good
    Kill {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
    /// Lets an agent's conversation go on in a new process
    Resume {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
    /// Tells why an agent's state is what it is
    Explain {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
    /// Looks after the store's file
    #[command(subcommand)]
    Db(Db),
    /// Tells what an agent has used
    Usage {
        #[command(flatten)]
        asking: Asking,
        /// Which
        agent: String,
    },
}

impl FleetCommand {
    /// Returns where the store is, if it is looked at without a daemon.
    pub(crate) fn store(&self) -> Option<&StoreOption> {
        match self {
            Self::Db(Db::Backup { store, .. } | Db::Check { store, .. }) => Some(store),
            Self::Down { .. }
            | Self::Status { .. }
            | Self::Ls { .. }
            | Self::Adopt { .. }
            | Self::Show { .. }
            | Self::Spawn { .. }
            | Self::Send { .. }
            | Self::Wait { .. }
            | Self::Logs { .. }
            | Self::Events { .. }
            | Self::Asks { .. }
            | Self::Respond { .. }
            | Self::Interrupt { .. }
            | Self::Kill { .. }
            | Self::Resume { .. }
            | Self::Explain { .. }
            | Self::Usage { .. } => None,
        }
    }

    /// Returns how the daemon is asked, if it is.
    pub(super) fn asking(&self) -> Option<&Asking> {
        match self {
            Self::Down { asking, .. }
            | Self::Status { asking, .. }
            | Self::Ls { asking, .. }
            | Self::Adopt { asking, .. }
            | Self::Show { asking, .. }
            | Self::Spawn { asking, .. }
            | Self::Send { asking, .. }
            | Self::Wait { asking, .. }
            | Self::Logs { asking, .. }
            | Self::Events { asking, .. }
            | Self::Asks { asking, .. }
            | Self::Respond { asking, .. }
            | Self::Interrupt { asking, .. }
            | Self::Kill { asking, .. }
            | Self::Resume { asking, .. }
            | Self::Explain { asking, .. }
            | Self::Usage { asking, .. } => Some(asking),
            Self::Db(_) => None,
        }
    }
}

/// Reads a path of a definition, which has to begin with `/` or `~/`.
fn full_path(text: &str) -> Result<String, String> {
    if text.starts_with("~/") {
        return Ok(text.to_owned());
    }
    let full = std::path::absolute(text).map_err(|error| error.to_string())?;
    full.into_os_string().into_string().map_err(|_| "this path is not UTF-8".to_owned())
}
