//! Who owns a granule of memory, and how accesses get their order.
//!
//! Each 8 bytes of memory have a shadow [word], as in Octet, which the hooks look at before anything else.
//!
//! The owner's accesses go to its own log and synchronise with nobody; if the word says that the
//! bytes are in the log since the epoch began, there is nothing to do at all. Anybody else first
//! orders itself after the log of the owner ([`Thread::after`]) and then takes the word. The edge
//! is in the log *before* the word changes hands, so whoever orders itself after the new owner is
//! after the old one too, and a chain of owners is a chain of edges. A granule that several
//! threads have read belongs to nobody: its word names a position that is after the last write,
//! which each reader makes sure it is after, and a writer orders itself after everybody.
//!
//! # What is exact
//!
//! Two conflicting accesses that the program orders by synchronisation are in the right order:
//! the first one's record was in its log before the second one's edge was made. Two plain
//! accesses that race may get either order, and may remain unordered; the program could have
//! had that order as well. An atomic operation ([`atomic`]) is performed while its word is
//! locked and its record is written before it is unlocked, so those are always in the order in
//! which they took effect.
//!
//! Nobody waits for another thread longer than that thread needs for one such operation, and not
//! even then for ever: a lock that is not given back within [`PATIENCE`] (a thread was cancelled
//! or left behind by `fork`) is taken over.
//!
//! An owner that only adds to its word stores it, without making sure that nobody took the word in
//! that instant. Such a taker races with the owner, uses a neighbour in the same granule, or reads
//! as the owner does; the word then names one of the two and the other is found by the synchronisation between them,
//! which has words of its own. These words, and all that atomic operations have touched, are marked
//! (`atomic`) and are changed by compare-exchange only.

mod atomic;
mod life;
mod logged;
mod others;
mod range;
mod simply;
mod word;

pub(crate) use atomic::{Outcome, atomic, atomic_again, take_back, unseen_atomic};
pub(crate) use life::{give_back, renew};
#[cfg(test)]
pub(crate) use logged::log_accesses;
pub(crate) use logged::{
    MASKS, NO_MASKS, is_order_only, log_no_accesses, log_private_accesses,
    log_shared_accesses_only, masks_offset, renewed,
};
pub(crate) use range::access_range;
pub(crate) use word::{
    EPOCH, SHARED, WITHIN_EPOCH, epoch_of, epochs, era, foreign, is_last_of_era, logging,
    next_epoch, nothing_logged, owned_by, settled, since, stays, within,
};

use crate::format::{Kind, TAKEN, first_word, second_word};
use crate::sync::AtomicU64;
use crate::thread::Thread;
use crate::{platform, shadow};
use core::sync::atomic::Ordering;
use logged::is_left_out;
use range::{access_slow, is_settled};
use word::{
    ATOMIC, BYTES, EXCLUSIVE, LOCKED, POSITION, READ_EXCLUSIVE, READ_SHARED, SLOT, STATE,
    WRITE_EXCLUSIVE, WRITER, bytes, slot_of,
};

/// How often a thread lets others run before it takes a lock over.
const PATIENCE: u32 = 100_000;

/// The word of a granule that belongs to the thread, with nothing logged.
#[inline(always)]
fn owned(thread: &Thread, state: u64) -> u64 {
    thread.mine.get() & (SLOT | EPOCH) | state
}

/// Whether an access is in the log since the epoch began.
#[inline(always)]
fn is_logged(thread: &Thread, word: u64, write: bool, bytes: u64) -> bool {
    let state = if write { STATE } else { EXCLUSIVE };
    let mask = state | SLOT | EPOCH | logging(bytes, write);
    (word ^ thread.mine.get()) & mask == 0
}

