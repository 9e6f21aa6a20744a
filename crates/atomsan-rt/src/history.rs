//! Which transaction an owner was in when it last accessed a granule.
//!
//! Who takes a granule from its owner comes after the owner's last access to it, and after nothing
//! that the owner has done since. Two threads that take the same lock in turns are in new
//! transactions by then: an edge from what the owner does *now* would lead from the one that waits
//! for the lock to the one that has it, and back when the lock is given back, a circle at every
//! turn. An edge from the last access goes back in time, and circles are those of the program.
//!
//! The shadow word has the epoch of the owner's last access ([`crate::ownership`]): each
//! transaction has epochs of its own, and an access in another epoch renews the word. A slot's
//! history says in which epoch its last transactions began, so the epoch tells the transaction: the
//! last one that had begun by then.
//!
//! # Why it is right
//!
//! It would be wrong to name a transaction that is *earlier* than the one of the last access; a later
//! one of the same thread is less exact, and no path is lost, because program order leads there.
//!
//! - A word is stored after its transaction has begun, and the history is written before that. So
//!   who sees the word sees its transaction there, or a later one in its place.
//! - What is older than the history is taken for the oldest transaction in it: a later one.
//! - Epochs have 30 bits and come again. An epoch that comes from before the last round looks like
//!   one that is later than its own, or than all: again a later transaction. Only if a
//!   single transaction has more than half of all epochs, each of which has a record of its own, can
//!   the next one seem to be before it; its log has been forgotten long before.
//! - An owner's plain store may undo that another has taken the word (see [`crate::ownership`]). The
//!   other one's accesses are then ordered by the synchronisation between them: a lock's word is
//!   renewed when the lock is released, and an atomic operation's by the operation. So those words
//!   name a transaction that is not earlier than what was done before the release.
//!
//! # Positions
//!
//! Where everything is logged, the history also has the position at which each transaction began.
//! An edge between positions goes as far as the transaction from which the edge between transactions
//! comes, so that who is [after](crate::thread::Thread::is_after) a position is also after the
//! transaction that it is in.

use crate::format::LOW;
use crate::ownership::epoch_of;
use crate::sync::AtomicU64;
use core::sync::atomic::Ordering;

/// How many transactions are remembered.
const LEN: u64 = 256;
/// Entries that may be overwritten while somebody looks are not looked at.
const MARGIN: u64 = 16;

pub(crate) const EPOCH_BITS: u32 = 30;
const EPOCHS: u32 = 1 << EPOCH_BITS;
/// An entry that is being written: there is no transaction with the number 0.
const WRITING: u64 = 0;

/// The beginning of a transaction.
struct Entry {
    /// Its number, and in the upper 16 bits the region.
    what: AtomicU64,
    /// The thread's own word.
    mine: AtomicU64,
    position: AtomicU64,
}

/// The last transactions of a slot. All-zero memory is a valid one.
pub(crate) struct History {
    entries: [Entry; LEN as usize],
}

/// What is known of a transaction.
#[derive(Clone, Copy)]
struct Began {
    region: u64,
    epoch: u32,
    position: u64,
}

/// A transaction that another one comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its number, and in the upper 16 bits its region, plus 1.
    pub(crate) clock: u64,
    /// The position at which the next one began, if there is one.
    pub(crate) end: Option<u64>,
}

/// Whether an epoch is not before another one.
pub(crate) fn is_since(epoch: u32, began: u32) -> bool {
    epoch.wrapping_sub(began) % EPOCHS < EPOCHS / 2
}

impl History {
    fn entry(&self, clock: u64) -> &Entry {
        &self.entries[(clock % LEN) as usize]
    }

    /// A transaction begins, with the region in the upper 16 bits of its number, and this own word of the slot's thread. To be
    /// called by that, before anybody sees the number.
    #[inline(always)]
    pub(crate) fn begin(&self, clock: u64, mine: u64, position: Option<u64>) {
        let entry = self.entry(clock);
        entry.what.store(WRITING, Ordering::Release);
        entry.mine.store(mine, Ordering::Release);
        if let Some(position) = position {
            entry.position.store(position, Ordering::Release);
        }
        entry.what.store(clock, Ordering::Release);
    }

    fn get(&self, clock: u64) -> Option<Began> {
        let entry = self.entry(clock);
        let what = entry.what.load(Ordering::Acquire);
        let mine = entry.mine.load(Ordering::Acquire);
        let position = entry.position.load(Ordering::Acquire);
        let whole = entry.what.load(Ordering::Acquire) == what;
        (what & LOW == clock && whole).then_some(Began {
            region: what >> 48,
            epoch: epoch_of(mine),
            position,
        })
    }

    /// The transaction that had begun last in an epoch, if the slot's number is `now`. If that is not
    /// after the one with the number `known`, then the latter. `None` if it cannot be said.
    pub(crate) fn in_epoch(&self, epoch: u32, known: u64, now: u64) -> Option<Source> {
        self.last(known, now, |began| is_since(epoch, began.epoch))
    }

    /// The transaction with this number, if it is the one that had begun last in an epoch because it began in that. Nothing else
    /// is looked at: what a thread has just written, it is about to write to again.
    pub(crate) fn began_in(&self, epoch: u32, clock: u64) -> Option<Source> {
        let began = self.get(clock).filter(|began| began.epoch == epoch)?;
        Some(Source {
            clock: clock | began.region << 48,
            end: None,
        })
    }

