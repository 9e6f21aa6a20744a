//! Who owns a granule of memory, and how accesses get their order.
//!
//! Each 8 bytes of memory have a shadow word, as in Octet:
//!
//! ```text
//! bits      63–62            61–48   47      46      45–16   15–8      7–0
//!           2 read-exclusive slot    atomic  shared  epoch   written   seen     bytes logged in that epoch
//!           3 write-exclusive slot   atomic  shared  epoch   written   seen
//!           1 read-shared    slot    atomic  position of that slot's log
//!           0                                                  0 new, 1 locked
//! ```
//!
//! Bytes that were written have been seen. So all that a thread has to know of a word is how it
//! differs from the word that says "mine, all of it logged" ([`Thread::mine`]): an exclusive or,
//! and a mask for the kind of access ([`MASKS`]). The hooks do that before anything else.
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
mod simply;

pub(crate) use atomic::{Outcome, atomic, take_back, unseen_atomic};

use crate::format::{Kind, TAKEN, first_word, second_word};
use crate::sync::AtomicU64;
use crate::thread::Thread;
use crate::{platform, shadow};
use core::sync::atomic::{AtomicBool, Ordering};

const LOCKED: u64 = 1;
const EXCLUSIVE: u64 = 1 << 63;
const WRITER: u64 = 1 << 62;
const READ_EXCLUSIVE: u64 = EXCLUSIVE;
const WRITE_EXCLUSIVE: u64 = EXCLUSIVE | WRITER;
const READ_SHARED: u64 = 1 << 62;
const STATE: u64 = 3 << 62;
const SLOT: u64 = 0x3fff << 48;
/// The granule holds something that threads synchronise by.
const ATOMIC: u64 = 1 << 47;
const POSITION: u64 = ATOMIC - 1;
const BYTES: u64 = 0xffff;
/// More than one thread has accessed the granule since it was new.
const SHARED: u64 = 1 << 46;
pub(crate) const EPOCH: u64 = POSITION & !BYTES & !SHARED;

/// In which bits the word of a granule may not differ from the thread's own, for a write and for a read, if
/// nothing is to be done but to renew the epoch. Where accesses are logged, there is always more to do.
pub(crate) fn renewed() -> (u64, u64) {
    if is_order_only() {
        (STATE | SLOT | ATOMIC, EXCLUSIVE | SLOT | ATOMIC)
    } else {
        (!0, !0)
    }
}

/// What a small block of memory is.
const SMALL: usize = 128 << 10;

/// How often a thread lets others run before it takes a lock over.
const PATIENCE: u32 = 100_000;

/// For the sizes 1, 2, 4 and 8, read and write, and each place in a granule: the bits in which a
/// shadow word must be like the thread's own for the access to be logged already.
pub(crate) static MASKS: [AtomicU64; 64] = {
    let mut masks = [const { AtomicU64::new(0) }; 64];
    let mut index = 0;
    while index < 64 {
        masks[index] = AtomicU64::new(mask(index));
        index += 1;
    }
    masks
};

const fn mask(index: usize) -> u64 {
    let (size, write, from) = (1 << (index / 16), index / 8 % 2 == 1, index % 8);
    let bytes = bytes(from, size);
    if write {
        STATE | SLOT | EPOCH | bytes << 8
    } else {
        EXCLUSIVE | SLOT | EPOCH | bytes
    }
}

/// Whether accesses are left out of the logs, and only make edges: the first of two runs.
static ORDER_ONLY: AtomicBool = AtomicBool::new(false);

/// From now on, no accesses are logged, and it is enough for one that the word says that the thread
/// owns the granule and has accessed it in this epoch.
/// To be called before anything is logged.
pub(crate) fn log_no_accesses() {
    ORDER_ONLY.store(true, Ordering::Relaxed);
    for mask in &MASKS {
        mask.fetch_and(STATE | SLOT | EPOCH, Ordering::Relaxed);
    }
}

/// Whether plain accesses to memory that one thread has to itself are left out of the logs: history is
/// being forgotten anyway, and this part of it says least. Only the first access to what nobody has allocated
/// is logged nevertheless: it may be the look at a variable that somebody else changes next.
static SHARED_ONLY: AtomicBool = AtomicBool::new(false);

/// From now on, plain accesses to granules that only one thread has accessed are not logged, and cost
/// no more than a look at the word, in whatever epoch.
pub(crate) fn log_shared_accesses_only() {
    if SHARED_ONLY.swap(true, Ordering::Relaxed) || is_order_only() {
        return;
    }
    for mask in &MASKS {
        let state = mask.load(Ordering::Relaxed) & (STATE | SLOT);
        mask.store(state | SHARED | ATOMIC, Ordering::Relaxed);
    }
}

