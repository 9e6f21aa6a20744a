//! Operations as a number and a target.
//!
//! The numbers are part of the file format: they are never changed, only added to.

use crate::event::{FunctionId, LockId, ObjectId, Op, ThreadId, VarId};

/// How many operations there are.
pub(crate) const COUNT: usize = 25;

/// The number of `RefStore`, the only operation with two targets.
pub(crate) const REF_STORE: u8 = 24;

/// The names of the operations, by number.
pub(crate) const NAMES: [&str; COUNT] = [
    "read",
    "write",
    "acquire",
    "release",
    "begin",
    "end",
    "enter",
    "exit",
    "fork",
    "join",
    "atomic load",
    "atomic store",
    "atomic read-modify-write",
    "failed atomic read-modify-write",
    "shared acquire",
    "shared release",
    "wait",
    "woken",
    "notify",
    "arrive",
    "leave",
    "yield",
    "alloc",
    "free",
    "reference store",
];

/// The operation's number and target; 0 if it has none.
#[inline]
pub(crate) fn split(op: Op) -> (u8, u32) {
    match op {
        Op::Read(x) => (0, x.0),
        Op::Write(x) => (1, x.0),
        Op::Acquire(l) => (2, l.0),
        Op::Release(l) => (3, l.0),
        Op::Begin(f) => (4, f.0),
        Op::End => (5, 0),
        Op::Enter(f) => (6, f.0),
        Op::Exit(f) => (7, f.0),
        Op::Fork(t) => (8, t.0),
        Op::Join(t) => (9, t.0),
        Op::AtomicLoad(x) => (10, x.0),
        Op::AtomicStore(x) => (11, x.0),
        Op::AtomicRmw(x) => (12, x.0),
        Op::AtomicRmwFailed(x) => (13, x.0),
        Op::AcquireShared(l) => (14, l.0),
        Op::ReleaseShared(l) => (15, l.0),
        Op::Wait(l) => (16, l.0),
        Op::Woken(l) => (17, l.0),
        Op::Notify(l) => (18, l.0),
        Op::Arrive(l) => (19, l.0),
        Op::Leave(l) => (20, l.0),
        Op::Yield => (21, 0),
        Op::Alloc(o) => (22, o.0),
        Op::Free(o) => (23, o.0),
        Op::RefStore { into, .. } => (REF_STORE, into.0),
    }
}

/// The operation with this number and target; the object of a `RefStore` is `second`.
#[inline]
pub(crate) fn join(number: u8, target: u32, second: u32) -> Option<Op> {
    Some(match number {
        0 => Op::Read(VarId(target)),
        1 => Op::Write(VarId(target)),
        2 => Op::Acquire(LockId(target)),
        3 => Op::Release(LockId(target)),
        4 => Op::Begin(FunctionId(target)),
        5 => Op::End,
        6 => Op::Enter(FunctionId(target)),
        7 => Op::Exit(FunctionId(target)),
        8 => Op::Fork(ThreadId(target)),
        9 => Op::Join(ThreadId(target)),
        10 => Op::AtomicLoad(VarId(target)),
        11 => Op::AtomicStore(VarId(target)),
        12 => Op::AtomicRmw(VarId(target)),
        13 => Op::AtomicRmwFailed(VarId(target)),
        14 => Op::AcquireShared(LockId(target)),
        15 => Op::ReleaseShared(LockId(target)),
        16 => Op::Wait(LockId(target)),
        17 => Op::Woken(LockId(target)),
        18 => Op::Notify(LockId(target)),
        19 => Op::Arrive(LockId(target)),
        20 => Op::Leave(LockId(target)),
        21 => Op::Yield,
        22 => Op::Alloc(ObjectId(target)),
        23 => Op::Free(ObjectId(target)),
        REF_STORE => Op::RefStore {
            into: VarId(target),
            object: ObjectId(second),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_one_operation() {
        for number in 0..=u8::MAX {
            match join(number, 7, 8) {
                Some(op) => {
                    let target = if matches!(op, Op::End | Op::Yield) {
                        0
                    } else {
                        7
                    };
                    assert_eq!(split(op), (number, target));
                    assert!(usize::from(number) < COUNT);
                }
                None => assert!(usize::from(number) >= COUNT),
            }
        }
    }
}
