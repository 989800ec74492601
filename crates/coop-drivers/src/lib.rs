//! What coop knows of each agent: pure functions, no clock, no I/O.
//!
//! A [`Driver`] turns what is seen of an agent into [`Signal`]s, and what somebody wants of it into [`Step`]s. The
//! [`Arbiter`] makes one state of the signals. The session does everything that touches the world.

mod arbiter;
mod artifact;
mod claude;
mod driver;
mod fault;
mod gemini;
mod keys;
mod options;
mod program;
mod questions;
mod registry;
mod rules;
mod signal;
mod unknown;

pub use arbiter::{Arbiter, Change, Verdict};
pub use artifact::artifact_kind;
pub use driver::{
    Call, Companion, Driver, Expected, FileToWrite, Launch, Link, Observation, Refusal, Runtime, Say, Setup,
    SetupError, Step, StopReply, Variables, View, Watch,
};
pub use registry::{KNOWN, Known};
pub use rules::{RuleError, Rules};
pub use signal::{AskDraft, Meaning, Reach, Signal, StartSource};
pub use unknown::UNKNOWN;
