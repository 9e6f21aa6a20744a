//! What a log goes on with after a gap.
//!
//! A chunk that does not go on from the one before it starts with a snapshot, which has an edge to the last position
//! of each other log that the thread is after. So all edges into what is forgotten are known from there,
//! though not their places in it.
//!
//! There is room for [`SNAPSHOT_EDGES`] of them. Where that many are written there may be others; then the thread is
//! taken to be after all chunks of the other logs that were begun before its own, which is too much but never too
//! little: positions are handed out to all logs in the order in which they take their chunks.

use super::{Log, Recording};
use crate::format::{Kind, SNAPSHOT_EDGES};

impl Log<'_> {
    /// Whether something is forgotten that comes right before the next record.
    #[inline]
    pub(crate) fn is_at_gap(&self) -> bool {
        self.recording.has_gaps && (self.peek()).is_some_and(|record| record.kind == Kind::Continue)
    }

    /// If so: where the log goes on; the snapshot is before that.
    pub(crate) fn gap_end(&self) -> u64 {
        self.last
    }

    /// If so: the positions of other logs that what is forgotten, or the snapshot, is after.
    pub(crate) fn after_gap(&self) -> Vec<(usize, u64)> {
        let (recording, end) = (self.recording, self.last);
        let snapshot = self.clone().take_while(|record| record.position < end);
        let edges = snapshot.filter(|record| record.kind == Kind::Edge);
        let mut after: Vec<_> = edges
            .map(|edge| (edge.second as usize, edge.subject))
            .collect();
        if after.len() >= SNAPSHOT_EDGES {
            let named: Vec<usize> = after.iter().map(|&(slot, _)| slot).collect();
            let others = (0..recording.slots()).filter(|slot| !named.contains(slot));
            after.extend(others.filter_map(|slot| Some((slot, recording.begun(slot, end)?))));
        }
        after
    }
}

impl Recording {
    /// Where logs go on after gaps, each with its slot, in the order in which they did.
    pub(crate) fn gaps(&self) -> Vec<(usize, u64)> {
        let mut gaps = Vec::new();
        for (slot, chunks) in self.slots.iter().enumerate() {
            let mut last = 0;
            for chunk in chunks {
                if chunk.snapshot > 0 && !chunk.goes_on_from(last) {
                    gaps.push((slot, chunk.position));
                }
                last = chunk.position;
            }
        }
        gaps.retain(|_| self.has_gaps);
        gaps.sort_by_key(|&(_, position)| position);
        gaps
    }

    /// Where the last chunk of a slot ends that was begun before a position.
    fn begun(&self, slot: usize, position: u64) -> Option<u64> {
        let chunks = &self.slots[slot];
        let count = chunks.partition_point(|chunk| chunk.position < position);
        let last = chunks[..count].last()?;
        let len = last.content.end - last.content.start;
        Some(last.position + len.saturating_sub(last.snapshot))
    }

    /// What is not there of its pieces is forgotten.
    #[cfg(test)]
    pub(crate) fn forget_rest(&mut self) {
        self.has_gaps = true;
    }
}
