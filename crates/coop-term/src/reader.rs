//! Reads a terminal on a thread of its own.
//!
//! The kernel's buffer of a terminal is small: a child that floods it waits whenever nobody reads. So reading must not
//! wait for the screen to be drawn. What it brings on plain text is not settled: `make bench` gave 0.69 to 0.87 of a bare
//! drain in four runs on a noisy machine, and a single thread was last compared when the screen was slower.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

/// How much is handed over at once, at most.
const BLOCK: usize = 64 * 1024;
/// Blocks read ahead of the screen. Then the reader waits, and with it the child.
const AHEAD: usize = 4;

/// What a child writes, block by block.
#[derive(Debug)]
pub(crate) struct Reader {
    blocks: mpsc::Receiver<Vec<u8>>,
    used: Pool,
    /// Closed when this is dropped, which ends the thread.
    _stop: PipeWriter,
}

/// Memory to read into, used over and over.
type Pool = Arc<Mutex<Vec<Vec<u8>>>>;

impl Reader {
    pub(crate) fn start(terminal: OwnedFd) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let (sender, blocks) = mpsc::channel(AHEAD);
        let used = Pool::default();
        let pool = Arc::clone(&used);
        thread::Builder::new().name("reader".into()).spawn(move || read_all(&terminal, &stopped, &sender, &pool))?;
        Ok(Self { blocks, used, _stop: stop })
    }

    /// Waits for the next block; there is none once nobody has the terminal open any more. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        self.blocks.recv().await
    }

    /// Gives a block back to be read into again.
    pub(crate) fn recycle(&self, mut block: Vec<u8>) {
        block.clear();
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }
}

fn read_all(terminal: &OwnedFd, stopped: &PipeReader, blocks: &mpsc::Sender<Vec<u8>>, pool: &Pool) {
    let mut open = true;
    while open && wait(terminal, stopped) {
        let recycled = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut block = recycled.unwrap_or_else(|| Vec::with_capacity(BLOCK));
        open = fill(terminal, &mut block);
        if !block.is_empty() && blocks.blocking_send(block).is_err() {
            return;
        }
    }
}

/// Returns false when reading is to stop.
fn wait(terminal: &OwnedFd, stopped: &PipeReader) -> bool {
    loop {
        let mut fds = [PollFd::new(terminal, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => return fds[1].revents().is_empty(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Reads until there is nothing more or the block is full. Returns false at the end of the output.
fn fill(terminal: &OwnedFd, block: &mut Vec<u8>) -> bool {
    while block.len() < BLOCK {
        let room = rustix::buffer::spare_capacity(block);
        match rustix::io::read(terminal, room) {
            Ok(0) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            // What Linux says once the last process has closed the other side; other errors end it too.
            Err(_) => return false,
        }
    }
    true
}
