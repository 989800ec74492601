//! Bytes: from the child to the screen and the ring, and to the child from the queue.

use std::io;
use std::time::Instant;

use coop_api::{Error, ErrorCode};
use coop_term::{Child, Output, Screen};
use serde_json::Value;

use super::Session;
use crate::handle::Queries;

/// How much output is read before those who follow it are told. Requests get their turn sooner.
const BATCH: usize = 64 * 1024;
/// What the kernel gives at once, at most.
const READ: usize = 4096;
/// What is read into.
pub(super) const BUFFER: usize = BATCH + READ;
/// How much of an ended child's output is read at least, if there is so much: more than the kernel keeps of what a
/// terminal was written.
const LAST_WORDS: usize = 2 * BATCH;

impl Session {
    /// Reads what there is, but not for long, and returns how much that was.
    pub(super) fn read(&mut self) -> usize {
        self.read_by(Child::read)
    }

    fn read_by(&mut self, read: impl Fn(&Child, &mut [u8]) -> Output) -> usize {
        let Some(running) = &mut self.child else { return 0 };
        let mut filled = 0;
        while filled < BATCH && !running.at_end && (filled == 0 || self.mail.is_empty()) {
            match read(&running.child, &mut self.buffer[filled..]) {
                Output::Bytes(length) => {
                    // At once: while these bytes are looked at, the kernel brings the next.
                    self.screen.feed(&self.buffer[filled..filled + length]);
                    filled += length;
                }
                Output::Nothing => break,
                Output::End => running.at_end = true,
            }
        }
        if running.at_end {
            std::mem::take(&mut running.queue).fail(&Error::exited());
        }
        let finished = running.at_end && running.drain_until.is_some();
        if filled > 0 {
            self.last_activity = Instant::now();
            self.last_output = self.last_activity;
            self.ring.push(&self.buffer[..filled]);
            self.answer_queries();
            self.screen_changed();
        }
        if finished {
            self.finish_child();
        }
        filled
    }

    /// Reads what the child wrote before it ended, however late we come to it. Who still has the terminal open may write
    /// without end, and is not listened to any longer.
    pub(super) fn read_last_words(&mut self) {
        let mut read = 0;
        while read < LAST_WORDS {
            match self.read_by(Child::read_unreported) {
                0 => return,
                more => read += more,
            }
        }
    }

    /// Takes in bytes that no child wrote.
    pub(crate) fn output(&mut self, bytes: &[u8]) {
        self.screen.end_frame();
        self.screen.feed(bytes);
        self.ring.push(bytes);
        self.answer_queries();
        self.screen_changed();
    }

    /// Passes the terminal's answers on. To be called whenever the screen may have obeyed something; without a child
    /// there is nobody to answer any more.
    pub(crate) fn answer_queries(&mut self) {
        let answers = self.screen.take_replies();
        if answers.is_empty() || self.options.queries == Queries::Left {
            return;
        }
        if let Some(running) = &mut self.child {
            running.queue.push_answer(&answers);
            self.write();
        }
    }

    /// Reads the lines an agent writes to its pipe, but not for long, and returns how much that was.
    pub(super) fn read_pipe(&mut self) -> usize {
        let Some(running) = &mut self.child else { return 0 };
        let mut taken = 0;
        while taken < BATCH && !running.pipe_at_end {
            match running.child.read_pipe(&mut self.buffer) {
                Output::Bytes(length) => {
                    running.line.extend_from_slice(&self.buffer[..length]);
                    taken += length;
                }
                Output::Nothing => break,
                Output::End => running.pipe_at_end = true,
            }
        }
        if taken > 0 {
            self.last_activity = Instant::now();
            self.last_output = self.last_activity;
            self.take_pipe_lines();
        }
        taken
    }

    /// Takes in what an agent has written to its pipe before something else that is heard of it now.
    pub(crate) fn drain_pipe(&mut self) {
        let mut taken = 0;
        while taken < LAST_WORDS {
            match self.read_pipe() {
                0 => return,
                more => taken += more,
            }
        }
    }

    pub(crate) fn write_pipe(&mut self) {
        let Some(running) = &mut self.child else { return };
        while !running.outbox.is_empty() {
            match running.child.write_pipe(&running.outbox) {
                Ok(0) => return,
                Ok(written) => {
                    running.outbox.drain(..written);
                    running.unsent.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(written));
                    self.bytes_written += written as u64;
                }
                // It has closed its input; its end will follow.
                Err(_) => {
                    running.outbox.clear();
                    running.unsent.clear();
                }
            }
        }
    }

    /// Returns the next message that is written, whole.
    pub(crate) fn next_sent(&mut self) -> Option<Value> {
        let running = self.child.as_mut()?;
        let is_out = running.unsent.front().is_some_and(|(left, _)| *left == 0);
        if is_out { running.unsent.pop_front().map(|(_, message)| message) } else { None }
    }

    pub(crate) fn screen_changed(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.screen_changed(Instant::now());
        }
        self.frame_deadline = self.screen.open_frame().map(|frame| match self.frame_deadline {
            Some((known, deadline)) if known == frame => (known, deadline),
            _ => (frame, Instant::now() + Screen::FRAME_PATIENCE),
        });
        self.publish();
    }

    pub(crate) fn write(&mut self) {
        let Some(running) = &mut self.child else { return };
        let child = &running.child;
        match running.queue.flush(|bytes| child.write(bytes)) {
            Ok(0) => {}
            Ok(written) => {
                self.bytes_written += written as u64;
                self.last_activity = Instant::now();
            }
            // The terminal is closed; the child's end will follow.
            Err(error) => self.drop_input(&error),
        }
    }

    fn drop_input(&mut self, error: &io::Error) {
        if let Some(running) = &mut self.child {
            let queue = std::mem::take(&mut running.queue);
            queue.fail(&Error::new(ErrorCode::Exited, format!("the child's terminal is closed: {error}")));
        }
    }
}
