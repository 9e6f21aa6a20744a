//! Potential data races by several locksets for each variable (Wang–Stoller, 5.4 and Fig. 3).
//!
//! One candidate set for all accesses is too little: if some readers hold o1 and others o2, and
//! writers hold both, nothing can go wrong, but the intersection is empty. So a variable keeps the
//! ⊆-minimal sets of locks held by its readers, and the intersection of those held by its writers.
//! A reader may race with the writers if its set and theirs have no lock in common and the two can
//! be concurrent; writers may race with anybody concurrent if they have no common lock.
//!
//! # Periods
//!
//! The paper keeps all thread periods that read and all that write, and asks in the end whether
//! there is a concurrent pair. Here the question is asked when a period first comes: two flags say
//! whether there was a concurrent pair of a writer and a writer, of a writer and a reader. Then
//! only the latest period of each thread is needed. For let q and q′ be periods of one thread, q
//! first, and r a period of another thread that accesses the variable after q′ did. If r is
//! concurrent with q, it is with q′: r has not ended, so it is not before q′; and if q′ were before
//! r, so would be q. And if r is concurrent with q′, that is a pair by itself. So the flags are
//! exact, and a variable's memory is bounded by the threads, not by the periods, that use it.
//!
//! The answer can only become worse as accesses are added: sets shrink, flags are set. Asking once
//! after the last access is asking after each.

use crate::held::HeldLocks;
use crate::locksets::{LocksetId, Locksets};
use crate::periods::PeriodId;
use smallvec::SmallVec;

/// The last read and the last write of a variable, to recognise the same again.
///
/// Most accesses repeat one by the same period under the same locks, and then there is nothing to
/// learn: the sets do not change, and a concurrent period that came in between has found this one.
/// This is all that is needed to see that, so it is kept apart from the rest: 16 bytes a variable.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    read: (PeriodId, LocksetId),
    write: (PeriodId, LocksetId),
}

impl Default for Recent {
    fn default() -> Self {
        // No period has this id.
        let none = (PeriodId(u32::MAX), LocksetId::EMPTY);
        Recent {
            read: none,
            write: none,
        }
    }
}

impl Recent {
    /// Whether such an access was the last of its kind.
    #[inline]
    pub fn repeats(&self, period: PeriodId, held: HeldLocks, write: bool) -> bool {
        let last = if write { self.write } else { self.read };
        last == (period, held.protecting(write))
    }

    /// Such an access is the last of its kind now.
    #[inline]
    pub fn remember(&mut self, period: PeriodId, held: HeldLocks, write: bool) {
        let last = (period, held.protecting(write));
        if write {
            self.write = last;
        } else {
            self.read = last;
        }
    }
}

/// What is known about the accesses to one variable.
#[derive(Clone, Debug, Default)]
pub struct MultiLockset {
    /// `WriteSet`: the locks held at all writes; uninitialised before the first.
    write_set: Option<LocksetId>,
    /// `ReadSets`: the ⊆-minimal sets of locks held at reads.
    read_sets: SmallVec<[LocksetId; 2]>,
    /// `ReadThreadSet`: the latest period of each thread that read.
    readers: SmallVec<[PeriodId; 4]>,
    /// `WriteThreadSet`.
    writers: SmallVec<[PeriodId; 4]>,
    /// Two writes were in concurrent periods.
    writes_concurrent: bool,
    /// A read and a write were.
    read_write_concurrent: bool,
}

/// When two periods can run at the same time.
pub trait Concurrency {
    /// Whether the periods are of one thread.
    fn same_thread(&self, a: PeriodId, b: PeriodId) -> bool;
    /// Whether neither period must have ended when the other one starts.
    fn concurrent(&self, a: PeriodId, b: PeriodId) -> bool;
}

impl MultiLockset {
    /// A read in `period` by a thread that holds `held`.
    pub fn read(
        &mut self,
        period: PeriodId,
        held: HeldLocks,
        locksets: &mut Locksets,
        time: &impl Concurrency,
    ) {
        let held = held.protecting(false);
        let mut sets = self.read_sets.iter();
        if !sets.any(|&set| locksets.is_subset(set, held)) {
            self.read_sets.retain(|set| !locksets.is_subset(held, *set));
            self.read_sets.push(held);
        }
        if !self.read_write_concurrent && enter(&mut self.readers, period, time) {
            self.read_write_concurrent = self.writers.iter().any(|&w| time.concurrent(w, period));
        }
    }

    /// A write in `period` by a thread that holds `held`.
    pub fn write(
        &mut self,
        period: PeriodId,
        held: HeldLocks,
        locksets: &mut Locksets,
        time: &impl Concurrency,
    ) {
        let held = held.protecting(true);
        let set = self.write_set.unwrap_or(LocksetId::ALL);
        self.write_set = Some(locksets.intersection(set, held));
        let known = self.writes_concurrent && self.read_write_concurrent;
        if !known && enter(&mut self.writers, period, time) {
            self.writes_concurrent |= self.writers.iter().any(|&w| time.concurrent(w, period));
            self.read_write_concurrent |= self.readers.iter().any(|&r| time.concurrent(r, period));
        }
    }

    /// Whether there is a potential data race so far (the `switch` of Fig. 3).
    pub fn races(&self, locksets: &mut Locksets) -> bool {
        match self.write_set {
            None => false,
            Some(set) if set.is_empty() => self.is_contended(),
            Some(set) => {
                self.read_write_concurrent
                    && (self.read_sets.iter()).any(|&read| locksets.disjoint(read, set))
            }
        }
    }

    /// Whether two accesses that conflict can be concurrent at all, apart from locks. If not, the
    /// variable is thread-local, read-only, or handed on from period to period, and its accesses
    /// commute with everything.
    pub fn is_contended(&self) -> bool {
        self.writes_concurrent || self.read_write_concurrent
    }

    /// `ReadSets`, in no particular order.
    pub fn read_sets(&self) -> &[LocksetId] {
        &self.read_sets
    }

    /// `WriteSet`, if there was a write.
    pub fn write_set(&self) -> Option<LocksetId> {
        self.write_set
    }
}

/// Makes `period` the latest of its thread; returns whether it was not there yet.
fn enter(latest: &mut SmallVec<[PeriodId; 4]>, period: PeriodId, time: &impl Concurrency) -> bool {
    for known in latest.iter_mut() {
        if *known == period {
            return false;
        }
        if time.same_thread(*known, period) {
            *known = period;
            return true;
        }
    }
    latest.push(period);
    true
}
