//! Taking a granule where there is nothing else to do, in a first run: it is new; or the thread has read
//! it and writes to it now; or it was accessed last in the transaction that the thread has put itself
//! after last. What one thread makes and another one uses is mostly taken so, granule by granule.

use super::{
    ATOMIC, READ_EXCLUSIVE, SHARED, STATE, WRITE_EXCLUSIVE, epoch_of, is_order_only, owned, slot_of,
};
use crate::shadow;
use crate::sync::AtomicU64;
use crate::thread::Thread;
use core::sync::atomic::Ordering;

/// A plain access to one granule that the thread does not own: takes it, if that is simple.
#[inline(always)]
pub(super) fn takes(thread: &Thread, address: usize, write: bool, pc: u64) -> bool {
    if !is_order_only() || thread.is_busy() || thread.ignoring.get() > 0 {
        return false;
    }
    let shadow = shadow::word(address);
    let word = shadow.load(Ordering::Acquire);
    // Others access it too: where that is may matter.
    let is_passed = || word == 0 || thread.passes_again(pc);
    takes_word(thread, shadow, word, write, is_passed)
}

/// The same for a granule with this word; if `may` does not say otherwise.
#[inline(always)]
pub(super) fn takes_word(
    thread: &Thread,
    shadow: &AtomicU64,
    word: u64,
    write: bool,
    may: impl FnOnce() -> bool,
) -> bool {
    let state = if write {
        WRITE_EXCLUSIVE
    } else {
        READ_EXCLUSIVE
    };
    let next = match word & STATE {
        _ if word & ATOMIC != 0 => return false,
        0 if word == 0 => owned(thread, state),
        READ_EXCLUSIVE if !write => return false,
        READ_EXCLUSIVE | WRITE_EXCLUSIVE => {
            let slot = slot_of(word);
            if slot == thread.slot.get() {
                owned(thread, WRITE_EXCLUSIVE) | word & SHARED
            } else if thread.is_after_epoch(slot, epoch_of(word)) {
                owned(thread, state) | SHARED
            } else {
                return false;
            }
        }
        _ => return false,
    };
    may()
        && shadow
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}