/// Whether an access to a granule with this word is left out, if the thread owns it.
#[inline(always)]
fn is_left_out(word: u64) -> bool {
    word & (SHARED | ATOMIC) == 0 && SHARED_ONLY.load(Ordering::Relaxed)
}

/// Accesses are logged again.
#[cfg(test)]
pub(crate) fn log_accesses() {
    ORDER_ONLY.store(false, Ordering::Relaxed);
    log_private_accesses();
}

/// Accesses to what one thread has to itself are logged again, because it is in another log.
pub(crate) fn log_private_accesses() {
    SHARED_ONLY.store(false, Ordering::Relaxed);
    if !is_order_only() {
        for (index, shared) in MASKS.iter().enumerate() {
            shared.store(mask(index), Ordering::Relaxed);
        }
    }
}

/// Whether no accesses are logged.
#[inline(always)]
pub(crate) fn is_order_only() -> bool {
    ORDER_ONLY.load(Ordering::Relaxed)
}

/// Where the masks for a size and a kind of access start, in bytes.
pub(crate) const fn masks_offset(size: usize, write: bool) -> usize {
    8 * (16 * size.trailing_zeros() as usize + 8 * write as usize)
}

#[inline(always)]
fn slot_of(word: u64) -> u32 {
    (word >> 48) as u32 & 0x3fff
}

/// The own word of a thread that takes a slot, in the epoch that follows the one of `last`.
pub(crate) fn owned_by(slot: u32, last: u64) -> u64 {
    let word = WRITE_EXCLUSIVE | u64::from(slot) << 48 | last & EPOCH | BYTES;
    next_epoch(word)
}

/// The own word of the next epoch. There is no epoch 0.
#[inline(always)]
pub(crate) fn next_epoch(mine: u64) -> u64 {
    let next = mine & !EPOCH | mine.wrapping_add(BYTES + 1) & EPOCH;
    if next & EPOCH == 0 {
        next | (BYTES + 1)
    } else {
        next
    }
}

/// How many epochs a word is after a thread's own word, in units that only compare.
#[inline(always)]
pub(crate) fn since(own: u64, word: u64) -> u64 {
    (word | BYTES).wrapping_sub(own) & EPOCH
}

/// So many epochs, as [`since`] counts them.
pub(crate) const fn epochs(count: u64) -> u64 {
    count << EPOCH.trailing_zeros()
}

/// The epoch in a word of an owner's.
#[inline(always)]
pub(crate) fn epoch_of(word: u64) -> u32 {
    ((word & EPOCH) >> EPOCH.trailing_zeros()) as u32
}

/// How the words of granules without an owner begin that name a slot, and what those are smaller than
/// that name a position up to this one; or any, if there is none. Those that atomic operations have
/// touched are never smaller.
pub(crate) fn settled(slot: u32, after: Option<u64>) -> (usize, u64) {
    let beginning = READ_SHARED | u64::from(slot) << 48;
    let end = after.map_or(ATOMIC, |position| (position + 1).min(ATOMIC));
    ((beginning >> 48) as usize, beginning + end)
}

/// The word of a granule that belongs to the thread, with nothing logged.
#[inline(always)]
fn owned(thread: &Thread, state: u64) -> u64 {
    thread.mine.get() & (SLOT | EPOCH) | state
}

/// The bytes of a granule that `size` bytes from `address` on cover; the rest is in the next one.
#[inline(always)]
const fn bytes(address: usize, size: usize) -> u64 {
    let from = address & 7;
    let size = if size < 8 - from { size } else { 8 - from };
    ((1 << size) - 1) << from
}

