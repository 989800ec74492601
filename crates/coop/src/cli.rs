//! The command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, Resettable, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use coop_api::{PermissionMode, Token};
use coop_drivers::{Allowed, KNOWN, Runtime};
use coop_session::LEAST_RECORDING;

use crate::bridge;
use crate::fleet::Ws;
use crate::fleet::wrap::Wrap;
use crate::fleet::{FleetCommand, Up};
use crate::install::Install;
use crate::mcp::Mcp;
#[cfg(feature = "kubernetes")]
use crate::operator::{Operator, Unpack};
use crate::run::Run;

/// Runs a program on a terminal of its own and serves that terminal over HTTP, WebSocket and gRPC.
#[derive(Debug, Parser)]
#[command(
    name = "coop",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The exit code is the command's own, or 128 plus the number of the signal that ended it. 127: there is \
                  no such command. 126: it cannot be run. 2: there is no such option, or it has no such value. 1: anything else failed.",
    override_usage = "coop [OPTIONS] -- COMMAND [ARGS...]\n       coop [OPTIONS] --attach tmux:SESSION\n       coop COMMAND"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) sub: Option<Sub>,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

impl Cli {
    /// Reads the command line and the environment. Ends the process with an explanation if they make no sense.
    pub(crate) fn read() -> Self {
        let matches =
            without_empty_variables(Self::command()).try_get_matches().unwrap_or_else(|error| explained(error).exit());
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// Writes what a shell completes coop's commands by.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<i32> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "coop", &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(0)
}

/// A variable that is set to nothing counts as not set.
fn without_empty_variables(command: Command) -> Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg })
        .mut_subcommands(without_empty_variables)
}

