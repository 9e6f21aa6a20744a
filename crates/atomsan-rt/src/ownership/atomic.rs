//! Atomic operations, which are performed while their granule is locked, so that their records are in the
//! order in which they took effect; in a first run, which has no records, an owner needs no lock.

use super::word::{
    ATOMIC, EPOCH, EXCLUSIVE, LOCKED, POSITION, READ_EXCLUSIVE, READ_SHARED, SHARED, SLOT, STATE,
    WRITE_EXCLUSIVE, slot_of,
};
use super::{
    is_order_only, is_shared, look_where, order_after, others, own, owned, read_shared, sees,
    taken, unlocked,
};
use crate::format::{COMPARED, Kind, first_word, second_word};
use crate::sync::AtomicU64;
use crate::thread::{LastLoad, Thread};
use crate::{platform, shadow};
use core::sync::atomic::Ordering;

/// What an atomic operation did.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// Loaded this.
    Load(u64),
    /// Stored this.
    Store(u64),
    /// Replaced the first by the second, by an operation with this detail.
    Rmw(u64, u64, u16),
    /// Replaced the first by the second because the first was there.
    Swapped(u64, u64),
    /// Expected something else than this.
    Failed(u64),
}

/// An atomic operation: `perform` runs while the granule is locked, and what it did is logged
/// before anybody else gets at the granule. `may_write` says whether it can change memory.
#[inline]
pub(crate) fn atomic<R>(
    thread: &Thread,
    address: usize,
    size: usize,
    may_write: bool,
    pc: u64,
    perform: impl FnOnce() -> (R, Outcome),
) -> R {
    let shadow = shadow::word(address);
    if is_order_only() {
        return atomic_unlogged(thread, shadow, address, may_write, perform);
    }
    look_where(thread, address, pc);
    let word = lock(shadow);
    order_after(thread, address, word, may_write);
    others::meet(thread, address, word, may_write);
    let (result, outcome) = perform();
    let (first, second) = (
        first_word(Kind::AtomicLoad, size as u8, address as u64),
        second_word(taken(thread, word), pc),
    );
    let kind = |kind: Kind| first & !(0xff << 56) | (kind as u64) << 56;
    let next = |thread: &Thread, wrote: bool| {
        let shared = match word & STATE {
            0 => 0,
            READ_SHARED => SHARED,
            _ if slot_of(word) == thread.slot.get() => word & SHARED,
            _ => SHARED,
        };
        let word = match word & STATE {
            _ if wrote => owned(thread, WRITE_EXCLUSIVE) | shared,
            READ_SHARED => word,
            WRITE_EXCLUSIVE if slot_of(word) == thread.slot.get() => {
                owned(thread, WRITE_EXCLUSIVE) | shared
            }
            READ_EXCLUSIVE if slot_of(word) != thread.slot.get() => read_shared(thread, word),
            _ => owned(thread, READ_EXCLUSIVE) | shared,
        };
        word | ATOMIC
    };
    let mut repeated = false;
    let wrote = match outcome {
        Outcome::Load(value) => {
            // A thread that spins would otherwise fill the log.
            let load = |word| LastLoad {
                address,
                pc,
                value,
                word,
                mine: thread.mine.get(),
                cursor: thread.position(),
            };
            repeated = thread.repeats(load(word));
            if !repeated {
                thread.append_atomic([first, second, value]);
                thread.next_epoch();
                thread.remember(load(next(thread, false)));
            }
            false
        }
        Outcome::Store(value) => {
            thread.append_atomic([kind(Kind::AtomicStore), second, value]);
            true
        }
        Outcome::Rmw(before, after, detail) => {
            let second = second | second_word(detail, 0);
            thread.append_atomic([kind(Kind::AtomicRmw), second, before, after]);
            true
        }
        Outcome::Swapped(before, after) => {
            let second = second | second_word(COMPARED, 0);
            thread.append_atomic([kind(Kind::AtomicRmw), second, before, after]);
            true
        }
        Outcome::Failed(value) => {
            thread.append_atomic([kind(Kind::AtomicRmwFailed), second, value]);
            false
        }
    };
    thread.next_epoch();
    if is_shared(thread, word) {
        let (Outcome::Load(found)
        | Outcome::Store(found)
        | Outcome::Rmw(found, ..)
        | Outcome::Swapped(found, _)
        | Outcome::Failed(found)) = outcome;
        thread.take_turn(!repeated && taken(thread, word) != 0, pc, address, found);
    }
    let next = next(thread, wrote);
    if next & STATE == READ_SHARED {
        thread.see(address);
        thread.note_read(address & !7, next, 0);
    }
    thread.taken.set(match outcome {
        Outcome::Failed(_) => (address, word, next),
        _ => (0, 0, 0),
    });
    shadow.store(next, Ordering::Release);
    result
}

