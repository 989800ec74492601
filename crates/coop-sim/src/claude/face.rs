//! A face is what the agent shows to the outside: a screen, a stream of JSON, or a printed answer.

use super::engine::{Command, Millis};
use super::notice::Notice;

/// What happens to a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch<'a> {
    /// The process is up.
    Begin,
    /// One read of the input.
    Input(&'a [u8]),
    /// Nothing followed the last read for a moment.
    Pause,
    InputEnded,
    Resized(Size),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: usize,
    pub(crate) rows: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { cols: 80, rows: 24 }
    }
}

pub(crate) trait Face {
    /// Takes what happened; returns what it asks of the engine.
    fn touch(&mut self, touch: Touch<'_>) -> Vec<Command>;

    fn tell(&mut self, now: Millis, notice: &Notice);

    /// What is to be written now.
    fn draw(&mut self) -> Vec<u8>;

    /// Whether a [`Touch::Pause`] would mean something.
    fn is_waiting(&self) -> bool;

    /// The last words, and the exit code as this face sees it.
    fn leave(&mut self, code: i32) -> (Vec<u8>, i32);
}
