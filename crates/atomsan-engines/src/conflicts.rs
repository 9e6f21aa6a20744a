//! Which earlier events does an event depend on?
//!
//! Two events conflict if they access one variable and one of them writes, or if one synchronises
//! with the other: release before acquire (shared releases only before exclusive acquires), fork
//! before the child's events, a thread's events before its join, arrival at a barrier before
//! departure. It is not necessary to remember all earlier events: those that are ordered before a
//! remembered one are implied. What is kept:
//!
//! * of a variable: its last write, and each thread's last read since then (a write comes after
//!   all earlier reads and writes, so they are implied by it);
//! * of a lock: each thread's last release. Where locks are used as they should be, the holder
//!   comes after all earlier releases, so its own release replaces them all;
//! * of a barrier: each thread's last arrival;
//! * of a thread: its last event.
//!
//! Of several accesses by one transaction the *first* is kept: it is the one that others can
//! depend on soonest, and it makes a repetition free ([`Conflicts::repeats`]).

use crate::clocks::TxRef;
use crate::engine::Occurrence;
use atomsan_trace::{Event, LockId, Op, ThreadId, VarId};
use smallvec::SmallVec;

/// An event, and the transaction that it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The transaction.
    pub tx: TxRef,
    /// The event.
    pub at: Occurrence,
}

#[derive(Debug, Default)]
struct Var {
    write: Option<Access>,
    /// One a thread, since the write.
    reads: SmallVec<[Access; 1]>,
}

#[derive(Debug, Default)]
struct Lock {
    /// One a thread.
    releases: Vec<Access>,
    shared_releases: Vec<Access>,
    arrivals: Vec<Access>,
    /// Who acquired it exclusively, if nobody else has released it since.
    holder: Option<ThreadId>,
}

#[derive(Debug, Default)]
struct Thread {
    last: Option<Access>,
    /// Forks of this thread that it has not come after yet.
    forks: Vec<Access>,
}

/// The last conflicting accesses of everything.
#[derive(Debug, Default)]
pub struct Conflicts {
    vars: Vec<Var>,
    locks: Vec<Lock>,
    threads: Vec<Thread>,
    data_only: bool,
}

impl Conflicts {
    /// With `sync_edges` false, only memory accesses conflict.
    pub fn new(sync_edges: bool) -> Self {
        Conflicts {
            data_only: !sync_edges,
            ..Conflicts::default()
        }
    }

    /// Whether transaction `tx` has made such an access before and nothing has come in between,
    /// so that the event neither depends on anything new nor is worth remembering.
    #[inline]
    pub fn repeats(&self, event: &Event, tx: TxRef) -> bool {
        let (x, writes) = match event.op {
            Op::Read(x) | Op::AtomicLoad(x) | Op::AtomicRmwFailed(x) => (x, false),
            Op::Write(x) | Op::AtomicStore(x) | Op::AtomicRmw(x) => (x, true),
            _ => return false,
        };
        let Some(var) = self.vars.get(x.index()) else {
            return false;
        };
        let wrote = var.write.is_some_and(|write| write.tx == tx);
        let known = if writes {
            wrote && var.reads.is_empty()
        } else {
            wrote || var.reads.iter().any(|read| read.tx == tx)
        };
        known && self.nothing_pending(event.thread)
    }

    #[inline]
    fn nothing_pending(&self, thread: ThreadId) -> bool {
        self.threads
            .get(thread.index())
            .is_none_or(|thread| thread.forks.is_empty())
    }

    /// The last event of a thread that was remembered.
    #[inline]
    pub fn last(&self, thread: ThreadId) -> Option<&Access> {
        self.threads.get(thread.index())?.last.as_ref()
    }

