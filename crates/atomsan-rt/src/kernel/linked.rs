//! What the program says of its transactions: which comes after which.

use crate::format::{Kind, LOW, ORDER_ONLY};
use std::collections::{BTreeMap, HashSet};
use std::vec::Vec;

/// A transaction: a slot, and a number.
pub(super) type Transaction = (u32, u64);

/// Edges between transactions; those of one slot are in order anyway.
#[derive(Default)]
pub(super) struct Links(pub(super) Vec<(Transaction, Transaction)>);

/// Edges that stand for conflicts, and all of them, and what is written down beside them.
#[derive(Default)]
pub(super) struct Edges {
    pub(super) conflicts: Links,
    pub(super) all: Links,
    /// Regions that are written down without an edge, each with its slot.
    pub(super) noted: Vec<(u32, u64)>,
}

impl Edges {
    /// No edges.
    pub(super) const fn none() -> Edges {
        Edges {
            conflicts: Links(Vec::new()),
            all: Links(Vec::new()),
            noted: Vec::new(),
        }
    }

    /// Adds what a record of a slot says.
    pub(super) fn add(&mut self, slot: u32, words: &[u64]) {
        if words[0] >> 56 == Kind::Transaction as u64 {
            self.noted.push((slot, words[1]));
        }
        if words[0] >> 56 == Kind::Link as u64 {
            let from = ((words[1] & 0xffff) as u32, words[0] & LOW);
            let edge = (from, (slot, words[2]));
            self.all.0.push(edge);
            if words[1] & ORDER_ONLY == 0 {
                self.conflicts.0.push(edge);
            }
        }
    }
}

impl Links {
    /// For each slot, the last transaction that comes before this one, or is it.
    fn before(&self, (slot, clock): Transaction) -> BTreeMap<u32, u64> {
        let mut last = BTreeMap::from([(slot, clock)]);
        loop {
            let mut changed = false;
            for &((from, source), (to, target)) in &self.0 {
                let reached = last.get(&to).is_some_and(|&clock| clock >= target);
                let known = last.get(&from).is_some_and(|&clock| clock >= source);
                if reached && !known {
                    last.insert(from, source);
                    changed = true;
                }
            }
            if !changed {
                return last;
            }
        }
    }

    /// Whether there is a path.
    pub(super) fn is_before(&self, first: Transaction, second: Transaction) -> bool {
        let last = self.before(second);
        last.get(&first.0).is_some_and(|&clock| clock >= first.1)
    }

    /// A transaction that comes before an earlier one of its slot, or before itself by way of others.
    pub(super) fn cycle(&self) -> Option<Transaction> {
        let ends: HashSet<Transaction> = self.0.iter().map(|&(from, _)| from).collect();
        // The edges into it, and into earlier ones of its slot, lead to nothing that it is before.
        ends.into_iter().find(|&end| self.is_in_cycle(end))
    }

    /// Whether a transaction comes before an earlier one of its slot, or before itself by way of others.
    pub(super) fn is_in_cycle(&self, (slot, clock): Transaction) -> bool {
        let into = self.0.iter();
        into.filter(|(_, (to, target))| *to == slot && *target <= clock)
            .any(|&(from, _)| {
                let last = self.before(from);
                last.get(&slot).is_some_and(|&before| before >= clock)
            })
    }
}
