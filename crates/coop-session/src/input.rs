//! What waits to be written to one child's terminal.
//!
//! The queue belongs to its child: when the child goes, the queue goes with it, so nothing typed for one child can
//! reach the next.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coop_api::{Error, ErrorCode, Reply, Written};
use tokio::sync::oneshot;

/// How much may wait for a child that does not read.
const MAX_QUEUED: usize = 32 * 1024 * 1024;
/// How many inputs may wait, however short.
const MAX_ENTRIES: usize = 16 * 1024;
/// How many bytes of the terminal's answers may wait.
const MAX_ANSWERS: usize = 64 * 1024;
/// How long a writer waits for the child to read before it is told how far its input came.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) type WriteReply = oneshot::Sender<Result<Reply, Error>>;

#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    entries: VecDeque<Entry>,
    queued: usize,
    /// The terminal's own answers, which come before every input that has not begun.
    answers: VecDeque<u8>,
}

#[derive(Debug)]
struct Entry {
    bytes: Bytes,
    written: usize,
    asked: Option<(WriteReply, Instant)>,
}

impl InputQueue {
    /// Queues one input, whole, or refuses it.
    pub(crate) fn push(&mut self, bytes: Bytes, reply: WriteReply, now: Instant) {
        if self.queued + bytes.len() > MAX_QUEUED || self.entries.len() >= MAX_ENTRIES {
            let message =
                format!("{} bytes wait for the child, which is not reading; send less or try again later", self.queued);
            let _ = reply.send(Err(Error::new(ErrorCode::WriterBusy, message)));
            return;
        }
        self.queued += bytes.len();
        self.entries.push_back(Entry { bytes, written: 0, asked: Some((reply, now + PATIENCE)) });
    }

    /// Queues the terminal's own answer before everything that has not begun; no input is torn apart by it. A child that
    /// asks and does not read gets no more than so many.
    pub(crate) fn push_answer(&mut self, bytes: &[u8]) {
        if self.answers.len() + bytes.len() <= MAX_ANSWERS {
            self.answers.extend(bytes);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.answers.is_empty()
    }

    /// Writes as much as `write` takes and answers those whose input is through. Returns how much was written.
    pub(crate) fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut total = 0;
        loop {
            let begun = self.entries.front().is_some_and(|entry| entry.written > 0);
            if !begun && !self.answers.is_empty() {
                let taken = write(self.answers.as_slices().0)?;
                self.answers.drain(..taken);
                total += taken;
                if taken == 0 {
                    return Ok(total);
                }
                continue;
            }
            let Some(entry) = self.entries.front_mut() else { return Ok(total) };
            if entry.written < entry.bytes.len() {
                let taken = write(&entry.bytes[entry.written..])?;
                entry.written += taken;
                self.queued -= taken;
                total += taken;
                if taken == 0 {
                    return Ok(total);
                }
            }
            if entry.written == entry.bytes.len()
                && let Some(Entry { written, asked: Some((reply, _)), .. }) = self.entries.pop_front()
            {
                let _ = reply.send(Ok(Reply::Written(Written { bytes_written: written as u64, queued: 0 })));
            }
        }
    }

