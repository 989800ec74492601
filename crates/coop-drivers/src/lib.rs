//! What coop knows of each agent: pure functions, no clock, no I/O.
//!
//! A [`Driver`] turns what is seen of an agent into [`Signal`]s, and what somebody wants of it into [`Step`]s. The
//! [`Arbiter`] makes one state of the signals. The session does everything that touches the world.

mod acp;
mod api;
mod arbiter;
mod artifact;
mod claude;
mod codex;
mod driver;
mod fault;
mod gemini;
mod keys;
mod mcp;
mod modes;
mod opencode;
mod options;
mod program;
mod questions;
mod recent;
mod registry;
mod rules;
mod service;
mod signal;
mod tools;
mod unknown;
mod wrap;

pub use arbiter::{Arbiter, Change, Verdict};
pub use artifact::artifact_kind;
pub use claude::{Doing, Guest, guest_settings};
pub use driver::{
    Call, Companion, Driver, Existing, Expected, FileToWrite, Heeds, Label, Launch, Link, Observation, OnScreen, Ready,
    Refusal, Retry, Runtime, Say, ScreenKind, Setup, SetupError, Step, StopReply, TITLE_LEAD, Variables, View, Watch,
};
pub use keys::comparable;
pub use mcp::{McpServer, McpWay};
pub use modes::OwnMode;
pub use options::merge;
pub use registry::{KNOWN, Known, Login};
pub use rules::{RuleError, Rules, filled_rows};
pub use service::{Allowed, Ended, Serve, Served, Service};
pub use signal::{AskDraft, Meaning, Reach, Signal, StartSource};
pub use tools::{NamedTool, Tool, Unasked};
pub use unknown::UNKNOWN;
pub use wrap::{At, Chosen, Conversation, Plan, Wrapped, claude_logs};