/// The same for an operation that may write to a granule to which the thread wrote last, if there is nothing else to do than to perform it
/// and to write that down. Whoever counts for himself does little else.
#[inline(always)]
pub(crate) fn atomic_again<R>(
    thread: &Thread,
    address: usize,
    size: usize,
    pc: u64,
    perform: impl FnOnce() -> (R, Outcome),
) -> Option<R> {
    let shadow = shadow::word(address);
    let word = shadow.load(Ordering::Relaxed);
    let is_own = (word ^ thread.mine.get()) & (STATE | SLOT | ATOMIC) == ATOMIC;
    if !is_own {
        return None;
    }
    if is_order_only() {
        return unlogged_again(thread, address, word, perform);
    }
    let is_shared = word & SHARED != 0;
    if !is_shared && thread.logs_nothing_of_its_own() {
        return alone_again(thread, address, word, perform);
    }
    if is_shared && !thread.may_append_at(pc) {
        return None;
    }
    thread.append_atomic_at_once(|append| {
        (shadow.compare_exchange(word, LOCKED, Ordering::AcqRel, Ordering::Relaxed)).ok()?;
        let (result, outcome) = perform();
        let record = |kind, detail| {
            let first = first_word(kind, size as u8, address as u64);
            [first, second_word(detail, pc)]
        };
        let (found, new, [first, second]) = match outcome {
            Outcome::Rmw(old, new, detail) => (old, Some(new), record(Kind::AtomicRmw, detail)),
            Outcome::Swapped(old, new) => (old, Some(new), record(Kind::AtomicRmw, COMPARED)),
            Outcome::Store(value) => (value, None, record(Kind::AtomicStore, 0)),
            Outcome::Failed(value) => (value, None, record(Kind::AtomicRmwFailed, 0)),
            Outcome::Load(value) => (value, None, record(Kind::AtomicLoad, 0)),
        };
        match new {
            Some(new) => append.record([first, second, found, new]),
            None => append.record([first, second, found]),
        }
        if is_shared {
            thread.take_turn(false, pc, address, found);
        }
        let next = owned(thread, WRITE_EXCLUSIVE) | word & SHARED | ATOMIC;
        thread.taken.set(match outcome {
            Outcome::Failed(_) => (address, word, next),
            _ => (0, 0, 0),
        });
        shadow.store(next, Ordering::Release);
        Some(result)
    })
}

/// The same with nothing to write down, because the thread has had the granule to itself so far and is where that need not be in the log.
/// Nobody else gets at the granule meanwhile.
#[inline(always)]
fn alone_again<R>(
    thread: &Thread,
    address: usize,
    word: u64,
    perform: impl FnOnce() -> (R, Outcome),
) -> Option<R> {
    if thread.is_busy() || thread.ignoring.get() > 0 {
        return None;
    }
    let shadow = shadow::word(address);
    let performed = thread.work(|| {
        (shadow.compare_exchange(word, LOCKED, Ordering::AcqRel, Ordering::Relaxed)).ok()?;
        let (result, outcome) = perform();
        thread.used.set(true);
        let next = owned(thread, WRITE_EXCLUSIVE) | ATOMIC;
        thread.taken.set(match outcome {
            Outcome::Failed(_) => (address, word, next),
            _ => (0, 0, 0),
        });
        shadow.store(next, Ordering::Release);
        Some(result)
    });
    performed.flatten()
}