    /// Returns when the next waiting writer loses patience.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.entries.iter().find_map(|entry| entry.asked.as_ref().map(|(_, until)| *until))
    }

    /// Tells writers that have waited too long how far their input came. It stays queued.
    pub(crate) fn tell_impatient(&mut self, now: Instant) {
        for entry in &mut self.entries {
            if entry.asked.as_ref().is_some_and(|(_, until)| *until <= now)
                && let Some((reply, _)) = entry.asked.take()
            {
                let queued = (entry.bytes.len() - entry.written) as u64;
                let _ = reply.send(Ok(Reply::Written(Written { bytes_written: entry.written as u64, queued })));
            }
        }
    }

    /// Fails everyone who still waits.
    pub(crate) fn fail(self, error: &Error) {
        for (reply, _) in self.entries.into_iter().filter_map(|entry| entry.asked) {
            let _ = reply.send(Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(answer: &mut oneshot::Receiver<Result<Reply, Error>>) -> Option<Written> {
        match answer.try_recv() {
            Ok(Ok(Reply::Written(written))) => Some(written),
            _ => None,
        }
    }

    fn all(queue: &mut InputQueue) -> Vec<u8> {
        let mut child = Vec::new();
        let taken = queue.flush(|bytes| {
            child.extend_from_slice(bytes);
            Ok(bytes.len())
        });
        assert_eq!(taken.expect("the child never fails"), child.len());
        child
    }

    proptest! {
        #[test]
        fn inputs_arrive_whole_and_in_order_whatever_the_child_takes(
            inputs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20),
            takes in prop::collection::vec(0_usize..30, 1..50),
        ) {
            let now = Instant::now();
            let mut queue = InputQueue::default();
            let mut replies = Vec::new();
            for input in &inputs {
                let (reply, answer) = oneshot::channel();
                queue.push(Bytes::copy_from_slice(input), reply, now);
                replies.push(answer);
            }
            let mut child = Vec::new();
            for take in takes {
                queue.flush(|bytes| {
                    let taken = take.min(bytes.len());
                    child.extend_from_slice(&bytes[..taken]);
                    Ok(taken)
                }).expect("the child never fails");
            }
            queue.flush(|bytes| { child.extend_from_slice(bytes); Ok(bytes.len()) }).expect("the child never fails");
            prop_assert_eq!(child, inputs.concat());
            prop_assert_eq!(queue.queued, 0);
            for (input, mut answer) in inputs.iter().zip(replies) {
                prop_assert_eq!(told(&mut answer), Some(Written { bytes_written: input.len() as u64, queued: 0 }));
            }
        }
    }

    #[test]
    fn an_answer_waits_for_the_input_that_has_begun_and_for_no_other() {
        let now = Instant::now();
        let mut queue = InputQueue::default();
        queue.push(Bytes::from_static(b"first"), oneshot::channel().0, now);
        queue.push(Bytes::from_static(b"second"), oneshot::channel().0, now);
        let mut child = Vec::new();
        let mut budget = 2;
        queue
            .flush(|bytes| {
                let taken = std::mem::take(&mut budget).min(bytes.len());
                child.extend_from_slice(&bytes[..taken]);
                Ok(taken)
            })
            .expect("the child never fails");
        queue.push_answer(b"<1>");
        queue.push_answer(b"<2>");
        queue
            .flush(|bytes| {
                child.extend_from_slice(bytes);
                Ok(bytes.len())
            })
            .expect("the child never fails");
        assert_eq!(child, b"first<1><2>second");
    }

    /// An input whose writer had lost patience was taken for an answer, and the next answer came after it.
    #[test]
    fn an_answer_comes_before_input_whose_writer_has_gone() {
        let now = Instant::now();
        let mut queue = InputQueue::default();
        queue.push(Bytes::from_static(b"typed"), oneshot::channel().0, now);
        queue.tell_impatient(now + PATIENCE);
        queue.push_answer(b"<1>");
        queue.push_answer(b"<2>");
        assert_eq!(all(&mut queue), b"<1><2>typed");
    }

    #[test]
    fn answers_for_a_child_that_does_not_read_are_few() {
        let mut queue = InputQueue::default();
        for _ in 0..1 << 20 {
            queue.push_answer(b"\x1b[1;1R");
        }
        let answers = all(&mut queue);
        assert!(answers.len() <= MAX_ANSWERS && answers.len() + 6 > MAX_ANSWERS, "{}", answers.len());
        assert!(queue.is_empty() && answers.chunks(6).all(|answer| answer == b"\x1b[1;1R"), "an answer is whole");
    }

    #[test]
    fn an_impatient_writer_is_told_and_its_input_stays() {
        let now = Instant::now();
        let mut queue = InputQueue::default();
        let (reply, mut answer) = oneshot::channel();
        queue.push(Bytes::from_static(b"hello"), reply, now);
        queue.tell_impatient(now + PATIENCE / 2);
        assert_eq!(told(&mut answer), None);
        queue.tell_impatient(now + PATIENCE);
        assert_eq!(told(&mut answer), Some(Written { bytes_written: 0, queued: 5 }));
        assert_eq!(all(&mut queue), b"hello");
    }
}
