//! Theorem 4: two transactions that share several variables.
//!
//! A 2v-block is two accesses of one transaction to different variables, each an initial read or a
//! final write, with the locks held at each of them, across both, and in the meantime (`heldmid`).
//! With two pairs of conflicting accesses, `f` before `f′` on one variable and `e′` before `e` on
//! the other, neither transaction can be the first. Four orders do that:
//!
//! | | possible if |
//! |---|---|
//! | f … e around both of the other | the other's locks, also those in the meantime, are not held across |
//! | f e′ e f′ and e′ f f′ e | each access that is in between is made under no lock held across |
//!
//! # Cost
//!
//! Pairs of variables are many, and hardly any matter. Nothing is done with a pair until two
//! distinct transactions of concurrent periods are known to conflict on both variables: variables
//! without a concurrent conflict are dropped from the skeletons first, and skeletons that have
//! become equal are merged.

use super::moments::{join, less, meet};
use super::report;
use super::table::{Executions, Kind, KindTable, Owner, concurrent};
use super::transaction::{Piece, Spot, finish};
use super::{Mark, Search};
use crate::engine::Context;
use crate::held::HeldLocks;
use crate::locksets::Locksets;
use crate::periods::PeriodId;
use atomsan_trace::{SiteId, VarId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// An initial read, a final write, or both at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) var: VarId,
    pub(super) writes: bool,
    pub(super) held: HeldLocks,
    pub(super) spot: Spot,
}

impl Point {
    pub(super) fn conflicts(&self, other: &Point) -> bool {
        self.var == other.var && (self.writes || other.writes)
    }
}

/// A distinct transaction, with only those accesses that may conflict with another thread's.
#[derive(Debug)]
pub(super) struct Sketch {
    pub(super) owner: Owner,
    pub(super) entered: SiteId,
    pub(super) executions: Vec<Executions>,
    pub(super) skeleton: Vec<Piece>,
    pub(super) points: Vec<Point>,
    /// Between each point and the next: the locks held all the way, and those held at some time.
    gaps: Vec<(HeldLocks, HeldLocks)>,
    /// The points, by variable.
    by_var: Vec<(VarId, u32)>,
    periods: Vec<PeriodId>,
}

impl Sketch {
    fn new(kind: &Kind, skeleton: &[(Piece, Option<Spot>)], locksets: &mut Locksets) -> Sketch {
        let mut points: Vec<Point> = Vec::new();
        let mut gaps: Vec<(HeldLocks, HeldLocks)> = Vec::new();
        let mut held = HeldLocks::default();
        for &(piece, spot) in skeleton {
            match (piece, spot) {
                (Piece::Held(now), _) => {
                    held = now;
                    if let Some((always, ever)) = gaps.last_mut() {
                        *always = meet(*always, now, locksets);
                        *ever = join(*ever, now, locksets);
                    }
                }
                (Piece::Access { var, writes, .. }, Some(spot)) => {
                    points.push(Point {
                        var,
                        writes,
                        held,
                        spot,
                    });
                    gaps.push((held, held));
                }
                _ => {}
            }
        }
        let mut by_var: Vec<(VarId, u32)> = (points.iter().enumerate())
            .map(|(place, point)| (point.var, place as u32))
            .collect();
        by_var.sort_unstable();
        Sketch {
            owner: kind.owner,
            entered: kind.entered,
            executions: Vec::new(),
            skeleton: skeleton.iter().map(|&(piece, _)| piece).collect(),
            points,
            gaps,
            by_var,
            periods: Vec::new(),
        }
    }

    /// Sorts the executions by period, those of one period together.
    fn close(&mut self) {
        self.executions.sort_unstable_by_key(|e| e.period);
        self.executions.dedup_by(|later, earlier| {
            let same = later.period == earlier.period;
            if same {
                earlier.first = earlier.first.min(later.first);
                earlier.last = earlier.last.max(later.last);
            }
            same
        });
        self.periods = self.executions.iter().map(|e| e.period).collect();
    }

    /// The 2v-block of two points.
    fn block(&self, first: usize, second: usize, locksets: &mut Locksets) -> Block2 {
        let gaps = &self.gaps[first..second];
        let (mut across, mut ever) = gaps[0];
        for &(always, sometimes) in &gaps[1..] {
            across = meet(across, always, locksets);
            ever = join(ever, sometimes, locksets);
        }
        let held = (self.points[first].held, self.points[second].held);
        let ends = join(held.0, held.1, locksets);
        Block2 {
            held,
            across,
            mid: less(ever, ends, locksets),
        }
    }

    /// Pairs of places, here and there, that conflict.
    fn conflicts(&self, other: &Sketch) -> Vec<(usize, usize)> {
        let (mut ours, mut theirs) = (&self.by_var[..], &other.by_var[..]);
        let mut result = Vec::new();
        while let (Some(&(a, _)), Some(&(b, _))) = (ours.first(), theirs.first()) {
            let our_run = ours.partition_point(|&(var, _)| var == a.min(b));
            let their_run = theirs.partition_point(|&(var, _)| var == a.min(b));
            for &(_, here) in &ours[..our_run] {
                for &(_, there) in &theirs[..their_run] {
                    let (here, there) = (here as usize, there as usize);
                    if self.points[here].conflicts(&other.points[there]) {
                        result.push((here, there));
                    }
                }
            }
            (ours, theirs) = (&ours[our_run..], &theirs[their_run..]);
        }
        result
    }
}

/// A 2v-block, without its accesses.
#[derive(Clone, Copy, Debug)]
struct Block2 {
    held: (HeldLocks, HeldLocks),
    across: HeldLocks,
    mid: HeldLocks,
}

