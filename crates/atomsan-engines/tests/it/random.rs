//! Random traces that shrink.
//!
//! A trace is grown from a list of small random choices; each choice is interpreted in the state
//! the trace has reached (who holds which lock, who has started), so that dropping or lowering
//! choices while shrinking still gives a sensible trace.

use crate::trace::Trace;
use atomsan_trace::names::{Definition, Var};
use atomsan_trace::{Event, FunctionId, LockId, Names, ObjectId, Op, SiteId, ThreadId, VarId};
use proptest::prelude::*;

/// What kind of traces.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub threads: u8,
    pub vars: u8,
    pub locks: u8,
    /// Events, at most.
    pub length: usize,
    /// Locks exclude each other and are released by their holders.
    pub disciplined: bool,
    /// Threads are forked and joined.
    pub forks: bool,
    /// Atomic operations, shared locks, waits, barriers.
    pub exotic: bool,
}

impl Shape {
    /// A few threads, variables and locks, everything in it.
    pub fn small() -> Shape {
        Shape {
            threads: 4,
            vars: 3,
            locks: 2,
            length: 40,
            disciplined: false,
            forks: true,
            exotic: true,
        }
    }
}

/// Random traces of a shape.
pub fn traces(shape: Shape) -> impl Strategy<Value = Trace> {
    prop::collection::vec(
        (0..shape.threads, any::<u8>(), any::<u8>()),
        2..shape.length,
    )
    .prop_map(move |choices| grow(shape, &choices))
}

/// Traces of any events in any order, with variables in objects, and functions.
pub fn arbitrary(length: usize) -> impl Strategy<Value = Trace> {
    let choice = (0..4u32, 0..25u8, 0..6u32, 0..4u32);
    prop::collection::vec(choice, 1..length).prop_map(|choices| {
        let mut names = Names::default();
        // The last variable, lock, function and object of each kind are not defined.
        for id in 0..5 {
            names.define(Definition::Var(Var {
                name: format!("v{id}").into(),
                object: (id < 4).then_some(ObjectId(id / 2)),
                volatile: false,
            }));
            names.define(Definition::Function(format!("f{id}").into()));
        }
        let event = |(at, &(thread, action, id, object)): (usize, &(u32, u8, u32, u32))| Event {
            thread: ThreadId(thread),
            site: SiteId(at as u32 + 1),
            op: any_op(action, id, object),
        };
        let events = choices.iter().enumerate().map(event).collect();
        Trace { events, names }
    })
}

fn any_op(action: u8, id: u32, object: u32) -> Op {
    let (var, lock, function) = (VarId(id), LockId(id % 3), FunctionId(id));
    match action {
        0 => Op::Begin(function),
        1 => Op::End,
        2 | 3 => Op::Read(var),
        4 | 5 => Op::Write(var),
        6 => Op::AtomicLoad(var),
        7 => Op::AtomicStore(var),
        8 => Op::AtomicRmw(var),
        9 => Op::AtomicRmwFailed(var),
        10 => Op::Acquire(lock),
        11 => Op::Release(lock),
        12 => Op::AcquireShared(lock),
        13 => Op::ReleaseShared(lock),
        14 => Op::Wait(lock),
        15 => Op::Woken(lock),
        16 => Op::Notify(lock),
        17 => Op::Fork(ThreadId(object)),
        18 => Op::Join(ThreadId(object)),
        19 => Op::Arrive(lock),
        20 => Op::Leave(lock),
        21 => Op::Enter(function),
        22 => Op::Exit(function),
        23 => Op::Alloc(ObjectId(object)),
        _ if id.is_multiple_of(2) => Op::Free(ObjectId(object)),
        _ => Op::RefStore {
            into: var,
            object: ObjectId(object),
        },
    }
}

/// A trace from choices: thread, action, target.
pub fn grow(shape: Shape, choices: &[(u8, u8, u8)]) -> Trace {
    let mut grower = Grower {
        shape,
        depth: vec![0; shape.threads.into()],
        holders: vec![Vec::new(); shape.locks.into()],
        blocked: vec![None; shape.threads.into()],
        events: Vec::new(),
    };
    for &(thread, action, target) in choices {
        grower.step(thread, action, target);
    }
    Trace::new(grower.events)
}

struct Grower {
    shape: Shape,
    depth: Vec<u32>,
    /// Who holds each lock: thread and whether shared; once per hold.
    holders: Vec<Vec<(u8, bool)>>,
    /// The event that ends a thread's wait.
    blocked: Vec<Option<Op>>,
    events: Vec<Event>,
}