/// Which bytes of a granule that the thread owns need not be logged again, as its word says.
#[inline(always)]
fn logged_before(thread: &Thread, word: u64) -> u64 {
    // Outside of regions, it may matter where something is accessed that others access too.
    let is_logged = if word & SHARED == 0 || thread.is_inside() {
        thread.is_in_stretch(word)
    } else {
        (word ^ thread.mine.get()) & EPOCH == 0
    };
    if is_logged { word & BYTES } else { 0 }
}

/// What has become of an access that perhaps only had to be written down.
pub(crate) enum Quick {
    /// It was.
    Done,
    /// It was not, perhaps because the log has to say where it is first.
    Unready,
    /// There is more to it.
    No,
}

impl Quick {
    #[inline(always)]
    fn of(is_done: bool) -> Quick {
        if is_done { Quick::Done } else { Quick::Unready }
    }
}

/// A plain access, if it only has to be written down: it is of one granule that the thread owns, or that has no
/// owner and that the thread may read.
#[inline(always)]
pub(crate) fn logs_quickly(
    thread: &Thread,
    address: usize,
    size: usize,
    write: bool,
    pc: u64,
) -> Quick {
    if (address & 7) + size > 8 {
        return Quick::No;
    }
    let shadow = shadow::word(address);
    let word = shadow.load(Ordering::Relaxed);
    let difference = word ^ thread.mine.get();
    let state = if write { STATE } else { EXCLUSIVE };
    if difference & (state | SLOT | ATOMIC) != 0 {
        if write || word & STATE != READ_SHARED {
            return Quick::No;
        }
        return match reads(thread, address, size, word, pc) {
            false if !thread.is_inside() => Quick::No,
            is_done => Quick::of(is_done),
        };
    }
    let logged = logging(bytes(address, size), write);
    // Where no region is, it does not matter where an access is.
    let is_shared = word & SHARED != 0;
    let passes = thread.passes_again(pc);
    let before = match passes {
        true if thread.is_in_stretch(word) => word & BYTES,
        true => 0,
        false => logged_before(thread, word),
    };
    let is_newborn = !is_shared && thread.is_newborn(address);
    let before = if is_newborn { BYTES } else { before };
    if is_newborn {
        thread.used.set(true);
    }
    let next = owned(thread, word & STATE) | word & SHARED | before | logged;
    if before & logged == logged {
        // The hooks see to it from now on.
        shadow.store(next, Ordering::Release);
        return Quick::Done;
    }
    let kind = if write { Kind::Write } else { Kind::Read };
    let first = first_word(kind, size as u8, address as u64);
    let may = passes || !is_shared || !thread.is_tabled();
    let is_done = may
        && thread.append_at_once([first, second_word(0, pc)], || {
            shadow.store(next, Ordering::Release);
            true
        });
    match is_done {
        // The place may be in another transaction.
        false if is_shared && !thread.is_inside() => Quick::No,
        is_done => Quick::of(is_done),
    }
}

/// A read of a granule that has no owner, if it only has to be written down; whether it was.
#[inline(always)]
fn reads(thread: &Thread, address: usize, size: usize, word: u64, pc: u64) -> bool {
    if is_order_only() || !thread.is_after(slot_of(word), word & POSITION) {
        return false;
    }
    if !others::is_read_again(thread, address, word) && thread.minds_others() {
        return false;
    }
    let first = first_word(Kind::Read, size as u8, address as u64);
    let record = [first, second_word(TAKEN, pc)];
    thread.append_read(address, word, bytes(address, size), record)
}

