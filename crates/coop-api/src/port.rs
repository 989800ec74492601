use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentId, AgentReport, Answer, Answered, Ask, Epoch, Error, EventPage, Explanation, Feed, Line, NudgeId, Offset,
    Receipt, Screen, Seq, Size, Token, UsageReport, When, WriterId,
};

/// The one port: what a transport can ask of agents, be it one session or a fleet of them.
pub trait Agents: Send + Sync + 'static {
    /// Returns the agents there are; the first is the one that routes without an id mean.
    fn list(&self) -> Vec<AgentId>;

    /// Asks one agent something and waits for its reply.
    fn call(&self, id: &AgentId, request: Request) -> impl Future<Output = Result<Reply, Error>> + Send;

    /// Returns a way to follow one agent's output, screen and events.
    fn feed(&self, id: &AgentId) -> Result<Feed, Error>;
}

/// What can be asked of an agent.
#[derive(Clone, Debug)]
pub enum Request {
    /// Whether it runs and since when.
    Health,
    /// Its process and counters.
    Status,
    /// What its terminal shows.
    Screen,
    /// The lines that scrolled off its terminal, this many at most.
    History(usize),
    /// Control sequences that make a fresh terminal show the same.
    Dump,
    /// The events after this one.
    Events(Seq),
    /// Types something.
    Write {
        /// Who types.
        writer: WriterId,
        /// What is typed.
        input: Input,
    },
    /// Takes or gives back the write lock.
    Lock {
        /// Who asks.
        writer: WriterId,
        /// What for.
        action: LockAction,
    },
    /// Gives the terminal another size. Who holds the write lock says which, and then nobody else.
    Resize {
        /// Who asks.
        writer: WriterId,
        /// The size.
        size: Size,
    },
    /// Signals the child's process group.
    Signal(Signal),
    /// Ends the child and starts the same command again.
    Restart,
    /// Ends the child and then the sidecar.
    Shutdown,
    /// The agent's state.
    AgentState,
    /// The last things that were heard of the agent, and what was made of them.
    Explain,
    /// Gives an idle agent a message.
    Nudge {
        /// Who gives it.
        writer: WriterId,
        /// The message.
        nudge: NudgeRequest,
    },
    /// Takes back a message that waits.
    CancelNudge(NudgeId),
    /// What the agent asks.
    Asks,
    /// Answers what the agent asks.
    Respond {
        /// Who answers.
        writer: WriterId,
        /// The answer.
        answer: Answer,
    },
    /// Stops what the agent is doing.
    Interrupt {
        /// Who stops it.
        writer: WriterId,
    },
    /// Decides about an agent that wants to end its turn and is held.
    ResolveStop(StopDecision),
    /// Takes in what one of the agent's hooks reports; the reply is what the hook is to print.
    Hook(HookCall),
    /// The conversation so far, as the agent keeps it.
    Transcript,
    /// Tokens and cost.
    Usage,
    /// Changes settings of the running agent.
    Configure(Configure),
}

/// What came of a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// To [`Request::Health`].
    Health(Health),
    /// To [`Request::Status`].
    Status(Status),
    /// To [`Request::Screen`].
    Screen(Arc<Screen>),
    /// To [`Request::History`].
    History(History),
    /// To [`Request::Dump`].
    Dump(Dump),
    /// To [`Request::Events`].
    Events(EventPage),
    /// To [`Request::Write`].
    Written(Written),
    /// To [`Request::AgentState`].
    AgentState(Box<AgentReport>),
    /// To [`Request::Explain`].
    Explanation(Box<Explanation>),
    /// To [`Request::Nudge`].
    Receipt(Receipt),
    /// To [`Request::Asks`].
    Asks(Vec<Ask>),
    /// To [`Request::Respond`].
    Answered(Answered),
    /// To [`Request::Hook`]: what the hook is to print, if anything.
    Hook(Option<Value>),
    /// To [`Request::Transcript`], in the agent's own format.
    Transcript(Bytes),
    /// To [`Request::Usage`].
    Usage(UsageReport),
    /// To everything that has nothing to tell but that it was done.
    Done,
}

