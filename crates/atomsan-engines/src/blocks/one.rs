//! Theorem 3: transactions that share one variable.
//!
//! Two blocks of different threads are atomic if no access of the one can get between the two of
//! the other so that the three are one of the unserializable patterns (`'` is the other thread):
//!
//! | pattern | |
//! |---|---|
//! | W R′ W | R′ is an initial read |
//! | R W′ R | |
//! | W W′ R | |
//! | R W′ W | W′ is the final write of its transaction |
//!
//! An access can get between two others if it is made under no lock that is held across them, in
//! concurrent periods.
//!
//! # Where this differs from the paper
//!
//! The paper reports W R′ W for every read. A read that is *not* initial has a write of its own
//! transaction before it. Either that write comes before the first W as well: then the first W is
//! between a write and a later read of the other transaction, which is W W′ R, and reported as
//! such. Or it comes in between, and R′ reads what its own transaction wrote: the other transaction is
//! simply before this one. So nothing is lost, and `W W, each under l; W R under l once` is not
//! called a violation that it is not.

use super::Search;
use super::report;
use super::table::{Use, concurrent};
use super::transaction::{Access, Block};
use crate::engine::Context;
use crate::held::HeldLocks;

/// One access of a block, as something that may get between two others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intruder {
    pub(super) access: Access,
    initial: bool,
    final_write: bool,
    held: HeldLocks,
    /// Whether it is the second access of its block.
    pub(super) second: bool,
}

fn intruders(block: &Block) -> impl Iterator<Item = Intruder> {
    // In a block that starts with a read, all reads are initial.
    let initial = block.first == Access::Read;
    let first = Intruder {
        access: block.first,
        initial,
        final_write: block.final_writes.0,
        held: block.held.0,
        second: false,
    };
    let second = block.second.map(|access| Intruder {
        access,
        initial,
        final_write: block.final_writes.1,
        held: block.held.1,
        second: true,
    });
    std::iter::once(first).chain(second)
}

fn unserializable(first: Access, between: &Intruder, second: Access) -> bool {
    use Access::{Read, Write};
    match (first, between.access, second) {
        (Write, Read, Write) => between.initial,
        (Read, Write, Read) | (Write, Write, Read) => true,
        (Read, Write, Write) => between.final_write,
        _ => false,
    }
}

/// Checks the blocks of one variable against each other.
pub(super) fn check(uses: &[Use], search: &mut Search<'_>, cx: &mut Context<'_>) {
    for ours in uses.chunk_by(|a, b| a.found.block == b.found.block) {
        let block = ours[0].found.block;
        let Some(second) = block.second else {
            continue;
        };
        for theirs in uses.chunk_by(|a, b| a.found.block == b.found.block) {
            for intruder in intruders(&theirs[0].found.block) {
                search.compared += 1;
                if !search.spend(1) {
                    return;
                }
                if unserializable(block.first, &intruder, second)
                    && !block.across.exclude(intruder.held, search.locksets)
                {
                    pairs(ours, theirs, &intruder, search, cx);
                }
            }
        }
    }
}

fn pairs(
    ours: &[Use],
    theirs: &[Use],
    intruder: &Intruder,
    search: &mut Search<'_>,
    cx: &mut Context<'_>,
) {
    for a in ours {
        for b in theirs {
            if cx.findings.full() || !search.spend(1) {
                return;
            }
            if a.owner.thread != b.owner.thread
                && concurrent(search.periods, &a.periods, &b.periods).is_some()
            {
                report::one_var(a, b, intruder, search, cx);
            }
        }
    }
}
