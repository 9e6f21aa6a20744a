//! Reads of shared data that are in the log: a granule without an owner has no place in its shadow word
//! for who has read which of its bytes, so each thread remembers that by itself, for as many granules as
//! there is room for. One that shares its place with another one is logged more often.
//!
//! An entry counts for one granule, one shadow word and one [stretch](super::stretch), which are mixed: what has another one of these has
//! another mixture, unless 56 bits are the same by chance. So a granule that an entry counts for is one that the
//! thread was after when it was logged, and still is: the hooks need to look at nothing else.
//!
//! The stretch is in the upper half of a mixture only. So the lower half says whether the thread has read the granule
//! with this word in some stretch ([`Thread::has_read`]).

use super::Thread;
use core::cell::Cell;

/// How many granules are remembered.
pub(crate) const FILTER: usize = 1 << 16;

/// What the address of a granule is multiplied with.
pub(crate) const MIXER: u64 = 0xd6e8_feb8_6659_fd93;

/// By how many bits its word is rotated: the lowest of a mixture are those that change least, because an
/// entry has something else there.
pub(crate) const ROTATION: u32 = 8;

/// By how many bits an address is shifted to tell, with itself, where the entry is: programs go through their memory in even steps,
/// and what is so many steps apart would have few lines of the cache otherwise.
pub(crate) const FOLD: u32 = 9;

/// In an entry, which bytes of the granule were not read, exclusive or the lowest bits of the mixture. The rest is the
/// mixture.
const BYTES: u64 = 0xff;

/// Of a mixture, what depends on the stretch too.
pub(super) const OF_STRETCH: u64 = !0 << 36;

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
    /// The entry of a granule with this word, and its mixture.
    #[inline(always)]
    fn entry_of(&self, granule: usize, word: u64) -> (&Cell<u64>, u64) {
        let word = word.rotate_left(ROTATION);
        let mixture = (granule as u64).wrapping_mul(MIXER) ^ word ^ self.stretch_key();
        let place = (granule ^ granule >> FOLD) >> 3;
        (&self.settled.filter.0[place % FILTER], mixture)
    }

    /// Whether this stretch has already logged a read of these bytes of a granule that has no
    /// owner.
    #[inline(always)]
    pub(crate) fn is_filtered(&self, granule: usize, word: u64, bytes: u64) -> bool {
        let (entry, mixture) = self.entry_of(granule, word);
        (entry.get() ^ mixture) & (!BYTES | bytes) == 0
    }

    /// Whether the thread has read a granule while it had this word, in whatever stretch, as far as it is remembered.
    #[inline(always)]
    pub(crate) fn has_read(&self, granule: usize, word: u64) -> bool {
        let (entry, mixture) = self.entry_of(granule, word);
        (entry.get() ^ mixture) & !(BYTES | OF_STRETCH) == 0
    }

    /// Whether this stretch has logged it; from now on it has.
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
        let unread = match entry.get() ^ mixture {
            unread if unread <= BYTES => unread,
            _ => BYTES,
        };
        entry.set(mixture ^ unread & !bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::Thread;

    fn nobody() -> std::boxed::Box<Thread> {
        let layout = std::alloc::Layout::new::<Thread>();
        // SAFETY: all-zero memory is a valid thread.
        unsafe { std::boxed::Box::from_raw(std::alloc::alloc_zeroed(layout).cast()) }
    }

    #[test]
    fn an_entry_counts_for_one_granule_and_one_word() {
        let thread = nobody();
        let (granule, word) = (0x7f12_3456_7890, 1 << 62 | 5 << 48 | 0x1230);
        assert!(!thread.is_filtered(granule, word, 0x0f));
        assert!(!thread.filter(granule, word, 0x03));
        assert!(thread.is_filtered(granule, word, 0x02));
        assert!(!thread.filter(granule, word, 0x0c));
        assert!(thread.filter(granule, word, 0x0f));
        assert!(!thread.is_filtered(granule, word, 0x1f));
        // Another write, be it the next record but one of the same log; another place in the same entry.
        for position in (8..0x1000).step_by(8) {
            assert!(!thread.is_filtered(granule, word + position, 0x0f));
        }
        let other = granule ^ (8 * FILTER) ^ ((8 * FILTER) >> FOLD);
        assert!(core::ptr::eq(
            thread.entry_of(granule, word).0,
            thread.entry_of(other, word).0
        ));
        assert!(!thread.is_filtered(other, word, 0x0f));
        thread.note_read(granule, word + 8, 0xf0);
        assert!(thread.is_filtered(granule, word + 8, 0x80));
        assert!(!thread.is_filtered(granule, word, 0x01));
    }

    #[test]
    fn another_stretch_has_logged_nothing_and_knows_what_was_read() {
        let thread = nobody();
        let (granule, word) = (0x7f12_3456_7890, 1 << 62 | 5 << 48 | 0x1230);
        assert!(!thread.has_read(granule, word));
        thread.note_read(granule, word, 0x0f);
        for epoch in 1..5000 {
            thread.stretch.set(5 << 48 | epoch << 16);
            assert!(!thread.is_filtered(granule, word, 0x01));
            assert!(thread.has_read(granule, word));
            assert!(!thread.has_read(granule, word + 8 * epoch));
            assert!(!thread.has_read(granule + 8 * FILTER * epoch as usize, word));
        }
    }
}
