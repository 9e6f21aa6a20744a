//! Theorem 5: cyclic dependencies of any number of transactions.
//!
//! Three transactions may be atomic two by two and not together: t₁ before t₂ before t₃ before t₁.
//! The paper enumerates all traces of the initial reads and final writes and asks of each one
//! whether it is view-serializable. That question is NP-complete, and its answer can change from
//! *no* to *yes* when a transaction is added. Asked about every selection of the transactions at
//! once, it becomes simple: if some selection has a trace that is not view-serializable, then
//! that trace has a cycle of conflicts (among initial reads and final writes) and of orders (of a
//! thread, or of periods). And if a trace has such a cycle, then the transactions of a shortest one
//! are a selection that is not view-serializable: a shortest cycle has no chord, so a third
//! transaction that writes the variable of a dependence would be before or after both ends of it,
//! against the direction of the cycle; hence each dependence is a reads-from, a read of the value
//! before, or the order of the final write and the one before it, and none can be turned round.
//!
//! So the search is for cycles of transactions that can conflict, the shortest ones first, and for
//! each cycle for one interleaving of its transactions that brings all of its dependences about.
//! In a shortest cycle a thread takes part with one transaction, or with two in a row, because its
//! own order would be a chord; and an order is not followed by another one.
//!
//! Prefixes of interleavings that agree in how far each transaction is and in which dependences
//! there are have the same futures, so each is tried once. All of this may take as many steps as
//! [`super::Options::limit`] says; whether that was enough is in the figures.

use super::Search;
use super::report::{self, Move, Part};
use super::skeleton::Piece;
use super::two::Sketch;
use crate::engine::Context;
use crate::held::HeldLocks;
use crate::periods::PeriodId;
use atomsan_trace::VarId;
use atomsan_trace::finding::Anomaly;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// An execution of a distinct transaction in a period: any of them, or the first and the last.
#[derive(Clone, Copy, Debug)]
struct Node {
    sketch: usize,
    period: PeriodId,
    first: u64,
    last: u64,
}

/// How the next transaction of a cycle comes after this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    Conflict,
    Order,
}

struct Cycles<'a, 's, 'p> {
    sketches: &'a [Sketch],
    nodes: Vec<Node>,
    /// The nodes that access a variable, and whether they write it.
    by_var: HashMap<VarId, Vec<(usize, bool)>, FxBuildHasher>,
    search: &'s mut Search<'p>,
    path: Vec<usize>,
    /// What leads from each node of the path to the next.
    links: Vec<Link>,
}

/// The longest cycle that is searched for: the conflicts of a cycle are bits of a word.
const LONGEST: usize = 64;

