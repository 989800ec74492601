use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;

use crate::{Offset, Seq, Size};

/// How a reader follows one agent: the pulse says that something is new, the tap hands it out.
///
/// A reader keeps its own cursor and pulls. So a slow one costs nothing but its cursor, and can never slow the child.
#[derive(Clone)]
pub struct Feed {
    /// The newest of everything; wakes when any of it grows.
    pub pulse: watch::Receiver<Pulse>,
    /// The child's output by offset.
    pub tap: Arc<dyn Tap>,
}

/// The newest of everything a reader may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Where the output ends.
    pub written: Offset,
    /// The screen's sequence number.
    pub screen: Seq,
    /// The last event's sequence number.
    pub events: Seq,
    /// The terminal's size.
    pub size: Size,
    /// Whether the child has exited and all its output is in.
    pub ended: bool,
}

/// Hands out the child's output by offset, as far back as it is kept.
pub trait Tap: Send + Sync {
    /// Returns what there is at `from`.
    fn read(&self, from: Offset) -> Read;

    /// Returns the oldest offset still kept and the end of the output.
    fn range(&self) -> (Offset, Offset);
}

/// What a tap has at an offset.
#[derive(Clone, Debug)]
pub enum Read {
    /// The chunk that holds the offset; the first `skip` bytes of it lie before the offset.
    Chunk {
        /// The chunk, shared by all readers.
        chunk: Arc<Chunk>,
        /// How much of it the reader has seen.
        skip: usize,
    },
    /// These bytes are gone; reading can go on at `to`.
    Gap {
        /// The first byte that is gone.
        from: Offset,
        /// The oldest byte still kept.
        to: Offset,
    },
    /// Nothing yet.
    UpToDate,
}

/// A piece of the child's output.
pub struct Chunk {
    /// Where it begins.
    pub offset: Offset,
    /// The bytes.
    pub data: Bytes,
    /// The encoding for text transports, made once.
    pub text: Memo,
    /// The encoding for binary transports, made once.
    pub binary: Memo,
}

impl Chunk {
    /// Returns a chunk that nobody has encoded yet.
    pub fn new(offset: Offset, data: Bytes) -> Self {
        Self { offset, data, text: Memo::default(), binary: Memo::default() }
    }

    /// Returns the offset just past it.
    pub fn end(&self) -> Offset {
        self.offset.plus(self.data.len())
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({}..{})", self.offset, self.end())
    }
}

/// A place for one transport's encoding of a shared thing, so that it is made once for all clients.
#[derive(Default)]
pub struct Memo(OnceLock<Box<dyn Any + Send + Sync>>);

impl Memo {
    /// Returns the stored value, making it first if nobody has. A value of another type is made anew each time.
    pub fn get_or_make<T: Clone + Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> T {
        if let Some(stored) = self.0.get() {
            return stored.downcast_ref::<T>().cloned().unwrap_or_else(make);
        }
        let made = make();
        // Two readers may race here; both made the same value, so it does not matter whose is kept.
        let _ = self.0.set(Box::new(made.clone()));
        made
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "Memo(made)" } else { "Memo" })
    }
}