/// A plain access of up to 16 bytes.
#[inline(always)]
pub(crate) fn access(thread: &Thread, address: usize, size: usize, write: bool, pc: u64) {
    if (address & 7) + size > 8 {
        if !is_settled(thread, address, size, write) {
            access_slow(thread, address, size, write, pc);
        }
        return;
    }
    let shadow = shadow::word(address);
    let word = shadow.load(Ordering::Relaxed);
    let kind = if write { Kind::Write } else { Kind::Read };
    let first = first_word(kind, size as u8, address as u64);
    match look(thread, address, word, bytes(address, size), write) {
        Known::Logged => {}
        Known::Owned(next) => {
            let record = [first, second_word(0, pc)];
            let renew = || {
                shadow.store(next, Ordering::Release);
                true
            };
            let may = next & SHARED == 0 || thread.may_append_at(pc);
            if !(may && thread.append_at_once(record, renew)) {
                let logged = logging(bytes(address, size), write);
                add(thread, shadow, next, logged, record);
            }
        }
        Known::After => {
            if !reads(thread, address, size, word, pc) {
                take(thread, address, size, write, pc);
            }
        }
        Known::Nothing => {
            let logged = logging(bytes(address, size), write);
            if !simply::takes(thread, address, write, pc)
                && !simply::takes_and_logs(thread, shadow, word, write, logged, [first, pc])
            {
                take(thread, address, size, write, pc);
            }
        }
    }
}

/// An access that is going to be logged tells where the thread is, if it is of something that others
/// access too: functions that are inlined there may be regions. That comes first, because it may
/// begin another transaction.
#[inline(always)]
fn look_where(thread: &Thread, address: usize, pc: u64) {
    if !thread.is_inside() {
        let word = shadow::word(address).load(Ordering::Relaxed);
        if is_shared(thread, word) {
            thread.look_where(pc);
        }
    }
}

/// Whether more than one thread has accessed a granule when this one has.
fn is_shared(thread: &Thread, word: u64) -> bool {
    match word & STATE {
        READ_SHARED => true,
        0 => word == LOCKED,
        _ => word & SHARED != 0 || slot_of(word) != thread.slot.get(),
    }
}

/// Whether another thread has written to a granule last.
pub(crate) fn is_written_by_another(thread: &Thread, address: usize) -> bool {
    let word = unlocked(shadow::word(address));
    word & STATE == WRITE_EXCLUSIVE && slot_of(word) != thread.slot.get()
}

/// An access to one granule that the thread does not own.
#[inline(never)]
fn take(thread: &Thread, address: usize, size: usize, write: bool, pc: u64) {
    if thread.ignoring.get() > 0 {
        return;
    }
    thread.work(|| {
        look_where(thread, address, pc);
        if let Some(detail) = own(thread, address, bytes(address, size), write) {
            let kind = if write { Kind::Write } else { Kind::Read };
            let first = first_word(kind, size as u8, address as u64);
            thread.append_access([first, second_word(detail, pc)]);
        }
    });
}

/// Logs an access to a granule that the thread owns. `next` says that it is logged, as `logged` does
/// by itself.
#[inline(never)]
fn add(thread: &Thread, shadow: &AtomicU64, next: u64, logged: u64, record: [u64; 2]) {
    if is_order_only() {
        // Nothing is logged, and the hooks do the same.
        return shadow.store(next, Ordering::Release);
    }
    if thread.ignoring.get() == 0 {
        thread.work(|| {
            let mut next = next;
            if next & SHARED != 0 {
                thread.look_where(record[1]);
                if (next ^ thread.mine.get()) & EPOCH != 0 {
                    next = owned(thread, next & STATE) | SHARED | logged;
                }
            }
            shadow.store(next, Ordering::Release);
            thread.append_access(record);
        });
    }
}

/// What the quick look at a shadow word shows.
enum Known {
    /// The thread may access these bytes, and that is logged.
    Logged,
    /// The thread owns the granule; the word that says that the bytes are logged.
    Owned(u64),
    /// The granule has no owner, and the thread may read it without an edge.
    After,
    /// Nothing: see [`own`].
    Nothing,
}

