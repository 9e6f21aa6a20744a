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
    sets.locks(id).map(|lock| lock.0).collect()
}

/// Near to each other, and so far apart that trees are high, share prefixes and not.
const NUMBERS: &[[u32; 6]] = &[
    [0, 1, 2, 3, 4, 5],
    [0, 63, 64, 65, 127, 128],
    [1, 64, 4096, 4097, 8192, 1 << 20],
    [0, 1 << 30, 1 << 31, u32::MAX - 64, u32::MAX - 1, u32::MAX],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every operation is the one on sets, also when it is asked for the second time, and equal
    /// sets have equal ids.
    #[test]
    fn are_sets(
        given in prop::collection::vec(prop::collection::btree_set(0u32..6, 0..5), 2..8),
        numbers in prop::sample::select(NUMBERS),
    ) {
        let number = |lock: &u32| numbers[*lock as usize];
        let given: Vec<Set> = given.iter().map(|set| set.iter().map(number).collect()).collect();
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
                for lock in numbers {
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

/// A thread takes ten thousand locks and gives them back, in either order: what is stored grows by
/// one path with each, and not by all the locks that are held.
#[test]
fn nested_sets_share_what_they_have_in_common() {
    const LOCKS: u32 = 10_000;
    let size = |back: &mut dyn Iterator<Item = u32>| {
        let mut sets = Locksets::default();
        let locks = (0..LOCKS).map(LockId);
        let mut set = locks.fold(LocksetId::EMPTY, |set, lock| sets.with(set, lock));
        assert_eq!(sets.locks(set).count() as u32, LOCKS);
        for lock in back {
            let before = set;
            set = sets.without(set, LockId(lock));
            assert_eq!(sets.intersection(before, set), set);
        }
        assert!(set.is_empty());
        sets.size() as u32
    };
    // 157 leaves need eight levels of branches.
    assert!(size(&mut (0..LOCKS).rev()) < 9 * LOCKS);
    assert!(size(&mut (0..LOCKS)) < 2 * 9 * LOCKS);
}
