//! What is said where something was forgotten ([`crate::order`]).
//!
//! A cut is a barrier: all threads that have done something arrive, and those that are still there go on. Threads that
//! appear later leave it too, because it may be forgotten who has started them.
//!
//! While the order of what a thread does is doubtful, its locks are not spoken of: it lets go of those that
//! it holds, and has them again when the order is known.

use super::Translator;
use crate::format::Kind;
use atomsan_trace::{Event, LockId, Op, SiteId, ThreadId};

/// The barrier, as if it were here.
const BARRIER: u64 = 16;

/// What is known of the cuts of a recording.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// Whether the place of the current record is doubtful.
    pub(super) doubtful: bool,
    /// Whether something was accessed since the last cut; otherwise another one says nothing new.
    pub(super) accessed: bool,
    /// The threads that have been there since the last one.
    threads: Vec<ThreadId>,
    /// The barrier, if there was a cut.
    barrier: Option<LockId>,
}

/// What is left of an operation if its place among those of other threads is not known.
pub(super) fn without_order(op: Op) -> Option<Op> {
    match op {
        Op::Wait(_) | Op::Arrive(_) => Some(Op::Yield),
        Op::Enter(_) | Op::Exit(_) | Op::Begin(_) | Op::End => Some(op),
        Op::Fork(_) | Op::Join(_) | Op::Yield => Some(op),
        _ => None,
    }
}

impl Translator {
    /// All that comes now is after all that has come.
    pub(super) fn cut(&mut self) {
        if !std::mem::take(&mut self.cuts.accessed) {
            return;
        }
        let barrier = self.lock_called(BARRIER, "barrier");
        self.cuts.barrier = Some(barrier);
        for thread in std::mem::take(&mut self.cuts.threads) {
            self.say(thread, Op::Arrive(barrier));
        }
        let mut threads: Vec<ThreadId> = self.threads.iter().map(|thread| thread.id).collect();
        threads.sort_unstable();
        threads.dedup();
        for &thread in &threads {
            self.say(thread, Op::Leave(barrier));
        }
        self.cuts.threads = threads;
    }

    /// A thread appears in a log.
    pub(super) fn appear(&mut self, thread: ThreadId, kind: Kind) {
        // Only behind a gap is it one that is there already.
        if kind == Kind::Continue && self.cuts.threads.contains(&thread) {
            return;
        }
        self.cuts.threads.push(thread);
        if let Some(barrier) = self.cuts.barrier {
            self.say(thread, Op::Leave(barrier));
        }
    }

    /// Whether the order of what a thread does is doubtful has changed.
    pub(super) fn change_doubt(&mut self, slot: usize) {
        let now = self.cuts.doubtful;
        self.threads[slot].doubtful = now;
        let thread = &self.threads[slot];
        let held = thread
            .held
            .iter()
            .map(|&lock| match (thread.shared.contains(&lock), now) {
                (false, false) => Op::Acquire(lock),
                (false, true) => Op::Release(lock),
                (true, false) => Op::AcquireShared(lock),
                (true, true) => Op::ReleaseShared(lock),
            });
        let (held, thread): (Vec<Op>, _) = (held.collect(), thread.id);
        for op in held {
            self.say(thread, op);
        }
    }

    /// A thread that is behind a gap has let go of everything, for all we know.
    pub(super) fn let_go_of_all(&mut self, slot: usize) {
        while let Some(&lock) = self.threads[slot].held.last() {
            self.release(slot, SiteId::UNKNOWN, lock);
        }
    }

    /// Says something of a thread that has nothing to do with what it is doing.
    fn say(&mut self, thread: ThreadId, op: Op) {
        self.batch.events.push(Event {
            thread,
            site: SiteId::UNKNOWN,
            op,
        });
    }
}
