//! Stretches outside of regions, where each access is a transaction of its own.
//!
//! # Why an edge is not enough
//!
//! What a thread does there is one transaction only as long as nothing new comes in. Say that it reads `y`, then `x`, which depends
//! on an open transaction `f`, and then `y` again. If `f` writes to `y` next, the two are in a cycle, by the second read
//! only: so another [stretch](super::stretch) must begin with `x`. An edge from `f` begins one. But a thread that is after `f` already writes
//! none, and it need not be so by a conflict: perhaps both are readers of one lock, or have read one variable, or use neighbours in a
//! granule. Such an order begins a stretch too early, and then the conflict none.
//!
//! So outside of regions a stretch begins with whatever may be in conflict with another thread, edge or not: with a granule that
//! is taken, with the first write to one that was shared, and with the first read of one without an owner
//! ([`crate::ownership`]). In a region all accesses are one transaction, and what repeats adds no edge. The engines' tests have this
//! as a property of random traces (`stretches.rs`), and the tests of the kernel compare it with the logs.
//!
//! # When it does not matter
//!
//! Edges that close a cycle lead to an open region, so the cycle has left it before: some edge leads out of the transaction
//! that a thread is in now. That is rare. For each slot there is the number of the last transaction that an edge leads out of,
//! and while no thread is in a region in such a one, nothing has to begin: not behind an edge either. What the thread did before the edge
//! stands for what it repeats behind it, though another transaction has begun; if a cycle ever goes through the thread, it comes in by a later
//! edge, which begins a stretch. For the same reason it does not matter that an edge may start at the transaction in which a read was logged, and not at the one
//! in which it was repeated: all that leads to either is over.
//!
//! Nor does it matter then what the thread does outside of regions with memory that it has had to itself so far: its transaction is in no cycle
//! before the next edge comes in, and behind that all is logged again. So the log has nothing of it, be it plain or atomic
//! ([`Thread::needs_no_log`]), but for granules that others have accessed, too, which say when they are taken who comes after whom. Nor is
//! there anything in the log of other transactions that relies on it: what atomic operations amount to is worked out from those of
//! transactions that are in a cycle together, and this one is in none.
//!
//! The number is there before the edge is counted and written, and the edge is written before anything changes hands. So who depends on
//! a transaction sees that it was left. A thread that has found nothing needs to look again when there are
//! more such edges: numbers of transactions only grow. An edge that leads out of what is over, or of no region, makes no difference,
//! and is most of them; it is not counted here, because what is would be a cache line that goes to and fro.

use super::{HIGHEST, Thread};
use crate::format::{LOW, SLOTS};
use crate::sync::AtomicU64;
use crate::{regions, start};
use core::sync::atomic::Ordering;

/// So many threads are not looked at each time: some of them may be in a region.
const MANY: usize = 64;

/// For each slot, the last transaction that an edge has led out of while it was open. There is no slot 0: that is how many such edges there
/// were.
static LEFT: [AtomicU64; SLOTS + 1] = [const { AtomicU64::new(0) }; SLOTS + 1];

/// An edge is going to be written that leads out of a transaction of a slot, given as by [`regions::clock`].
pub(crate) fn leaves(slot: u32, clock: u64) {
    if clock >> 48 == 0 || regions::clock(slot) != clock {
        return;
    }
    if let Some(left) = LEFT.get(slot as usize)
        && left.load(Ordering::Relaxed) < clock & LOW
    {
        left.fetch_max(clock & LOW, Ordering::Release);
    }
    // Also if another thread has just said so: it may not have counted yet.
    LEFT[0].fetch_add(1, Ordering::SeqCst);
}

impl Thread {
    /// Whether a stretch has to begin with what may be in conflict with others.
    #[inline(always)]
    pub(crate) fn minds_others(&self) -> bool {
        self.is_outside() && self.tabled.get() && !self.silent.get() && self.may_be_in_cycle()
    }

    /// Whether a stretch has to begin behind an edge. The source of the edge counts as left already.
    #[inline(always)]
    pub(crate) fn minds_order(&self) -> bool {
        !self.is_outside() || !self.tabled.get() || self.may_be_in_cycle()
    }

    /// Whether no stretch had to begin when that was last looked at. If one had to, it is not worth while to look as soon as there is an edge:
    /// what is taken looks again.
    #[inline(always)]
    pub(crate) fn was_calm(&self) -> bool {
        self.calm.get() != 0
    }

    /// Whether no other thread is in a region, in a transaction that an edge leads out of, as far as that has been looked at; never
    /// where somebody wants to see all logs.
    #[inline(always)]
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.get() == LEFT[0].load(Ordering::SeqCst) + 1 && !start::keeps_logs()
    }

    /// What follows may be in conflict with others.
    pub(crate) fn meets_others(&self) {
        if self.minds_others() {
            self.start_stretch_anew();
        }
    }

    /// Whether another thread is in a region, in a transaction that an edge leads out of.
    pub(super) fn may_be_in_cycle(&self) -> bool {
        let edges = LEFT[0].load(Ordering::SeqCst);
        if self.calm.get() == edges + 1 {
            return false;
        }
        let highest = HIGHEST.load(Ordering::Acquire).min(SLOTS);
        let own = self.slot.get() as usize;
        let was_left = |slot: usize| {
            let clock = regions::clock(slot as u32);
            clock >> 48 != 0 && LEFT[slot].load(Ordering::Acquire) >= clock & LOW
        };
        let others = 1..=highest;
        let may_be = highest > MANY || others.into_iter().any(|slot| slot != own && was_left(slot));
        self.calm.set(if may_be { 0 } else { edges + 1 });
        may_be
    }
}