/// The same in a first run, as [`atomic_unlogged`] does it: the word is still the owner's own when the operation has been performed.
#[inline(always)]
fn unlogged_again<R>(
    thread: &Thread,
    address: usize,
    word: u64,
    perform: impl FnOnce() -> (R, Outcome),
) -> Option<R> {
    let is_of_epoch = (word ^ thread.mine.get()) & EPOCH == 0;
    if !is_of_epoch || thread.is_busy() || thread.ignoring.get() > 0 {
        return None;
    }
    thread.taken.set((0, 0, 0));
    let (result, outcome) = perform();
    if shadow::word(address).load(Ordering::Acquire) != word {
        thread.work(|| own(thread, address, 0, true));
        if !matches!(outcome, Outcome::Failed(_)) {
            thread.taken.set((0, 0, 0));
        }
    }
    Some(result)
}

/// The same where no accesses are logged. The owner needs no lock: if the word is still its own when
/// the operation has been performed, then nobody else's operation has been performed before it. If
/// not, both come after each other, which is imprecise and not wrong.
fn atomic_unlogged<R>(
    thread: &Thread,
    shadow: &AtomicU64,
    address: usize,
    may_write: bool,
    perform: impl FnOnce() -> (R, Outcome),
) -> R {
    if may_write {
        platform::expect_write(core::ptr::from_ref(shadow).cast());
        platform::expect_write(address as *const u8);
    }
    let mask = if may_write { STATE } else { EXCLUSIVE } | SLOT | ATOMIC | EPOCH;
    let is_settled = || {
        let word = shadow.load(Ordering::Acquire);
        if (word ^ thread.mine.get() ^ ATOMIC) & mask == 0 {
            return true;
        }
        let shared = word & (STATE | ATOMIC) == READ_SHARED | ATOMIC && !may_write;
        shared
            && thread.is_after(slot_of(word), word & POSITION)
            && sees(thread, shadow, address, word)
    };
    thread.taken.set((0, 0, 0));
    if !is_settled() {
        own(thread, address, 0, may_write);
    }
    let (result, outcome) = perform();
    if !is_settled() {
        own(thread, address, 0, may_write);
    }
    if !matches!(outcome, Outcome::Failed(_)) {
        thread.taken.set((0, 0, 0));
    }
    result
}

/// The thread is going to wait for a lock after its attempt to take it has failed. That it has looked
/// at the lock does not count, then: it is tried again. So the lock is still its holder's, who
/// does not come after this thread when it lets go.
pub(crate) fn take_back(thread: &Thread, address: usize) {
    let (last, before, taken) = thread.taken.replace((0, 0, 0));
    if last == address && thread.is_tabled() && before & EXCLUSIVE != 0 {
        let shadow = shadow::word(address);
        let _ = shadow.compare_exchange(taken, before, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// An atomic operation that the program asked us not to look at: it has its place in the order,
/// because others may rely on that, and no record.
pub(crate) fn unseen_atomic<R>(thread: &Thread, address: usize, perform: impl FnOnce() -> R) -> R {
    let shadow = shadow::word(address);
    order_after(thread, address, lock(shadow), true);
    let result = perform();
    shadow.store(owned(thread, WRITE_EXCLUSIVE) | ATOMIC, Ordering::Release);
    result
}

fn lock(shadow: &AtomicU64) -> u64 {
    loop {
        let word = unlocked(shadow);
        if word == LOCKED {
            // Nobody gave it back: it is ours now, and nothing is known about the granule.
            return 0;
        }
        if shadow
            .compare_exchange(word, LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return word;
        }
    }
}
