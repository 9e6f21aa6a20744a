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
//! atomicity verdict rests on there being none. What is kept is one acquire for each thread,
//! period, lock and set of held locks, so a loop that takes its locks a million times is one, and
//! a thousand nested locks are a thousand acquires and not an edge for each pair of them. Locks
//! that cannot be on a cycle are sorted out before cycles are searched for (`on_cycles`).

use crate::engine::Occurrence;
use crate::held::HeldLocks;
use crate::locksets::{LocksetId, Locksets, Shape};
use crate::periods::{PeriodId, Periods};
use atomsan_trace::{LockId, SiteId, ThreadId};
use hashbrown::{HashMap, HashSet};
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
    pub site: SiteId,
}

/// All edges that an acquire makes: to `inner`, from each of the other locks held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Acquire {
    thread: ThreadId,
    period: PeriodId,
    inner: LockId,
    exclusive: bool,
    /// Before.
    held: HeldLocks,
}

/// The order in which threads nest their locks.
#[derive(Debug, Default)]
pub struct Deadlocks {
    /// With the positions and places at which they were first seen.
    acquires: Vec<(Acquire, u64, SiteId)>,
    known: HashSet<Acquire, FxBuildHasher>,
}

/// What [`Deadlocks::potential`] has found.
#[derive(Debug, Default)]
pub struct Potential {
    /// Each cycle of locks once.
    pub cycles: Vec<Vec<Waits>>,
    /// The search was given up, and there may be others.
    pub given_up: bool,
}

/// What there is to say about a search that was given up.
pub const GIVEN_UP: &str =
    "the search for potential deadlocks was given up, so there may be more than are counted";

/// How many steps the search for cycles may make; real programs need a few thousand.
const STEPS: u32 = 1_000_000;

/// How many locks held at acquires it may remember, the same number for each acquire.
const LINKS: usize = 8_000_000;

impl Deadlocks {
    /// A thread acquires `inner`, which it did not hold (exclusively), while it has `held`.
    pub fn acquire(
        &mut self,
        at: &Occurrence,
        (inner, exclusive): (LockId, bool),
        held: HeldLocks,
        period: PeriodId,
    ) {
        let acquire = Acquire {
            thread: at.event.thread,
            period,
            inner,
            exclusive,
            held,
        };
        if self.known.insert(acquire) {
            self.acquires.push((acquire, at.index, at.event.site));
        }
    }

    /// The potential deadlocks.
    pub fn potential(&self, periods: &Periods, locksets: &Locksets) -> Potential {
        let locks = self.on_cycles(locksets);
        let mut search = Search {
            acquires: &self.acquires,
            holding: HashMap::default(),
            periods,
            locksets,
            path: Vec::new(),
            found: HashMap::default(),
            steps: STEPS,
        };
        let mut given_up = false;
        let share = LINKS / self.acquires.len().max(1);
        for (index, (acquire, ..)) in self.acquires.iter().enumerate() {
            if !locks.contains(&acquire.inner) {
                continue;
            }
            let held = locksets.locks(acquire.held.any);
            let mut outer = held.filter(|outer| locks.contains(outer));
            for outer in outer.by_ref().take(share) {
                search.holding.entry(outer).or_default().push(index as u32);
            }
            given_up |= outer.next().is_some();
        }
        for (index, (acquire, ..)) in self.acquires.iter().enumerate() {
            if locks.contains(&acquire.inner) {
                search.path.push(index);
                search.extend();
                search.path.clear();
            }
        }
        given_up |= search.steps == 0;
        let mut cycles: Vec<Vec<Waits>> = search.found.into_values().collect();
        cycles.sort_by_key(|cycle| cycle.iter().map(|waits| waits.position).max());
        Potential { cycles, given_up }
    }

