//! Who owns a granule of memory, and how accesses get their order.
//!
//! Each 8 bytes of memory have a shadow word, as in Octet:
//!
//! ```text
//! bits      63–62            61–48   47–16   15–8      7–0
//!           1 read-exclusive slot    epoch   written   read     bytes logged in that epoch
//!           2 write-exclusive slot   epoch   written   read
//!           3 read-shared    slot    position of that slot's log
//!           0                                          0 new, 1 locked
//! ```
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

use crate::format::{COMPARED, Kind, TAKEN, first_word, second_word};
use crate::thread::{LastLoad, Thread};
use crate::{platform, shadow};
use core::sync::atomic::{AtomicU64, Ordering};

const LOCKED: u64 = 1;
const READ_EXCLUSIVE: u64 = 1 << 62;
const WRITE_EXCLUSIVE: u64 = 2 << 62;
const READ_SHARED: u64 = 3 << 62;
const STATE: u64 = 3 << 62;
const POSITION: u64 = (1 << 48) - 1;

/// How often a thread lets others run before it takes a lock over.
const PATIENCE: u32 = 100_000;

fn slot_of(word: u64) -> u32 {
    (word >> 48) as u32 & 0x3fff
}

#[inline(always)]
fn owned(thread: &Thread, state: u64) -> u64 {
    state | thread.tag.get() << 16
}

/// The bytes of a granule that `size` bytes from `address` on cover; the rest is in the next one.
#[inline(always)]
fn bytes(address: usize, size: usize) -> u64 {
    let from = address & 7;
    let size = size.min(8 - from);
    ((1 << size) - 1) << from
}

/// Whether an access is in the log since the epoch began.
#[inline(always)]
fn is_logged(thread: &Thread, word: u64, write: bool, bytes: u64) -> bool {
    let owner = word & !0xffff;
    if write {
        owner == owned(thread, WRITE_EXCLUSIVE) && word >> 8 & bytes == bytes
    } else {
        (owner == owned(thread, WRITE_EXCLUSIVE) || owner == owned(thread, READ_EXCLUSIVE))
            && (word | word >> 8) & bytes == bytes
    }
}

/// A plain access of up to 16 bytes.
#[inline(always)]
pub(crate) fn access(thread: &Thread, address: usize, size: usize, write: bool, pc: u64) {
    let first = bytes(address, size);
    let fits = (address & 7) + size <= 8;
    if fits
        && is_logged(
            thread,
            shadow::word(address).load(Ordering::Relaxed),
            write,
            first,
        )
    {
        return;
    }
    access_slow(thread, address, size, write, pc);
}

#[inline(never)]
fn access_slow(thread: &Thread, address: usize, size: usize, write: bool, pc: u64) {
    if thread.ignoring.get() > 0 {
        return;
    }
    thread.work(|| {
        if let Some(detail) = own_range(thread, address, size, write) {
            let kind = if write { Kind::Write } else { Kind::Read };
            let first = first_word(kind, size as u8, address as u64);
            thread.append_access([first, second_word(detail, pc)]);
        }
    });
}

/// A plain access of any size.
pub(crate) fn access_range(thread: &Thread, address: usize, len: usize, write: bool, pc: u64) {
    if len == 0 || thread.ignoring.get() > 0 {
        return;
    }
    if len <= 16 {
        return access(thread, address, len, write, pc);
    }
    thread.work(|| {
        if let Some(detail) = own_range(thread, address, len, write) {
            let kind = if write {
                Kind::WriteRange
            } else {
                Kind::ReadRange
            };
            let first = first_word(kind, 0, address as u64);
            thread.append_access([first, second_word(detail, pc), len as u64]);
        }
    });
}

/// Owns all granules of a range; if any of its bytes has to be logged, with which detail.
fn own_range(thread: &Thread, address: usize, len: usize, write: bool) -> Option<u16> {
    let end = address.saturating_add(len);
    let (mut at, mut fresh) = (address, None);
    while at < end {
        if let Some(detail) = own(thread, at, bytes(at, end - at), write) {
            fresh = Some(fresh.unwrap_or(0) | detail);
        }
        at = (at | 7).saturating_add(1);
    }
    fresh
}

