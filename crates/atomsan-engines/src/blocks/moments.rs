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

    /// The thread's locks have changed.
    pub(super) fn change(&mut self, holds: &[Hold], held: HeldLocks) {
        self.now += 1;
        self.held = held;
        let now = self.now;
        let old = std::mem::take(&mut self.holdings);
        self.holdings = (holds.iter())
            .map(|hold| {
                let before = old.iter().find(|holding| holding.lock == hold.lock);
                let exclusive = before.and_then(|holding| holding.exclusive);
                Holding {
                    lock: hold.lock,
                    any: before.map_or(now, |holding| holding.any),
                    exclusive: (hold.exclusive > 0).then(|| exclusive.unwrap_or(now)),
                }
            })
            .collect();
    }

    /// The locks held continuously since that moment.
    #[inline]
    pub(super) fn since(&self, moment: u32, locksets: &mut Locksets) -> HeldLocks {
        if moment == self.now {
            return self.held;
        }
        let mut result = HeldLocks::default();
        for holding in &self.holdings {
            if holding.any <= moment {
                result.any = locksets.with(result.any, holding.lock);
            }
            if holding.exclusive.is_some_and(|since| since <= moment) {
                result.exclusive = locksets.with(result.exclusive, holding.lock);
            }
        }
        result
    }
}

/// The locks in both.
pub(super) fn meet(a: HeldLocks, b: HeldLocks, locksets: &mut Locksets) -> HeldLocks {
    HeldLocks {
        any: locksets.intersection(a.any, b.any),
        exclusive: locksets.intersection(a.exclusive, b.exclusive),
    }
}

/// The locks in one of them.
pub(super) fn join(a: HeldLocks, b: HeldLocks, locksets: &mut Locksets) -> HeldLocks {
    HeldLocks {
        any: fold(a.any, b.any, locksets, Locksets::with),
        exclusive: fold(a.exclusive, b.exclusive, locksets, Locksets::with),
    }
}

/// The locks of `a` that are not in `b`.
pub(super) fn less(a: HeldLocks, b: HeldLocks, locksets: &mut Locksets) -> HeldLocks {
    HeldLocks {
        any: fold(a.any, b.any, locksets, Locksets::without),
        exclusive: fold(a.exclusive, b.exclusive, locksets, Locksets::without),
    }
}

fn fold(
    a: LocksetId,
    b: LocksetId,
    locksets: &mut Locksets,
    one: fn(&mut Locksets, LocksetId, LockId) -> LocksetId,
) -> LocksetId {
    if a == b && a.is_empty() {
        return a;
    }
    let locks: SmallVec<[LockId; 8]> = SmallVec::from_slice(locksets.locks(b));
    locks
        .into_iter()
        .fold(a, |set, lock| one(locksets, set, lock))
}