/// Whether the thread owns a granule already, or knows it to be shared by readers.
#[inline(always)]
fn look(thread: &Thread, address: usize, word: u64, bytes: u64, write: bool) -> Known {
    let difference = word ^ thread.mine.get();
    let state = if write { STATE } else { EXCLUSIVE };
    if difference & (state | SLOT) == 0 {
        let logged = logging(bytes, write);
        let to_log = if is_order_only() { 0 } else { logged };
        if difference & (EPOCH | to_log) == 0 || is_left_out(word) {
            return Known::Logged;
        }
        if word & ATOMIC == 0 {
            let before = logged_before(thread, word);
            let is_newborn = word & SHARED == 0 && thread.is_newborn(address);
            if (before & to_log == to_log || is_newborn) && to_log != 0 {
                return Known::Logged;
            }
            return Known::Owned(owned(thread, word & STATE) | word & SHARED | before | logged);
        }
    } else if word & STATE == READ_SHARED
        && !write
        && thread.is_after(slot_of(word), word & POSITION)
    {
        if is_order_only() {
            thread.see(address);
            return Known::Logged;
        }
        return match thread.is_filtered(address & !7, word, bytes) {
            true => Known::Logged,
            false => Known::After,
        };
    }
    Known::Nothing
}

/// Owns one granule, as a writer or a reader: orders the thread after those whose accesses
/// conflict with that. If the bytes have to be logged, with which detail.
pub(crate) fn own(thread: &Thread, address: usize, bytes: u64, write: bool) -> Option<u16> {
    let shadow = shadow::word(address);
    let logged = logging(bytes, write);
    // Who owns a granule without accessing it synchronises by it.
    let atomic = if bytes == 0 { ATOMIC } else { 0 };
    let state = if write {
        WRITE_EXCLUSIVE
    } else {
        READ_EXCLUSIVE
    };
    loop {
        let word = unlocked(shadow);
        let next = match word & STATE {
            WRITE_EXCLUSIVE if !write && bytes != 0 && is_found_at_birth(thread, word) => {
                thread.see(address);
                READ_SHARED | word & SLOT | thread.birth() & POSITION
            }
            READ_SHARED if !write => {
                order_after(thread, address, word, false);
                others::meet(thread, address, word, write);
                if !sees(thread, shadow, address, word) {
                    continue;
                }
                let logged = is_order_only() || thread.filter(address & !7, word, bytes);
                return (!logged).then_some(TAKEN);
            }
            READ_EXCLUSIVE | WRITE_EXCLUSIVE if slot_of(word) == thread.slot.get() => {
                others::meet(thread, address, word, write);
                let is_owner = !write || word & WRITER != 0;
                let nothing_to_log = bytes == 0 && word & ATOMIC != 0 || is_order_only();
                let same_epoch = (word ^ thread.mine.get()) & EPOCH == 0;
                let is_renewed = same_epoch || !thread.is_tabled();
                if is_owner && nothing_to_log && is_renewed || is_logged(thread, word, write, bytes)
                {
                    return None;
                }
                // A writer stays one when it reads.
                let state = state.max(word & STATE);
                if same_epoch {
                    state | word & !STATE | logged
                } else {
                    owned(thread, state) | word & SHARED | logged
                }
            }
            // The last writer of a lock may hold it again, together with others.
            READ_EXCLUSIVE | WRITE_EXCLUSIVE if !write && (bytes == 0 || word & WRITER == 0) => {
                let next = read_shared(thread, word);
                others::meet(thread, address, word, write);
                thread.see(address);
                next
            }
            READ_SHARED if bytes == 0 && is_order_only() => {
                // Who has seen the word before it was locked said so before.
                let locked =
                    shadow.compare_exchange(word, LOCKED, Ordering::AcqRel, Ordering::Relaxed);
                if locked.is_err() {
                    continue;
                }
                thread.after_readers(address);
                let next = owned(thread, state) | SHARED | ATOMIC;
                shadow.store(next, Ordering::Release);
                return Some(TAKEN);
            }
            _ => {
                order_after(thread, address, word, write);
                others::meet(thread, address, word, write);
                let shared = if word == 0 { 0 } else { SHARED };
                owned(thread, state) | shared | logged
            }
        };
        let next = next | word & ATOMIC | atomic;
        if shadow
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            if next & STATE == READ_SHARED {
                thread.filter(address & !7, next, bytes);
            }
            thread.taken.set((address, word, next));
            let is_own = next & EXCLUSIVE != 0 && word != 0 && is_left_out(next);
            return (!is_own).then(|| taken(thread, word));
        }
    }
}

