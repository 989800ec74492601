//! Deadlines that were slept through, as by a process that got no processor for a while. Whoever wakes up too late looks at what
//! came meanwhile before it says that nothing came.

use std::time::{Duration, Instant};

/// A deadline that is seen so late was slept through; for so long what came before it is looked at.
const LATE: Duration = Duration::from_millis(100);

/// The last deadline that was slept through, and until when it is put off.
#[derive(Debug, Default)]
pub(crate) struct Lateness(Option<(Instant, Instant)>);

impl Lateness {
    /// Returns when to wake up for a deadline.
    pub(crate) fn wake_at(&self, due: Instant) -> Instant {
        self.put_off(due).unwrap_or(due)
    }

    /// Tells whether a deadline that is over is put off, which is done once.
    pub(crate) fn puts_off(&mut self, due: Instant, now: Instant) -> bool {
        let is_late = self.put_off(due).is_none() && now.saturating_duration_since(due) > LATE;
        if is_late {
            self.0 = Some((due, now + LATE));
        }
        is_late
    }

    /// Returns what time it is: not yet that of a deadline that is put off.
    pub(crate) fn clock(&self, now: Instant) -> Instant {
        match self.0 {
            Some((due, until)) if now < until => now.min(due - Duration::from_millis(1)),
            _ => now,
        }
    }

    fn put_off(&self, due: Instant) -> Option<Instant> {
        self.0.filter(|(of, _)| *of == due).map(|(_, until)| until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_was_slept_through_is_put_off_once_and_others_are_not() {
        let due = Instant::now() + Duration::from_secs(60);
        let after = |time| due + Duration::from_millis(time);
        let mut lateness = Lateness::default();
        assert!(!lateness.puts_off(due, after(0)) && !lateness.puts_off(due, after(100)), "nobody is that punctual");
        assert_eq!((lateness.wake_at(due), lateness.clock(after(100))), (due, after(100)));

        assert!(lateness.puts_off(due, after(5000)));
        assert_eq!(lateness.wake_at(due), after(5100));
        assert!(lateness.clock(after(5050)) < due, "what comes now came before it");
        assert!(!lateness.puts_off(due, after(5100)), "it cannot be put off for ever");
        assert_eq!(lateness.clock(after(5100)), after(5100));

        let next = after(6000);
        assert_eq!(lateness.wake_at(next), next);
        assert!(lateness.puts_off(next, after(7000)), "another is another");
    }
}
