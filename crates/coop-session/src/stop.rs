//! Ending a child: ask, insist, force.

use std::time::{Duration, Instant};

use rustix::process::Signal;

/// After this much of the grace a child that ignored the hang-up is told to terminate.
const INSIST_AFTER: u32 = 10;

/// How far the ending of a child has come.
#[derive(Debug)]
pub(crate) struct Stop {
    began: Instant,
    grace: Duration,
    sent: Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Nothing,
    HangUp,
    Terminate,
    Kill,
}

impl Stop {
    pub(crate) fn new(now: Instant, grace: Duration) -> Self {
        Self { began: now, grace, sent: Sent::Nothing }
    }

    /// Returns the signal that is due, once.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Signal> {
        let (signal, sent) = match self.sent {
            Sent::Nothing => (Signal::HUP, Sent::HangUp),
            Sent::HangUp if now >= self.began + self.grace / INSIST_AFTER => (Signal::TERM, Sent::Terminate),
            Sent::Terminate if now >= self.began + self.grace => (Signal::KILL, Sent::Kill),
            Sent::HangUp | Sent::Terminate | Sent::Kill => return None,
        };
        self.sent = sent;
        Some(signal)
    }

    /// Returns when the next signal is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.sent {
            Sent::Nothing => Some(self.began),
            Sent::HangUp => Some(self.began + self.grace / INSIST_AFTER),
            Sent::Terminate => Some(self.began + self.grace),
            Sent::Kill => None,
        }
    }

    /// Goes straight to the end.
    pub(crate) fn force(&mut self) {
        self.sent = Sent::Terminate;
        self.grace = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_asked_then_told_then_killed() {
        let now = Instant::now();
        let grace = Duration::from_secs(10);
        let mut stop = Stop::new(now, grace);
        assert_eq!(stop.due(now), Some(Signal::HUP));
        assert_eq!(stop.due(now), None);
        assert_eq!(stop.deadline(), Some(now + grace / 10));
        assert_eq!(stop.due(now + grace / 10), Some(Signal::TERM));
        assert_eq!(stop.due(now + grace / 2), None);
        assert_eq!(stop.due(now + grace), Some(Signal::KILL));
        assert_eq!(stop.deadline(), None);
    }

    #[test]
    fn force_kills_at_once() {
        let now = Instant::now();
        let mut stop = Stop::new(now, Duration::from_secs(10));
        stop.due(now);
        stop.force();
        assert_eq!(stop.due(now), Some(Signal::KILL));
    }
}
