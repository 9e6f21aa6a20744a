//! Held locks against a list of every hold that has not ended.

use crate::random::{Shape, traces};
use crate::trace::Trace;
use atomsan_engines::held::{Change, Held, HeldLocks};
use atomsan_engines::locksets::Locksets;
use atomsan_trace::{LockId, Op, ThreadId};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What happens, and what the thread of the last event then holds: in any way, and exclusively.
fn follow(text: &str) -> (Vec<Change>, BTreeSet<u32>, BTreeSet<u32>) {
    let trace = Trace::parse(text);
    let (mut held, mut sets) = (Held::default(), Locksets::default());
    let mut changes = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        changes.push(held.step(index as u64, event, &mut sets));
    }
    let locks = held.locks(trace.events.last().unwrap().thread);
    let content = |id| sets.locks(id).map(|lock| lock.0).collect();
    (changes, content(locks.any), content(locks.exclusive))
}

const L: LockId = LockId(0);

#[test]
fn reentrant_holds_end_with_the_last_release() {
    let (changes, any, _) = follow("t acq l\nt acq l\nt rel l");
    assert_eq!(
        changes,
        [Change::Acquired(L), Change::Reentered(L), Change::Kept(L)]
    );
    assert_eq!(any, [0].into());
    let (changes, any, _) = follow("t acq l\nt acq l\nt rel l\nt rel l\nt rel l");
    assert_eq!(changes[3..], [Change::Released(L), Change::NotHeld(L)]);
    assert!(any.is_empty());
}

#[test]
fn an_upgrade_is_an_acquire_and_a_downgrade_a_release() {
    let (changes, any, exclusive) = follow("t acqs l\nt acq l\nt acqs l\nt rel l");
    assert_eq!(
        changes,
        [
            Change::Acquired(L),
            Change::Acquired(L),
            Change::Reentered(L),
            Change::Released(L)
        ]
    );
    assert_eq!(any, [0].into());
    assert!(exclusive.is_empty());
}

#[test]
fn wait_lets_go_entirely_and_woken_restores() {
    let (changes, any, _) = follow("t acq l\nt acq l\nt wait l");
    assert_eq!(changes[2], Change::Released(L));
    assert!(any.is_empty());
    let (changes, any, _) = follow("t acq l\nt acq l\nt wait l\nt woken l\nt rel l");
    assert_eq!(changes[3..], [Change::Acquired(L), Change::Kept(L)]);
    assert_eq!(any, [0].into());
    let (_, any, _) = follow("t acq l\nt acq l\nt wait l\nt woken l\nt rel l\nt rel l");
    assert!(any.is_empty());
}

#[test]
fn woken_out_of_nothing_is_one_exclusive_hold() {
    let (changes, _, exclusive) = follow("t wait l\nt woken l");
    assert_eq!(changes, [Change::NotHeld(L), Change::Acquired(L)]);
    assert_eq!(exclusive, [0].into());
}

#[test]
fn shared_holds_exclude_only_exclusive_ones() {
    let mut sets = Locksets::default();
    let set = sets.intern(&[L]);
    let shared = HeldLocks {
        any: set,
        exclusive: Default::default(),
    };
    let exclusive = HeldLocks {
        any: set,
        exclusive: set,
    };
    assert!(!shared.exclude(shared, &sets));
    assert!(shared.exclude(exclusive, &sets));
    assert!(exclusive.exclude(shared, &sets));
    assert!(exclusive.exclude(exclusive, &sets));
    assert!(!exclusive.exclude(HeldLocks::default(), &sets));
}

#[test]
fn a_hold_remembers_where_it_began() {
    let trace = Trace::parse("t acq l\nt acq m\nt acq l\nt rel l\nt rel l\nt acq l");
    let (mut held, mut sets) = (Held::default(), Locksets::default());
    for (index, event) in trace.events.iter().enumerate() {
        held.step(index as u64, event, &mut sets);
    }
    let holds: Vec<(u32, u64, u32)> = (held.holds(ThreadId(0)).iter())
        .map(|hold| (hold.lock.0, hold.since, hold.site.0))
        .collect();
    assert_eq!(holds, [(1, 1, 2), (0, 5, 6)]);
}

/// One hold that has not ended: thread, lock, whether exclusive.
type One = (u32, u32, bool);

/// Removes one hold of this kind, or else of the other.
fn end_one(holds: &mut Vec<One>, thread: u32, lock: u32, exclusive: bool) {
    let at = |kind| holds.iter().position(|&hold| hold == (thread, lock, kind));
    if let Some(at) = at(exclusive).or_else(|| at(!exclusive)) {
        holds.remove(at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn equal_the_list_of_holds(trace in traces(Shape { locks: 3, ..Shape::small() })) {
        let (mut held, mut sets) = (Held::default(), Locksets::default());
        let mut holds: Vec<One> = Vec::new();
        let mut given_up: Vec<One> = Vec::new();
        for (index, event) in trace.events.iter().enumerate() {
            let thread = event.thread.0;
            let before = held.locks(event.thread);
            let change = held.step(index as u64, event, &mut sets);
            match event.op {
                Op::Acquire(lock) => holds.push((thread, lock.0, true)),
                Op::AcquireShared(lock) => holds.push((thread, lock.0, false)),
                Op::Release(lock) => end_one(&mut holds, thread, lock.0, true),
                Op::ReleaseShared(lock) => end_one(&mut holds, thread, lock.0, false),
                Op::Wait(lock) => {
                    let of_this = |hold: &One| hold.0 == thread && hold.1 == lock.0;
                    if holds.iter().any(of_this) {
                        given_up.retain(|hold| !of_this(hold));
                        given_up.extend(holds.iter().copied().filter(of_this));
                    }
                    holds.retain(|hold| !of_this(hold));
                }
                Op::Woken(lock) => {
                    let of_this = |hold: &One| hold.0 == thread && hold.1 == lock.0;
                    if !given_up.iter().any(of_this) {
                        given_up.push((thread, lock.0, true));
                    }
                    holds.extend(given_up.iter().copied().filter(of_this));
                    given_up.retain(|hold| !of_this(hold));
                }
                _ => {}
            }
            let of_kind = |only_exclusive: bool| -> BTreeSet<u32> {
                (holds.iter())
                    .filter(|hold| hold.0 == thread && (hold.2 || !only_exclusive))
                    .map(|hold| hold.1)
                    .collect()
            };
            let content = |id| -> BTreeSet<u32> {
                sets.locks(id).map(|lock| lock.0).collect()
            };
            let after = held.locks(event.thread);
            prop_assert_eq!(content(after.any), of_kind(false));
            prop_assert_eq!(content(after.exclusive), of_kind(true));
            let says_changed = matches!(change, Change::Acquired(_) | Change::Released(_));
            prop_assert_eq!(says_changed, before != after, "{:?}", change);
            prop_assert_eq!(change == Change::None, {
                let lock_free = event.op.lock().is_none();
                lock_free || matches!(event.op, Op::Notify(_) | Op::Arrive(_) | Op::Leave(_))
            });
        }
    }
}
