//! Random sets of transactions, small enough to enumerate all of their traces.
//!
//! A set is a trace in which the transactions run one after the other. Locks are released in the
//! transaction that took them.

use crate::trace::Trace;
use atomsan_trace::{Event, FunctionId, LockId, Op, SiteId, ThreadId, VarId};
use proptest::prelude::*;

/// What kind of sets.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: u8,
    pub vars: u8,
    pub locks: u8,
    /// Transactions, at least and at most.
    pub transactions: (usize, usize),
    /// Accesses and locks of a transaction, at most.
    pub length: usize,
    /// Some transactions are one access outside of all regions.
    pub unary: bool,
    /// Starts, joins and barriers between transactions.
    pub orders: bool,
    /// Atomic read-modify-writes and shared locks.
    pub exotic: bool,
    /// Locks are released in the opposite order.
    pub nested: bool,
}

/// A transaction: its thread, what it does, and what comes before it.
type Choice = (u8, Vec<(u8, u8)>, u8);

/// Random sets of a shape.
pub fn sets(shape: Shape) -> impl Strategy<Value = Trace> {
    let body = prop::collection::vec((any::<u8>(), any::<u8>()), 1..=shape.length);
    let transaction = (0..shape.threads, body, any::<u8>());
    let (least, most) = shape.transactions;
    prop::collection::vec(transaction, least..=most).prop_map(move |choices| grow(shape, &choices))
}

fn grow(shape: Shape, choices: &[Choice]) -> Trace {
    let mut events = Vec::new();
    for (number, (thread, body, order)) in choices.iter().enumerate() {
        // Each thread at least once, so that the first two transactions are of different ones.
        let thread = if number < 2 { number as u8 } else { *thread };
        if shape.orders {
            orders(shape, thread, *order, &mut events);
        }
        let mut push = |op| push(&mut events, thread, op);
        let access = |action: u8, target: u8| {
            let var = VarId((target % shape.vars).into());
            match action % 2 {
                0 => Op::Read(var),
                _ => Op::Write(var),
            }
        };
        if shape.unary && order % 4 == 3 {
            push(access(body[0].0, body[0].1));
            continue;
        }
        push(Op::Begin(FunctionId(number as u32)));
        let mut held: Vec<(LockId, bool)> = Vec::new();
        let release = |(lock, shared)| match shared {
            true => Op::ReleaseShared(lock),
            false => Op::Release(lock),
        };
        for &(action, target) in body {
            let lock = LockId((target % shape.locks.max(1)).into());
            match action % 16 {
                0..=7 => push(access(action, target)),
                8..=11 if shape.locks > 0 => {
                    if held.iter().all(|&(other, _)| other != lock) {
                        let shared = shape.exotic && target / 16 % 3 == 0;
                        held.push((lock, shared));
                        push(match shared {
                            true => Op::AcquireShared(lock),
                            false => Op::Acquire(lock),
                        });
                    }
                }
                12..=14 if shape.locks > 0 => {
                    if !shape.nested && !held.is_empty() {
                        push(release(held.remove(usize::from(target) % held.len())));
                    } else if let Some(last) = held.pop() {
                        push(release(last));
                    }
                }
                15 if shape.exotic => push(Op::AtomicRmw(VarId((target % shape.vars).into()))),
                _ => push(access(action, target)),
            }
        }
        while let Some(last) = held.pop() {
            push(release(last));
        }
        push(Op::End);
    }
    Trace::new(events)
}

fn orders(shape: Shape, thread: u8, choice: u8, events: &mut Vec<Event>) {
    let other = (choice / 16) % shape.threads;
    let barrier = LockId(shape.locks.into());
    match choice % 16 {
        _ if other == thread => {}
        4 => push(events, thread, Op::Join(ThreadId(other.into()))),
        5 => push(events, other, Op::Fork(ThreadId(thread.into()))),
        6 => {
            for op in [Op::Arrive(barrier), Op::Leave(barrier)] {
                push(events, thread, op);
                push(events, other, op);
            }
        }
        _ => {}
    }
}

fn push(events: &mut Vec<Event>, thread: u8, op: Op) {
    let site = SiteId(events.len() as u32 + 1);
    events.push(Event {
        thread: ThreadId(thread.into()),
        site,
        op,
    });
}
