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
//! become equal are merged. Of two transactions, conflicts at the same places of the program and of
//! the skeletons are a *class*: all that the test asks of a pair of conflicts is the same for every
//! pair of two classes, except which comes first. So classes are compared, not conflicts.
//!
//! `heldmid` is never made: it would be another set of locks for every pair of places. Where the locks at both
//! ends of a block are let in, `heldmid` is let in exactly if every set on the way is, because a lock that is
//! taken away from it for being held at an end is none that excludes.

use super::Search;
use super::moments::meet;
use super::report;
use super::skeleton::{Piece, Spot, finish};
use super::table::{self, Entry, Executions, Kind, KindTable, Mark, Owner, concurrent};
use crate::engine::Context;
use crate::held::HeldLocks;
use crate::locksets::Locksets;
use crate::periods::PeriodId;
use atomsan_trace::VarId;
use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;

/// An initial read, a final write, or both at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) var: VarId,
    pub(super) writes: bool,
    pub(super) spot: Spot,
    /// Points with no change of locks between them are in one segment.
    segment: u32,
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
    pub(super) entered: Entry,
    pub(super) executions: Vec<Executions>,
    pub(super) skeleton: Box<[Piece]>,
    pub(super) points: Vec<Point>,
    /// The locks held in each segment.
    segments: Vec<HeldLocks>,
    /// From each segment to the next: the locks held all the way, and where the sets on the way end.
    gaps: Vec<(HeldLocks, u32)>,
    /// The sets of locks held on the way, one after the other.
    way: Vec<HeldLocks>,
    /// The points, by variable.
    by_var: Vec<(VarId, u32)>,
    periods: Vec<PeriodId>,
}

impl Sketch {
    fn new(kind: &Kind, skeleton: &[(Piece, Spot)], locksets: &mut Locksets) -> Sketch {
        let mut points: Vec<Point> = Vec::new();
        let mut segments: Vec<HeldLocks> = Vec::new();
        let (mut gaps, mut way) = (Vec::new(), Vec::new());
        let mut held = HeldLocks::default();
        // What was held all the time since the last point, if there was a change.
        let mut gap: Option<HeldLocks> = None;
        for &(piece, spot) in skeleton {
            match piece {
                Piece::Held(now) => {
                    gap = Some(meet(gap.unwrap_or(held), now, locksets));
                    held = now;
                    if !segments.is_empty() {
                        way.push(now);
                    }
                }
                Piece::Access { var, writes, .. } => {
                    if segments.is_empty() {
                        segments.push(held);
                    } else if let Some(always) = gap {
                        segments.push(held);
                        gaps.push((always, way.len() as u32));
                    }
                    gap = None;
                    points.push(Point {
                        var,
                        writes,
                        spot,
                        segment: segments.len() as u32 - 1,
                    });
                }
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
            segments,
            gaps,
            way,
            by_var,
            periods: Vec::new(),
        }
    }

    /// How many calls were open all the way from one point to a later one.
    pub(super) fn calls(&self, first: usize, second: usize) -> usize {
        let way = self.points.get(first + 1..=second).unwrap_or_default();
        let calls = way.iter().map(|point| point.spot.calls());
        calls.min().unwrap_or(0)
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

    /// The 2v-block of a point in one segment and a later one in another (or the same).
    fn block(&self, first: u32, second: u32, locksets: &mut Locksets) -> Block2<'_> {
        let (first, second) = (first as usize, second as usize);
        let held = (self.segments[first], self.segments[second]);
        let mut across = held.0;
        for &(always, _) in &self.gaps[first..second] {
            across = meet(across, always, locksets);
            if across.any.is_empty() {
                break;
            }
        }
        let end = |gap: usize| {
            gap.checked_sub(1)
                .map_or(0, |gap| self.gaps[gap].1 as usize)
        };
        Block2 {
            held,
            across,
            way: &self.way[end(first)..end(second)],
        }
    }

    /// Pairs of places, here and there, that conflict.
    fn conflicts(&self, other: &Sketch) -> Vec<Conflict> {
        let (mut ours, mut theirs) = (&self.by_var[..], &other.by_var[..]);
        let mut result = Vec::new();
        while let (Some(&(a, _)), Some(&(b, _))) = (ours.first(), theirs.first()) {
            let our_run = ours.partition_point(|&(var, _)| var == a.min(b));
            let their_run = theirs.partition_point(|&(var, _)| var == a.min(b));
            for &(_, here) in &ours[..our_run] {
                for &(_, there) in &theirs[..their_run] {
                    let (ours, theirs) = (here as usize, there as usize);
                    if self.points[ours].conflicts(&other.points[theirs]) {
                        result.push(Conflict { here, there });
                    }
                }
            }
            (ours, theirs) = (&ours[our_run..], &theirs[their_run..]);
        }
        result
    }
}

/// Two points that conflict, of one transaction and of another one.
#[derive(Clone, Copy, Debug)]
struct Conflict {
    here: u32,
    there: u32,
}

/// A 2v-block, without its accesses.
#[derive(Clone, Copy, Debug)]
struct Block2<'a> {
    held: (HeldLocks, HeldLocks),
    across: HeldLocks,
    /// The sets of locks held between the two.
    way: &'a [HeldLocks],
}

