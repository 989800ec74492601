use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Ask, AskId, AskKind, Nudge, Seq};

/// What the agent is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// Launched; it takes no message yet.
    Starting,
    /// At work.
    Working {
        /// The tool it uses, if one is known.
        tool: Option<String>,
    },
    /// Waits for a message.
    Idle,
    /// Waits for an answer.
    Waiting {
        /// What it asks; [`crate::Request::Asks`] has the whole of it.
        ask: AskId,
        /// Which kind of ask that is.
        kind: AskKind,
    },
    /// Cannot go on by itself: it gave up on an error.
    Blocked {
        /// What stopped it.
        fault: Fault,
    },
    /// No driver can classify it.
    Unknown,
    /// The child process has exited.
    Exited {
        /// Its exit code, if it was not killed.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
    },
}

impl AgentState {
    /// Returns the state's name in the sidecar's API.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Working { .. } => "working",
            Self::Idle => "waiting_for_input",
            Self::Waiting { kind: AskKind::Permission, .. } => "permission_prompt",
            Self::Waiting { kind: AskKind::Plan, .. } => "plan_prompt",
            Self::Waiting { kind: AskKind::Question | AskKind::Setup, .. } => "ask_user",
            Self::Blocked { .. } => "error",
            Self::Unknown => "unknown",
            Self::Exited { .. } => "exited",
        }
    }

    /// Returns the shorter name that orchestrators use.
    pub fn short_name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Working { .. } => "working",
            Self::Idle => "idle",
            Self::Waiting { .. } => "prompt",
            Self::Blocked { .. } => "error",
            Self::Unknown => "unknown",
            Self::Exited { .. } => "exited",
        }
    }
}

/// What keeps an agent from going on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// What the agent said.
    pub message: String,
    /// The status the model's server gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// When it is over, if that is known: RFC 3339, or the agent's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Too many requests, or a quota is used up.
    RateLimit,
    /// The key or login is not accepted.
    Auth,
    /// The model's server has no room.
    Overload,
    /// The model's server cannot be reached.
    Network,
    /// The model's server refused the request.
    Request,
    /// Anything else.
    Other,
}

impl FaultKind {
    /// Returns the kind's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Auth => "auth",
            Self::Overload => "overload",
            Self::Network => "network",
            Self::Request => "request",
            Self::Other => "other",
        }
    }
}

/// The state with when it began and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReport {
    /// The agent's type, as given by `--agent`.
    pub agent: String,
    /// The state.
    pub state: AgentState,
    /// The screen's sequence number when the state began.
    pub since_seq: Seq,
    /// When the state began, RFC 3339.
    pub since: String,
    /// The screen's sequence number now.
    pub screen_seq: Seq,
    /// Why coop believes it.
    pub evidence: Evidence,
    /// How long until a weak sign of idleness counts.
    pub idle_grace_remaining: Option<Duration>,
    /// What the agent asks, if it waits for an answer.
    pub ask: Option<Ask>,
    /// The agent's own session, which it can be resumed with.
    pub session_id: Option<String>,
    /// The last thing it said.
    pub last_message: Option<String>,
    /// Messages that wait to be delivered.
    pub queue: Vec<Nudge>,
    /// Whether it wants to end its turn and is held until somebody decides.
    pub stop_held: bool,
    /// How it is run: `pty`, `pipe` or `server`.
    pub runtime: &'static str,
    /// How it decides which tools to use without asking, if that is known.
    pub permission_mode: Option<PermissionMode>,
    /// What can be done with it; anything beyond gets [`crate::ErrorCode::Unsupported`].
    pub capabilities: Vec<Capability>,
    /// How long it has written nothing.
    pub quiet_for: Duration,
}

/// How an agent decides which tools it uses without asking. Each agent kind has names of its own for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Asks, but for what its own rules allow.
    Default,
    /// The same, and changes files of its folder without asking.
    AcceptEdits,
    /// A model judges each tool in place of a person.
    Auto,
    /// Changes nothing, and shows a plan.
    Plan,
    /// Refuses what its rules do not allow, and never asks.
    DontAsk,
    /// Uses every tool without asking.
    Bypass,
}

