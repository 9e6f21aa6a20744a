//! Memory that the allocator hands from thread to thread.
//!
//! Who gets it comes after who gave it back, so that what is done with the one object is not mixed up
//! with what was done with another one in the same place. That is an order of the logs and no
//! conflict: had the transactions run one after the other, the memory might have been elsewhere. So
//! the edge between the transactions says so ([`ORDER_ONLY`]), and a cycle that needs it is none.
//!
//! What such an edge makes a thread come after is remembered by itself: a later access that is in conflict with the
//! same transaction has an edge of its own. In a first run there are no logs, and so there is no order to keep.

use super::Thread;
use crate::format::{Kind, LOW, ORDER_ONLY, first_word};
use crate::history::History;

/// What a thread comes after because of memory: a transaction of another slot, and a position of its log. All-zero memory is a
/// valid one: nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Handed {
    clock: u64,
    position: u64,
}

impl Thread {
    /// Orders what follows after what a slot has done up to an epoch, when it gave memory back that this
    /// thread has got.
    pub(crate) fn after_freeing(&self, slot: u32, epoch: u32) {
        if self.silent.get() {
            return;
        }
        let find = |history: &History, known, now| history.in_epoch(epoch, known, now);
        let position = super::position_of(slot);
        let Some(source) = self.source(slot, find) else {
            self.after(slot);
            return;
        };
        let (clock, end) = (source.clock & LOW, source.end.unwrap_or(position));
        let (known, linked) = (&self.known[slot as usize], &self.linked[slot as usize]);
        let handed = &self.handed[slot as usize];
        let before = handed.get();
        handed.set(Handed {
            clock: before.clock.max(clock),
            position: before.position.max(end),
        });
        if linked.get().max(before.clock) < clock {
            self.write_edge(slot, source.clock, ORDER_ONLY);
        }
        if known.get().max(before.position) < end {
            self.mark();
            self.write([first_word(Kind::Edge, 0, end), slot.into()]);
        }
    }
}