    /// The locks that may be on a cycle of edges: what remains when locks that were acquired under
    /// no other, and those under which no other was acquired, are taken away, again and again.
    ///
    /// The graph goes from a lock to the sets under which it was acquired, from a set to its parts
    /// and from there to the locks in it, so what many sets share is in it once.
    fn on_cycles(&self, locksets: &Locksets) -> HashSet<LockId, FxBuildHasher> {
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        enum Vertex {
            Lock(LockId),
            Set(LocksetId),
        }
        let mut numbers: HashMap<Vertex, u32, FxBuildHasher> = HashMap::default();
        let mut number = |vertex| {
            let next = numbers.len() as u32;
            let number = *numbers.entry(vertex).or_insert(next);
            (number, number == next)
        };
        let mut edges = Vec::new();
        let mut left = Vec::new();
        for (acquire, ..) in &self.acquires {
            let (from, _) = number(Vertex::Lock(acquire.inner));
            left.push((from, Vertex::Set(acquire.held.any)));
            while let Some((from, vertex)) = left.pop() {
                let (to, new) = number(vertex);
                edges.push((from, to));
                if let (Vertex::Set(set), true) = (vertex, new) {
                    match locksets.shape(set) {
                        Shape::Union(parts) => {
                            left.extend(parts.map(|part| (to, Vertex::Set(part))));
                        }
                        Shape::Few => {
                            left.extend(locksets.locks(set).map(|lock| (to, Vertex::Lock(lock))));
                        }
                    }
                }
            }
        }
        let mut remains = vec![false; numbers.len()];
        for (from, _) in peel(peel(edges, numbers.len()), numbers.len()) {
            remains[from as usize] = true;
        }
        let locks = numbers
            .into_iter()
            .filter_map(|(vertex, number)| match vertex {
                Vertex::Lock(lock) if remains[number as usize] => Some(lock),
                _ => None,
            });
        locks.collect()
    }
}

/// Takes vertices away from which no edge starts, again and again, and turns the other edges round.
fn peel(mut edges: Vec<(u32, u32)>, vertices: usize) -> Vec<(u32, u32)> {
    edges.sort_unstable_by_key(|&(_, to)| to);
    let mut degrees = vec![0u32; vertices];
    for &(from, _) in &edges {
        degrees[from as usize] += 1;
    }
    let all = 0..vertices as u32;
    let mut ends: Vec<u32> = all.filter(|&at| degrees[at as usize] == 0).collect();
    while let Some(end) = ends.pop() {
        let first = edges.partition_point(|&(_, to)| to < end);
        for &(from, _) in edges[first..].iter().take_while(|&&(_, to)| to == end) {
            degrees[from as usize] -= 1;
            if degrees[from as usize] == 0 {
                ends.push(from);
            }
        }
    }
    edges.retain(|&(from, to)| degrees[from as usize] > 0 && degrees[to as usize] > 0);
    edges.into_iter().map(|(from, to)| (to, from)).collect()
}

struct Search<'a> {
    acquires: &'a [(Acquire, u64, SiteId)],
    /// The acquires that were made under a lock.
    holding: HashMap<LockId, Vec<u32>, FxBuildHasher>,
    periods: &'a Periods,
    locksets: &'a Locksets,
    /// Each one waits for a lock that the next one holds.
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
        let last = self.acquires[last].0;
        for at in 0..self.holding.get(&last.inner).map_or(0, Vec::len) {
            let next = self.holding[&last.inner][at] as usize;
            // Each cycle is found from its lowest acquire only.
            if next <= first {
                continue;
            }
            if self.steps == 0 {
                return;
            }
            self.steps -= 1;
            let acquire = self.acquires[next].0;
            if !self.waits(&last, &acquire) || !self.together(&acquire) {
                continue;
            }
            self.path.push(next);
            if self.waits(&acquire, &self.acquires[first].0) {
                self.report(acquire.inner);
            }
            self.extend();
            self.path.pop();
        }
    }

    /// Whether one thread has to wait for what another one holds.
    fn waits(&self, one: &Acquire, other: &Acquire) -> bool {
        let held = match one.exclusive {
            true => other.held.any,
            false => other.held.exclusive,
        };
        self.locksets.contains(held, one.inner)
    }

    /// Whether a thread can be at this acquire while the others are at those of the path, and is
    /// the only one that waits for its lock.
    fn together(&self, acquire: &Acquire) -> bool {
        self.path.iter().all(|&other| {
            let other = &self.acquires[other].0;
            other.inner != acquire.inner
                && self.periods.concurrent(other.period, acquire.period)
                && !other.held.exclude(acquire.held, self.locksets)
        })
    }

    /// The path is a cycle: the last one waits for this lock, which the first one holds.
    fn report(&mut self, mut holds: LockId) {
        let mut cycle = Vec::with_capacity(self.path.len());
        for &at in &self.path {
            let (acquire, position, site) = self.acquires[at];
            cycle.push(Waits {
                thread: acquire.thread,
                holds,
                acquires: acquire.inner,
                position,
                site,
            });
            holds = acquire.inner;
        }
        let mut locks: Vec<LockId> = cycle.iter().map(|waits| waits.holds).collect();
        locks.sort_unstable();
        self.found.entry(locks).or_insert(cycle);
    }
}