/// Adds what is meant most likely when a program's name stands where only coop's own commands do.
fn explained(mut error: clap::Error) -> clap::Error {
    let is_within_a_command =
        std::env::args().nth(1).is_some_and(|first| Cli::command().find_subcommand(first).is_some());
    let name = match error.get(ContextKind::InvalidSubcommand).or_else(|| error.get(ContextKind::InvalidArg)) {
        Some(ContextValue::String(name)) if !is_within_a_command && !name.starts_with('-') => name.clone(),
        _ => return error,
    };
    if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) {
        let tip = format!("to run a program, write it after --: coop -- {name}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sub {
    /// Opens an agent's terminal in this one
    Attach(Attach),
    /// Prints what an agent's terminal shows
    Screen(Screen),
    /// Types text into an agent's terminal
    Type(Type),
    /// Presses keys in an agent's terminal
    Keys(Keys),
    /// Has a model work in this folder, with tools: coop's own agent
    Run(Box<Run>),
    /// Runs many agents: the daemon
    Up(Box<Up>),
    #[command(flatten)]
    Fleet(FleetCommand),
    /// Makes, shows and deletes workspaces: git worktrees that agents work in
    Ws(Ws),
    /// Runs your own claude or opencode in the conversation of the workspace that you are in
    Wrap(Wrap),
    /// Serves the daemon's tools to an agent, by MCP over standard input and output (used by sidecars)
    Mcp(Mcp),
    /// Prints what completes coop's commands in a shell, such as `source <(coop completions bash)`
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Tells which agents are installed here, and what would not work
    Doctor(Doctor),
    /// Installs an agent from npm into a folder of coop's own, and prints where its program is
    Install(Install),
    /// Sees to the agents of a Kubernetes namespace
    #[cfg(feature = "kubernetes")]
    Operator(Operator),
    /// Serves one agent by the adapter-shim protocol: briefs in, events and decisions out
    Shim(Shim),
    /// Runs a simulated agent, or a fake model server for real ones
    Sim(Sim),
    /// Passes on what an agent's hook is told (used by the hooks coop sets up)
    #[command(hide = true)]
    Hook {
        /// Wait for an answer that somebody has to think about
        #[arg(long)]
        hold: bool,
        /// Who reports, if it is an agent that coop does not run
        #[arg(long = "as", value_name = "FILE")]
        guest: Option<PathBuf>,
        /// Which hook
        event: String,
    },
    /// Ends the agents of a sidecar that was killed (used by sidecars)
    #[command(hide = true)]
    Guard {
        /// The agent's socket; processes that have it in their environment are ended too
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
        /// Processes that lead the sessions to end
        leaders: Vec<u32>,
    },
    /// Take the terminal of a sandbox and run a program in it (used by sidecars)
    #[command(hide = true)]
    Enter {
        /// The process to give the terminal to, instead of becoming a program
        #[arg(long, value_name = "PID")]
        terminal_to: Option<i32>,
        /// Leave the terminal alone: the program has none
        #[arg(long, conflicts_with = "terminal_to")]
        without_terminal: bool,
        /// Fail unless PATH is a mount of what its folder has there
        #[arg(long, value_name = "PATH")]
        mounted: Vec<PathBuf>,
        /// Fail unless another file or folder is mounted on PATH
        #[arg(long, value_name = "PATH")]
        covered: Vec<PathBuf>,
        /// The program and its words
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// Waits until something listens on a socket and becomes the program that needs it (used by sidecars)
    #[command(hide = true)]
    Await {
        /// How long to wait; who starts at all does so within a second, on a busy machine within a few
        #[arg(long, value_name = "SECS", default_value = "15", value_parser = parse_secs)]
        within: Duration,
        /// The socket
        socket: PathBuf,
        /// The file to write if nothing does
        missing: PathBuf,
        /// How many words the command has; the one to run in its place follows it
        words: usize,
        /// The commands
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        commands: Vec<OsString>,
    },
    /// Prepares a pod's volumes: makes folders, and puts this program where the agent's container finds it (used by pods)
    #[cfg(feature = "kubernetes")]
    #[command(hide = true)]
    Unpack(Unpack),
    /// Shows a pane of tmux or GNU screen on this terminal (used by --attach)
    #[command(hide = true)]
    Bridge(Bridge),
}

/// The sidecar's options.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// TCP port for HTTP, WebSocket and gRPC; 0 picks a free one and prints it
    #[arg(long, env = "COOP_PORT", value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Unix socket [default: $XDG_RUNTIME_DIR/coop/PID.sock, or coop-UID/PID.sock in the temporary folder]
    #[arg(long, env = "COOP_SOCKET", value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Address to bind TCP ports to; any but loopback needs a token
    #[arg(long, env = "COOP_HOST", value_name = "ADDR", default_value = "127.0.0.1", value_parser = parse_host)]
    pub(crate) host: IpAddr,
    /// One more TCP port, for gRPC clients
    #[arg(long, env = "COOP_GRPC_PORT", value_name = "PORT")]
    pub(crate) grpc_port: Option<u16>,
    /// Token that every request must carry
    #[arg(long, env = "COOP_AUTH_TOKEN", value_name = "TOKEN", hide_env_values = true, value_parser = parse_token)]
    pub(crate) auth_token: Option<Token>,
    /// Name by which clients may address this server, beside IP addresses and localhost; may be given often
    #[arg(long, env = "COOP_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// What kind of agent the command is; `auto` goes by the program's name
    #[arg(long, env = "COOP_AGENT", value_name = "TYPE", default_value = "auto",
          value_parser = PossibleValuesParser::new(agent_names()))]
    pub(crate) agent: String,
    /// How the agent is run: its own terminal interface, its protocol over pipes, its server, or in coop's own program
    #[arg(long, env = "COOP_RUNTIME", value_name = "RUNTIME")]
    pub(crate) runtime: Option<RuntimeChoice>,
    /// Give the agent a configuration of its own instead of the user's, with which it asks nothing but whether the folder is trusted. An agent for which coop cannot do
    /// that is refused, or with `--isolate=if-possible` run without, which is said on standard error
    #[arg(long, env = "COOP_ISOLATE", value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "never", default_missing_value = "always")]
    pub(crate) isolate: Isolate,
    /// Tell an agent with a configuration of its own (`--isolate`) that its folder is trusted. Without it the agent asks
    #[arg(long, env = "COOP_TRUST")]
    pub(crate) trust: bool,
    /// Start the agent in this permission mode: how it decides which tools it uses without asking
    #[arg(long, env = "COOP_PERMISSION_MODE", value_name = "MODE", conflicts_with = "attach", value_parser = permission_mode())]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Have the agent ask before it uses a tool, whatever its permission mode. Codex does not ask about commands that only look
    #[arg(long, env = "COOP_ASK_FIRST", conflicts_with = "attach")]
    pub(crate) ask_first: bool,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// JSON with the agent's settings, stop gate and start text, or TOML with patterns of its screen; one of each may be given
    #[arg(long, env = "COOP_AGENT_CONFIG", value_name = "PATH")]
    pub(crate) agent_config: Vec<PathBuf>,
    /// JSON with a brief, as a shim takes it: the agent is run and set up as a shim would. What it is told is left to who steers it.
    /// Needs an --agent that is not `auto`
    #[arg(long, env = "COOP_BRIEF", value_name = "PATH", conflicts_with_all = ["runtime", "attach"])]
    pub(crate) brief: Option<PathBuf>,
    /// How long an agent without structured signals must be quiet to count as idle
    #[arg(long, env = "COOP_IDLE_GRACE", value_name = "SECS", allow_negative_numbers = true, default_value = "60", value_parser = parse_secs)]
    pub(crate) idle_grace: Duration,
    /// Go on with an earlier conversation of the agent's, by its session id
    #[arg(long, env = "COOP_RESUME", value_name = "ID", conflicts_with = "attach")]
    pub(crate) resume: Option<String>,
    /// Keep the conversation's id in this file, and go on with it at the next start; there is one sidecar for a file at a time. Its
    /// folder must exist. Delete the file to begin a new conversation
    #[arg(long, env = "COOP_SESSION_FILE", value_name = "PATH", conflicts_with_all = ["attach", "resume"])]
    pub(crate) session_file: Option<PathBuf>,
    /// Who steers the agent, if only they may.
    #[arg(skip)]
    pub(crate) steered_by: Option<&'static str>,
    /// What an ACP agent may have done for it in its folder: fs (text files), terminal (commands)
    #[arg(long, env = "COOP_ACP_ALLOW", value_name = "WHAT", value_delimiter = ',')]
    pub(crate) acp_allow: Vec<AcpService>,
    /// Show an existing session instead of running a command: tmux:NAME or screen:NAME
    #[arg(long, env = "COOP_ATTACH", value_name = "SPEC", conflicts_with_all = ["command", "sandbox"])]
    pub(crate) attach: Option<bridge::Target>,
    /// Terminal width
    #[arg(long, env = "COOP_COLS", value_name = "N", default_value_t = 200)]
    pub(crate) cols: u32,
    /// Terminal height
    #[arg(long, env = "COOP_ROWS", value_name = "N", default_value_t = 50)]
    pub(crate) rows: u32,
    /// How much output is kept for those who come late
    #[arg(long, env = "COOP_RING_SIZE", value_name = "BYTES", default_value_t = 1 << 20, value_parser = parse_ring)]
    pub(crate) ring_size: usize,
    /// Record the terminal to this file, as asciicast v3; one that is there already goes on
    #[arg(long, env = "COOP_RECORD", value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// How large a recording may become; the oldest half goes first
    #[arg(long, env = "COOP_RECORD_LIMIT", value_name = "BYTES", default_value_t = 32 << 20, value_parser = clap::value_parser!(u64).range(LEAST_RECORDING..))]
    pub(crate) record_limit: u64,
    /// TERM for the command [default: $TERM, or xterm-256color if that is unset or dumb]
    #[arg(long, value_name = "TERM")]
    pub(crate) term: Option<String>,
    /// TCP port that answers only health probes, without a token
    #[arg(long, env = "COOP_HEALTH_PORT", value_name = "PORT")]
    pub(crate) health_port: Option<u16>,
    /// Shut down when nothing was written or typed for this long; 0 never does
    #[arg(long, env = "COOP_IDLE_TIMEOUT", value_name = "SECS", allow_negative_numbers = true, default_value = "0", value_parser = parse_secs)]
    pub(crate) idle_timeout: Duration,
    /// Go on serving the last screen for this long after the command has exited, or `forever`
    #[arg(long, env = "COOP_LINGER", value_name = "SECS", allow_negative_numbers = true, default_value = "0", value_parser = parse_linger)]
    pub(crate) linger: Linger,
    /// How long the command may take to end before it is killed
    #[arg(long, env = "COOP_GRACE", value_name = "SECS", allow_negative_numbers = true, default_value = "10", value_parser = parse_secs)]
    pub(crate) grace: Duration,
    /// How log lines on standard error look
    #[arg(long, env = "COOP_LOG_FORMAT", value_name = "FMT", default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// Which log lines are written
    #[arg(long, env = "COOP_LOG_LEVEL", value_name = "LVL", default_value = "info")]
    pub(crate) log_level: LogLevel,
    /// Lead a process session of its own, so that what ends whoever started it does not end it (used by fleets)
    #[arg(long, hide = true)]
    pub(crate) own_session: bool,
    /// The command to run; for `--agent api` options of `coop run`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