/// Searches for cycles of three and more transactions.
pub(super) fn check(sketches: &[Sketch], search: &mut Search<'_>, cx: &mut Context<'_>) {
    let mut nodes = Vec::new();
    for (sketch, one) in sketches.iter().enumerate() {
        for e in &one.executions {
            let node = Node {
                sketch,
                period: e.period,
                first: e.first,
                last: e.last,
            };
            nodes.push(node);
            // A thread may take part with two executions of the same.
            if e.first != e.last {
                nodes.push(node);
            }
        }
    }
    let mut by_var: HashMap<VarId, Vec<(usize, bool)>, FxBuildHasher> = HashMap::default();
    for (number, node) in nodes.iter().enumerate() {
        for point in &sketches[node.sketch].points {
            let entry = (number, point.writes);
            let list = by_var.entry(point.var).or_default();
            if list.last() != Some(&entry) {
                list.push(entry);
            }
        }
    }
    let mut threads: Vec<_> = sketches.iter().map(|sketch| sketch.owner.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut cycles = Cycles {
        sketches,
        nodes,
        by_var,
        search,
        path: Vec::new(),
        links: Vec::new(),
    };
    for length in 3..=(2 * threads.len()).min(cycles.nodes.len()) {
        if length > LONGEST {
            cycles.search.exhausted = true;
            return;
        }
        for start in 0..cycles.nodes.len() {
            cycles.path.push(start);
            cycles.extend(length, cx);
            cycles.path.clear();
            if cycles.search.exhausted || cx.findings.full() {
                return;
            }
        }
    }
}

impl<'a> Cycles<'a, '_, '_> {
    fn sketch(&self, node: usize) -> &'a Sketch {
        &self.sketches[self.nodes[node].sketch]
    }

    /// Whether `a` is always before `b`.
    fn ordered(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.nodes[a], &self.nodes[b]);
        if self.sketch(a).owner.thread == self.sketch(b).owner.thread {
            return one.first < other.last;
        }
        self.search.periods.before(one.period, other.period)
    }

    /// Tries all ways to go on from the path to a cycle of `length` that starts at its lowest node.
    fn extend(&mut self, length: usize, cx: &mut Context<'_>) {
        let (start, here) = (self.path[0], self.path[self.path.len() - 1]);
        let after_order = self.links.last() == Some(&Link::Order);
        let mut nexts: Vec<(usize, Link)> = Vec::new();
        for point in &self.sketch(here).points {
            for &(next, writes) in &self.by_var[&point.var] {
                if point.writes || writes {
                    nexts.push((next, Link::Conflict));
                }
            }
        }
        nexts.sort_unstable_by_key(|&(next, _)| next);
        nexts.dedup();
        nexts.retain(|&(next, _)| {
            let (a, b) = (self.nodes[here].period, self.nodes[next].period);
            self.search.periods.concurrent(a, b)
        });
        if !after_order {
            nexts.extend(
                (start..self.nodes.len())
                    .filter(|&next| next != here && self.ordered(here, next))
                    .map(|next| (next, Link::Order)),
            );
        }
        let full = self.path.len() == length;
        for (next, link) in nexts {
            if !self.search.spend(1) || cx.findings.full() {
                return;
            }
            if full && next == start {
                let twice = link == Link::Order && self.links.first() == Some(&Link::Order);
                self.links.push(link);
                if !twice && let Some(moves) = self.interleave() {
                    self.report(&moves, cx);
                }
                self.links.pop();
            } else if !full && next > start && self.fits(next, link, length) {
                self.path.push(next);
                self.links.push(link);
                self.extend(length, cx);
                self.path.pop();
                self.links.pop();
            }
        }
    }

    /// Whether a node may be next in a shortest cycle: its thread takes no part yet, but in the
    /// node before it or (then the cycle ends with it) in the first one.
    fn fits(&self, next: usize, link: Link, length: usize) -> bool {
        let thread = self.sketch(next).owner.thread;
        let mut same = (self.path.iter().enumerate())
            .filter(|&(_, &node)| self.sketch(node).owner.thread == thread)
            .map(|(place, _)| place);
        match same.next() {
            None => true,
            Some(place) => {
                let adjacent = place + 1 == self.path.len() && link == Link::Order;
                let closes = place == 0 && self.path.len() + 1 == length;
                !self.path.contains(&next) && (adjacent || closes) && same.next().is_none()
            }
        }
    }

    /// An interleaving of the path's transactions that brings all links of the cycle about: the
    /// accesses that make the links, in order, as places in the path and points.
    fn interleave(&mut self) -> Option<Vec<(usize, usize)>> {
        let count = self.path.len();
        let mut try_all = Interleaving {
            lanes: Vec::with_capacity(count),
            wanted: Vec::new(),
            seen: HashSet::default(),
            trail: Vec::new(),
        };
        for (place, &node) in self.path.iter().enumerate() {
            let sketch = self.sketch(node);
            let closing =
                |other: usize| self.links[other] == Link::Order && (other + 1) % count == place;
            let waits_for = (0..count)
                .filter(|&other| {
                    let thread = self.sketch(self.path[other]).owner.thread;
                    other != place
                        && if thread == sketch.owner.thread {
                            closing(other)
                        } else {
                            self.ordered(self.path[other], node)
                        }
                })
                .collect();
            try_all.lanes.push(Lane {
                pieces: &sketch.skeleton,
                waits_for,
            });
        }
        for (place, &link) in self.links.iter().enumerate() {
            if link == Link::Conflict {
                let next = (place + 1) % count;
                let (from, to) = (self.sketch(self.path[place]), self.sketch(self.path[next]));
                let mut pairs = Vec::new();
                for (early, a) in from.points.iter().enumerate() {
                    for (late, b) in to.points.iter().enumerate() {
                        if a.conflicts(b) {
                            pairs.push((early, late));
                        }
                    }
                }
                try_all.wanted.push(Wanted { place, next, pairs });
            }
        }
        let start = State {
            at: SmallVec::from_elem(0, count),
            points: SmallVec::from_elem(0, count),
            held: SmallVec::from_elem(HeldLocks::default(), count),
            made: 0,
        };
        try_all.run(start, self.search).then(|| try_all.witness())
    }

    fn report(&self, order: &[(usize, usize)], cx: &mut Context<'_>) {
        let count = self.path.len();
        let point = |&(place, point): &(usize, usize)| self.sketch(self.path[place]).points[point];
        let mut moves: Vec<Move> = (order.iter())
            .map(|step| Move {
                participant: step.0,
                var: point(step).var,
                spot: point(step).spot,
                access: None,
            })
            .collect();
        // A transaction that is split is the culprit, and comes first.
        let culprit = (0..count).find(|&place| report::split(&moves, place));
        let shift = culprit.unwrap_or(0);
        for step in &mut moves {
            step.participant = (step.participant + count - shift) % count;
        }
        let parts: Vec<Part> = (0..count)
            .map(|place| self.sketch(self.path[(place + shift) % count]).into())
            .collect();
        let mut edges = Vec::new();
        for (late, b) in order.iter().enumerate() {
            for (early, a) in order[..late].iter().enumerate() {
                let follows = (a.0 + 1) % count == b.0;
                if follows && point(a).conflicts(&point(b)) {
                    edges.push((early, late));
                }
            }
        }
        let anomaly = Anomaly::Cycle(count as u32);
        let own = |step: &&(usize, usize)| step.0 == shift;
        let point = |step: Option<&(usize, usize)>| step.map_or(0, |&(_, point)| point);
        let (first, last) = (order.iter().find(own), order.iter().rfind(own));
        let calls = || {
            self.sketch(self.path[shift])
                .calls(point(first), point(last))
        };
        report::pattern(&parts, &moves, &edges, anomaly, calls, self.search, cx);
    }
}

