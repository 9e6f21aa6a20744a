//! The shadow word of a granule.
//!
//! Each 8 bytes of memory have one, as in Octet:
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
//! differs from the word that says "mine, all of it logged" ([`crate::thread::Thread::mine`]): an exclusive or,
//! and a mask for the kind of access ([`super::MASKS`]). The hooks do that before anything else.

use core::sync::atomic::{AtomicU32, Ordering};

pub(super) const LOCKED: u64 = 1;
pub(super) const EXCLUSIVE: u64 = 1 << 63;
pub(super) const WRITER: u64 = 1 << 62;
pub(super) const READ_EXCLUSIVE: u64 = EXCLUSIVE;
pub(super) const WRITE_EXCLUSIVE: u64 = EXCLUSIVE | WRITER;
pub(super) const READ_SHARED: u64 = 1 << 62;
pub(super) const STATE: u64 = 3 << 62;
pub(super) const SLOT: u64 = 0x3fff << 48;
/// The granule holds something that threads synchronise by.
pub(super) const ATOMIC: u64 = 1 << 47;
pub(super) const POSITION: u64 = ATOMIC - 1;
pub(super) const BYTES: u64 = 0xffff;
/// More than one thread has accessed the granule since it was new.
pub(crate) const SHARED: u64 = 1 << 46;
pub(crate) const EPOCH: u64 = POSITION & !BYTES & !SHARED;

#[inline(always)]
pub(super) fn slot_of(word: u64) -> u32 {
    (word >> 48) as u32 & 0x3fff
}

/// The own word of a thread that takes a slot, in the epoch that follows the one of `last`.
pub(crate) fn owned_by(slot: u32, last: u64) -> u64 {
    let word = WRITE_EXCLUSIVE | u64::from(slot) << 48 | last & EPOCH | BYTES;
    next_epoch(word)
}

/// The own word of the next epoch.
#[inline(always)]
pub(crate) fn next_epoch(mine: u64) -> u64 {
    let next = mine.wrapping_add(BYTES + 1);
    if is_last_of_era(mine) {
        begin_era(next)
    } else {
        next
    }
}

/// Whether an era begins with the next epoch.
#[inline(always)]
pub(crate) fn is_last_of_era(mine: u64) -> bool {
    mine.wrapping_add(BYTES + 1) & (epochs(IN_ERA) - epochs(1)) == 0
}

/// How many epochs of a thread there are to an era.
const IN_ERA: u64 = 1 << 26;

/// The number of the era: it is another one when any thread has been through so many epochs, so that nobody needs to
/// fear that they come again while it lasts.
static ERA: AtomicU32 = AtomicU32::new(1);

/// The number of the era.
#[inline(always)]
pub(crate) fn era() -> u32 {
    ERA.load(Ordering::Relaxed)
}

/// An era begins with this word. There is no epoch 0.
#[cold]
fn begin_era(mine: u64) -> u64 {
    ERA.fetch_add(1, Ordering::Relaxed);
    let mine = mine & !(SHARED | ATOMIC);
    if mine & EPOCH == 0 {
        mine | epochs(1)
    } else {
        mine
    }
}

/// How many epochs a word is after a thread's own word, in units that only compare.
#[inline(always)]
pub(crate) fn since(own: u64, word: u64) -> u64 {
    (word | BYTES).wrapping_sub(own) & EPOCH
}

/// A thread's own word with nothing logged.
#[inline(always)]
pub(crate) fn nothing_logged(mine: u64) -> u64 {
    mine & !BYTES
}

/// How far a word is from the beginning of an epoch, which a thread's own word with [nothing logged](nothing_logged) tells:
/// as [`since`], with the bytes that are logged. A thread's own word is the last one of its epoch.
#[inline(always)]
pub(crate) fn within(beginning: u64, word: u64) -> u64 {
    word.wrapping_sub(beginning) << EPOCH.leading_zeros()
}

/// How far a thread's own word is [within](within) its epoch.
pub(crate) const WITHIN_EPOCH: u64 = BYTES << EPOCH.leading_zeros();

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

/// The bytes of a granule that `size` bytes from `address` on cover; the rest is in the next one.
#[inline(always)]
pub(super) const fn bytes(address: usize, size: usize) -> u64 {
    let from = address & 7;
    let size = if size < 8 - from { size } else { 8 - from };
    ((1 << size) - 1) << from
}

/// How a word says that these bytes are logged.
#[inline(always)]
pub(crate) const fn logging(bytes: u64, write: bool) -> u64 {
    if write { bytes << 8 | bytes } else { bytes }
}

/// In which bits the word of a granule differs from the thread's own if the thread may not access it so, or not
/// without a compare-exchange.
pub(crate) const fn foreign(write: bool) -> u64 {
    SLOT | ATOMIC | if write { STATE } else { EXCLUSIVE }
}

/// What stays of the word of a granule when its owner accesses it, or of how it differs from the owner's own: a writer
/// stays one when it reads. The rest comes from the owner's own word.
pub(crate) const fn stays(write: bool) -> u64 {
    SHARED | if write { 0 } else { WRITER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_within_some_epochs() {
        for first in [1, 9, IN_ERA - 3, (EPOCH >> EPOCH.trailing_zeros()) - 2] {
            let mine = |later: u64| owned_by(5, epochs(first + later));
            let (beginning, now) = (
                nothing_logged(mine(2)),
                within(nothing_logged(mine(2)), mine(4)),
            );
            assert_eq!(within(nothing_logged(mine(2)), mine(2)), WITHIN_EPOCH);
            for (later, is_within) in [
                (0, false),
                (1, false),
                (2, true),
                (3, true),
                (4, true),
                (5, false),
            ] {
                for logged in [0, 1, 0xff, BYTES] {
                    for flags in [0, SHARED, ATOMIC | SHARED] {
                        let word = nothing_logged(mine(later)) | logged | flags;
                        assert_eq!(within(beginning, word) <= now, is_within, "{first} {later}");
                        assert_eq!(since(mine(2), word) <= since(mine(2), mine(4)), is_within);
                    }
                }
            }
        }
    }

    #[test]
    fn epochs_and_eras_follow_each_other() {
        let slot = 5;
        let at = |epoch: u64| owned_by(slot, epochs(epoch));
        for last in [1, 7, IN_ERA - 2, IN_ERA, 3 * IN_ERA + 9] {
            assert_eq!(epoch_of(at(last)), last as u32 + 1);
        }
        // The first of an era, and the first after the last of all: there is no epoch 0.
        let all = (EPOCH >> EPOCH.trailing_zeros()) + 1;
        for (last, next) in [(IN_ERA - 1, IN_ERA), (all - 1, 1)] {
            let before = era();
            let word = at(last);
            assert!(era() != before, "{last}");
            assert_eq!(epoch_of(word), next as u32);
            assert_eq!((slot_of(word), word & (ATOMIC | SHARED)), (slot, 0));
            assert_eq!(word & (STATE | BYTES), WRITE_EXCLUSIVE | BYTES);
        }
    }
}
