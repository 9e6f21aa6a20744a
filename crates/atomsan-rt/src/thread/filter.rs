//! Reads of shared data that are in the log: a granule without an owner has no place in its shadow word
//! for who has read which of its bytes, so each thread remembers that by itself, for as many granules as
//! there is room for. One that shares its place with another one is logged more often.
//!
//! An entry counts for one granule, one shadow word and one [stretch](super::stretch), which are mixed: what has another one of these has
//! another mixture, unless 56 bits are the same by chance. So a granule that an entry counts for is one that the
//! thread was after when it was logged, and still is: the hooks need to look at nothing else.

use super::Thread;
use core::cell::Cell;

/// How many granules are remembered.
pub(crate) const FILTER: usize = 1 << 16;

/// What the address of a granule is multiplied with.
pub(crate) const MIXER: u64 = 0xd6e8_feb8_6659_fd93;

/// In an entry, which bytes of the granule were read. The rest is the mixture.
const BYTES: u64 = 0xff;

/// Which reads are in the log. All-zero memory is a valid one: none.
pub(crate) struct Filter([Cell<u64>; FILTER]);

// SAFETY: a thread's filter is used by that thread alone, and nobody's is never written.
unsafe impl Sync for Filter {}

impl Filter {
    /// The filter of nobody.
    pub(crate) const fn nothing() -> Filter {
        Filter([const { Cell::new(0) }; FILTER])
    }
}

impl Thread {
    /// The entry of a granule with this word, and how it begins if it counts for that.
    #[inline(always)]
    fn entry_of(&self, granule: usize, word: u64) -> (&Cell<u64>, u64) {
        let mixture = (granule as u64).wrapping_mul(MIXER) ^ word ^ self.stretch_key();
        (
            &self.settled.filter.0[(granule >> 3) % FILTER],
            mixture & !BYTES,
        )
    }

    /// Whether this stretch has already logged a read of these bytes of a granule that has no
    /// owner.
    #[inline(always)]
    pub(crate) fn is_filtered(&self, granule: usize, word: u64, bytes: u64) -> bool {
        let (entry, mixture) = self.entry_of(granule, word);
        entry.get() & (!BYTES | bytes) == mixture | bytes
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
        let (entry, mixture) = self.entry_of(granule, word);
        let before = match entry.get() & !BYTES == mixture {
            true => entry.get(),
            false => mixture,
        };
        entry.set(before | bytes);
    }
}
