//! Granules without an owner that a thread may read without an edge, as the hooks see it.
//!
//! The word of such a granule names a slot and a position ([`crate::ownership`]), and a first run has
//! nothing to do for a read if the thread is after that. So there is a word for each beginning of a
//! shadow word, its upper 16 bits: all words that begin so and are smaller are settled. Words
//! that begin in any other way are not, and neither is anything in a run that has logs, or in a thread
//! that is not recorded.
//!
//! Such a read is noted, because who writes there later comes after it.

use super::Thread;
use super::filter::Filter;
use crate::ownership;
use crate::sync::AtomicU64;
use core::sync::atomic::{AtomicU64 as Plain, Ordering};

/// How many granules without an owner a thread remembers the last read of. Others that share a
/// place make it later than it was.
pub(crate) const SEEN: usize = 1 << 10;

/// Where the words are and where the notes of reads are, in the lower 12 bits of their addresses: not where the
/// thread's own fields, the granules or their words are (see [`crate::shadow`]).
const ASIDE: [usize; 2] = [11 * 64, 43 * 64];

/// What needs no edge. All-zero memory is a valid one: nothing.
#[repr(C, align(4096))]
pub(crate) struct Settled {
    aside: [u64; ASIDE[0] / 8],
    /// By the upper 16 bits of a shadow word: it has to be smaller than this. Only the thread itself
    /// looks at it.
    pub(crate) below: [Plain; 1 << 16],
    aside_again: [u64; (ASIDE[1] - ASIDE[0]) / 8],
    /// The thread's own words in the epochs of the last reads; 0 if there was none.
    pub(crate) seen: [AtomicU64; SEEN],
    /// Which reads are in the log, if there is one.
    pub(crate) filter: Filter,
}

impl Settled {
    /// What is settled for nobody.
    pub(crate) const fn nothing() -> Settled {
        Settled {
            aside: [0; ASIDE[0] / 8],
            below: [const { Plain::new(0) }; 1 << 16],
            aside_again: [0; (ASIDE[1] - ASIDE[0]) / 8],
            seen: [const { AtomicU64::new(0) }; SEEN],
            filter: Filter::nothing(),
        }
    }

    /// The thread is after a position of a slot; after all of them if there is none.
    pub(super) fn set(&self, slot: u32, after: Option<u64>) {
        let (beginning, below) = ownership::settled(slot, after);
        self.below[beginning].store(below, Ordering::Relaxed);
    }

    /// Where the last read of a granule is noted.
    fn at(&self, address: usize) -> &AtomicU64 {
        &self.seen[(address >> 3) % SEEN]
    }

    /// The epoch of the last read of a granule, or of another one that shares its place.
    pub(super) fn last_read(&self, address: usize) -> Option<u32> {
        let seen = self.at(address).load(Ordering::Acquire);
        (seen != 0).then(|| ownership::epoch_of(seen))
    }
}

impl Thread {
    /// The thread is after a position of a slot from now on. If there are logs, nothing is settled.
    pub(crate) fn settle(&self, slot: u32, position: u64) {
        if self.silent.get() {
            self.settled.set(slot, Some(position));
        }
    }

    /// A granule that has no owner is read in this epoch; whether that had to be said.
    #[inline(always)]
    pub(crate) fn see(&self, address: usize) -> bool {
        self.says(address, |seen, mine| seen.store(mine, Ordering::Release))
    }

    /// The same; whoever looks for it after anything that this thread does then finds it.
    #[inline(always)]
    pub(crate) fn see_at_once(&self, address: usize) -> bool {
        self.says(address, |seen, mine| {
            seen.swap(mine, Ordering::SeqCst);
        })
    }

    #[inline(always)]
    fn says(&self, address: usize, say: impl FnOnce(&AtomicU64, u64)) -> bool {
        let mine = self.mine.get();
        let seen = self.settled.at(address);
        let news = seen.load(Ordering::Relaxed) != mine;
        if news {
            say(seen, mine);
        }
        news
    }
}
