//! Which locks each thread holds.
//!
//! Locks are re-entrant and may be held exclusively or shared with other readers, so a thread's
//! hold of a lock is two counts. What the analyses ask is simpler: two sets, the locks held in
//! any way and the locks held exclusively ([`HeldLocks`]). A reader is safe from a writer that
//! holds exclusively a lock which the reader holds in any way; two shared holds exclude nobody.
//!
//! [`Held::step`] says what an event did to those two sets, and that is all there is to it:
//! [`Change::Acquired`] and [`Change::Released`] if they changed, something else if they did not.
//! A re-entrant acquire, or a shared acquire under an exclusive hold, changes nothing and
//! interacts with nobody. Going from shared to exclusive is an acquire, back is a release.
//!
//! `Wait` ends the hold entirely, `Woken` restores the counts it had. Odd streams mean what
//! [`atomsan_trace::event`] says: a release without a hold takes nothing away from anybody, and a
//! `Woken` without a `Wait` that gave something up is one exclusive hold, because the thread has
//! the lock now and will release it.

use crate::locksets::{LocksetId, Locksets};
use atomsan_trace::{Event, LockId, Op, SiteId, ThreadId};
use smallvec::SmallVec;

/// The locks that one thread holds at one moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HeldLocks {
    /// In any way. A superset of `exclusive`.
    pub any: LocksetId,
    /// Exclusively.
    pub exclusive: LocksetId,
}

impl HeldLocks {
    /// Whether two threads cannot hold these at the same time: one of them holds exclusively
    /// what the other one holds too.
    #[inline]
    pub fn exclude(self, other: HeldLocks, locksets: &Locksets) -> bool {
        !locksets.disjoint(self.exclusive, other.any)
            || !locksets.disjoint(self.any, other.exclusive)
    }

    /// The locks that protect an access: a write only those held exclusively.
    #[inline]
    pub fn protecting(self, write: bool) -> LocksetId {
        if write { self.exclusive } else { self.any }
    }
}

/// One lock that a thread holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Which.
    pub lock: LockId,
    /// Exclusive holds that have not ended.
    pub exclusive: u32,
    /// Shared holds that have not ended.
    pub shared: u32,
    /// The position in the trace at which the hold began.
    pub since: u64,
    /// Where it began.
    pub site: SiteId,
}

/// What an event did to the locks its thread holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing: it is no operation on a lock.
    None,
    /// The thread holds the lock from here on, or holds it exclusively and did not before.
    Acquired(LockId),
    /// Nothing: it held the lock already.
    Reentered(LockId),
    /// The thread does not hold the lock any more, or not exclusively any more.
    Released(LockId),
    /// Nothing: it still holds the lock.
    Kept(LockId),
    /// Nothing: it released a lock that it did not hold.
    NotHeld(LockId),
}

/// The locks of all threads.
#[derive(Debug, Default)]
pub struct Held {
    threads: Vec<Thread>,
}

#[derive(Debug, Default)]
struct Thread {
    /// In the order in which the holds began.
    holds: SmallVec<[Hold; 4]>,
    sets: HeldLocks,
    /// What it gave up to wait.
    waiting: SmallVec<[Hold; 1]>,
}

impl Held {
    /// Follows one event.
    #[inline]
    pub fn step(&mut self, index: u64, event: &Event, locksets: &mut Locksets) -> Change {
        match event.op {
            Op::Acquire(_)
            | Op::AcquireShared(_)
            | Op::Release(_)
            | Op::ReleaseShared(_)
            | Op::Wait(_)
            | Op::Woken(_) => self.lock_operation(index, event, locksets),
            _ => Change::None,
        }
    }

    /// The locks the thread holds.
    #[inline]
    pub fn locks(&self, thread: ThreadId) -> HeldLocks {
        self.threads
            .get(thread.index())
            .map_or(HeldLocks::default(), |thread| thread.sets)
    }

    /// The locks the thread holds, in the order in which it got them.
    pub fn holds(&self, thread: ThreadId) -> &[Hold] {
        self.threads
            .get(thread.index())
            .map_or(&[], |thread| &thread.holds)
    }

    fn lock_operation(&mut self, index: u64, event: &Event, locksets: &mut Locksets) -> Change {
        let thread = event.thread.index();
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let thread = &mut self.threads[thread];
        let mut new = Hold {
            lock: LockId(0),
            exclusive: 0,
            shared: 0,
            since: index,
            site: event.site,
        };
        match event.op {
            Op::Acquire(lock) => {
                (new.lock, new.exclusive) = (lock, 1);
                thread.acquire(new, locksets)
            }
            Op::AcquireShared(lock) => {
                (new.lock, new.shared) = (lock, 1);
                thread.acquire(new, locksets)
            }
            Op::Woken(lock) => {
                (new.lock, new.exclusive) = (lock, 1);
                if let Some(at) = thread.waiting.iter().rposition(|hold| hold.lock == lock) {
                    let given_up = thread.waiting.remove(at);
                    (new.exclusive, new.shared) = (given_up.exclusive, given_up.shared);
                }
                thread.acquire(new, locksets)
            }
            Op::Release(lock) => thread.release(lock, (1, 0), locksets),
            Op::ReleaseShared(lock) => thread.release(lock, (0, 1), locksets),
            Op::Wait(lock) => {
                let hold = thread.holds.iter().find(|hold| hold.lock == lock);
                if let Some(&hold) = hold {
                    thread.waiting.retain(|old| old.lock != lock);
                    thread.waiting.push(hold);
                }
                thread.release(lock, (u32::MAX, u32::MAX), locksets)
            }
            _ => Change::None,
        }
    }
}

impl Thread {
    fn acquire(&mut self, new: Hold, locksets: &mut Locksets) -> Change {
        let lock = new.lock;
        match self.holds.iter_mut().find(|hold| hold.lock == lock) {
            None => {
                self.holds.push(new);
                self.sets.any = locksets.with(self.sets.any, lock);
            }
            Some(hold) => {
                let upgrade = hold.exclusive == 0 && new.exclusive > 0;
                hold.exclusive = hold.exclusive.saturating_add(new.exclusive);
                hold.shared = hold.shared.saturating_add(new.shared);
                if !upgrade {
                    return Change::Reentered(lock);
                }
            }
        }
        if new.exclusive > 0 {
            self.sets.exclusive = locksets.with(self.sets.exclusive, lock);
        }
        Change::Acquired(lock)
    }

    /// Ends that many exclusive and shared holds. A release of the wrong kind ends one of the
    /// other: a trace that does not tell them apart still balances.
    fn release(&mut self, lock: LockId, times: (u32, u32), locksets: &mut Locksets) -> Change {
        let Some(at) = self.holds.iter().rposition(|hold| hold.lock == lock) else {
            return Change::NotHeld(lock);
        };
        let hold = &mut self.holds[at];
        let was_exclusive = hold.exclusive > 0;
        match times {
            (1, 0) if hold.exclusive == 0 => hold.shared -= 1,
            (0, 1) if hold.shared == 0 => hold.exclusive -= 1,
            (exclusive, shared) => {
                hold.exclusive = hold.exclusive.saturating_sub(exclusive);
                hold.shared = hold.shared.saturating_sub(shared);
            }
        }
        if hold.exclusive == 0 && hold.shared == 0 {
            self.holds.remove(at);
            self.sets.any = locksets.without(self.sets.any, lock);
        } else if !was_exclusive || hold.exclusive > 0 {
            return Change::Kept(lock);
        }
        if was_exclusive {
            self.sets.exclusive = locksets.without(self.sets.exclusive, lock);
        }
        Change::Released(lock)
    }
}