    /// Calls `each` with all remembered events that this one depends on, other than the ones
    /// before it in its thread; some may be of the same transaction.
    #[inline]
    pub fn dependences(&self, event: &Event, mut each: impl FnMut(&Access)) {
        if let Some(x) = event.op.var()
            && let Some(var) = self.vars.get(x.index())
        {
            var.write.iter().for_each(&mut each);
            if event.op.writes() {
                var.reads.iter().for_each(&mut each);
            }
        }
        if self.data_only {
            return;
        }
        if let Some(thread) = self.threads.get(event.thread.index()) {
            thread.forks.iter().for_each(&mut each);
        }
        match event.op {
            Op::Acquire(l) | Op::Woken(l) => {
                if let Some(lock) = self.locks.get(l.index()) {
                    lock.releases.iter().for_each(&mut each);
                    lock.shared_releases.iter().for_each(&mut each);
                }
            }
            Op::AcquireShared(l) => {
                if let Some(lock) = self.locks.get(l.index()) {
                    lock.releases.iter().for_each(&mut each);
                }
            }
            Op::Leave(l) => {
                if let Some(lock) = self.locks.get(l.index()) {
                    lock.arrivals.iter().for_each(&mut each);
                }
            }
            Op::Join(child) => self.last(child).into_iter().for_each(&mut each),
            _ => {}
        }
    }

    /// Calls `each` with everything that is remembered: what can still be depended on.
    pub fn remembered(&self, mut each: impl FnMut(&Access)) {
        for var in &self.vars {
            var.write.iter().chain(&var.reads).for_each(&mut each);
        }
        for lock in &self.locks {
            let releases = lock.releases.iter().chain(&lock.shared_releases);
            releases.chain(&lock.arrivals).for_each(&mut each);
        }
        for thread in &self.threads {
            thread.last.iter().chain(&thread.forks).for_each(&mut each);
        }
    }

    /// Remembers an event of transaction `tx`, after its dependences were taken.
    #[inline]
    pub fn remember(&mut self, access: Access) {
        let event = &access.at.event;
        let thread = entry(&mut self.threads, event.thread.index());
        thread.last = Some(access);
        thread.forks.clear();
        if let Some(x) = event.op.var() {
            self.remember_access(access, x);
        } else if !self.data_only {
            self.remember_synchronisation(access);
        }
    }

    #[inline]
    fn remember_access(&mut self, access: Access, x: VarId) {
        let var = entry(&mut self.vars, x.index());
        if access.at.event.op.writes() {
            if var.write.is_none_or(|write| write.tx != access.tx) {
                var.write = Some(access);
            }
            var.reads.clear();
            return;
        }
        let own = |read: &&mut Access| read.at.event.thread == access.at.event.thread;
        match var.reads.iter_mut().find(own) {
            Some(read) if read.tx == access.tx => {}
            Some(read) => *read = access,
            None => var.reads.push(access),
        }
    }

    /// Forgets who accessed a variable.
    pub fn forget(&mut self, x: VarId) {
        if let Some(var) = self.vars.get_mut(x.index()) {
            *var = Var::default();
        }
    }

    fn remember_synchronisation(&mut self, access: Access) {
        let thread = access.at.event.thread;
        match access.at.event.op {
            Op::Acquire(l) | Op::Woken(l) => self.lock(l).holder = Some(thread),
            Op::Release(l) | Op::Wait(l) => {
                let lock = self.lock(l);
                if lock.holder == Some(thread) {
                    lock.releases.clear();
                    lock.shared_releases.clear();
                    lock.releases.push(access);
                } else {
                    lock.holder = None;
                    replace(&mut lock.releases, access);
                }
            }
            Op::ReleaseShared(l) => {
                let lock = self.lock(l);
                lock.holder = None;
                replace(&mut lock.shared_releases, access);
            }
            Op::Arrive(l) => replace(&mut self.lock(l).arrivals, access),
            Op::Fork(child) => {
                let forks = &mut entry(&mut self.threads, child.index()).forks;
                replace(forks, access);
            }
            _ => {}
        }
    }

    fn lock(&mut self, lock: LockId) -> &mut Lock {
        entry(&mut self.locks, lock.index())
    }
}

/// Puts an access in the place of its thread's previous one.
fn replace(list: &mut Vec<Access>, access: Access) {
    let thread = access.at.event.thread;
    match list.iter_mut().find(|old| old.at.event.thread == thread) {
        Some(old) => *old = access,
        None => list.push(access),
    }
}

/// The entry of a table that grows on demand.
#[inline]
fn entry<T: Default>(table: &mut Vec<T>, index: usize) -> &mut T {
    if table.len() <= index {
        table.resize_with(index + 1, T::default);
    }
    &mut table[index]
}
