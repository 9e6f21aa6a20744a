//! Whether others will read what a thread reads.
//!
//! Who reads what another thread has written last may become its owner, as a reader, or leave it without one.
//! The first is right for what goes from thread to thread, to be read and written by each: a write by the
//! owner needs no look at others. The second is right for what is written once and read by many: the
//! next reader has nothing to wait for but the write, while of an owner it has to assume that the owner has
//! read just now, so that it comes after all that the owner has done. Nothing depends on that, and each such
//! edge begins another [stretch](super::stretch), in which everything is logged again.
//!
//! So a thread remembers which of the two it has met lately.

use super::Thread;

/// It may count so far, and from here on readers are expected.
const MOST: i32 = 64;
const MANY: i32 = 8;
/// How many readers one write counts for, which has to look for all readers.
const WRITE: i32 = 8;

impl Thread {
    /// The thread reads what another one owns as a reader.
    pub(crate) fn meets_reader(&self) {
        self.readers.set((self.readers.get() + 1).min(MOST));
    }

    /// The thread writes to what has no owner.
    pub(crate) fn writes_shared(&self) {
        self.readers.set((self.readers.get() - WRITE).max(-MOST));
    }

    /// Whether what the thread reads should have no owner.
    #[inline(always)]
    pub(crate) fn expects_readers(&self) -> bool {
        self.readers.get() >= MANY
    }
}