/// How a word says that these bytes are logged.
#[inline(always)]
fn logging(bytes: u64, write: bool) -> u64 {
    if write { bytes << 8 | bytes } else { bytes }
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

/// A plain access, if it is of one granule that the thread owns and only has to be written down; whether
/// it was.
#[inline(always)]
pub(crate) fn logs_quickly(
    thread: &Thread,
    address: usize,
    size: usize,
    write: bool,
    pc: u64,
) -> bool {
    if (address & 7) + size > 8 {
        return false;
    }
    let shadow = shadow::word(address);
    let word = shadow.load(Ordering::Relaxed);
    let difference = word ^ thread.mine.get();
    let state = if write { STATE } else { EXCLUSIVE };
    if difference & (state | SLOT | ATOMIC) != 0 || word & SHARED != 0 && !thread.is_inside() {
        return !write && word & STATE == READ_SHARED && reads(thread, address, size, word, pc);
    }
    let logged = logging(bytes(address, size), write);
    let before = logged_before(thread, word);
    let next = owned(thread, word & STATE) | word & SHARED | before | logged;
    if before & logged == logged {
        // The hooks see to it from now on.
        shadow.store(next, Ordering::Release);
        return true;
    }
    let kind = if write { Kind::Write } else { Kind::Read };
    let first = first_word(kind, size as u8, address as u64);
    thread.append_at_once(false, [first, second_word(0, pc)], || {
        shadow.store(next, Ordering::Release);
        true
    })
}

/// A read of a granule that has no owner, if it only has to be written down; whether it was.
#[inline(always)]
fn reads(thread: &Thread, address: usize, size: usize, word: u64, pc: u64) -> bool {
    if is_order_only() || !thread.is_after(slot_of(word), word & POSITION) {
        return false;
    }
    let first = first_word(Kind::Read, size as u8, address as u64);
    thread.append_at_once(true, [first, second_word(TAKEN, pc)], || {
        thread.see(address);
        thread.note_read(address & !7, word, bytes(address, size));
        true
    })
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
            if !thread.append_at_once(next & SHARED != 0, record, renew) {
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

/// Whether nothing is to be done for an access to more than one granule, because the thread owns all
/// of them or may read them, and has logged these bytes if anything is logged.
#[inline(always)]
fn is_settled(thread: &Thread, address: usize, size: usize, write: bool) -> bool {
    let end = address.saturating_add(size);
    let mut at = address;
    while at < end {
        let word = shadow::word(at).load(Ordering::Relaxed);
        let known = look(thread, at, word, bytes(at, end - at), write);
        if !matches!(known, Known::Logged) {
            return false;
        }
        at = (at | 7).saturating_add(1);
    }
    true
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

#[inline(never)]
fn access_slow(thread: &Thread, address: usize, size: usize, write: bool, pc: u64) {
    if thread.ignoring.get() > 0 {
        return;
    }
    thread.work(|| {
        look_where(thread, address, pc);
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
        look_where(thread, address, pc);
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
    let all = MASKS[masks_offset(8, write) / 8].load(Ordering::Relaxed);
    while at < end {
        if at & 7 == 0 {
            // Most of a long range is settled like this.
            let mine = thread.mine.get();
            at += 8 * shadow::count(at, (end - at) / 8, |word| (word ^ mine) & all == 0);
            if at >= end {
                break;
            }
        }
        let (shadow, bytes) = (shadow::word(at), bytes(at, end - at));
        let word = shadow.load(Ordering::Relaxed);
        let detail = match look(thread, at, word, bytes, write) {
            Known::Logged => None,
            Known::Owned(next) => {
                shadow.store(next, Ordering::Release);
                Some(0)
            }
            Known::Nothing
                if is_order_only() && simply::takes_word(thread, shadow, word, write, || true) =>
            {
                None
            }
            Known::After | Known::Nothing => own(thread, at, bytes, write),
        };
        if let Some(detail) = detail {
            fresh = Some(fresh.unwrap_or(0) | detail);
        }
        at = (at | 7).saturating_add(1);
    }
    fresh
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
            if before & to_log == to_log && to_log != 0 {
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
            READ_SHARED if !write => {
                order_after(thread, address, word, false);
                if !sees(thread, shadow, address, word) {
                    continue;
                }
                let logged = is_order_only() || thread.filter(address & !7, word, bytes);
                return (!logged).then_some(TAKEN);
            }
            READ_EXCLUSIVE | WRITE_EXCLUSIVE if slot_of(word) == thread.slot.get() => {
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
            READ_EXCLUSIVE if !write => {
                let next = read_shared(thread, word);
                thread.see(address);
                next
            }
            // The last writer may hold the lock again, together with others.
            WRITE_EXCLUSIVE if !write && bytes == 0 => {
                let next = read_shared(thread, word);
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
    if len > SMALL || !thread.is_tabled() && !SHARED_ONLY.load(Ordering::Relaxed) {
        return shadow::each_known(address, len, |shadow| {
            order_after(thread, address, shadow.load(Ordering::Relaxed), false);
            shadow.store(0, Ordering::Relaxed);
        });
    }
    let owned_by_others = STATE | SLOT;
    shadow::each(address, len, |shadow| {
        let word = shadow.load(Ordering::Relaxed);
        if word != 0 && (word ^ thread.mine.get()) & owned_by_others != 0 {
            order_after(thread, address, word, false);
        }
        shadow.store(owned(thread, WRITE_EXCLUSIVE) | BYTES, Ordering::Relaxed);
    });
}

/// Orders the thread after all that conflicts with a write, or with a read, of a granule. Readers
/// that share one are after the last write; if there are none any more, the word still says when
/// that was.
fn order_after(thread: &Thread, address: usize, word: u64, write: bool) {
    match word & STATE {
        READ_SHARED if write => thread.after_readers(address),
        READ_SHARED if thread.is_after(slot_of(word), word & POSITION) => {}
        READ_SHARED => thread.after_write(slot_of(word), word & POSITION),
        0 => {}
        _ if slot_of(word) == thread.slot.get() => {}
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
