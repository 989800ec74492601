//! A child on a PTY and what its screen shows.
//!
//! [`Child`] runs a program on a terminal of its own. [`Screen`] turns its output into what a person would see, and
//! answers the questions programs ask their terminal. [`Ring`] keeps the newest output by offset. [`encode_keys`] and
//! [`encode_paste`] turn what a person does into bytes.

mod keys;
mod process;
mod pty;
mod ring;
mod screen;
mod width;

pub use keys::{KeyError, encode_keys, encode_paste};
pub use process::{Exit, Target, session_is_empty, signal_session};
pub use pty::{Access, Child, ChildEvent, Command, Output, SET_IN_SANDBOX, Sandbox, SpawnError, Streams, Wants};
pub use ring::Ring;
pub use screen::{FrameId, Screen};
pub use width::char_width;
