//! Sets of locks as small ids.
//!
//! A program holds few different sets of locks, again and again, so each set is stored once
//! (sorted, in one arena) and named by a [`LocksetId`]. Two sets are equal exactly if their ids
//! are, so "nothing changed" is one comparison of integers. Operations on two ids are remembered:
//! each is worked out once for each pair of sets, not once for each access. The cases that a
//! program consists of (equal sets, an empty one, a set of one lock) are answered without looking
//! anything up.

use atomsan_trace::LockId;
use hashbrown::{HashMap, HashTable};
use rustc_hash::{FxBuildHasher, FxHasher};
use std::hash::{Hash, Hasher};

/// A set of locks, interned in a [`Locksets`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LocksetId(u32);

impl LocksetId {
    /// No lock.
    pub const EMPTY: LocksetId = LocksetId(0);

    /// Every lock there is: what a candidate set starts from, before the first refinement.
    pub const ALL: LocksetId = LocksetId(u32::MAX);

    /// Whether there is no lock in the set.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == LocksetId::EMPTY
    }
}

/// All sets of locks seen.
#[derive(Debug)]
pub struct Locksets {
    /// The elements of all sets, set after set, each sorted.
    elements: Vec<LockId>,
    /// Where the elements of each set end; they start where those of the set before end.
    ends: Vec<u32>,
    known: HashTable<LocksetId>,
    with: HashMap<(LocksetId, LockId), LocksetId, FxBuildHasher>,
    without: HashMap<(LocksetId, LockId), LocksetId, FxBuildHasher>,
    /// Keyed by the lower id first.
    intersections: HashMap<(LocksetId, LocksetId), LocksetId, FxBuildHasher>,
    scratch: Vec<LockId>,
}

impl Default for Locksets {
    fn default() -> Self {
        let mut sets = Locksets {
            elements: Vec::new(),
            ends: Vec::new(),
            known: HashTable::new(),
            with: HashMap::default(),
            without: HashMap::default(),
            intersections: HashMap::default(),
            scratch: Vec::new(),
        };
        sets.intern_scratch();
        sets
    }
}

impl Locksets {
    /// The set of these locks, in any order, repetitions allowed.
    pub fn intern(&mut self, locks: &[LockId]) -> LocksetId {
        self.scratch.clear();
        self.scratch.extend_from_slice(locks);
        self.scratch.sort_unstable();
        self.scratch.dedup();
        self.intern_scratch()
    }

    /// The locks of a set, sorted. [`LocksetId::ALL`] cannot be enumerated and gives none.
    #[inline]
    pub fn locks(&self, set: LocksetId) -> &[LockId] {
        let at = set.0 as usize;
        let Some(&end) = self.ends.get(at) else {
            return &[];
        };
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.elements[start as usize..end as usize]
    }

    /// How many different sets there are, the empty one included.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether the lock is in the set.
    #[inline]
    pub fn contains(&self, set: LocksetId, lock: LockId) -> bool {
        set == LocksetId::ALL || self.locks(set).contains(&lock)
    }

    /// `set ∪ {lock}`.
    pub fn with(&mut self, set: LocksetId, lock: LockId) -> LocksetId {
        if set == LocksetId::ALL {
            return set;
        }
        if let Some(&known) = self.with.get(&(set, lock)) {
            return known;
        }
        self.load(set);
        if let Err(at) = self.scratch.binary_search(&lock) {
            self.scratch.insert(at, lock);
        }
        let result = self.intern_scratch();
        self.with.insert((set, lock), result);
        result
    }

    /// `set ∖ {lock}`; [`LocksetId::ALL`] stays what it is.
    pub fn without(&mut self, set: LocksetId, lock: LockId) -> LocksetId {
        match self.locks(set) {
            [] => return set,
            [only] if *only == lock => return LocksetId::EMPTY,
            _ => {}
        }
        if let Some(&known) = self.without.get(&(set, lock)) {
            return known;
        }
        self.load(set);
        self.scratch.retain(|&other| other != lock);
        let result = self.intern_scratch();
        self.without.insert((set, lock), result);
        result
    }

    /// `a ∩ b`.
    #[inline]
    pub fn intersection(&mut self, a: LocksetId, b: LocksetId) -> LocksetId {
        if a == b || b == LocksetId::ALL {
            return a;
        }
        if a == LocksetId::ALL {
            return b;
        }
        if a.is_empty() || b.is_empty() {
            return LocksetId::EMPTY;
        }
        self.intersection_of_different(a, b)
    }

    /// Whether there is no lock in both.
    #[inline]
    pub fn disjoint(&mut self, a: LocksetId, b: LocksetId) -> bool {
        self.intersection(a, b).is_empty()
    }

    /// `a ⊆ b`.
    #[inline]
    pub fn is_subset(&mut self, a: LocksetId, b: LocksetId) -> bool {
        self.intersection(a, b) == a
    }

    fn intersection_of_different(&mut self, a: LocksetId, b: LocksetId) -> LocksetId {
        // A set of one lock: it is the answer, or nothing is.
        for (one, other) in [(a, b), (b, a)] {
            if let [lock] = *self.locks(one) {
                return if self.contains(other, lock) {
                    one
                } else {
                    LocksetId::EMPTY
                };
            }
        }
        let key = (a.min(b), a.max(b));
        if let Some(&known) = self.intersections.get(&key) {
            return known;
        }
        self.load(a);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.retain(|&lock| self.locks(b).binary_search(&lock).is_ok());
        self.scratch = scratch;
        let result = self.intern_scratch();
        self.intersections.insert(key, result);
        result
    }

    fn load(&mut self, set: LocksetId) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(self.locks(set));
        self.scratch = scratch;
    }

    /// The id of the set in `scratch`, which is sorted and without repetitions.
    fn intern_scratch(&mut self) -> LocksetId {
        let scratch = std::mem::take(&mut self.scratch);
        let hash = hash(&scratch);
        let id = match self.known.find(hash, |&id| self.locks(id) == &scratch[..]) {
            Some(&id) => id,
            None => self.add(hash, &scratch),
        };
        self.scratch = scratch;
        id
    }

    fn add(&mut self, hash_of_locks: u64, locks: &[LockId]) -> LocksetId {
        let id = LocksetId(self.ends.len() as u32);
        self.elements.extend_from_slice(locks);
        self.ends.push(self.elements.len() as u32);
        let mut known = std::mem::take(&mut self.known);
        known.insert_unique(hash_of_locks, id, |&id| hash(self.locks(id)));
        self.known = known;
        id
    }
}

fn hash(locks: &[LockId]) -> u64 {
    let mut hasher = FxHasher::default();
    locks.hash(&mut hasher);
    hasher.finish()
}
