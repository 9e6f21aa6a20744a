//! Whether an access may be in conflict with other threads in a way that says something new, as far as the word of its
//! granule tells: outside of regions, that begins a [stretch](crate::thread).

use super::word::{POSITION, READ_SHARED, SHARED, STATE, WRITER, slot_of};
use crate::thread::Thread;

/// The thread is going to access a granule with this word, and is after what it has to be after.
pub(super) fn meet(thread: &Thread, address: usize, word: u64, write: bool) {
    let may_conflict = match word & STATE {
        0 => false,
        READ_SHARED => write || !is_read_again(thread, address, word),
        _ if slot_of(word) == thread.slot.get() => write && is_shared_by_readers(word),
        _ => true,
    };
    if may_conflict {
        thread.meets_others();
    }
}

/// Whether a read of a granule without an owner depends on nothing new: the thread has read it before, and so depends on the
/// same write; or that was there when the thread was started, which is a conflict too.
#[inline(always)]
pub(super) fn is_read_again(thread: &Thread, address: usize, word: u64) -> bool {
    let was_there = || thread.was_before_birth(slot_of(word), word & POSITION);
    thread.has_read(address & !7, word) || was_there()
}

/// Whether others may have read what the owner of a granule has only read: it was not in conflict with them when it
/// took the granule.
#[inline(always)]
pub(super) fn is_shared_by_readers(word: u64) -> bool {
    word & (WRITER | SHARED) == SHARED
}
