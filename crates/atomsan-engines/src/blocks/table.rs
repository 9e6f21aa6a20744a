//! What all transactions of a trace have left behind, each thing once.
//!
//! Blocks are shared across transactions (section 6.6): one that differs only in its period is
//! the same block with another period (footnote 3). The same holds for skeletons: a transaction
//! that does what another one of its thread and region did leaves nothing but a period.
//!
//! Both tables have room for a number of things ([`super::Options::room`]). What does not fit any more is
//! counted, and the verdict says so.

use super::skeleton::{Piece, Spot};
use super::transaction::{Access, Block, Found};
use crate::periods::{PeriodId, Periods};
use atomsan_trace::{FunctionId, SiteId, ThreadId, VarId};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
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
    pub(super) calls: u32,
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
    known: HashTable<u32>,
    pub(super) uses: Vec<Use>,
    room: Room,
}

/// How much fits into a table.
#[derive(Debug, Default)]
struct Room {
    left: usize,
    left_out: u64,
}

impl Room {
    /// Whether there is room for so much more, which is taken then.
    fn take(&mut self, amount: usize) -> bool {
        let left = self.left.checked_sub(amount);
        match left {
            Some(left) => self.left = left,
            None => self.left_out += 1,
        }
        left.is_some()
    }
}

impl BlockTable {
    pub(super) fn new(room: usize) -> BlockTable {
        BlockTable {
            room: Room {
                left: room,
                left_out: 0,
            },
            ..BlockTable::default()
        }
    }

    /// How often something did not fit.
    pub(super) fn left_out(&self) -> u64 {
        self.room.left_out
    }

    pub(super) fn add(
        &mut self,
        var: VarId,
        owner: Owner,
        entered: Entry,
        period: PeriodId,
        found: &Found,
    ) {
        let hash = |var: VarId, owner: Owner, block: &Block| {
            let mut hasher = FxHasher::default();
            (var, owner, block).hash(&mut hasher);
            hasher.finish()
        };
        let hash_of = |u: &Use| hash(u.var, u.owner, &u.found.block);
        let key = hash(var, owner, &found.block);
        let BlockTable { known, uses, room } = self;
        let same = |&place: &u32| {
            let u = &uses[place as usize];
            u.var == var && u.owner == owner && u.found.block == found.block
        };
        if let Some(&place) = known.find(key, same) {
            let periods = &mut uses[place as usize].periods;
            if periods.last() != Some(&period) && (periods.len() < 2 || room.take(1)) {
                periods.push(period);
            }
        } else if room.take(USE) {
            known.insert_unique(key, uses.len() as u32, |&place| {
                hash_of(&uses[place as usize])
            });
            uses.push(Use {
                var,
                owner,
                entered,
                periods: SmallVec::from_slice(&[period]),
                found: *found,
            });
        }
    }

    /// The uses by variable, those of one block together. No more blocks are added.
    pub(super) fn close(&mut self) -> &[Use] {
        self.known = HashTable::new();
        self.uses
            .sort_unstable_by_key(|u| (u.var, u.found.block, u.owner));
        &self.uses
    }
}

/// How many words a use and a kind take, about.
const USE: usize = 32;
const KIND: usize = 32;
/// And a piece of a skeleton with its spot, and its executions in a period.
const PIECE: usize = 8;
const EXECUTIONS: usize = 6;

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
    room: Room,
}

impl KindTable {
    pub(super) fn new(room: usize) -> KindTable {
        KindTable {
            room: Room {
                left: room,
                left_out: 0,
            },
            ..KindTable::default()
        }
    }

    /// How often something did not fit.
    pub(super) fn left_out(&self) -> u64 {
        self.room.left_out
    }

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
            room,
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
                    _ if room.take(EXECUTIONS) => executions.push(execution),
                    _ => {}
                }
            }
            None if !room.take(KIND + PIECE * skeleton.len()) => {}
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

pub(super) fn hash<'a>(owner: Owner, pieces: impl IntoIterator<Item = &'a Piece>) -> u64 {
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

/// A variable with more different uses than this is taken to be shared: to find out costs the square of it.
const MANY: usize = 1 << 10;

/// How a variable is shared, from its blocks.
pub(super) fn mark(uses: &[Use], periods: &Periods) -> Option<Mark> {
    let only = uses[0].owner.thread;
    if uses.iter().all(|u| u.owner.thread == only) {
        return None;
    }
    // What matters of a use; many are alike.
    let mut alike: Vec<(Owner, bool, &[PeriodId])> = (uses.iter())
        .map(|u| {
            let block = &u.found.block;
            let writes = block.first == Access::Write || block.second == Some(Access::Write);
            (u.owner, writes, &u.periods[..])
        })
        .collect();
    alike.sort_unstable();
    alike.dedup();
    if alike.len() > MANY {
        return Some(Mark::BetweenRegions);
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