impl Block2 {
    /// Whether an access can get between the two.
    fn lets_in(&self, held: HeldLocks, locksets: &mut Locksets) -> bool {
        !self.across.exclude(held, locksets)
    }

    /// Whether another block fits between the two.
    fn can_surround(&self, inner: &Block2, locksets: &mut Locksets) -> bool {
        self.lets_in(inner.held.0, locksets)
            && self.lets_in(inner.held.1, locksets)
            && self.lets_in(inner.mid, locksets)
    }
}

/// The skeletons with only the variables that are marked, those that are equal then as one; those
/// without any access are left out. `whole`: with the locks before the first access and after the
/// last one.
pub(super) fn sketches(
    table: &KindTable,
    marks: &HashMap<VarId, Mark, FxBuildHasher>,
    least: Mark,
    whole: bool,
    locksets: &mut Locksets,
) -> Vec<Sketch> {
    let mut sketches: Vec<Sketch> = Vec::new();
    let mut known: HashMap<(Owner, Vec<Piece>), usize, FxBuildHasher> = HashMap::default();
    let mut skeleton = Vec::new();
    for kind in &table.kinds {
        skeleton.clear();
        skeleton.extend(table.pieces(kind).iter().filter(|(piece, _)| match piece {
            Piece::Held(_) => true,
            Piece::Access { var, .. } => marks.get(var).is_some_and(|&mark| mark >= least),
        }));
        finish(&mut skeleton, whole);
        if skeleton.iter().all(|(_, spot)| spot.is_none()) {
            continue;
        }
        let pieces = skeleton.iter().map(|&(piece, _)| piece).collect();
        let place = *known.entry((kind.owner, pieces)).or_insert_with(|| {
            sketches.push(Sketch::new(kind, &skeleton, locksets));
            sketches.len() - 1
        });
        sketches[place].executions.extend(&kind.executions);
    }
    sketches.iter_mut().for_each(Sketch::close);
    sketches
}

/// Checks all pairs of distinct transactions that may violate the theorem's second condition.
pub(super) fn check(sketches: &[Sketch], search: &mut Search<'_>, cx: &mut Context<'_>) {
    let mut by_var: HashMap<VarId, Vec<u32>, FxBuildHasher> = HashMap::default();
    let mut shared: Vec<u32> = vec![0; sketches.len()];
    let mut candidates: Vec<u32> = Vec::new();
    for (number, sketch) in sketches.iter().enumerate() {
        if sketch.owner.region.is_none() {
            continue;
        }
        let mut vars: Vec<VarId> = sketch.by_var.iter().map(|&(var, _)| var).collect();
        vars.dedup();
        if vars.len() < 2 {
            continue;
        }
        for var in vars {
            let others = by_var.entry(var).or_default();
            for &other in &*others {
                if shared[other as usize] == 0 {
                    candidates.push(other);
                }
                shared[other as usize] += 1;
            }
            if !search.spend(others.len() as u64) {
                return;
            }
            others.push(number as u32);
        }
        for other in candidates.drain(..) {
            let count = std::mem::take(&mut shared[other as usize]);
            let other = &sketches[other as usize];
            if count >= 2
                && other.owner.thread != sketch.owner.thread
                && concurrent(search.periods, &other.periods, &sketch.periods).is_some()
            {
                pair(other, sketch, search, cx);
                if cx.findings.full() || search.exhausted {
                    return;
                }
            }
        }
    }
}

fn pair(ours: &Sketch, theirs: &Sketch, search: &mut Search<'_>, cx: &mut Context<'_>) {
    let conflicts = ours.conflicts(theirs);
    for (at, &first) in conflicts.iter().enumerate() {
        for &second in &conflicts[at + 1..] {
            if ours.points[first.0].var == ours.points[second.0].var {
                continue;
            }
            if !search.spend(1) {
                return;
            }
            let (first, second) = if first.0 < second.0 {
                (first, second)
            } else {
                (second, first)
            };
            if let Some(order) = unserializable(ours, theirs, first, second, search.locksets) {
                report::two_var(ours, theirs, &order, search, cx);
            }
        }
    }
}

/// A step of a pattern: whether the other transaction makes it, and which of its points.
pub(super) type Order = [(bool, usize); 4];

/// An order of the four accesses that is possible and not serializable. `first` and `second` are
/// conflicts, here and there; `first` is the earlier one here.
fn unserializable(
    ours: &Sketch,
    theirs: &Sketch,
    first: (usize, usize),
    second: (usize, usize),
    locksets: &mut Locksets,
) -> Option<Order> {
    let (low, high) = (first.1.min(second.1), first.1.max(second.1));
    let our = ours.block(first.0, second.0, locksets);
    let their = theirs.block(low, high, locksets);
    let (a, b) = ((false, first.0), (false, second.0));
    let (c, d) = ((true, low), (true, high));
    // Around both of the other's is unserializable whichever way round those are.
    if our.can_surround(&their, locksets) {
        return Some([a, c, d, b]);
    }
    if their.can_surround(&our, locksets) {
        return Some([c, a, b, d]);
    }
    // The variables in opposite orders: each transaction is split by one access of the other.
    if first.1 > second.1 {
        if our.lets_in(their.held.0, locksets) && their.lets_in(our.held.1, locksets) {
            return Some([a, c, b, d]);
        }
        if their.lets_in(our.held.0, locksets) && our.lets_in(their.held.1, locksets) {
            return Some([c, a, d, b]);
        }
    }
    None
}
