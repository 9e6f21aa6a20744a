//! The Atomizer's rules as they stand in Fig. 13 to 15 and section 4.3, from the whole history of
//! each variable and each lock, with each open block looked at by itself.

use crate::eraser;
use crate::random::{Shape, traces};
use crate::trace::Trace;
use atomsan_engines::atomizer::Atomizer;
use atomsan_engines::eraser::Eraser;
use atomsan_engines::held::{Change, Held};
use atomsan_engines::locksets::Locksets;
use atomsan_trace::{FunctionId, Op};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Set = BTreeSet<u32>;

/// One use of a variable or a lock: by whom, whether it writes, the locks that protect it.
type Use = (u8, bool, Set);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mover {
    Right,
    Left,
    Both,
    Non,
}

/// An open block: its label, and where it committed.
struct Block {
    label: FunctionId,
    committed: Option<usize>,
    violated: bool,
}

/// The use at which a variable became shared and modified, if it is.
fn shared_since(history: &[Use]) -> Option<usize> {
    let uses: Vec<(u8, bool)> = history
        .iter()
        .map(|&(who, write, _)| (who, write))
        .collect();
    let modified =
        |at: &usize| eraser::by_definition(&uses[..=*at], true) == Eraser::SharedModified(());
    (0..uses.len()).find(modified)
}

/// The locks that were held at all of these uses.
fn common<'a>(mut uses: impl Iterator<Item = &'a Use>) -> Option<Set> {
    let first = uses.next()?.2.clone();
    Some(uses.fold(first, |set, used| &set & &used.2))
}

/// Fig. 13 and 15: what the last access of a history is.
fn access(history: &[Use]) -> Mover {
    let Some(since) = shared_since(history) else {
        return Mover::Both;
    };
    let shared = &history[since..];
    let (_, write, held) = history.last().unwrap();
    let protecting = if *write {
        common(shared.iter())
    } else {
        common(shared.iter().filter(|used| used.1))
    };
    if protecting.unwrap().is_disjoint(held) {
        Mover::Non
    } else {
        Mover::Both
    }
}

/// 4.3: what the last operation on a lock is, if it is no both-mover.
fn lock(history: &[Use], otherwise: Mover) -> Mover {
    match shared_since(history) {
        None => Mover::Both,
        Some(since) if common(history[since..].iter()).unwrap().is_empty() => otherwise,
        Some(_) => Mover::Both,
    }
}

/// The violations: label, commit point, violating step.
fn violations(trace: &Trace) -> Vec<(FunctionId, usize, usize)> {
    let (mut held, mut sets) = (Held::default(), Locksets::default());
    let mut vars: BTreeMap<u32, Vec<Use>> = BTreeMap::new();
    let mut locks: BTreeMap<u32, Vec<Use>> = BTreeMap::new();
    let mut blocks: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        let who = event.thread.0 as u8;
        let change = held.step(index as u64, event, &mut sets);
        let locks_held = held.locks(event.thread);
        let content = |id| -> Set { sets.locks(id).map(|lock| lock.0).collect() };
        let open = blocks.entry(event.thread.0).or_default();
        let mover = match (event.op, change) {
            (Op::Begin(label), _) => {
                open.push(Block {
                    label,
                    committed: None,
                    violated: false,
                });
                continue;
            }
            (Op::End, _) => {
                open.pop();
                continue;
            }
            (op, _) if op.var().is_some() => {
                let history = vars.entry(op.var().unwrap().0).or_default();
                let write = op.writes();
                history.push((who, write, content(locks_held.protecting(write))));
                access(history)
            }
            (_, Change::Acquired(id) | Change::Released(id)) => {
                let mut others = content(locks_held.exclusive);
                others.remove(&id.0);
                let history = locks.entry(id.0).or_default();
                history.push((who, true, others));
                let acquired = change == Change::Acquired(id);
                lock(history, if acquired { Mover::Right } else { Mover::Left })
            }
            (_, Change::NotHeld(_)) | (Op::Fork(_), _) => Mover::Left,
            (Op::Join(_), _) => Mover::Right,
            _ => Mover::Both,
        };
        for block in open.iter_mut() {
            match block.committed {
                Some(committed) if matches!(mover, Mover::Right | Mover::Non) => {
                    let again = std::mem::replace(&mut block.violated, true);
                    if !again {
                        found.push((block.label, committed, index));
                    }
                }
                None if matches!(mover, Mover::Left | Mover::Non) => block.committed = Some(index),
                _ => {}
            }
        }
        if matches!(event.op, Op::Wait(_) | Op::Arrive(_) | Op::Yield) {
            for block in open.iter_mut() {
                (block.committed, block.violated) = (None, false);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// The same violations, each with the same commit point.
    #[test]
    fn the_atomizer_follows_them(trace in traces(Shape { locks: 3, length: 60, ..Shape::small() })) {
        let verdict = trace.run(Atomizer::default());
        let expected = violations(&trace);
        prop_assert_eq!(verdict.total, expected.len() as u64);
        let found: BTreeSet<(FunctionId, usize, usize)> = (verdict.findings.iter())
            .map(|finding| {
                let place = |at: usize| finding.witness[at].index as usize;
                (finding.culprit.region.unwrap(), place(1), place(2))
            })
            .collect();
        prop_assert_eq!(found, expected.into_iter().collect::<BTreeSet<_>>());
    }
}
