//! The newest output of a child, by offset.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use coop_api::{Chunk, Offset, Read, Tap};

/// More chunks than this are joined, so that a child that writes byte by byte does not cost a hundred times its output.
const MAX_CHUNKS: usize = 512;
/// How long joined chunks may become.
const MAX_JOINED: usize = 64 * 1024;

/// Keeps the newest output. One writer appends, any number of readers follow with a cursor of their own.
pub struct Ring {
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
    end: Offset,
    /// The memory of the last chunk that went. Without it a flood would make the allocator take pages from the system
    /// and give them back for every chunk.
    spare: BytesMut,
}

impl Ring {
    /// Returns an empty ring that keeps at least the last `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, kept: Mutex::default() }
    }

    /// Appends a piece of output and returns where the output now ends.
    pub fn push(&self, data: &[u8]) -> Offset {
        let mut kept = self.lock();
        if data.is_empty() {
            return kept.end;
        }
        while let Some(oldest) = kept.chunks.front()
            && kept.bytes - oldest.data.len() + data.len() >= self.capacity
        {
            kept.drop_oldest();
        }
        let mut copy = std::mem::take(&mut kept.spare);
        copy.clear();
        copy.extend_from_slice(data);
        let chunk = Chunk::new(kept.end, copy.freeze());
        kept.bytes += chunk.data.len();
        kept.end = chunk.end();
        kept.chunks.push_back(Arc::new(chunk));
        if kept.chunks.len() > MAX_CHUNKS {
            kept.join();
        }
        kept.end
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // The lock is never held across a panic that leaves it half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn drop_oldest(&mut self) {
        let Some(oldest) = self.chunks.pop_front() else { return };
        self.bytes -= oldest.data.len();
        // Unless a reader still has it.
        if let Some(memory) = Arc::into_inner(oldest).and_then(|chunk| chunk.data.try_into_mut().ok()) {
            self.spare = memory;
        }
    }

    fn join(&mut self) {
        let mut joined: VecDeque<Arc<Chunk>> = VecDeque::new();
        let mut open: Option<(Offset, BytesMut)> = None;
        for chunk in self.chunks.drain(..) {
            match &mut open {
                Some((_, data)) if data.len() + chunk.data.len() <= MAX_JOINED => data.extend_from_slice(&chunk.data),
                _ => {
                    if let Some((offset, data)) = open.replace((chunk.offset, BytesMut::from(&chunk.data[..]))) {
                        joined.push_back(Arc::new(Chunk::new(offset, data.freeze())));
                    }
                }
            }
        }
        joined.extend(open.map(|(offset, data)| Arc::new(Chunk::new(offset, data.freeze()))));
        self.chunks = joined;
    }

    fn start(&self) -> Offset {
        self.chunks.front().map_or(self.end, |chunk| chunk.offset)
    }
}

impl Tap for Ring {
    fn read(&self, from: Offset) -> Read {
        let kept = self.lock();
        if from >= kept.end {
            return Read::UpToDate;
        }
        if from < kept.start() {
            return Read::Gap { from, to: kept.start() };
        }
        let after = kept.chunks.partition_point(|chunk| chunk.offset <= from);
        match kept.chunks.get(after.saturating_sub(1)) {
            Some(chunk) => Read::Chunk { chunk: Arc::clone(chunk), skip: (from.0 - chunk.offset.0) as usize },
            None => Read::UpToDate,
        }
    }

    fn range(&self) -> (Offset, Offset) {
        let kept = self.lock();
        (kept.start(), kept.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads everything from `from` on; gaps are skipped and returned.
    fn read_all(ring: &Ring, mut from: Offset) -> (Vec<(Offset, Offset)>, Vec<u8>) {
        let (mut gaps, mut bytes) = (Vec::new(), Vec::new());
        loop {
            match ring.read(from) {
                Read::UpToDate => return (gaps, bytes),
                Read::Gap { from: gone, to } => {
                    gaps.push((gone, to));
                    from = to;
                }
                Read::Chunk { chunk, skip } => {
                    bytes.extend_from_slice(&chunk.data[skip..]);
                    from = chunk.end();
                }
            }
        }
    }

    #[test]
    fn bytes_written_one_by_one_are_joined() {
        let ring = Ring::new(1 << 20);
        for n in 0..5000_u32 {
            ring.push(&[n as u8]);
        }
        assert!(ring.lock().chunks.len() <= MAX_CHUNKS);
        let expected: Vec<u8> = (0..5000_u32).map(|n| n as u8).collect();
        assert_eq!(read_all(&ring, Offset(0)), (vec![], expected));
    }

    proptest! {
        #[test]
        fn any_chunking_and_any_cursor_reads_the_same(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..700),
            capacity in 1_usize..5000,
            from in 0_u64..50_000,
        ) {
            let ring = Ring::new(capacity);
            let mut all = Vec::new();
            for chunk in &chunks {
                all.extend_from_slice(chunk);
                prop_assert_eq!(ring.push(chunk), Offset(all.len() as u64));
            }
            let (start, end) = ring.range();
            prop_assert_eq!(end, Offset(all.len() as u64));
            prop_assert!(end.0 - start.0 >= all.len().min(capacity) as u64);
            let (gaps, bytes) = read_all(&ring, Offset(from));
            let begin = from.max(start.0).min(end.0);
            prop_assert_eq!(&bytes[..], &all[begin as usize..]);
            let lost = from < start.0;
            prop_assert_eq!(gaps, if lost { vec![(Offset(from), start)] } else { vec![] });
        }
    }
}