impl Block2<'_> {
    /// Whether an access can get between the two.
    fn lets_in(&self, held: HeldLocks, locksets: &Locksets) -> bool {
        !self.across.exclude(held, locksets)
    }

    /// Whether another block fits between the two.
    fn can_surround(&self, inner: &Block2<'_>, locksets: &Locksets) -> bool {
        let lets_in = |held: HeldLocks| self.lets_in(held, locksets);
        self.across.any.is_empty()
            || lets_in(inner.held.0)
                && lets_in(inner.held.1)
                && inner.way.iter().all(|&held| lets_in(held))
    }
}

/// The skeletons with only the variables that are marked, those that are equal then as one. `whole`: with the
/// locks before the first access and after the last one, and those that access one variable only.
pub(super) fn sketches(
    table: &KindTable,
    marks: &HashMap<VarId, Mark, FxBuildHasher>,
    least: Mark,
    whole: bool,
    locksets: &mut Locksets,
) -> Vec<Sketch> {
    let mut sketches: Vec<Sketch> = Vec::new();
    let mut known: HashTable<u32> = HashTable::new();
    let mut skeleton = Vec::new();
    for kind in &table.kinds {
        skeleton.clear();
        // What does nothing is dropped when the skeleton is finished.
        skeleton.extend(table.skeleton(kind).map(|(piece, spot)| match piece {
            Piece::Access { var, .. } if marks.get(&var).is_none_or(|&mark| mark < least) => {
                let (reads, writes) = (false, false);
                (Piece::Access { var, reads, writes }, spot)
            }
            _ => (piece, spot),
        }));
        finish(&mut skeleton, whole);
        let mut vars = skeleton.iter().filter_map(|(piece, _)| match piece {
            Piece::Access { var, .. } => Some(var),
            Piece::Held(_) => None,
        });
        let first = vars.next();
        if first.is_none() || !whole && vars.all(|var| first == Some(var)) {
            continue;
        }
        let pieces = skeleton.iter().map(|(piece, _)| piece);
        let hash = table::hash(kind.owner, pieces.clone());
        let same = |&place: &u32| {
            let sketch: &Sketch = &sketches[place as usize];
            sketch.owner == kind.owner && sketch.skeleton.iter().eq(pieces.clone())
        };
        let place = match known.find(hash, same) {
            Some(&place) => place as usize,
            None => {
                let of = |sketch: &Sketch| table::hash(sketch.owner, &sketch.skeleton);
                let place = sketches.len();
                known.insert_unique(hash, place as u32, |&place| of(&sketches[place as usize]));
                sketches.push(Sketch::new(kind, &skeleton, locksets));
                place
            }
        };
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

/// So many patterns of two transactions say that they are not atomic; more would only be noise, and
/// there can be as many as squares of places.
const ENOUGH: u32 = 256;

fn pair(ours: &Sketch, theirs: &Sketch, search: &mut Search<'_>, cx: &mut Context<'_>) {
    if !search.spend((ours.points.len() + theirs.points.len()) as u64) {
        return;
    }
    let class = |conflict: &Conflict| {
        let here = &ours.points[conflict.here as usize];
        let there = &theirs.points[conflict.there as usize];
        (
            (here.segment, there.segment),
            (here.spot.site, there.spot.site),
        )
    };
    let mut conflicts = ours.conflicts(theirs);
    conflicts.sort_unstable_by_key(|conflict| (class(conflict), conflict.here));
    let classes: Vec<&[Conflict]> = conflicts.chunk_by(|a, b| class(a) == class(b)).collect();
    let mut patterns = 0;
    for first in &classes {
        for second in &classes {
            let way = class(&second[0]).0.0.saturating_sub(class(&first[0]).0.0) as usize;
            if patterns == ENOUGH || !search.spend((1 + first.len() + second.len() + way) as u64) {
                return;
            }
            if let Some(order) = unserializable(ours, theirs, first, second, search.locksets) {
                report::two_var(ours, theirs, &order, search, cx);
                patterns += 1;
            }
        }
    }
}

/// A step of a pattern: whether the other transaction makes it, and which of its points.
pub(super) type Order = [(bool, usize); 4];

/// An order of four accesses that is possible and not serializable: two conflicts, the one here
/// earlier of the first class, the other one of the second.
fn unserializable(
    ours: &Sketch,
    theirs: &Sketch,
    first: &[Conflict],
    second: &[Conflict],
    locksets: &mut Locksets,
) -> Option<Order> {
    let segments = |one: &Conflict| {
        let here = ours.points[one.here as usize].segment;
        (here, theirs.points[one.there as usize].segment)
    };
    let (one, other) = (segments(&first[0]), segments(&second[0]));
    if one.0 > other.0 {
        return None;
    }
    let our = ours.block(one.0, other.0, locksets);
    let their = theirs.block(one.1.min(other.1), one.1.max(other.1), locksets);
    let var = |conflict: &Conflict| ours.points[conflict.here as usize].var;
    let steps = |a: &Conflict, b: &Conflict| {
        let (low, high) = (a.there.min(b.there), a.there.max(b.there));
        let here = |point: u32| (false, point as usize);
        let there = |point: u32| (true, point as usize);
        (here(a.here), here(b.here), there(low), there(high))
    };
    // Around both of the other's is unserializable whichever way round those are.
    let some = || {
        // The first and the last will do, unless they are of one variable. A variable has at most
        // four conflicts, so this ends soon.
        first.iter().find_map(|a| {
            let mut later = second.iter().rev().take_while(|b| b.here > a.here);
            let b = later.find(|b| var(b) != var(a))?;
            Some(steps(a, b))
        })
    };
    if our.can_surround(&their, locksets) {
        return some().map(|(a, b, c, d)| [a, c, d, b]);
    }
    if their.can_surround(&our, locksets) {
        return some().map(|(a, b, c, d)| [c, a, b, d]);
    }
    // The variables in opposite orders: each transaction is split by one access of the other.
    let crossed = one.1 >= other.1;
    let ours_first =
        crossed && our.lets_in(their.held.0, locksets) && their.lets_in(our.held.1, locksets);
    let theirs_first =
        crossed && their.lets_in(our.held.0, locksets) && our.lets_in(their.held.1, locksets);
    if !ours_first && !theirs_first {
        return None;
    }
    let (a, b) = opposite(first, second, var)?;
    let (a, b, c, d) = steps(a, b);
    Some(if ours_first {
        [a, c, b, d]
    } else {
        [c, a, d, b]
    })
}

/// A conflict of the first class and a later one (here) of the second that is earlier there, of
/// another variable.
fn opposite<'a>(
    first: &'a [Conflict],
    second: &'a [Conflict],
    var: impl Fn(&Conflict) -> VarId,
) -> Option<(&'a Conflict, &'a Conflict)> {
    // From each place of the second class on: the conflict that is earliest there, and the
    // earliest of another variable than that.
    let mut earliest: Vec<[Option<&Conflict>; 2]> = vec![[None; 2]; second.len() + 1];
    for (place, conflict) in second.iter().enumerate().rev() {
        let [best, next] = earliest[place + 1];
        let before = |old: Option<&Conflict>| old.is_none_or(|old| conflict.there < old.there);
        let same = |old: Option<&Conflict>| old.is_some_and(|old| var(old) == var(conflict));
        earliest[place] = match (before(best), same(best)) {
            (true, true) => [Some(conflict), next],
            (true, false) => [Some(conflict), best],
            (false, false) if before(next) => [best, Some(conflict)],
            _ => [best, next],
        };
    }
    first.iter().find_map(|a| {
        let later = second.partition_point(|b| b.here <= a.here);
        let other = earliest[later].into_iter().flatten();
        let mut other = other.filter(|b| b.there < a.there && var(b) != var(a));
        Some((a, other.next()?))
    })
}
