//! What happens in a run, step by step.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{ErrorKind, Metrics, Part, StopReason, ToolResult, ToolUse, Usage};

/// A step of a run. Each can be told to people as it is, or translated to another program's events.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The model is called; the first turn is 1.
    Call {
        /// The number of this call.
        turn: u32,
    },
    /// A piece of what the model says, while it says it. Only told to those who ask for it.
    Delta(Delta),
    /// A call failed and is made again after a while.
    Retry {
        /// The number of the attempt that failed; the first is 1.
        attempt: u32,
        /// How long until the next.
        wait: Duration,
        /// What kind of failure it was.
        kind: ErrorKind,
        /// What happened.
        message: String,
    },
    /// The model has answered.
    Reply {
        /// The number of the call.
        turn: u32,
        /// All it said.
        parts: Vec<Part>,
        /// Why it stopped.
        stop: StopReason,
        /// The tokens of this call.
        usage: Usage,
        /// Its cost in US dollars, if the price is known.
        cost: Option<f64>,
    },
    /// A tool begins.
    ToolStart(ToolUse),
    /// A tool has ended, or was not run at all.
    ToolEnd {
        /// The tool's name.
        name: String,
        /// What the model is told.
        result: ToolResult,
        /// How long it took.
        took: Duration,
    },
    /// The run is over.
    End {
        /// How, in one word; see [`Exit::as_str`](crate::Exit::as_str).
        exit: &'static str,
        /// What it took.
        metrics: Metrics,
    },
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Words.
    Text(String),
    /// Thoughts.
    Thinking(String),
}

/// Who is told what happens: nobody, or one function.
///
/// The function is called inside the run and must not block. To have a channel, send from it:
///
/// ```
/// use coop_llm::{Event, Events};
///
/// let (sender, receiver) = std::sync::mpsc::sync_channel(1024);
/// let events = Events::to(move |event| drop(sender.try_send(event)));
/// events.tell(Event::Call { turn: 1 });
/// assert_eq!(receiver.recv(), Ok(Event::Call { turn: 1 }));
/// ```
#[derive(Clone, Default)]
pub struct Events {
    listener: Option<Arc<dyn Fn(Event) + Send + Sync>>,
    deltas: bool,
}

impl Events {
    /// Tells a function of every step.
    pub fn to(listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(listener)), deltas: false }
    }

    /// Tells of pieces of answers too. The price: a call that breaks after its first piece is not made again, because what
    /// was told cannot be taken back.
    pub fn with_deltas(mut self) -> Self {
        self.deltas = true;
        self
    }

    /// Returns whether there is somebody to tell.
    pub(crate) fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    /// Tells of a step.
    pub fn tell(&self, event: Event) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    /// Tells of a piece, and returns whether somebody heard it.
    pub fn tell_delta(&self, delta: Delta) -> bool {
        let heard = self.deltas && self.listener.is_some();
        if heard {
            self.tell(Event::Delta(delta));
        }
        heard
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("heard", &self.listener.is_some()).field("deltas", &self.deltas).finish()
    }
}