    /// The same for what is before a position.
    pub(crate) fn before(&self, position: u64, known: u64, now: u64) -> Option<Source> {
        self.last(known, now, |began| began.position < position)
    }

    /// The transaction with a number, or a later one.
    pub(crate) fn numbered(&self, clock: u64, now: u64) -> Option<Source> {
        self.source(clock.max(now.saturating_sub(LEN - MARGIN)), now)
    }

    /// The last transaction that had begun, or the one that is known if that is later.
    fn last(&self, known: u64, now: u64, had_begun: impl Fn(&Began) -> bool) -> Option<Source> {
        if known >= now {
            return Some(Source {
                clock: known,
                end: None,
            });
        }
        let oldest = now.saturating_sub(LEN - MARGIN).max(1);
        // Had the one at `high` begun, it would be known already; the one at `low` is right if
        // nothing later had begun.
        let (mut low, mut high) = (known.max(oldest), now + 1);
        // Much that one thread has made and another one uses is from the same transaction.
        if low == known && !had_begun(&self.get(known + 1)?) {
            high = known + 1;
        }
        let mut step = 1;
        while high - low > step {
            if had_begun(&self.get(high - step)?) {
                low = high - step;
                break;
            }
            high -= step;
            step *= 2;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if had_begun(&self.get(middle)?) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.source(low, now)
    }

    fn source(&self, clock: u64, now: u64) -> Option<Source> {
        let region = self.get(clock)?.region;
        let end = if clock < now {
            Some(self.get(clock + 1)?.position)
        } else {
            None
        };
        Some(Source {
            clock: clock | region << 48,
            end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(of: impl Iterator<Item = (u64, u32, u64)>) -> std::boxed::Box<History> {
        // SAFETY: all-zero memory is a valid one.
        let history: std::boxed::Box<History> =
            unsafe { std::boxed::Box::new(core::mem::zeroed()) };
        for (clock, epoch, position) in of {
            let mine = crate::ownership::epochs(epoch.into());
            history.begin(clock | (clock % 3) << 48, mine, Some(position));
        }
        history
    }

    /// Every third epoch begins a transaction, at every tenth position.
    fn regular(first: u64, last: u64) -> std::boxed::Box<History> {
        history((first..=last).map(|clock| (clock, (3 * clock) as u32 % EPOCHS, 10 * clock)))
    }

    fn clock(source: Option<Source>) -> u64 {
        source.unwrap().clock & 0xffff_ffff_ffff
    }

    #[test]
    fn the_last_that_had_begun() {
        let history = regular(1, 100);
        for of in 1..=100u64 {
            for within in 0..3 {
                let epoch = 3 * of as u32 + within;
                let found = history.in_epoch(epoch, 0, 100);
                assert_eq!(clock(found), of);
                assert_eq!(found.unwrap().clock >> 48, of % 3);
                let end = (of < 100).then_some(10 * of + 10);
                assert_eq!(found.unwrap().end, end);
                // What is known already is not found again.
                assert!(clock(history.in_epoch(epoch, 40, 100)) == of.max(40));
            }
            for within in 1..=10 {
                assert_eq!(clock(history.before(10 * of + within, 0, 100)), of);
            }
        }
    }

    #[test]
    fn what_began_in_an_epoch() {
        let history = regular(1, 5000);
        for of in [4900, 5000u64] {
            let epoch = (3 * of) as u32;
            let began = history.began_in(epoch, of);
            assert_eq!(began.unwrap().clock, of | (of % 3) << 48);
            assert_eq!(clock(began), clock(history.in_epoch(epoch, 0, 5000)));
            // It began before that, and another one began then.
            assert_eq!(history.began_in(epoch + 1, of), None);
            assert_eq!(history.began_in(epoch, of - 1), None);
        }
        // It has been overwritten, and there is no such one.
        assert_eq!(history.began_in(30, 10), None);
        assert_eq!(history.began_in(15_003, 5001), None);
    }

    #[test]
    fn what_is_older_than_the_history_is_taken_for_later() {
        let history = regular(1, 5000);
        let oldest = 5000 - (LEN - MARGIN);
        assert_eq!(clock(history.in_epoch(30, 0, 5000)), oldest);
        assert_eq!(clock(history.before(30, 0, 5000)), oldest);
        assert_eq!(clock(history.numbered(30, 5000)), oldest);
        assert_eq!(clock(history.numbered(4990, 5000)), 4990);
        assert_eq!(clock(history.in_epoch(14_999, 0, 5000)), 4999);
    }

    #[test]
    fn epochs_come_again() {
        let first = u64::from(EPOCHS) / 3 - 20;
        let history = regular(first, first + 60);
        for of in first..=first + 60 {
            let epoch = (3 * of) as u32 % EPOCHS;
            assert_eq!(clock(history.in_epoch(epoch, first, first + 60)), of);
        }
    }

    #[test]
    fn what_has_been_overwritten_is_not_known() {
        let history = regular(1, 5000);
        // Somebody has looked at the number long ago.
        assert_eq!(history.in_epoch(30, 0, 4000), None);
    }
}
