//! How a store is, for those who only want to know that.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A write that takes longer than this is worth a word.
const SLOW: Duration = Duration::from_secs(1);

/// Told by whoever has the store, and looked at by everybody, without waiting for it.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    beat: Mutex<Beat>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Beat {
    /// Since when something is being done.
    busy: Option<Instant>,
    /// Since when the server cannot be reached, and why.
    lost: Option<(Instant, String)>,
    /// Nobody waits for it any more.
    given_up: bool,
}

/// How a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As it should be.
    Fine,
    /// It is at one thing for so long.
    Slow(Duration),
    /// Its server cannot be reached for so long. It is tried again and again; nothing is lost, and nothing goes on.
    Lost(Duration, String),
}

impl Pulse {
    /// Returns how the store is now.
    pub fn condition(&self) -> Condition {
        let beat = self.beat();
        match (&beat.lost, beat.busy) {
            (Some((since, why)), _) => Condition::Lost(since.elapsed(), why.clone()),
            (None, Some(since)) if since.elapsed() > SLOW => Condition::Slow(since.elapsed()),
            (None, _) => Condition::Fine,
        }
    }

    /// Lets a store that waits for its server end with an error instead.
    pub fn give_up(&self) {
        self.beat().given_up = true;
        self.0.changed.notify_all();
    }

    pub(super) fn during<T>(&self, act: impl FnOnce() -> T) -> T {
        self.beat().busy = Some(Instant::now());
        let done = act();
        self.beat().busy = None;
        done
    }

    pub(super) fn lost(&self, why: &str) {
        let mut beat = self.beat();
        let since = beat.lost.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        beat.lost = Some((since, why.to_owned()));
    }

    pub(super) fn found(&self) {
        self.beat().lost = None;
    }

    /// Waits before the next try. Returns whether there is to be one.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let waited = self.0.changed.wait_timeout_while(self.beat(), time, |beat| !beat.given_up);
        !waited.unwrap_or_else(PoisonError::into_inner).0.given_up
    }

    fn beat(&self) -> MutexGuard<'_, Beat> {
        // It is whole between any two statements that hold the lock.
        self.0.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
