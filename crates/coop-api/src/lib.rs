//! The words of coop, and the one port that every transport speaks to.
//!
//! Nothing here does anything: no clock, no I/O, no wire format. A session implements [`Agents`] for one agent, a
//! fleet for many, and every transport is a codec over it.
#![warn(missing_docs)]

mod agent;
mod error;
mod event;
mod feed;
mod ids;
mod port;
mod screen;
mod style;

pub use agent::{AgentReport, AgentState, Evidence, EvidenceSource};
pub use error::{Error, ErrorCode};
pub use event::{Event, EventBody, EventPage, Lifecycle};
pub use feed::{Chunk, Feed, Memo, Pulse, Read, Tap};
pub use ids::{AgentId, Epoch, Offset, Seq, WriterId};
pub use port::{
    Agents, Answer, Delivery, Dump, Health, History, Input, LockAction, ProcessState, Reply, Request, Signal, Status,
    Written,
};
pub use screen::{Cursor, CursorShape, Line, Modes, Mouse, Run, Screen, Size, SizeError};
pub use style::{Color, Style, Underline};
