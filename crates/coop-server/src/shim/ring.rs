//! The newest events, numbered and encoded once. Each reader has a cursor of its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::extract::ws::Utf8Bytes;
use tokio::sync::watch;
use uuid::Uuid;

use super::types::{AdapterEvent, AgentEvent, Body, LifecycleAction};

/// How many events a client that comes late still gets.
pub(crate) const KEPT: usize = 1000;

/// The events of all runs of this shim.
pub(crate) struct Journal {
    inner: Mutex<Inner>,
    /// How many events there ever were; wakes readers.
    count: watch::Sender<u64>,
}

struct Inner {
    frames: VecDeque<Utf8Bytes>,
    run: String,
    sequence: u64,
    /// Whether the run is over: nothing of it is told after its end.
    is_over: bool,
    /// How many events were sent to somebody.
    sent: u64,
}

/// What a reader is to have next.
pub(crate) struct Page {
    pub(crate) frames: Vec<Utf8Bytes>,
    /// The cursor after it.
    pub(crate) end: u64,
    /// How many came before it that are kept no longer.
    pub(crate) missed: u64,
}

/// One run, for those who tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunId(pub(crate) String);

impl Journal {
    pub(crate) fn new() -> Self {
        let inner = Inner { frames: VecDeque::new(), run: String::new(), sequence: 0, is_over: true, sent: 0 };
        Self { inner: Mutex::new(inner), count: watch::Sender::new(0) }
    }

    /// Begins a run; its events are counted from 1.
    pub(crate) fn begin(&self) -> RunId {
        let run = Uuid::new_v4().to_string();
        let mut inner = self.lock();
        inner.run.clone_from(&run);
        inner.sequence = 0;
        inner.is_over = false;
        RunId(run)
    }

    /// Tells something of a run now.
    pub(crate) fn tell(&self, run: &RunId, agent_id: &str, body: Body) {
        self.tell_at(run, agent_id, body, now());
    }

    /// Tells something of a run, unless the run is over.
    pub(crate) fn tell_at(&self, run: &RunId, agent_id: &str, body: Body, at: String) {
        let mut inner = self.lock();
        if inner.is_over || inner.run != run.0 {
            return;
        }
        inner.is_over = ends_run(&body);
        inner.sequence += 1;
        let event = AdapterEvent {
            source_event_id: Uuid::new_v4().to_string(),
            source_sequence: inner.sequence,
            source_occurred_at: at,
            run_id: run.0.clone(),
            event: AgentEvent { agent_id: agent_id.to_owned(), body },
        };
        // Strings, numbers and maps with string keys: it cannot fail.
        let frame = serde_json::to_string(&event).unwrap_or_default();
        if inner.frames.len() == KEPT {
            inner.frames.pop_front();
        }
        inner.frames.push_back(frame.into());
        self.count.send_modify(|count| *count += 1);
    }

    /// Returns the number of the run's last event.
    pub(crate) fn sequence(&self, run: &RunId) -> u64 {
        let inner = self.lock();
        if inner.run == run.0 { inner.sequence } else { 0 }
    }

    /// Tells whether the run is over.
    pub(crate) fn is_over(&self, run: &RunId) -> bool {
        let inner = self.lock();
        inner.is_over || inner.run != run.0
    }

    /// Returns how many events nobody was sent yet.
    pub(crate) fn unsent(&self) -> u64 {
        let inner = self.lock();
        let count = *self.count.borrow();
        (count - inner.sent).min(inner.frames.len() as u64)
    }

    /// Notes that somebody was sent everything up to here.
    pub(crate) fn sent(&self, upto: u64) {
        let mut inner = self.lock();
        inner.sent = inner.sent.max(upto);
    }

    /// Returns what wakes a reader.
    pub(crate) fn pulse(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Returns what is kept beyond a cursor. A new reader has none.
    pub(crate) fn after(&self, cursor: Option<u64>) -> Page {
        let inner = self.lock();
        let count = *self.count.borrow();
        let first = count - inner.frames.len() as u64;
        let from = cursor.unwrap_or(first);
        let skip = from.saturating_sub(first).min(inner.frames.len() as u64) as usize;
        let frames = inner.frames.iter().skip(skip).cloned().collect();
        Page { frames, end: count, missed: first.saturating_sub(from) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What is in it is whole after every statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ends_run(body: &Body) -> bool {
    match body {
        Body::Completion { .. } => true,
        Body::Lifecycle { action, .. } => match action {
            LifecycleAction::Paused | LifecycleAction::Killed | LifecycleAction::Crashed => true,
            LifecycleAction::Started
            | LifecycleAction::Resumed
            | LifecycleAction::Idle
            | LifecycleAction::SessionStart
            | LifecycleAction::SessionEnd => false,
        },
        Body::Status { .. }
        | Body::ToolCall(_)
        | Body::Decision(_)
        | Body::Artifact(_)
        | Body::Error { .. }
        | Body::Progress { .. }
        | Body::Delegation(_) => false,
    }
}

/// Returns the time as the wire wants it.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::types::Outcome;

    fn status(text: &str) -> Body {
        Body::Status { message: text.to_owned() }
    }

    fn sequences(frames: &[Utf8Bytes]) -> Vec<u64> {
        let event = |frame: &Utf8Bytes| serde_json::from_str::<AdapterEvent>(frame).expect("an event");
        frames.iter().map(|frame| event(frame).source_sequence).collect()
    }

    #[test]
    fn the_newest_thousand_are_kept_and_every_cursor_is_its_own() {
        let journal = Journal::new();
        let run = journal.begin();
        (0..1500).for_each(|number| journal.tell(&run, "a", status(&number.to_string())));
        let Page { frames: late, end, .. } = journal.after(None);
        assert_eq!(sequences(&late), (501..=1500).collect::<Vec<_>>());
        assert_eq!((end, journal.unsent()), (1500, 1000));
        journal.tell(&run, "a", status("more"));
        assert_eq!(sequences(&journal.after(Some(end)).frames), [1501]);
        assert_eq!(sequences(&journal.after(Some(1498)).frames), [1499, 1500, 1501]);
        journal.sent(1501);
        // One that has had some and is too far behind is told so.
        let behind = |cursor| journal.after(cursor).missed;
        assert_eq!([behind(None), behind(Some(501)), behind(Some(400))], [0, 0, 101]);
        assert_eq!((journal.unsent(), journal.after(Some(1501)).frames.len()), (0, 0));
    }

    #[test]
    fn nothing_follows_the_end_of_a_run_and_the_next_begins_at_one() {
        let journal = Journal::new();
        let first = journal.begin();
        let done = || Body::Completion {
            summary: String::new(),
            artifacts_produced: vec![],
            decisions_needed: vec![],
            outcome: Outcome::Success,
            reason: None,
        };
        for body in [status("one"), done(), done(), status("late")] {
            journal.tell(&first, "a", body);
        }
        assert!(journal.is_over(&first));
        let second = journal.begin();
        journal.tell(&first, "a", status("very late"));
        journal.tell(&second, "a", status("one"));
        assert_eq!(sequences(&journal.after(None).frames), [1, 2, 1]);
        assert!(first != second && journal.sequence(&second) == 1 && journal.sequence(&first) == 0);
    }
}
