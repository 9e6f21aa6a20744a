//! Which locks a thread has held without interruption.
//!
//! A *moment* is the time between two changes of the locks that a thread holds. Each lock carries
//! the moment since which it is held, and since which exclusively, so the locks held continuously
//! from an earlier access to now are those that are at least as old as that access.

use crate::held::{HeldLocks, Hold};
use crate::locksets::{LocksetId, Locksets};
use atomsan_trace::LockId;
use smallvec::SmallVec;

/// The moments of one thread.
#[derive(Debug, Default)]
pub(super) struct Moments {
    now: u32,
    held: HeldLocks,
    holdings: SmallVec<[Holding; 4]>,
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    lock: LockId,
    any: u32,
    exclusive: Option<u32>,
}

impl Moments {
    /// The current moment.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// The locks held now.
    #[inline]
    pub(super) fn held(&self) -> HeldLocks {
        self.held
    }

    /// The thread's hold of a lock has changed.
    pub(super) fn change(&mut self, lock: LockId, holds: &[Hold], held: HeldLocks) {
        self.now += 1;
        self.held = held;
        let now = self.now;
        let known = self.holdings.iter().rposition(|old| old.lock == lock);
        let hold = holds.iter().rfind(|hold| hold.lock == lock);
        match (hold, known) {
            (None, None) => {}
            (None, Some(at)) => {
                self.holdings.remove(at);
            }
            (Some(hold), known) => {
                let at = known.unwrap_or_else(|| {
                    self.holdings.push(Holding {
                        lock,
                        any: now,
                        exclusive: None,
                    });
                    self.holdings.len() - 1
                });
                let holding = &mut self.holdings[at];
                let since = holding.exclusive.unwrap_or(now);
                holding.exclusive = (hold.exclusive > 0).then_some(since);
            }
        }
    }

    /// The locks held continuously since that moment.
    #[inline]
    pub(super) fn since(&self, moment: u32, locksets: &mut Locksets) -> HeldLocks {
        if moment == self.now {
            return self.held;
        }
        let HeldLocks { any, exclusive } = self.held;
        HeldLocks {
            any: self.older(any, moment, locksets, |holding| Some(holding.any)),
            exclusive: self.older(exclusive, moment, locksets, |holding| holding.exclusive),
        }
    }

    /// The locks of `all`, which are held now, that have been so since that moment: those that are
    /// old enough, or all without those that are not, whatever is less work.
    fn older(
        &self,
        all: LocksetId,
        moment: u32,
        locksets: &mut Locksets,
        since: impl Fn(&Holding) -> Option<u32>,
    ) -> LocksetId {
        let is = |holding: &&Holding, old| since(holding).is_some_and(|at| (at <= moment) == old);
        let count = |old| self.holdings.iter().filter(|one| is(one, old)).count();
        let locks = |old| {
            let holdings = self.holdings.iter().filter(move |one| is(one, old));
            holdings.map(|holding| holding.lock)
        };
        if count(true) <= count(false) {
            locks(true).fold(LocksetId::EMPTY, |set, lock| locksets.with(set, lock))
        } else {
            locks(false).fold(all, |set, lock| locksets.without(set, lock))
        }
    }
}

/// The locks in both.
pub(super) fn meet(a: HeldLocks, b: HeldLocks, locksets: &mut Locksets) -> HeldLocks {
    HeldLocks {
        any: locksets.intersection(a.any, b.any),
        exclusive: locksets.intersection(a.exclusive, b.exclusive),
    }
}
