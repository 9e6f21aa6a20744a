//! What all transactions of a trace have left behind, each thing once.
//!
//! Blocks are shared across transactions (section 6.6): one that differs only in its period is
//! the same block with another period (footnote 3). The same holds for skeletons: a transaction
//! that does what another one of its thread and region did leaves nothing but a period.

use super::transaction::{Block, Found, Piece, Spot};
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

/// A block of one variable in the transactions of one owner.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) var: VarId,
    pub(super) owner: Owner,
    pub(super) entered: SiteId,
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
        entered: SiteId,
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
    pub(super) entered: SiteId,
    pieces: Range<usize>,
    pub(super) executions: SmallVec<[Executions; 1]>,
}

/// The distinct transactions.
#[derive(Debug, Default)]
pub(super) struct KindTable {
    pieces: Vec<(Piece, Option<Spot>)>,
    pub(super) kinds: Vec<Kind>,
    known: HashTable<u32>,
}

impl KindTable {
    pub(super) fn add(
        &mut self,
        owner: Owner,
        entered: SiteId,
        (period, start): (PeriodId, u64),
        skeleton: &[(Piece, Option<Spot>)],
    ) {
        let hash = hash(owner, skeleton);
        let KindTable {
            pieces,
            kinds,
            known,
        } = self;
        let same = |&kind: &u32| {
            let kind = &kinds[kind as usize];
            kind.owner == owner
                && pieces[kind.pieces.clone()]
                    .iter()
                    .map(|(piece, _)| piece)
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
                pieces.extend_from_slice(skeleton);
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

    pub(super) fn pieces(&self, kind: &Kind) -> &[(Piece, Option<Spot>)] {
        &self.pieces[kind.pieces.clone()]
    }
}

fn hash(owner: Owner, skeleton: &[(Piece, Option<Spot>)]) -> u64 {
    let mut hasher = FxHasher::default();
    owner.hash(&mut hasher);
    for (piece, _) in skeleton {
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
