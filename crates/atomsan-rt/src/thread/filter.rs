//! Reads of shared data that are in the log: a granule without an owner has no place in its shadow word
//! for who has read which of its bytes, so each thread remembers that by itself, for as many granules as
//! there is room for. One that shares its place with another one is logged more often.
//!
//! An entry counts for one shadow word and one [stretch](super::stretch), both of which are in its *state*. So a granule that
//! an entry counts for is one that the thread was after when it was logged, and still is: the hooks
//! need to look at nothing else.

use super::Thread;
use core::cell::Cell;

/// How many granules are remembered.
pub(crate) const FILTER: usize = 1 << 16;

/// The granule, and in its lower bits which of its bytes; and the state. The hooks rely on the order.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct Entry {
    bytes: u64,
    state: u64,
}

/// Which reads are in the log. All-zero memory is a valid one: none.
pub(crate) struct Filter([Cell<Entry>; FILTER]);

// SAFETY: a thread's filter is used by that thread alone, and nobody's is never written.
unsafe impl Sync for Filter {}

impl Filter {
    /// The filter of nobody.
    pub(crate) const fn nothing() -> Filter {
        Filter([const { Cell::new(Entry { bytes: 0, state: 0 }) }; FILTER])
    }
}

impl Thread {
    /// Whether this stretch has already logged a read of these bytes of a granule that has no
    /// owner.
    #[inline(always)]
    pub(crate) fn is_filtered(&self, granule: usize, word: u64, bytes: u64) -> bool {
        let last = self.settled.filter.0[(granule >> 3) % FILTER].get();
        let wanted = (granule as u64) << 8 | bytes;
        last.state == self.stretch_key() ^ word && last.bytes & (!0xff | bytes) == wanted
    }

    /// The same; from now on it has.
    #[inline(always)]
    pub(crate) fn filter(&self, granule: usize, word: u64, bytes: u64) -> bool {
        let known = self.is_filtered(granule, word, bytes);
        if !known {
            self.note_read(granule, word, bytes);
        }
        known
    }

    /// From now on, this stretch has logged a read of these bytes.
    #[inline(always)]
    pub(crate) fn note_read(&self, granule: usize, word: u64, bytes: u64) {
        let entry = &self.settled.filter.0[(granule >> 3) % FILTER];
        let last = entry.get();
        let (state, wanted) = (self.stretch_key() ^ word, (granule as u64) << 8 | bytes);
        let same = last.state == state && last.bytes & !0xff == wanted & !0xff;
        entry.set(Entry {
            bytes: if same { last.bytes | bytes } else { wanted },
            state,
        });
    }
}