// A doc comment would replace the help of the commands that take these options.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sandbox {
    /// Run the agent in a sandbox (bubblewrap): it writes to nothing but its folder and its own configuration, and sees
    /// neither other processes nor coop's files. Refused where the machine has no bubblewrap
    #[arg(id = "sandbox", long = "sandbox", env = "COOP_SANDBOX")]
    pub(crate) is_wanted: bool,
    /// Let an agent in a sandbox also write to PATH; may be given often
    #[arg(
        long = "sandbox-write",
        env = "COOP_SANDBOX_WRITE",
        value_name = "PATH",
        value_delimiter = ':',
        requires = "sandbox"
    )]
    pub(crate) write: Vec<PathBuf>,
    /// Also hide PATH from an agent in a sandbox; may be given often
    #[arg(
        long = "sandbox-hide",
        env = "COOP_SANDBOX_HIDE",
        value_name = "PATH",
        value_delimiter = ':',
        requires = "sandbox"
    )]
    pub(crate) hide: Vec<PathBuf>,
    /// Give an agent in a sandbox no network, not even this machine's
    #[arg(long = "sandbox-no-network", env = "COOP_SANDBOX_NO_NETWORK", requires = "sandbox")]
    pub(crate) no_network: bool,
}

/// When an agent has a configuration of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolate {
    #[value(alias = "true")]
    Always,
    // Values that say more about themselves would have the help of every option spread out.
    IfPossible,
    #[value(alias = "false")]
    Never,
}