impl PermissionMode {
    /// All of them, those that ask most first.
    pub const ALL: [Self; 6] = [Self::Default, Self::AcceptEdits, Self::Auto, Self::Plan, Self::DontAsk, Self::Bypass];

    /// Returns the mode's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "accept-edits",
            Self::Auto => "auto",
            Self::Plan => "plan",
            Self::DontAsk => "dont-ask",
            Self::Bypass => "bypass",
        }
    }

    /// Returns the mode of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Returns what the agent does in this mode without an ask, so that neither people nor rules decide it.
    pub fn use_without_ask(self) -> Option<&'static str> {
        match self {
            Self::Default | Self::Plan => None,
            Self::AcceptEdits => {
                Some("it changes files of its folder without asking, and Codex runs commands in its sandbox")
            }
            Self::DontAsk => Some("it uses what its own rules or sandbox allow, and never asks"),
            Self::Auto => Some("a model of its own allows tools in place of a person"),
            Self::Bypass => Some("it uses every tool without asking"),
        }
    }
}

/// Something that can be done with an agent or learnt from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// It takes messages.
    Nudge,
    /// It asks for leave to use tools.
    Permission,
    /// It shows plans and waits for leave to follow them.
    Plan,
    /// It asks questions.
    Question,
    /// It can be stopped in what it does.
    Interrupt,
    /// Its mode or model can be changed while it runs.
    Configure,
    /// The end of its turns can be held back.
    StopGate,
    /// It can be told something when it begins.
    StartContext,
    /// It tells how many tokens it uses.
    Usage,
    /// What it uses has a known price.
    Cost,
    /// Its conversation can be read.
    Transcript,
    /// It goes on with an earlier conversation.
    Resume,
    /// It goes on with a copy of an earlier conversation.
    Fork,
}

impl Capability {
    /// Returns the capability's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nudge => "nudge",
            Self::Permission => "permission",
            Self::Plan => "plan",
            Self::Question => "question",
            Self::Interrupt => "interrupt",
            Self::Configure => "configure",
            Self::StopGate => "stop_gate",
            Self::StartContext => "start_context",
            Self::Usage => "usage",
            Self::Cost => "cost",
            Self::Transcript => "transcript",
            Self::Resume => "resume",
            Self::Fork => "fork",
        }
    }
}

/// What a state rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Which source said so.
    pub source: EvidenceSource,
    /// What it said.
    pub detail: String,
}

/// Where evidence comes from, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// The agent's own control protocol.
    Control,
    /// A hook the agent ran.
    Hook,
    /// A file the agent keeps.
    SessionLog,
    /// What the agent prints, where that is structured.
    Stdout,
    /// The terminal's title.
    Title,
    /// The operating system.
    Process,
    /// What the screen shows.
    Screen,
    /// Nothing at all.
    None,
}

impl EvidenceSource {
    /// Returns the source's name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Hook => "hook",
            Self::SessionLog => "session_log",
            Self::Stdout => "stdout",
            Self::Title => "title",
            Self::Process => "process",
            Self::Screen => "screen",
            Self::None => "none",
        }
    }
}

/// The last things the agent's sources said and why the state is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The state now.
    pub state: AgentState,
    /// What it rests on.
    pub evidence: Evidence,
    /// How the agent decides which tools to use without asking, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// What was heard, oldest first, and what was made of it.
    pub signals: Vec<Heard>,
    /// The signals that coop expects of this kind of agent and has not had, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_signals: Vec<String>,
}

/// Something a source said, and what it changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heard {
    /// When, RFC 3339.
    pub ts: String,
    /// Who said it.
    pub source: EvidenceSource,
    /// What it said.
    pub detail: String,
    /// What it meant, such as `idle` or `working`.
    pub meaning: String,
    /// What was made of it, such as `accepted` or why not.
    pub verdict: String,
}
