use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::engine::Timestamp;

/// The time of day when we began, and how long ago that was. A clock that is set meanwhile moves nothing that is due. One that
/// was set back before we began puts nothing off: then we begin where the store ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Timestamp,
    at: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)), at: Instant::now() }
    }

    /// Begins no earlier than this.
    pub(super) fn not_before(self, last: Timestamp) -> Self {
        Self { began: self.began.max(last), ..self }
    }

    #[cfg(test)]
    pub(super) fn ahead(time: std::time::Duration) -> Self {
        let clock = Self::new();
        Self { began: clock.began.plus(time), ..clock }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.began.plus(self.at.elapsed())
    }

    /// Returns when a moment is; one that is past is now.
    pub(super) fn instant(&self, moment: Timestamp) -> Instant {
        self.at + std::time::Duration::from_millis(moment.0.saturating_sub(self.began.0))
    }
}