/// Owns one granule, as a writer or a reader: orders the thread after those whose accesses
/// conflict with that. If the bytes have to be logged, with which detail.
pub(crate) fn own(thread: &Thread, address: usize, bytes: u64, write: bool) -> Option<u16> {
    let shadow = shadow::word(address);
    let logged = if write { bytes << 8 } else { bytes };
    let state = if write {
        WRITE_EXCLUSIVE
    } else {
        READ_EXCLUSIVE
    };
    loop {
        let word = unlocked(shadow);
        let next = match word & STATE {
            READ_SHARED if !write => {
                if !thread.is_after(slot_of(word), word & POSITION) {
                    thread.after(slot_of(word));
                }
                return (!thread.filter(address & !7, word, bytes)).then_some(TAKEN);
            }
            READ_EXCLUSIVE | WRITE_EXCLUSIVE if slot_of(word) == thread.slot.get() => {
                if is_logged(thread, word, write, bytes) {
                    return None;
                }
                // A writer stays one when it reads.
                let state = state.max(word & STATE);
                if word & !(STATE | 0xffff) == owned(thread, 0) {
                    state | word & !STATE | logged
                } else {
                    owned(thread, state) | logged
                }
            }
            READ_EXCLUSIVE if !write => {
                thread.after(slot_of(word));
                read_shared(thread)
            }
            _ => {
                order_after(thread, word, write);
                owned(thread, state) | logged
            }
        };
        if shadow
            .compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            if next & STATE == READ_SHARED {
                thread.filter(address & !7, next, bytes);
            }
            return Some(taken(thread, word));
        }
    }
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

/// Memory dies: it belongs to the thread that gives it back, which the program has ordered after
/// all that was done with it. So does the first granule if nobody ever touched it.
pub(crate) fn give_back(thread: &Thread, address: usize, len: usize) {
    let word = owned(thread, WRITE_EXCLUSIVE);
    shadow::each_known(address, len, |shadow| shadow.store(word, Ordering::Relaxed));
    shadow::word(address).store(word, Ordering::Relaxed);
}

/// Memory comes to life, and is new. That it is free now, and where, the allocator has passed from
/// thread to thread without being seen; so the thread orders itself after those that gave it back.
pub(crate) fn renew(thread: &Thread, address: usize, len: usize) {
    shadow::each_known(address, len, |shadow| {
        order_after(thread, shadow.load(Ordering::Relaxed), false);
        shadow.store(0, Ordering::Relaxed);
    });
}

/// Orders the thread after all that conflicts with a write, or with a read, of a granule.
fn order_after(thread: &Thread, word: u64, write: bool) {
    match word & STATE {
        READ_SHARED if write => thread.after_everybody(),
        READ_SHARED if thread.is_after(slot_of(word), word & POSITION) => {}
        0 => {}
        _ => thread.after(slot_of(word)),
    }
}

fn read_shared(thread: &Thread) -> u64 {
    READ_SHARED | u64::from(thread.slot.get()) << 48 | thread.position() & POSITION
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

/// What an atomic operation did.
pub(crate) enum Outcome {
    /// Loaded this.
    Load(u64),
    /// Stored this.
    Store(u64),
    /// Replaced the first by the second.
    Rmw(u64, u64),
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
    let word = lock(shadow);
    order_after(thread, word, may_write);
    let (result, outcome) = perform();
    let (first, second) = (
        first_word(Kind::AtomicLoad, size as u8, address as u64),
        second_word(taken(thread, word), pc),
    );
    let kind = |kind: Kind| first & !(0xff << 56) | (kind as u64) << 56;
    let next = |thread: &Thread, wrote: bool| match word & STATE {
        _ if wrote => owned(thread, WRITE_EXCLUSIVE),
        READ_SHARED => word,
        WRITE_EXCLUSIVE if slot_of(word) == thread.slot.get() => owned(thread, WRITE_EXCLUSIVE),
        READ_EXCLUSIVE if slot_of(word) != thread.slot.get() => read_shared(thread),
        _ => owned(thread, READ_EXCLUSIVE),
    };
    let wrote = match outcome {
        Outcome::Load(value) => {
            // A thread that spins would otherwise fill the log.
            let load = |word| LastLoad {
                address,
                pc,
                value,
                word,
                cursor: thread.position(),
            };
            if !thread.repeats(load(word)) {
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
        Outcome::Rmw(before, after) => {
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
    shadow.store(next(thread, wrote), Ordering::Release);
    result
}

/// An atomic operation that the program asked us not to look at: it has its place in the order,
/// because others may rely on that, and no record.
pub(crate) fn unseen_atomic<R>(thread: &Thread, address: usize, perform: impl FnOnce() -> R) -> R {
    let shadow = shadow::word(address);
    order_after(thread, lock(shadow), true);
    let result = perform();
    shadow.store(owned(thread, WRITE_EXCLUSIVE), Ordering::Release);
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
