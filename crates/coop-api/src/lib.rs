//! The words of coop, and the one port that every transport speaks to.
//!
//! Nothing here does anything: no clock, no I/O, no wire format. A session implements [`Agents`] for one agent, a
//! fleet for many, and every transport is a codec over it.
#![warn(missing_docs)]

/// The version of what a sidecar and a daemon say to each other. It grows when one that knows less could do harm: when a
/// word means something else, or must not be passed over.
pub const PROTOCOL: u32 = 1;

mod agent;
mod ask;
mod delivery;
mod error;
mod event;
mod feed;
mod ids;
mod own;
mod port;
mod preview;
mod recording;
mod screen;
mod shorten;
mod style;
mod token;
mod usage;
mod visible;

pub use agent::{
    AgentReport, AgentState, Capability, Evidence, EvidenceSource, Explanation, Fault, FaultKind, Heard, PermissionMode,
};
pub use ask::{Answer, Ask, AskChannel, AskId, AskKind, AskOption, OptionKind, Question, QuestionAnswer, Shown};
pub use delivery::{Answered, Nudge, NudgeId, Receipt, When};
pub use error::{Error, ErrorCode};
pub use event::{
    Artifact, AskChange, Event, EventBody, EventPage, FaultReport, Lifecycle, Message, Retry, Role, StateChange,
    StopOutcome, StopVerdict, ToolPhase, ToolUse, Turn, TurnOutcome,
};
pub use feed::{Chunk, Feed, Memo, Pulse, Read, Tap};
pub use ids::{AgentId, Epoch, Offset, Seq, WriterId, lasting_hash};
pub use own::{OWN_AGENT_PREFIXES, is_coop_variable, is_own_agent_setting};
pub use port::{
    Agents, Configure, Dump, Health, History, HookCall, Input, LockAction, NudgeRequest, ProcessState, Reply, Request,
    Signal, Status, StopDecision, Written,
};
pub use preview::preview;
pub use recording::older_part;
pub use screen::{Cursor, CursorShape, Line, Modes, Mouse, Run, Screen, Size, SizeError};
pub use shorten::{MESSAGE_BYTES, TOOL_BYTES};
pub use style::{Color, Style, Underline};
pub use token::Token;
pub use usage::{Usage, UsageReport};
pub use visible::{is_hidden, visible, visible_json, visible_line};