/// The thread reads a granule that has no owner and this word; whether it is still so. Where nobody
/// locks the words of atomic operations, a writer that locks this one after that sees it.
fn sees(thread: &Thread, shadow: &AtomicU64, address: usize, word: u64) -> bool {
    if !is_order_only() || word & ATOMIC == 0 {
        thread.see(address);
        return true;
    }
    !thread.see_at_once(address) || shadow.load(Ordering::Acquire) == word
}

/// The detail of an access to a granule with this word.
fn taken(thread: &Thread, word: u64) -> u16 {
    let own = match word & STATE {
        READ_SHARED => false,
        0 => true,
        _ => slot_of(word) == thread.slot.get(),
    };
    if own { 0 } else { TAKEN }
}

/// Orders the thread after all that conflicts with a write, or with a read, of a granule. Readers
/// that share one are after the last write; if there are none any more, the word still says when
/// that was.
fn order_after(thread: &Thread, address: usize, word: u64, write: bool) {
    match word & STATE {
        READ_SHARED if write => {
            thread.regrets(slot_of(word));
            thread.after_readers(address);
        }
        READ_SHARED if thread.is_after(slot_of(word), word & POSITION) => {}
        READ_SHARED => thread.after_write(slot_of(word), word & POSITION),
        0 => {}
        _ if slot_of(word) == thread.slot.get() => {}
        _ if thread.is_after_epoch(slot_of(word), epoch_of(word)) => {}
        _ => drop(thread.after_epoch(slot_of(word), epoch_of(word))),
    }
}

/// The thread lets go of a place that it synchronises by, or has begun another transaction there: who
/// comes next is after that. If `holds`, then nobody else can own it, unless a neighbour does.
pub(crate) fn touch(thread: &Thread, address: usize, holds: bool) {
    let shadow = shadow::word(address);
    loop {
        let word = unlocked(shadow);
        let next = match word & STATE {
            READ_SHARED => {
                thread.see(address);
                return;
            }
            READ_EXCLUSIVE | WRITE_EXCLUSIVE if slot_of(word) == thread.slot.get() => {
                owned(thread, word & STATE) | word & (SHARED | ATOMIC)
            }
            READ_EXCLUSIVE | WRITE_EXCLUSIVE if holds => {
                own(thread, address, 0, true);
                return;
            }
            _ => return,
        };
        if shadow
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
    }
}

/// The word of a granule that another thread owns and this one only reads. It names the owner's last
/// access, which is the last write or comes after it: who shares the granule later has no need to be
/// after those who have done so before.
fn read_shared(thread: &Thread, word: u64) -> u64 {
    let position = thread.after_epoch(slot_of(word), epoch_of(word));
    READ_SHARED | word & SLOT | position & POSITION
}

/// Whether a granule that its owner has written is to belong to nobody when the thread reads it, because that was before the
/// thread was born.
fn is_found_at_birth(thread: &Thread, word: u64) -> bool {
    word & ATOMIC == 0 && thread.finds_at_birth(slot_of(word), epoch_of(word))
}

/// The word, when nobody has it locked.
#[inline]
fn unlocked(shadow: &AtomicU64) -> u64 {
    let word = shadow.load(Ordering::Acquire);
    if word == LOCKED {
        wait_for(shadow)
    } else {
        word
    }
}

#[cold]
fn wait_for(shadow: &AtomicU64) -> u64 {
    for turn in 0..PATIENCE {
        let word = shadow.load(Ordering::Acquire);
        if word != LOCKED {
            return word;
        }
        if turn < 64 {
            core::hint::spin_loop();
        } else {
            platform::yield_now();
        }
    }
    LOCKED
}
