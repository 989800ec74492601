//! The write lock: one writer at a time, and none for ever.

use std::time::{Duration, Instant};

use coop_api::{Error, ErrorCode, WriterId};

/// A holder that neither types nor asks again for this long has forgotten the lock.
const LEASE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct WriteLock {
    held: Option<(WriterId, Instant)>,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    holder: WriterId,
    until: Instant,
}

impl Held {
    /// Lets the holder type, and nobody else.
    pub(crate) fn check(self, writer: WriterId, now: Instant) -> Result<(), Error> {
        if writer == self.holder { Ok(()) } else { Err(self.refusal(now)) }
    }

    fn refusal(self, now: Instant) -> Error {
        let left = self.until.saturating_duration_since(now).as_secs() + 1;
        let why = format!("another client holds the write lock; try again when it is released, or in {left} s");
        Error::new(ErrorCode::WriterBusy, why)
    }
}

impl WriteLock {
    /// Takes the lock, or keeps it for another lease.
    pub(crate) fn acquire(&mut self, writer: WriterId, now: Instant) -> Result<(), Error> {
        self.check(writer, now)?;
        self.held = Some((writer, now + LEASE));
        Ok(())
    }

    /// Gives the lock back; a no-op for those who do not hold it.
    pub(crate) fn release(&mut self, writer: WriterId) {
        if matches!(self.held, Some((holder, _)) if holder == writer) {
            self.held = None;
        }
    }

    /// Returns who holds the lock, and until when.
    pub(crate) fn held(&self, now: Instant) -> Option<Held> {
        self.held.filter(|(_, until)| now < *until).map(|(holder, until)| Held { holder, until })
    }

    /// Returns when a forgotten lock is released.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.map(|(_, until)| until)
    }

    /// Releases a lock that was forgotten, and tells whether there was one.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        self.held.take_if(|(_, until)| *until <= now).is_some()
    }

    /// Lets a writer type: nobody else may hold the lock, and a holder's lease begins anew.
    pub(crate) fn check(&mut self, writer: WriterId, now: Instant) -> Result<(), Error> {
        match self.held {
            Some((holder, until)) if now < until && holder != writer => Err(Held { holder, until }.refusal(now)),
            Some((holder, until)) if now < until => {
                self.held = Some((holder, now + LEASE));
                Ok(())
            }
            _ => {
                self.held = None;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: WriterId = WriterId(1);
    const TWO: WriterId = WriterId(2);

    #[test]
    fn one_writer_at_a_time() {
        let now = Instant::now();
        let mut lock = WriteLock::default();
        assert!(lock.check(ONE, now).is_ok());
        lock.acquire(ONE, now).expect("the lock is free");
        assert!(lock.check(ONE, now).is_ok());
        assert_eq!(lock.acquire(TWO, now).map_err(|error| error.code), Err(ErrorCode::WriterBusy));
        lock.release(TWO);
        assert!(lock.check(TWO, now).is_err());
        lock.release(ONE);
        assert!(lock.check(TWO, now).is_ok());
    }

    #[test]
    fn a_forgotten_lock_is_released_and_a_used_one_is_not() {
        let now = Instant::now();
        let mut lock = WriteLock::default();
        lock.acquire(ONE, now).expect("the lock is free");
        lock.check(ONE, now + LEASE / 2).expect("the holder may type");
        assert!(lock.check(TWO, now + LEASE).is_err());
        assert!(lock.check(TWO, now + LEASE * 2).is_ok());
    }

    #[test]
    fn a_forgotten_lock_expires_once() {
        let now = Instant::now();
        let mut lock = WriteLock::default();
        assert!(!lock.expire(now) && lock.deadline().is_none());
        lock.acquire(ONE, now).expect("the lock is free");
        assert!(!lock.expire(now) && lock.held(now).is_some_and(|held| held.check(TWO, now).is_err()));
        assert_eq!(lock.deadline(), Some(now + LEASE));
        assert!(lock.held(now + LEASE).is_none() && lock.expire(now + LEASE) && !lock.expire(now + LEASE));
    }
}
