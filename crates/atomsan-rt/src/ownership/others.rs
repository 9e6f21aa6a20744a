//! Whether an access may be in conflict with other threads in a way that says something new, as far as the word of its
//! granule tells: outside of regions, that begins a [stretch](crate::thread).

use super::word::{READ_SHARED, SHARED, STATE, WRITER, slot_of};
use crate::thread::Thread;

/// The thread is going to access a granule with this word, and is after what it has to be after.
pub(super) fn meet(thread: &Thread, address: usize, word: u64, write: bool) {
    let may_conflict = match word & STATE {
        0 => false,
        // To read it again is to depend on the same write.
        READ_SHARED => write || !thread.has_read(address & !7, word),
        _ if slot_of(word) == thread.slot.get() => write && is_shared_by_readers(word),
        _ => true,
    };
    if may_conflict {
        thread.meets_others();
    }
}

/// Whether others may have read what the owner of a granule has only read: it was not in conflict with them when it
/// took the granule.
#[inline(always)]
pub(super) fn is_shared_by_readers(word: u64) -> bool {
    word & (WRITER | SHARED) == SHARED
}
