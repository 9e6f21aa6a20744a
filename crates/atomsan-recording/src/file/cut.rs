//! Where a recording starts that has forgotten its beginning.
//!
//! What is forgotten is the oldest chunks, so each log starts somewhere else, and what it starts with may be from
//! before what is forgotten of another one. If `A` is before `X` and `X` before `B`, and only `X` is
//! forgotten, nothing says any more that `A` is before `B`, and two critical sections of one lock may seem to
//! overlap. So the part of a recording that counts starts at a *cut*, a position of each log: whatever comes
//! before anything that is forgotten is before the cut. The order of what comes after it is told by edges
//! that are there, and all that is before it comes first.
//!
//! A log that goes on after a gap starts with a snapshot, which has an edge to the last position of each other
//! log that the thread is after. So all edges into what is forgotten are known from there; but of no more than 512
//! logs, so with more threads than that at a time the cut may be too early.

use super::Recording;
use crate::format::Kind;

impl Recording {
    /// For each slot, the position at which its log starts to count; empty if nothing is forgotten.
    pub(super) fn cut(&self) -> Vec<u64> {
        let mut cut: Vec<u64> = (self.slots.iter())
            .map(|chunks| {
                let mut last = 0;
                let gaps = chunks.iter().filter(|chunk| {
                    let before = std::mem::replace(&mut last, chunk.position);
                    // Only the first chunk of all has no snapshot.
                    chunk.snapshot > 0 && (before == 0 || chunk.previous != before)
                });
                gaps.last().map_or(0, |chunk| chunk.position)
            })
            .collect();
        if cut.iter().all(|&position| position == 0) {
            return Vec::new();
        }
        let mut logs: Vec<_> = (0..self.slots()).map(|slot| self.log(slot)).collect();
        let mut waiting: Vec<usize> = (0..logs.len()).collect();
        while let Some(slot) = waiting.pop() {
            while let Some(record) = logs[slot].next_if_before(cut[slot]) {
                let (from, position) = (record.second as usize, record.subject);
                if record.kind == Kind::Edge && from < cut.len() && position > cut[from] {
                    cut[from] = position;
                    waiting.push(from);
                }
            }
        }
        cut
    }

    /// Whether what is at a position of a slot's log is before all that counts.
    pub fn is_before_cut(&self, slot: usize, position: u64) -> bool {
        position < self.cut_of(slot)
    }

    /// Where a slot's log starts to count.
    pub(crate) fn cut_of(&self, slot: usize) -> u64 {
        self.cut.get(slot).copied().unwrap_or(0)
    }
}
