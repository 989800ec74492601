//! What coop knows of each agent: pure functions, no clock, no I/O.
//!
//! A [`Driver`] turns what is seen of an agent into [`Signal`]s, and what somebody wants of it into [`Step`]s. The
//! [`Arbiter`] makes one state of the signals. The session does everything that touches the world.

mod arbiter;
mod artifact;
mod claude;
mod driver;
mod rules;
mod signal;

pub use arbiter::{Arbiter, Change, Verdict};
pub use artifact::artifact_kind;
pub use claude::Claude;
pub use driver::{
    Driver, Expected, FileToWrite, Label, Launch, Observation, OnScreen, Refusal, Retry, Runtime, Setup, Step,
    StopReply, View, Watch,
};
pub use rules::{RuleError, Rules};
pub use signal::{AskDraft, Meaning, Reach, Signal, StartSource};