/// What an ACP agent may have done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcpService {
    Fs,
    Terminal,
}

impl Serve {
    /// Tells whether the agent is coop's own, so that the command is options of `coop run`.
    pub(crate) fn is_own_agent(&self) -> bool {
        self.agent == "api"
    }

    /// Returns what the agent may have done for it.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed {
            files: self.acp_allow.contains(&AcpService::Fs),
            terminals: self.acp_allow.contains(&AcpService::Terminal),
        }
    }

    /// Returns the file that names the conversation that the agent goes on with, and the conversation.
    pub(crate) fn resumed_by_file(&self) -> Option<(&Path, &str)> {
        self.session_file.as_deref().zip(self.resume.as_deref())
    }
}

/// How an agent is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeChoice {
    Pty,
    Pipe,
    Server,
    Inproc,
}

impl From<RuntimeChoice> for Runtime {
    fn from(choice: RuntimeChoice) -> Self {
        match choice {
            RuntimeChoice::Pty => Self::Pty,
            RuntimeChoice::Pipe => Self::Pipe,
            RuntimeChoice::Server => Self::Server,
            RuntimeChoice::Inproc => Self::Inproc,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Shim {
    /// Which agent; `mock` and `claude --mock` are the same
    #[arg(long, env = "COOP_AGENT", value_name = "TYPE", default_value = "claude")]
    pub(crate) agent: ShimAgent,
    /// Play a script instead of running an agent
    #[arg(long)]
    pub(crate) mock: bool,
    /// TCP port; 0 picks a free one. The first line on standard output tells which
    #[arg(long, env = "AGENT_PORT", value_name = "PORT", default_value_t = 9100)]
    pub(crate) port: u16,
    /// Address to bind to; any but loopback needs a token
    #[arg(long, env = "COOP_HOST", value_name = "ADDR", default_value = "127.0.0.1", value_parser = parse_host)]
    pub(crate) host: IpAddr,
    /// The folder the agent works in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Answer 404 to a resolution of a decision that is not pending, instead of `not_found`
    #[arg(long)]
    pub(crate) strict: bool,
    /// Token that every request must carry
    #[arg(long, env = "COOP_AUTH_TOKEN", value_name = "TOKEN", hide_env_values = true, value_parser = parse_token)]
    pub(crate) auth_token: Option<Token>,
    /// Name by which clients may address this server, beside IP addresses and localhost; may be given often
    #[arg(long, env = "COOP_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow_host: Vec<String>,
    /// Give the agent a configuration of its own instead of the user's, with which it asks nothing but whether the folder is trusted
    #[arg(long, env = "COOP_ISOLATE")]
    pub(crate) isolate: bool,
    /// Tell an agent with a configuration of its own (`--isolate`) that its folder is trusted. Without it the agent asks
    #[arg(long, env = "COOP_TRUST")]
    pub(crate) trust: bool,
    #[command(flatten)]
    pub(crate) sandbox: Sandbox,
    /// How log lines on standard error look
    #[arg(long, env = "COOP_LOG_FORMAT", value_name = "FMT", default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// Which log lines are written
    #[arg(long, env = "COOP_LOG_LEVEL", value_name = "LVL", default_value = "info")]
    pub(crate) log_level: LogLevel,
    /// How the agent is run [default: its name]; for `api`, options of `coop run`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The agents that a shim can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShimAgent {
    Claude,
    Codex,
    Opencode,
    Gemini,
    Acp,
    /// coop's own, `coop run`
    Api,
    Mock,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(subcommand)]
    pub(crate) what: Option<Simulated>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Simulated {
    /// A scripted agent with the manners of Claude Code; takes its options
    #[command(disable_help_flag = true)]
    Claude {
        /// What Claude Code takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// A scripted agent that speaks the Agent Client Protocol
    Acp {
        /// Want somebody to log in first, with GEMINI_API_KEY
        #[arg(long)]
        auth: bool,
        /// Tell an earlier conversation again when going on with it
        #[arg(long)]
        load_only: bool,
    },
    /// A scripted agent with the manners of Codex; takes its options
    #[command(disable_help_flag = true)]
    Codex {
        /// What Codex takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// A scripted agent with the manners of OpenCode: `opencode`, `opencode serve`, `opencode attach`
    #[command(disable_help_flag = true)]
    Opencode {
        /// What OpenCode takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// A scripted agent with the manners of Gemini CLI; takes its options
    #[command(disable_help_flag = true)]
    Gemini {
        /// What Gemini CLI takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// A model server on loopback that says what a script, or the prompt itself, tells it to
    Model {
        /// Port to listen on; 0 picks a free one and prints it
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// What it says
        #[arg(long, value_name = "FILE")]
        script: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How long to stay after the command has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linger {
    For(Duration),
    Forever,
}

/// Which agent a client command is for.
#[derive(Debug, Args)]
pub(crate) struct TargetOptions {
    /// Socket or URL of the agent [default: $COOP_SOCKET, or the only one that runs]
    #[arg(short, long, value_name = "SOCKET|URL")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) token: TokenOption,
}

#[derive(Debug, Args)]
pub(crate) struct TokenOption {
    /// The agent's token
    #[arg(long, env = "COOP_AUTH_TOKEN", value_name = "TOKEN", hide_env_values = true, value_parser = parse_token)]
    pub(crate) auth_token: Option<Token>,
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Socket or URL of the agent [default: $COOP_SOCKET, or the only one that runs]
    #[arg(value_name = "SOCKET|URL")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) token: TokenOption,
    /// Watch only: type nothing, resize nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The key that detaches
    #[arg(long, value_name = "KEY", default_value = "Ctrl-]")]
    pub(crate) detach_key: String,
}

#[derive(Debug, Args)]
pub(crate) struct Screen {
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// With colours and styles
    #[arg(long)]
    pub(crate) ansi: bool,
    /// How many lines that scrolled off to print first
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "ansi")]
    pub(crate) scrollback: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Type {
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// The text; - reads it from standard input
    pub(crate) text: String,
    /// Press Enter after it
    #[arg(short, long)]
    pub(crate) enter: bool,
    /// Send it as a paste
    #[arg(long)]
    pub(crate) paste: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Keys {
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// Key names, such as Enter, Escape, Ctrl-C, Up or F5
    #[arg(required = true, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Bridge {
    /// tmux or screen
    kind: String,
    /// The session's name
    name: String,
}

impl Bridge {
    pub(crate) fn target(self) -> anyhow::Result<bridge::Target> {
        Ok(format!("{}:{}", self.kind, self.name).parse()?)
    }
}

/// The value itself is not told: it may be a mistyped secret.
pub(crate) fn parse_token(text: &str) -> Result<Token, &'static str> {
    Token::new(text)
}

pub(crate) fn parse_host(text: &str) -> Result<IpAddr, String> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    text.parse().map_err(|_| "not an IP address; use one such as 127.0.0.1 or 0.0.0.0".to_owned())
}

/// A year. Much more cannot be added to the clock.
const MAX_SECS: f64 = 31_536_000.0;

pub(crate) fn parse_secs(text: &str) -> Result<Duration, String> {
    let wrong = || "not a number of seconds".to_owned();
    let secs: f64 = text.parse().map_err(|_| wrong())?;
    if secs > MAX_SECS {
        return Err(format!("more than a year; use {MAX_SECS} or less"));
    }
    Duration::try_from_secs_f64(secs).map_err(|_| wrong())
}

fn parse_linger(text: &str) -> Result<Linger, String> {
    match text {
        "forever" => Ok(Linger::Forever),
        _ => parse_secs(text).map(Linger::For).map_err(|error| format!("{error}, nor `forever`")),
    }
}

/// More than a gigabyte is a mistake.
const MAX_RING: usize = 1 << 30;

fn parse_ring(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if (4096..=MAX_RING).contains(&bytes) => Ok(bytes),
        _ => Err("not a number of bytes between 4096 and 1073741824".to_owned()),
    }
}

/// Returns what `--agent` takes.
pub(crate) fn agent_names() -> impl Iterator<Item = &'static str> {
    ["auto"].into_iter().chain(KNOWN.iter().map(|known| known.name)).chain(["unknown"])
}

/// Reads a permission mode by its name.
pub(crate) fn permission_mode() -> impl TypedValueParser<Value = PermissionMode> {
    let names = PossibleValuesParser::new(PermissionMode::ALL.map(PermissionMode::as_str));
    names.try_map(|name| PermissionMode::by_name(&name).ok_or("not a permission mode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_and_sizes_are_checked() {
        assert_eq!(parse_secs("1.5"), Ok(Duration::from_millis(1500)));
        assert!(parse_secs("-1").is_err() && parse_secs("soon").is_err() && parse_secs("1e300").is_err());
        assert_eq!(parse_secs("1e19"), Err("more than a year; use 31536000 or less".to_owned()));
        assert_eq!(parse_secs("31536000"), Ok(Duration::from_secs(31_536_000)));
        assert_eq!(parse_linger("forever"), Ok(Linger::Forever));
        assert!(parse_ring("1").is_err() && parse_ring("2147483648").is_err() && parse_ring("65536").is_ok());
        assert!(parse_host("example.org").is_err() && parse_host("::1").is_ok());
    }
}
