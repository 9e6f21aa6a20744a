//! Potential for deadlock: goodlock, with gate locks.
//!
//! A thread that acquires `m` while it holds `l` makes an edge `l → m`. A cycle of edges, each of
//! another thread, is a potential deadlock if all of the threads can be there at the same time:
//!
//! * their periods are concurrent (Wang–Stoller, section 2), and
//! * no two of them hold a common lock at that moment, exclusively on one side at least. Such a
//!   *gate lock* lets only one of them in at a time;
//! * each one really has to wait for the next: two shared holds do not exclude each other.
//!
//! The paper looks for two threads and two locks; cycles of any length are found here, because an
//! atomicity verdict rests on there being none. What is kept is one edge for each thread, period,
//! pair of locks and set of held locks, so a loop that takes its locks a million times is one.

use crate::engine::Occurrence;
use crate::held::{HeldLocks, Hold};
use crate::locksets::Locksets;
use crate::periods::{PeriodId, Periods};
use atomsan_trace::{LockId, ThreadId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// One thread's part in a potential deadlock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Who.
    pub thread: ThreadId,
    /// The lock it holds, and the one before it in the cycle waits for.
    pub holds: LockId,
    /// The lock it waits for.
    pub acquires: LockId,
    /// The acquire, where it was first seen.
    pub position: u64,
    /// Where in the program.
    pub site: atomsan_trace::SiteId,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Edge {
    thread: ThreadId,
    period: PeriodId,
    outer: LockId,
    outer_exclusive: bool,
    inner: LockId,
    inner_exclusive: bool,
    held: HeldLocks,
}

/// The order in which threads nest their locks.
#[derive(Debug, Default)]
pub struct Deadlocks {
    edges: Vec<(Edge, Waits)>,
    known: HashMap<Edge, (), FxBuildHasher>,
}

/// How many steps the search for cycles may make; real programs need a few thousand.
const STEPS: u32 = 1_000_000;

impl Deadlocks {
    /// A thread acquires `inner`, which it did not hold (exclusively), while it has `holds`.
    pub fn acquire(
        &mut self,
        at: &Occurrence,
        (inner, inner_exclusive): (LockId, bool),
        holds: &[Hold],
        held: HeldLocks,
        period: PeriodId,
    ) {
        for hold in holds.iter().filter(|hold| hold.lock != inner) {
            let edge = Edge {
                thread: at.event.thread,
                period,
                outer: hold.lock,
                outer_exclusive: hold.exclusive > 0,
                inner,
                inner_exclusive,
                held,
            };
            if self.known.insert(edge, ()).is_none() {
                let waits = Waits {
                    thread: at.event.thread,
                    holds: hold.lock,
                    acquires: inner,
                    position: at.index,
                    site: at.event.site,
                };
                self.edges.push((edge, waits));
            }
        }
    }

    /// The potential deadlocks, each cycle of locks once.
    pub fn potential(&self, periods: &Periods, locksets: &mut Locksets) -> Vec<Vec<Waits>> {
        let mut by_outer: HashMap<LockId, Vec<usize>, FxBuildHasher> = HashMap::default();
        for (index, (edge, _)) in self.edges.iter().enumerate() {
            by_outer.entry(edge.outer).or_default().push(index);
        }
        let mut search = Search {
            edges: &self.edges,
            by_outer,
            periods,
            locksets,
            path: Vec::new(),
            found: HashMap::default(),
            steps: STEPS,
        };
        for index in 0..self.edges.len() {
            search.path.clear();
            search.path.push(index);
            search.extend();
        }
        let mut found: Vec<Vec<Waits>> = search.found.into_values().collect();
        found.sort_by_key(|cycle| cycle.iter().map(|waits| waits.position).max());
        found
    }
}

struct Search<'a> {
    edges: &'a [(Edge, Waits)],
    by_outer: HashMap<LockId, Vec<usize>, FxBuildHasher>,
    periods: &'a Periods,
    locksets: &'a mut Locksets,
    path: Vec<usize>,
    /// By their locks, sorted.
    found: HashMap<Vec<LockId>, Vec<Waits>, FxBuildHasher>,
    steps: u32,
}

impl Search<'_> {
    fn extend(&mut self) {
        let (Some(&first), Some(&last)) = (self.path.first(), self.path.last()) else {
            return;
        };
        let (first_edge, last_edge) = (self.edges[first].0, self.edges[last].0);
        for at in 0..self.by_outer.get(&last_edge.inner).map_or(0, Vec::len) {
            let next = self.by_outer[&last_edge.inner][at];
            let edge = self.edges[next].0;
            // Each cycle is found from its lowest edge only.
            if next <= first || self.steps == 0 {
                continue;
            }
            self.steps -= 1;
            let waits = last_edge.inner_exclusive || edge.outer_exclusive;
            if !waits || !self.together(&edge) {
                continue;
            }
            self.path.push(next);
            if edge.inner == first_edge.outer {
                if edge.inner_exclusive || first_edge.outer_exclusive {
                    let cycle: Vec<Waits> =
                        self.path.iter().map(|&edge| self.edges[edge].1).collect();
                    let mut locks: Vec<LockId> = cycle.iter().map(|waits| waits.holds).collect();
                    locks.sort_unstable();
                    self.found.entry(locks).or_insert(cycle);
                }
            } else {
                self.extend();
            }
            self.path.pop();
        }
    }

    /// Whether a thread can be at this edge while the others are at those of the path.
    fn together(&mut self, edge: &Edge) -> bool {
        let Search {
            edges,
            periods,
            locksets,
            path,
            ..
        } = self;
        path.iter().all(|&other| {
            let other = &edges[other].0;
            other.outer != edge.outer
                && periods.concurrent(other.period, edge.period)
                && !other.held.exclude(edge.held, locksets)
        })
    }
}
