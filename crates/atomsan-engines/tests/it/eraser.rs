//! Eraser's states and the protecting locks against their definitions, on random histories.

use atomsan_engines::eraser::Eraser;
use atomsan_engines::held::HeldLocks;
use atomsan_engines::locksets::{LocksetId, Locksets};
use atomsan_engines::protecting::Protecting;
use atomsan_trace::LockId;
use proptest::prelude::*;

/// One use: by whom, and whether it writes.
type Use = (u8, bool);

/// The states of Fig. 13 from the whole history, each by what it means.
pub fn by_definition(history: &[Use], transfer: bool) -> Eraser<u8, ()> {
    let Some(&(first, _)) = history.first() else {
        return Eraser::Virgin;
    };
    let Some(second) = history.iter().position(|&(who, _)| who != first) else {
        return Eraser::ThreadLocal(first);
    };
    // The use that ends all ownership: another one than the last owner's.
    let shared_from = if transfer {
        let owner = history[second].0;
        let third = history[second..].iter().position(|&(who, _)| who != owner);
        match third {
            None => return Eraser::ThreadLocal2(owner),
            Some(third) => second + third,
        }
    } else {
        second
    };
    if history[shared_from..].iter().any(|&(_, write)| write) {
        Eraser::SharedModified(())
    } else {
        Eraser::ReadShared
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn states_are_what_the_history_says(
        history in prop::collection::vec((0u8..3, any::<bool>()), 0..12),
        transfer in any::<bool>(),
    ) {
        let mut state: Eraser<u8, ()> = Eraser::default();
        for (at, &(who, write)) in history.iter().enumerate() {
            let kept = state.access(who, write, transfer, |_, _| false).is_some();
            let truth = by_definition(&history[..=at], transfer);
            prop_assert_eq!(state, truth);
            prop_assert_eq!(kept, truth == Eraser::SharedModified(()));
        }
    }

    /// Owners that cannot interfere with each other share nothing.
    #[test]
    fn what_is_handed_over_stays_local(
        history in prop::collection::vec((0u8..6, any::<bool>()), 1..12),
    ) {
        let mut state: Eraser<u8, ()> = Eraser::default();
        for &(who, write) in &history {
            prop_assert_eq!(state.access(who, write, true, |_, _| true), None);
            prop_assert_eq!(state, Eraser::ThreadLocal(who));
        }
    }

    /// φ(x, A) and φ(x, W) are the intersections over all accesses and all writes; a read is a
    /// both-mover if a lock of W is held, a write if one of A is.
    #[test]
    fn protecting_locks_are_the_intersections(
        // Locks held in any way, those of them held exclusively, whether it is a write.
        history in prop::collection::vec((0u32..16, 0u32..16, any::<bool>()), 1..10),
    ) {
        let mut sets = Locksets::default();
        let mut intern = |bits: u32| {
            let locks: Vec<LockId> = (0..4).filter(|at| bits >> at & 1 == 1).map(LockId).collect();
            sets.intern(&locks)
        };
        let ids: Vec<LocksetId> = (0..16).map(&mut intern).collect();
        let all = 15;
        let (mut access, mut written) = (all, all);
        let mut protecting = Protecting::default();
        for &(any, exclusive, write) in &history {
            let exclusive = any & exclusive;
            let held = HeldLocks { any: ids[any as usize], exclusive: ids[exclusive as usize] };
            let mover = if write {
                access &= exclusive;
                written &= exclusive;
                prop_assert_eq!(protecting.write(held, &mut sets), access != 0);
                prop_assert_eq!(protecting.write, ids[written as usize]);
                access != 0
            } else {
                access &= any;
                prop_assert_eq!(protecting.read(held, &mut sets), written & any != 0);
                written & any != 0
            };
            prop_assert_eq!(protecting.access, ids[access as usize]);
            prop_assert!(sets.is_subset(protecting.access, protecting.write), "A is in W");
            prop_assert!(!mover || any != 0);
        }
    }
}
