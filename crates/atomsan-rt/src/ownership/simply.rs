//! Taking a granule where there is nothing else to do, or only to write it down: it is new; or the thread has
//! read it and writes to it now; or it was accessed last in the transaction that the thread has put itself
//! after last. What one thread makes and another one uses is mostly taken so, granule by granule.

use super::word::{
    ATOMIC, BYTES, EPOCH, READ_EXCLUSIVE, SHARED, STATE, WRITE_EXCLUSIVE, epoch_of, slot_of,
};
use super::{is_left_out, is_order_only, others, owned};
use crate::format::{TAKEN, second_word};
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
    let Some(next) = next(thread, word, write) else {
        return false;
    };
    may()
        && shadow
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
}

/// The same where accesses are logged: the word says so by these bits then, and the log by the first word of a
/// record and the place.
#[inline(always)]
pub(super) fn takes_and_logs(
    thread: &Thread,
    shadow: &AtomicU64,
    word: u64,
    write: bool,
    logged: u64,
    [first, pc]: [u64; 2],
) -> bool {
    let Some((next, detail)) = next_logged(thread, word, write, logged) else {
        return false;
    };
    let may = word & SHARED == 0 && detail == 0 || thread.may_append_at(pc);
    let record = [first, second_word(detail, pc)];
    may && thread.append_at_once(record, || {
        shadow
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })
}

/// The same for a granule of a range: with which detail it is to be logged.
#[inline(always)]
pub(super) fn takes_of_range(
    thread: &Thread,
    shadow: &AtomicU64,
    word: u64,
    write: bool,
    logged: u64,
) -> Option<u16> {
    let (next, detail) = next_logged(thread, word, write, logged)?;
    let taken = shadow.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed);
    taken.is_ok().then_some(detail)
}

/// The word of the granule when it is taken, if that is simple, and with which detail that is to be logged.
#[inline(always)]
fn next_logged(thread: &Thread, word: u64, write: bool, logged: u64) -> Option<(u64, u16)> {
    if is_order_only() {
        return None;
    }
    let is_logged = |&next: &u64| word == 0 || !is_left_out(next);
    let next = next(thread, word, write).filter(is_logged)?;
    let own = word == 0 || slot_of(word) == thread.slot.get();
    // What the owner has logged in this epoch is logged still.
    let before = match own && (word ^ next) & EPOCH == 0 {
        true => word & BYTES,
        false => 0,
    };
    let detail = if own { 0 } else { TAKEN };
    Some((next | before | logged, detail))
}

/// The word of the granule when it is taken, if that is simple.
#[inline(always)]
fn next(thread: &Thread, word: u64, write: bool) -> Option<u64> {
    let state = if write {
        WRITE_EXCLUSIVE
    } else {
        READ_EXCLUSIVE
    };
    match word & STATE {
        _ if word & ATOMIC != 0 => None,
        0 => (word == 0).then(|| owned(thread, state)),
        READ_EXCLUSIVE if !write => None,
        READ_EXCLUSIVE | WRITE_EXCLUSIVE => {
            let slot = slot_of(word);
            if slot == thread.slot.get() {
                let may_conflict = others::is_shared_by_readers(word) && thread.minds_others();
                (!may_conflict).then(|| owned(thread, WRITE_EXCLUSIVE) | word & SHARED)
            } else if !write && thread.finds_at_birth(slot, epoch_of(word)) {
                None
            } else {
                let is_after =
                    thread.is_after_epoch(slot, epoch_of(word)) && !thread.minds_others();
                is_after.then(|| owned(thread, state) | SHARED)
            }
        }
        _ => None,
    }
}
