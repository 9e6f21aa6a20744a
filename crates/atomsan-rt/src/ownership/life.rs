//! Memory that comes to life and dies: nobody's, or the thread's that has asked for it or gives it back.

use super::word::{BYTES, EXCLUSIVE, SLOT, STATE, WRITE_EXCLUSIVE, epoch_of, slot_of};
use super::{logged, order_after, owned};
use crate::shadow;
use crate::thread::Thread;
use core::sync::atomic::Ordering;

/// What a small block of memory is.
const SMALL: usize = 128 << 10;

/// Memory dies: it belongs to the thread that gives it back, which comes after all that was done with
/// it; if the program has not seen to that, then by luck. So does the first granule if nobody ever
/// touched it.
pub(crate) fn give_back(thread: &Thread, address: usize, len: usize) {
    shadow::each_known(address, len, |shadow| {
        order_after(thread, address, shadow.load(Ordering::Relaxed), false);
        shadow.store(owned(thread, WRITE_EXCLUSIVE), Ordering::Relaxed);
    });
    shadow::word(address).store(owned(thread, WRITE_EXCLUSIVE), Ordering::Relaxed);
}

/// Memory comes to life, and is new. That it is free now, and where, the allocator has passed from
/// thread to thread without being seen; so the thread orders itself after those that gave it back.
///
/// Where the program knows its transactions, or leaves out what one thread has to itself, a small block belongs to
/// the thread that asked for it from the start: it is about to write to it. Of a large one it may use nothing, or only a part. What it does there in
/// the same [stretch](crate::thread) is logged already, so to speak: nobody else can get at the block before
/// the thread has told where it is, and that is an access of its own, which comes after all of these.
pub(crate) fn renew(thread: &Thread, address: usize, len: usize) {
    if len > SMALL || !thread.is_tabled() && !logged::is_shared_only() {
        return shadow::each_known(address, len, |shadow| {
            after_freeing(thread, address, shadow.load(Ordering::Relaxed));
            shadow.store(0, Ordering::Relaxed);
        });
    }
    let owned_by_others = STATE | SLOT;
    shadow::each(address, len, |shadow| {
        let word = shadow.load(Ordering::Relaxed);
        if word != 0 && (word ^ thread.mine.get()) & owned_by_others != 0 {
            after_freeing(thread, address, word);
        }
        shadow.store(owned(thread, WRITE_EXCLUSIVE) | BYTES, Ordering::Relaxed);
    });
}

/// Orders the thread after who gave a granule back, which had this word then. Where the program knows its transactions,
/// that is no conflict of them.
#[inline(always)]
fn after_freeing(thread: &Thread, address: usize, word: u64) {
    let is_owned = word & EXCLUSIVE != 0;
    if !is_owned || !thread.is_tabled() {
        order_after(thread, address, word, false);
    } else if slot_of(word) != thread.slot.get()
        && !thread.is_after_epoch(slot_of(word), epoch_of(word))
    {
        thread.after_freeing(slot_of(word), epoch_of(word));
    }
}