impl Grower {
    fn push(&mut self, thread: u8, op: Op) {
        let site = SiteId(self.events.len() as u32 + 1);
        self.events.push(Event {
            thread: ThreadId(thread.into()),
            site,
            op,
        });
    }

    fn step(&mut self, thread: u8, action: u8, target: u8) {
        if let Some(op) = self.blocked[thread as usize] {
            if let Op::Woken(lock) = op {
                if self.shape.disciplined && !self.holders[lock.index()].is_empty() {
                    return;
                }
                self.holders[lock.index()].push((thread, false));
            }
            self.blocked[thread as usize] = None;
            self.push(thread, op);
            return;
        }
        let var = VarId((target % self.shape.vars).into());
        let lock = LockId((target % self.shape.locks.max(1)).into());
        match action % 32 {
            0..=7 => self.push(thread, Op::Read(var)),
            8..=15 => self.push(thread, Op::Write(var)),
            16..=18 => {
                self.depth[thread as usize] += 1;
                self.push(thread, Op::Begin(FunctionId((target % 3).into())));
            }
            19..=21 => {
                if self.depth[thread as usize] > 0 || (target == 0 && !self.shape.disciplined) {
                    self.depth[thread as usize] = self.depth[thread as usize].saturating_sub(1);
                    self.push(thread, Op::End);
                }
            }
            22..=24 if self.shape.locks > 0 => self.acquire(thread, lock, false),
            25..=26 if self.shape.locks > 0 => self.release(thread, lock),
            27 if self.shape.forks => self.push(
                thread,
                Op::Fork(ThreadId((target % self.shape.threads).into())),
            ),
            28 if self.shape.forks => self.push(
                thread,
                Op::Join(ThreadId((target % self.shape.threads).into())),
            ),
            29..=31 if self.shape.exotic => self.exotic(thread, target, var, lock),
            _ => self.push(thread, Op::Read(var)),
        }
    }

    fn acquire(&mut self, thread: u8, lock: LockId, shared: bool) {
        let holders = &mut self.holders[lock.index()];
        let excluded = holders.iter().any(|&(t, s)| t != thread && !(s && shared));
        if self.shape.disciplined && excluded {
            return;
        }
        holders.push((thread, shared));
        self.push(
            thread,
            if shared {
                Op::AcquireShared(lock)
            } else {
                Op::Acquire(lock)
            },
        );
    }

    fn release(&mut self, thread: u8, lock: LockId) {
        let holders = &mut self.holders[lock.index()];
        let held = holders.iter().rposition(|&(t, _)| t == thread);
        let op = match held.map(|at| holders.remove(at)) {
            Some((_, true)) => Op::ReleaseShared(lock),
            Some((_, false)) => Op::Release(lock),
            None if self.shape.disciplined => return,
            None => Op::Release(lock),
        };
        self.push(thread, op);
    }

    fn exotic(&mut self, thread: u8, target: u8, var: VarId, lock: LockId) {
        match target / 16 {
            0..=2 => self.push(thread, Op::AtomicLoad(var)),
            3..=4 => self.push(thread, Op::AtomicStore(var)),
            5..=6 => self.push(thread, Op::AtomicRmw(var)),
            7 => self.push(thread, Op::AtomicRmwFailed(var)),
            8..=10 if self.shape.locks > 0 => self.acquire(thread, lock, true),
            11 if self.shape.locks > 0 => {
                let held = self.holders[lock.index()]
                    .iter()
                    .filter(|&&(t, shared)| t == thread && !shared)
                    .count();
                if held == 1 || !self.shape.disciplined {
                    self.holders[lock.index()].retain(|&(t, _)| t != thread);
                    self.blocked[thread as usize] = Some(Op::Woken(lock));
                    self.push(thread, Op::Wait(lock));
                }
            }
            12 => {
                // Barriers have ids of their own, behind the locks'.
                let barrier = LockId(self.shape.locks.into());
                self.blocked[thread as usize] = Some(Op::Leave(barrier));
                self.push(thread, Op::Arrive(barrier));
            }
            13 => self.push(thread, Op::Yield),
            14 if self.shape.locks > 0 => self.push(thread, Op::Notify(lock)),
            _ => self.push(thread, Op::AtomicLoad(var)),
        }
    }
}
