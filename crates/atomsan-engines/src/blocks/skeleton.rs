//! What remains of a transaction for the theorems about several variables.
//!
//! All that the theorems about several variables need is the *first* initial read and the final
//! write of each variable, and the sets of locks held at and between them. The paper keeps all
//! initial reads; one is enough, because a final write of another transaction that can get
//! between two of them is a violation on one variable already (R W′ R), and if none can, the
//! reads are on the same side of it in every trace.
//!
//! Between two accesses the skeleton is a run of held sets. A detour that leads back to a set the
//! run was in, through sets the run has been in before, is dropped; so are writes that turned out
//! not to be final. The skeleton is tidied whenever it has doubled: its size follows what is
//! different in the transaction and not how long it ran.

use crate::engine::Occurrence;
use crate::held::HeldLocks;
use atomsan_trace::{Op, SiteId, StackId, VarId};
use smallvec::SmallVec;

/// What a transaction did, in order, and where.
pub(super) type Skeleton = Vec<(Piece, Spot)>;

/// A piece of a skeleton.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Piece {
    /// From here on these locks are held.
    Held(HeldLocks),
    /// The first initial read, the final write, or both at once.
    Access {
        var: VarId,
        reads: bool,
        writes: bool,
    },
}

/// More calls than this are not told apart.
const CALLS: u64 = 0xffff;

/// Where and when an access happened, in 16 bytes: there is one of these for everything kept.
///
/// The culprit of a violation is the innermost invocation that was open at both of two accesses.
/// So an access also knows the least number of calls that its thread has been in since the one
/// kept before it; two accesses have in common the least of all numbers on the way from the first
/// to the second ([`Spot::calls`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    /// The position in the trace (45 bits), the calls (16) and the operation (3).
    tagged: u64,
    pub(super) stack: StackId,
    pub(super) site: SiteId,
}

impl Spot {
    /// The place of what is no access.
    pub(super) const NONE: Spot = Spot {
        tagged: 0,
        stack: StackId::EMPTY,
        site: SiteId::UNKNOWN,
    };

    pub(super) fn of(at: &Occurrence) -> Spot {
        let operation = match at.event.op {
            Op::Write(_) => 1,
            Op::AtomicLoad(_) => 2,
            Op::AtomicStore(_) => 3,
            Op::AtomicRmw(_) => 4,
            Op::AtomicRmwFailed(_) => 5,
            _ => 0,
        };
        Spot {
            tagged: at.index << 19 | operation,
            stack: at.stack,
            site: at.event.site,
        }
    }

    /// The position in the trace.
    pub(super) fn index(&self) -> u64 {
        self.tagged >> 19
    }

    /// The least number of calls since the access before.
    pub(super) fn calls(&self) -> usize {
        (self.tagged >> 3 & CALLS) as usize
    }

    /// The same place, with so many calls in common with the access before.
    pub(super) fn with_calls(mut self, calls: usize) -> Spot {
        self.tagged = self.tagged & !(CALLS << 3) | (calls as u64).min(CALLS) << 3;
        self
    }

    /// What happened, to this variable.
    pub(super) fn op(&self, var: VarId) -> Op {
        match self.tagged & 7 {
            1 => Op::Write(var),
            2 => Op::AtomicLoad(var),
            3 => Op::AtomicStore(var),
            4 => Op::AtomicRmw(var),
            5 => Op::AtomicRmwFailed(var),
            _ => Op::Read(var),
        }
    }
}

/// Drops from a skeleton what makes no difference: dead writes and detours and, if it need not be
/// `whole`, what comes before the locks of the first access.
pub(super) fn tidy(skeleton: &mut Skeleton, whole: bool) {
    let mut kept = 0;
    let mut accessed = false;
    // The least number of calls since the last access that is kept.
    let mut calls = usize::MAX;
    // The held sets since the last access, starting with the one held there.
    let mut run: SmallVec<[HeldLocks; 8]> = SmallVec::new();
    for at in 0..=skeleton.len() {
        let piece = skeleton.get(at).copied();
        match piece {
            Some((Piece::Held(held), _)) => {
                if run.last() != Some(&held) {
                    run.push(held);
                    cut_detour(&mut run);
                }
                continue;
            }
            Some((Piece::Access { reads, writes, .. }, spot)) if !reads && !writes => {
                calls = calls.min(spot.calls());
                continue;
            }
            _ => {}
        }
        let skip = match (accessed, whole) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => run.len().max(1) - 1,
        };
        for &held in run.iter().skip(skip) {
            skeleton[kept] = (Piece::Held(held), Spot::NONE);
            kept += 1;
        }
        let held = run.last().copied();
        run.clear();
        run.extend(held);
        if let Some((piece, spot)) = piece {
            skeleton[kept] = (piece, spot.with_calls(spot.calls().min(calls)));
            kept += 1;
            accessed = true;
            calls = usize::MAX;
        }
    }
    skeleton.truncate(kept);
}

/// Tidies the skeleton of a transaction that has ended. If it need not be `whole`, it ends with the
/// last access.
pub(super) fn finish(skeleton: &mut Skeleton, whole: bool) {
    tidy(skeleton, whole);
    while !whole && matches!(skeleton.last(), Some((Piece::Held(_), _))) {
        skeleton.pop();
    }
}

/// If the last set of a run was in the run before, and so was everything since, goes back there.
fn cut_detour(run: &mut SmallVec<[HeldLocks; 8]>) {
    let last = run.len() - 1;
    let Some(before) = run[..last].iter().rposition(|held| *held == run[last]) else {
        return;
    };
    let (old, detour) = run[..last].split_at(before + 1);
    if detour.iter().all(|held| old.contains(held)) {
        run.truncate(before + 1);
    }
}
