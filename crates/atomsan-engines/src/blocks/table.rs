//! What all transactions of a trace have left behind, each thing once.
//!
//! Blocks are shared across transactions (section 6.6): one that differs only in its period is
//! the same block with another period (footnote 3). The same holds for skeletons: a transaction
//! that does what another one of its thread and region did leaves nothing but a period.

use super::skeleton::{Piece, Spot};
use super::transaction::{Access, Block, Found};
use crate::periods::{PeriodId, Periods};
use atomsan_trace::{FunctionId, SiteId, ThreadId, VarId};
use hashbrown::{HashMap, HashTable};
use rustc_hash::{FxBuildHasher, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Who executes what: the owner of a block or a skeleton.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Owner {
    pub(super) thread: ThreadId,
    /// `None` for a unary transaction.
    pub(super) region: Option<FunctionId>,
}

/// Where a region was entered, and in how many calls that was: its own, if it is a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Entry {
    pub(super) site: SiteId,
    pub(super) calls: usize,
}

/// A block of one variable in the transactions of one owner.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) var: VarId,
    pub(super) owner: Owner,
    pub(super) entered: Entry,
    /// In ascending order.
    pub(super) periods: SmallVec<[PeriodId; 2]>,
    pub(super) found: Found,
}

/// The distinct 1v-blocks.
#[derive(Debug, Default)]
pub(super) struct BlockTable {
    known: HashMap<(VarId, Owner, Block), u32, FxBuildHasher>,
    pub(super) uses: Vec<Use>,
}

impl BlockTable {
    pub(super) fn add(
        &mut self,
        var: VarId,
        owner: Owner,
        entered: Entry,
        period: PeriodId,
        found: &Found,
    ) {
        let next = self.uses.len() as u32;
        let place = *self.known.entry((var, owner, found.block)).or_insert(next);
        if place == next {
            self.uses.push(Use {
                var,
                owner,
                entered,
                periods: SmallVec::from_slice(&[period]),
                found: *found,
            });
        } else {
            let periods = &mut self.uses[place as usize].periods;
            if periods.last() != Some(&period) {
                periods.push(period);
            }
        }
    }

    /// The uses by variable, those of one block together. No more blocks are added.
    pub(super) fn close(&mut self) -> &[Use] {
        self.known = HashMap::default();
        self.uses
            .sort_unstable_by_key(|u| (u.var, u.found.block, u.owner));
        &self.uses
    }
}

/// The executions of a skeleton in one period: the positions of the first and of the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Executions {
    pub(super) period: PeriodId,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A distinct transaction.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) owner: Owner,
    pub(super) entered: Entry,
    pieces: Range<usize>,
    pub(super) executions: SmallVec<[Executions; 1]>,
}

/// The distinct transactions.
#[derive(Debug, Default)]
pub(super) struct KindTable {
    pieces: Vec<Piece>,
    /// One for each piece.
    spots: Vec<Spot>,
    pub(super) kinds: Vec<Kind>,
    known: HashTable<u32>,
}

impl KindTable {
    pub(super) fn add(
        &mut self,
        owner: Owner,
        entered: Entry,
        (period, start): (PeriodId, u64),
        skeleton: &[(Piece, Spot)],
    ) {
        let hash = hash(owner, skeleton.iter().map(|(piece, _)| piece));
        let KindTable {
            pieces,
            spots,
            kinds,
            known,
        } = self;
        let same = |&kind: &u32| {
            let kind = &kinds[kind as usize];
            kind.owner == owner
                && pieces[kind.pieces.clone()]
                    .iter()
                    .eq(skeleton.iter().map(|(piece, _)| piece))
        };
        let execution = Executions {
            period,
            first: start,
            last: start,
        };
        match known.find(hash, same) {
            Some(&kind) => {
                let executions = &mut kinds[kind as usize].executions;
                match executions.last_mut() {
                    Some(last) if last.period == period => last.last = start,
                    _ => executions.push(execution),
                }
            }
            None => {
                let from = pieces.len();
                pieces.extend(skeleton.iter().map(|(piece, _)| piece));
                spots.extend(skeleton.iter().map(|(_, spot)| spot));
                known.insert_unique(hash, kinds.len() as u32, |&kind| {
                    let kind = &kinds[kind as usize];
                    self::hash(kind.owner, &pieces[kind.pieces.clone()])
                });
                kinds.push(Kind {
                    owner,
                    entered,
                    pieces: from..pieces.len(),
                    executions: SmallVec::from_slice(&[execution]),
                });
            }
        }
    }

    pub(super) fn skeleton(&self, kind: &Kind) -> impl Iterator<Item = (Piece, Spot)> {
        let pieces = self.pieces[kind.pieces.clone()].iter();
        pieces
            .copied()
            .zip(self.spots[kind.pieces.clone()].iter().copied())
    }
}

fn hash<'a>(owner: Owner, pieces: impl IntoIterator<Item = &'a Piece>) -> u64 {
    let mut hasher = FxHasher::default();
    owner.hash(&mut hasher);
    for piece in pieces {
        piece.hash(&mut hasher);
    }
    hasher.finish()
}

/// A period of the one list that is concurrent with one of the other; each list is of one thread,
/// ascending. The periods of a thread that are concurrent with a given one are consecutive, so the
/// first one that is not over before it decides.
pub(super) fn concurrent(
    periods: &Periods,
    ours: &[PeriodId],
    theirs: &[PeriodId],
) -> Option<(PeriodId, PeriodId)> {
    ours.iter().find_map(|&a| {
        let next = theirs.partition_point(|&b| periods.before(b, a));
        let &b = theirs.get(next)?;
        periods.concurrent(a, b).then_some((a, b))
    })
}

/// How a variable is shared between concurrent transactions, one of which writes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Mark {
    /// Between transactions of which one may be unary.
    Shared,
    /// Between regions.
    BetweenRegions,
}

/// How a variable is shared, from its blocks.
pub(super) fn mark(uses: &[Use], periods: &Periods) -> Option<Mark> {
    let only = uses[0].owner.thread;
    if uses.iter().all(|u| u.owner.thread == only) {
        return None;
    }
    // What matters of a use; many are alike.
    let mut alike: Vec<(Owner, bool, &[PeriodId])> = Vec::new();
    for u in uses {
        let block = &u.found.block;
        let writes = block.first == Access::Write || block.second == Some(Access::Write);
        let one = (u.owner, writes, &u.periods[..]);
        if !alike.contains(&one) {
            alike.push(one);
        }
    }
    let mut result = None;
    for (at, a) in alike.iter().enumerate() {
        for b in &alike[at + 1..] {
            let mark = match (a.0.region, b.0.region) {
                (Some(_), Some(_)) => Mark::BetweenRegions,
                _ => Mark::Shared,
            };
            if (a.1 || b.1)
                && a.0.thread != b.0.thread
                && result < Some(mark)
                && concurrent(periods, a.2, b.2).is_some()
            {
                result = Some(mark);
            }
        }
        if result == Some(Mark::BetweenRegions) {
            break;
        }
    }
    result
}
