//! Interned locksets against sets.

use atomsan_engines::locksets::{LocksetId, Locksets};
use atomsan_trace::LockId;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Set = BTreeSet<u32>;

fn intern(sets: &mut Locksets, locks: &Set) -> LocksetId {
    let locks: Vec<LockId> = locks.iter().rev().map(|&lock| LockId(lock)).collect();
    sets.intern(&locks)
}

fn content(sets: &Locksets, id: LocksetId) -> Set {
    sets.locks(id).iter().map(|lock| lock.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every operation is the one on sets, also when it is asked for the second time, and equal
    /// sets have equal ids.
    #[test]
    fn are_sets(given in prop::collection::vec(prop::collection::btree_set(0u32..6, 0..5), 2..8)) {
        let mut sets = Locksets::default();
        let ids: Vec<LocksetId> = given.iter().map(|set| intern(&mut sets, set)).collect();
        for _ in 0..2 {
            for (a, &x) in given.iter().zip(&ids) {
                prop_assert_eq!(&content(&sets, x), a);
                for (b, &y) in given.iter().zip(&ids) {
                    prop_assert_eq!(x == y, a == b);
                    let both: Set = a.intersection(b).copied().collect();
                    let intersection = sets.intersection(x, y);
                    prop_assert_eq!(content(&sets, intersection), both.clone());
                    prop_assert_eq!(intersection, intern(&mut sets, &both));
                    prop_assert_eq!(sets.is_subset(x, y), a.is_subset(b));
                    prop_assert_eq!(sets.disjoint(x, y), both.is_empty());
                }
                for lock in 0..6 {
                    prop_assert_eq!(sets.contains(x, LockId(lock)), a.contains(&lock));
                    let mut more = a.clone();
                    more.insert(lock);
                    prop_assert_eq!(sets.with(x, LockId(lock)), intern(&mut sets, &more));
                    let mut less = a.clone();
                    less.remove(&lock);
                    prop_assert_eq!(sets.without(x, LockId(lock)), intern(&mut sets, &less));
                }
            }
        }
    }
}

#[test]
fn all_is_neutral_for_intersection() {
    let mut sets = Locksets::default();
    let some = sets.intern(&[LockId(3), LockId(1)]);
    assert_eq!(sets.intersection(LocksetId::ALL, some), some);
    assert_eq!(sets.intersection(some, LocksetId::ALL), some);
    assert_eq!(
        sets.intersection(LocksetId::ALL, LocksetId::ALL),
        LocksetId::ALL
    );
    assert!(sets.is_subset(some, LocksetId::ALL));
    assert!(!sets.is_subset(LocksetId::ALL, some));
    assert!(sets.contains(LocksetId::ALL, LockId(9)));
    assert_eq!(sets.with(LocksetId::ALL, LockId(1)), LocksetId::ALL);
    assert_eq!(sets.without(LocksetId::ALL, LockId(1)), LocksetId::ALL);
}
