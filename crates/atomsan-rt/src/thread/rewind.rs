//! A log that starts again: what nobody can need any more is written over.
//!
//! In a single run the log of a transaction is read if the transaction is in a cycle. Most are in none,
//! and of a thread that has its data to itself, or shares it with readers, none is. Such a log need
//! not fill one chunk after the other: its thread goes back to the start of the chunk, so that what it
//! writes stays in the cache, takes no memory, and nobody has to give anything back.
//!
//! # When nobody can need it
//!
//! Edges are counted. The follower says how many of them it has read, when all transactions are over that
//! an edge leads out of, and all components have been checked ([`header::SETTLED`]). If
//! that is as many as there are, what is over by now is in no cycle that has not been checked,
//! whatever comes:
//!
//! - In a cycle of edges that are there, an edge leads out of each transaction: all were over, and have
//!   been checked.
//! - Edges lead to transactions that are open when they are written. So in a cycle to come, a path leads
//!   from a transaction that is open now, or begins later, to one that is over; and on it, an edge
//!   from the former to the latter, which is there already, because nothing leads to what is over any
//!   more. But all that an edge leads out of are over.
//!
//! A unary transaction gets no edges once it has begun (see [`crate::regions`]), so it counts as over.
//! An edge is counted before it is written, so one that is not seen here is one to come.
//!
//! Where somebody wants to see all logs, they go on in another chunk, and the one that nobody can need
//! says so.

use super::Thread;
use crate::format::header;
use crate::sync::AtomicU64;
use crate::{recording, start};
use core::sync::atomic::Ordering;

/// How much of a chunk is used before it starts again: less than what it has room for at first.
const ENOUGH: u64 = 12 << 10;
/// The same where logs are kept, which is to see whether that is right.
const ENOUGH_KEPT: u64 = 1 << 10;
/// After so much more it is tried again.
const AGAIN: u64 = 1 << 10;

/// A counter with a cache line of its own.
#[repr(align(64))]
struct Counter(AtomicU64);

/// How many edges between transactions have been written, by threads with the same rest of their slots: if all counted in one place,
/// each edge would take a cache line from another thread.
static EDGES: [Counter; 16] = [const { Counter(AtomicU64::new(0)) }; 16];

/// An edge is going to be written to the log of a slot.
pub(crate) fn count_edge(slot: u32) {
    EDGES[slot as usize % EDGES.len()]
        .0
        .fetch_add(1, Ordering::SeqCst);
}

/// Another recording has started, by the only thread.
pub(super) fn forget_edges() {
    EDGES
        .iter()
        .for_each(|count| count.0.store(0, Ordering::SeqCst));
}

/// Whether nobody can need what is over. What the follower says is looked at first: if there were as many edges then as
/// all the counters have afterwards, none had been counted that it has not read.
fn is_settled() -> bool {
    let settled = recording::counter(header::SETTLED).load(Ordering::SeqCst);
    let edges = || -> u64 {
        let counts = EDGES.iter().map(|count| count.0.load(Ordering::SeqCst));
        counts.sum()
    };
    recording::is_followed() && settled == edges()
}

impl Thread {
    /// Whether it is worth looking whether the log may start again.
    #[inline(always)]
    pub(crate) fn is_due_again(&self) -> bool {
        self.log.position() >= self.due.get()
    }

    /// Nobody has looked yet. A thread that has no log never does.
    pub(super) fn forget_due(&self) {
        self.due.set(if self.silent.get() { u64::MAX } else { 0 });
    }

    /// Starts the log again if nobody can need what is in its chunk; whether it did. No region is
    /// open.
    #[cold]
    #[inline(never)]
    pub(crate) fn start_again(&self) -> bool {
        let (position, used) = (self.log.position(), self.log.used());
        let keeps = start::keeps_logs();
        let enough = if keeps { ENOUGH_KEPT } else { ENOUGH };
        if used < enough {
            self.due.set(position + enough - used);
            return false;
        }
        let again = is_settled();
        // A thread that meets nobody has no other reason to look whether it has to mind others.
        self.may_be_in_cycle();
        if again && keeps {
            self.log.let_go();
        } else if again {
            let clock = self.position.clock();
            self.log.start_again(clock, |start| self.snapshot(start));
        }
        self.due.set(position + if again { enough } else { AGAIN });
        again && !keeps
    }
}
