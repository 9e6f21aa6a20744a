//! The conflict graph of one atomic set: the execution, projected on the set.
//!
//! Atomic-set serializability is conflict serializability of each projection (Definition 1), so
//! each set has a conflict graph of its own: its nodes are the units of work with accesses to the
//! set, in the part that is about this set. A unit on two sets is a node in two graphs; no edge
//! leads from one graph to another.
//!
//! A set needs a graph only while one of its units is open, or one that came after an open one is
//! remembered. Sets are many and mostly quiet, so graphs are lent to sets and taken back. What is
//! still remembered of a set's accesses then refers to transactions of a graph that is gone; as
//! the next graph of the set starts with newer handles, it is known to be stale.

use super::sets::SetId;
use super::units::{Checked, Frame};
use crate::clocks::TxRef;
use crate::conflicts::Access;
use crate::cycle::Conflict;
use crate::graph::Graph;
use crate::transactions::Transaction;
use atomsan_trace::ThreadId;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// A thread's place in the conflict graph of a set.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) thread: ThreadId,
    /// The epoch of the thread for which `owner` is right.
    pub(super) epoch: u64,
    /// The open unit of work that the thread's accesses belong to.
    pub(super) owner: Frame,
    /// The outermost function that has accessed the set itself (or has let a method of an inner
    /// class do so); it may have ended.
    pub(super) direct: Frame,
    /// The function that was the last one to access the set itself; it may have ended.
    pub(super) latest: Frame,
    /// Which open functions and blocks have been looked at.
    pub(super) checked: Checked,
    /// The node of `owner`; none before its first access, and after it was split.
    pub(super) tx: TxRef,
    /// The thread's last access.
    pub(super) last: Option<Access>,
    /// Where edges to `tx` came from that would have closed cycles.
    pub(super) refused: HashSet<TxRef, FxBuildHasher>,
}

impl Seat {
    fn new(thread: ThreadId) -> Self {
        Seat {
            thread,
            epoch: u64::MAX,
            owner: Frame::NONE,
            direct: Frame::NONE,
            latest: Frame::NONE,
            checked: Checked::NOTHING,
            tx: TxRef::NONE,
            last: None,
            refused: HashSet::default(),
        }
    }
}

/// A conflict graph, and the threads' places in it.
#[derive(Debug, Default)]
pub(super) struct Projection {
    pub(super) graph: Graph<Transaction, Conflict>,
    seats: Vec<Seat>,
}

impl Projection {
    /// The thread's place, if it has one.
    #[inline]
    pub(super) fn seat(&mut self, thread: ThreadId) -> Option<&mut Seat> {
        let place = self.seats.iter().position(|seat| seat.thread == thread)?;
        // Threads do not take turns at each access.
        self.seats.swap(0, place);
        self.seats.first_mut()
    }

    /// The thread's place; a new one if it has none.
    pub(super) fn seat_or_new(&mut self, thread: ThreadId) -> &mut Seat {
        let place = self.seats.iter().position(|seat| seat.thread == thread);
        let place = place.unwrap_or_else(|| {
            self.seats.push(Seat::new(thread));
            self.seats.len() - 1
        });
        &mut self.seats[place]
    }

    /// The thread's accesses do not belong to the unit any more. It ends, or has been split.
    pub(super) fn close(&mut self, thread: ThreadId) {
        if let Some(seat) = self.seat(thread) {
            let tx = std::mem::replace(&mut seat.tx, TxRef::NONE);
            seat.refused.clear();
            self.graph.close(tx);
        }
    }

    fn is_quiet(&self) -> bool {
        self.graph.alive() == 0 && self.seats.iter().all(|seat| seat.owner == Frame::NONE)
    }
}

/// What a set has when it has no conflict graph.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Loan {
    projection: u32,
    /// The newest handle of the set's earlier graphs.
    newest: u32,
}

/// The conflict graphs of all sets.
#[derive(Debug, Default)]
pub(super) struct Projections {
    all: Vec<Projection>,
    idle: Vec<u32>,
    loans: Vec<Loan>,
}

impl Projections {
    /// The conflict graph of a set, if it has one.
    #[inline]
    pub(super) fn get(&mut self, set: SetId) -> Option<&mut Projection> {
        let loan = self.loans.get(set.index())?;
        self.all.get_mut(loan.projection as usize)
    }

    /// The place of a thread in the conflict graph of a set, if it has one.
    #[inline]
    pub(super) fn seat(&mut self, set: SetId, thread: ThreadId) -> Option<&mut Seat> {
        self.get(set)?.seat(thread)
    }

    /// The conflict graph of a set; a new one if it has none.
    pub(super) fn get_or_new(&mut self, set: SetId) -> &mut Projection {
        if self.loans.len() <= set.index() {
            let none = Loan {
                projection: NONE,
                newest: 0,
            };
            self.loans.resize(set.index() + 1, none);
        }
        let loan = &mut self.loans[set.index()];
        if loan.projection == NONE {
            loan.projection = self.idle.pop().unwrap_or_else(|| {
                self.all.push(Projection::default());
                self.all.len() as u32 - 1
            });
            self.all[loan.projection as usize]
                .graph
                .restart(loan.newest);
        }
        &mut self.all[loan.projection as usize]
    }

    /// Takes the conflict graph back if nothing in it matters any more.
    pub(super) fn reclaim(&mut self, set: SetId) {
        let Some(loan) = self.loans.get_mut(set.index()) else {
            return;
        };
        let Some(projection) = self.all.get_mut(loan.projection as usize) else {
            return;
        };
        if projection.is_quiet() {
            loan.newest = projection.graph.newest();
            projection.seats.clear();
            self.idle.push(loan.projection);
            loan.projection = NONE;
        }
    }

    /// The threads' units of work on a set may have changed.
    pub(super) fn invalidate(&mut self, set: SetId) {
        if let Some(projection) = self.get(set) {
            for seat in &mut projection.seats {
                seat.epoch = u64::MAX;
                seat.checked = Checked::NOTHING;
            }
        }
    }

    /// Merges a set into another: the open units on the one are units on the other from now on,
    /// and what they did before is forgotten.
    pub(super) fn merge(
        &mut self,
        member: SetId,
        owner: SetId,
        is_open: impl Fn(ThreadId, Frame) -> bool,
    ) {
        self.invalidate(owner);
        let Some(projection) = self.get(member) else {
            return;
        };
        let mut seats = std::mem::take(&mut projection.seats);
        for seat in &seats {
            projection.graph.close(seat.tx);
        }
        self.reclaim(member);
        for seat in seats.drain(..).filter(|seat| seat.owner != Frame::NONE) {
            let projection = self.get_or_new(owner);
            let other = projection.seat_or_new(seat.thread);
            let directs = [seat.direct, other.direct].into_iter();
            other.direct = directs
                .filter(|&direct| is_open(seat.thread, direct))
                .fold(Frame::NONE, Frame::outer);
            let top_most = other.owner.outer(seat.owner);
            if std::mem::replace(&mut other.owner, top_most) != top_most {
                projection.close(seat.thread);
            }
        }
    }

    /// How many edges were made.
    pub(super) fn edges(&self) -> u64 {
        self.all
            .iter()
            .map(|projection| projection.graph.edges())
            .sum()
    }
}
