//! What an observation means.

use coop_api::{
    Artifact, AskKind, AskOption, EvidenceSource, Fault, FaultReport, Message, PermissionMode, Question, ToolUse,
    TurnOutcome, Usage,
};
use serde_json::Value;

/// Something a source said, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Who said it.
    pub source: EvidenceSource,
    /// What it said.
    pub detail: String,
    /// What that means.
    pub meaning: Meaning,
}

impl Signal {
    /// Returns a signal.
    pub fn new(source: EvidenceSource, detail: impl Into<String>, meaning: Meaning) -> Self {
        Self { source, detail: detail.into(), meaning }
    }
}

/// What a signal means.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// The agent has a conversation.
    Session {
        /// The agent's own name for it.
        id: String,
        /// Where the agent keeps it.
        transcript: Option<String>,
    },
    /// The agent's permission mode.
    PermissionMode(PermissionMode),
    /// The agent began, or began anew, and asks what it should know.
    Started(StartSource),
    /// A message reached the agent.
    TurnBegan {
        /// The message, if it is known.
        prompt: Option<String>,
    },
    /// A command of the agent's own ran, such as `/clear`.
    Command {
        /// The command, with what was said to it.
        text: String,
    },
    /// The agent works.
    Working {
        /// The tool it uses.
        tool: Option<String>,
    },
    /// The agent waits for a message.
    Idle(TurnOutcome),
    /// The agent may be waiting for a message: nothing says that it works.
    Quiet,
    /// Nothing tells what the agent does.
    Unclear,
    /// Who told what the agent does tells nothing any more: from now on the other sources count for what they are.
    Lost,
    /// The agent asks something.
    Ask(Box<AskDraft>),
    /// What the agent asked is settled.
    AskGone {
        /// Which asks: those about this tool and input, or all of them.
        about: Option<(String, Value)>,
    },
    /// What the agent's control protocol asked by this request is settled.
    RequestGone {
        /// The request's name.
        request: String,
    },
    /// The agent gave up on an error.
    Blocked(Fault),
    /// Something failed and the agent tries again.
    Retrying(FaultReport),
    /// The agent wants to end its turn and waits for leave.
    StopWanted {
        /// Whether it was kept from ending it before.
        again: bool,
        /// What it said last.
        last_message: Option<String>,
        /// What goes on by itself, such as sub-agents in the background: with it, the turn is not over.
        unfinished: bool,
    },
    /// Somebody said something.
    Said(Message),
    /// A tool was used.
    Tool(ToolUse),
    /// The agent wrote a file.
    Wrote(Artifact),
    /// A request to the model was paid for.
    Used {
        /// The model's name for its reply; the same one may be told often.
        id: String,
        /// What it used.
        usage: Usage,
        /// When it was made, in milliseconds since 1970, if that is known.
        at: Option<u64>,
    },
    /// Requests to the model that an earlier process made in this conversation were paid for.
    UsedBefore {
        /// A name for all of them.
        id: String,
        /// What they used.
        usage: Usage,
    },
    /// The agent replied to a request of ours.
    Replied {
        /// The request's name.
        request: String,
        /// Why it does not do it.
        error: Option<String>,
    },
}

impl Meaning {
    /// Returns a word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Session { .. } => "session",
            Self::PermissionMode(_) => "permission mode",
            Self::Started(_) => "started",
            Self::TurnBegan { .. } => "turn began",
            Self::Command { .. } => "command",
            Self::Working { .. } => "working",
            Self::Idle(_) => "idle",
            Self::Quiet => "quiet",
            Self::Unclear => "unclear",
            Self::Lost => "lost",
            Self::Ask(_) => "ask",
            Self::AskGone { .. } | Self::RequestGone { .. } => "ask gone",
            Self::Blocked(_) => "blocked",
            Self::Retrying(_) => "retrying",
            Self::StopWanted { .. } => "wants to stop",
            Self::Said(_) => "message",
            Self::Tool(_) => "tool",
            Self::Wrote(_) => "artifact",
            Self::Used { .. } | Self::UsedBefore { .. } => "usage",
            Self::Replied { error: None, .. } => "done",
            Self::Replied { error: Some(_), .. } => "refused",
        }
    }
}

/// Why an agent begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StartSource {
    /// It was started.
    Startup,
    /// It goes on with an earlier conversation.
    Resume,
    /// Its conversation was cleared.
    Clear,
    /// Its conversation was made shorter.
    Compact,
}

impl StartSource {
    /// Returns the source's name in an agent's configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Clear => "clear",
            Self::Compact => "compact",
        }
    }
}

/// An ask as a driver sees it; the session gives it a name and a time.
#[derive(Clone, Debug, PartialEq)]
pub struct AskDraft {
    /// Its kind.
    pub kind: AskKind,
    /// The tool it is about.
    pub tool: Option<String>,
    /// What the tool is to be called with.
    pub input: Option<Value>,
    /// The heart of it in one line.
    pub preview: String,
    /// The questions.
    pub questions: Vec<Question>,
    /// What can be chosen.
    pub options: Vec<AskOption>,
    /// What the screen shows of it.
    pub screen_lines: Vec<String>,
    /// How an answer can reach the agent.
    pub reach: Reach,
}

/// How an answer can reach the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// The hook that reported it waits for the answer. Kept is what the answer must carry along.
    Hook {
        /// What the agent suggests for `always`.
        suggestions: Value,
    },
    /// The agent's control protocol waits for an answer to this request.
    Control {
        /// The request's name.
        request: String,
        /// What the agent suggests for `always`.
        suggestions: Value,
    },
    /// Only keys, for what is on the screen.
    Keys,
}