struct Lane<'a> {
    pieces: &'a [Piece],
    /// Transactions that must have ended before this one starts.
    waits_for: SmallVec<[usize; 4]>,
}

/// A conflict that must come about: a point of one transaction before one of the next.
struct Wanted {
    place: usize,
    next: usize,
    pairs: Vec<(usize, usize)>,
}

#[derive(Clone)]
struct State {
    /// How many pieces of each transaction are done.
    at: SmallVec<[u32; 8]>,
    /// How many of those are points.
    points: SmallVec<[u32; 8]>,
    held: SmallVec<[HeldLocks; 8]>,
    /// Which of the wanted conflicts have come about.
    made: u64,
}

struct Interleaving<'a> {
    lanes: Vec<Lane<'a>>,
    wanted: Vec<Wanted>,
    seen: HashSet<(SmallVec<[u32; 8]>, u64), FxBuildHasher>,
    /// The steps, in order; those that are accesses say which point of which transaction.
    trail: Vec<Option<(usize, usize)>>,
}

impl Interleaving<'_> {
    /// Depth first, with a stack of its own: transactions may be long.
    fn run(&mut self, start: State, search: &mut Search<'_>) -> bool {
        // Each prefix, and which transaction makes the next step from it.
        let mut stack = vec![(start, 0)];
        while let Some((state, place)) = stack.last_mut() {
            let here = *place;
            *place += 1;
            if here == self.lanes.len() {
                stack.pop();
                self.trail.pop();
                continue;
            }
            let Some(next) = self.step(state, here, search) else {
                continue;
            };
            let point = next.points[here] > state.points[here];
            self.trail
                .push(point.then_some((here, state.points[here] as usize)));
            if next.made.count_ones() as usize == self.wanted.len() {
                return true;
            }
            if !search.spend(1) {
                return false;
            }
            if self.seen.insert((next.at.clone(), next.made)) {
                stack.push((next, 0));
            } else {
                self.trail.pop();
            }
        }
        false
    }

    fn step(&self, state: &State, place: usize, search: &mut Search<'_>) -> Option<State> {
        let lane = &self.lanes[place];
        let piece = *lane.pieces.get(state.at[place] as usize)?;
        let ended = |other: usize| state.at[other] as usize == self.lanes[other].pieces.len();
        if !lane.waits_for.iter().all(|&other| ended(other)) {
            return None;
        }
        let mut next = state.clone();
        next.at[place] += 1;
        match piece {
            Piece::Held(held) => {
                let mut others = state.held.iter().enumerate();
                if others
                    .any(|(other, &theirs)| other != place && held.exclude(theirs, search.locksets))
                {
                    return None;
                }
                next.held[place] = held;
            }
            Piece::Access { .. } => {
                let point = state.points[place] as usize;
                next.points[place] += 1;
                for (number, wanted) in self.wanted.iter().enumerate() {
                    let there = state.points[wanted.place] as usize;
                    if wanted.next == place
                        && (wanted.pairs.iter())
                            .any(|&(early, late)| late == point && early < there)
                    {
                        next.made |= 1 << number;
                    }
                }
            }
        }
        if next.at[place] as usize == lane.pieces.len() {
            next.held[place] = HeldLocks::default();
        }
        Some(next)
    }

    /// Of the trail, the points that make the wanted conflicts, each conflict once.
    fn witness(&self) -> Vec<(usize, usize)> {
        let when = |place, point| {
            self.trail
                .iter()
                .position(|step| *step == Some((place, point)))
        };
        let mut needed = Vec::new();
        for wanted in &self.wanted {
            let made = wanted.pairs.iter().find_map(|&(early, late)| {
                let early = when(wanted.place, early)?;
                let late = when(wanted.next, late)?;
                (early < late).then_some([early, late])
            });
            needed.extend(made.into_iter().flatten());
        }
        needed.sort_unstable();
        needed.dedup();
        needed.into_iter().filter_map(|at| self.trail[at]).collect()
    }
}
