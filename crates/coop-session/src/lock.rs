//! The write lock: one writer at a time, and none for ever.

use std::time::{Duration, Instant};

use coop_api::{Error, ErrorCode, WriterId};

/// A holder that neither types nor asks again for this long has forgotten the lock.
const LEASE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct WriteLock {
    held: Option<(WriterId, Instant)>,
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

    /// Lets a writer type: nobody else may hold the lock, and a holder's lease begins anew.
    pub(crate) fn check(&mut self, writer: WriterId, now: Instant) -> Result<(), Error> {
        match self.held {
            Some((holder, until)) if now < until && holder != writer => {
                let left = until.duration_since(now).as_secs() + 1;
                Err(Error::new(
                    ErrorCode::WriterBusy,
                    format!("another client holds the write lock; try again when it is released, or in {left} s"),
                ))
            }
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
}