/// A terminal as control sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The control sequences; they begin by resetting the terminal.
    pub data: Bytes,
    /// How much of the child's output is in it.
    pub offset: Offset,
    /// The size of the terminal.
    pub size: Size,
}

/// Something typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes, as they are.
    Bytes(Bytes),
    /// Named keys, encoded by the modes the child has set when they are typed.
    Keys(Vec<String>),
    /// Text as if pasted: bracketed if the child asked for that, and cleaned of control sequences.
    Paste {
        /// The text.
        text: String,
        /// Whether Enter follows.
        enter: bool,
    },
}

/// How much of an input has reached the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// Bytes the terminal has taken.
    pub bytes_written: u64,
    /// Bytes that wait, in order, because the child is not reading.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What to do with the write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockAction {
    /// Take it, or keep it for longer.
    Acquire,
    /// Give it back.
    Release,
}

/// Whether the agent runs and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What the child is doing.
    pub state: ProcessState,
    /// Its process id.
    pub pid: Option<u32>,
    /// How long the session has been up.
    pub uptime: Duration,
    /// The agent's type, as given by `--agent`.
    pub agent: String,
    /// The terminal's size.
    pub size: Size,
}

/// The child and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What the child is doing.
    pub state: ProcessState,
    /// Its process id.
    pub pid: Option<u32>,
    /// How long the session has been up.
    pub uptime: Duration,
    /// Its exit code, if it has exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub exit_signal: Option<i32>,
    /// The screen's sequence number.
    pub screen_seq: Seq,
    /// Bytes the child has written.
    pub bytes_read: u64,
    /// Bytes the child was sent.
    pub bytes_written: u64,
    /// Which child of this session it is.
    pub epoch: Epoch,
}

/// What the child process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It has exited.
    Exited,
}

impl ProcessState {
    /// Returns the state's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Exited => "exited",
        }
    }
}

/// Lines that scrolled off, and the screen they scrolled off from.
#[derive(Clone, Debug)]
pub struct History {
    /// The lines, oldest first.
    pub lines: Vec<Line>,
    /// What the terminal shows below them.
    pub screen: Arc<Screen>,
}

/// A message for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NudgeRequest {
    /// What to tell it.
    pub message: String,
    /// When.
    pub when: When,
    /// Whether the reply waits until a queued message is delivered.
    pub wait: bool,
}

/// What becomes of an agent that wants to end its turn and is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopDecision {
    /// It may.
    Allow,
    /// It is told this and goes on.
    Block(String),
}

/// Something an agent's hook reports.
#[derive(Clone, Debug)]
pub struct HookCall {
    /// The token of the run that the hook belongs to.
    pub token: Token,
    /// Which hook.
    pub event: String,
    /// What it was given.
    pub payload: Value,
}

/// Settings of a running agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Configure {
    /// How it asks for permission, in its own words, such as `plan`.
    pub mode: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
}

/// A signal a client may send to the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are POSIX's")]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Term,
    Cont,
    Stop,
    Tstp,
    Winch,
}

impl Signal {
    /// Every signal that can be sent.
    pub const ALL: [Self; 11] = [
        Self::Hup,
        Self::Int,
        Self::Quit,
        Self::Kill,
        Self::Usr1,
        Self::Usr2,
        Self::Term,
        Self::Cont,
        Self::Stop,
        Self::Tstp,
        Self::Winch,
    ];

    /// Returns the signal's POSIX name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hup => "SIGHUP",
            Self::Int => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Kill => "SIGKILL",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Term => "SIGTERM",
            Self::Cont => "SIGCONT",
            Self::Stop => "SIGSTOP",
            Self::Tstp => "SIGTSTP",
            Self::Winch => "SIGWINCH",
        }
    }

    /// Returns the signal with this name, with or without `SIG`, in any case.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let upper = name.trim().to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        Self::ALL.into_iter().find(|signal| &signal.as_str()[3..] == bare).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|signal| signal.as_str()).collect();
            Error::bad_request(format!("{name:?} is not a signal coop can send; use one of {}", known.join(", ")))
        })
    }
}
