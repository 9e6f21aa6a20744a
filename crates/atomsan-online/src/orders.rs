//! Edges that are an order and no conflict (`format::ORDER_ONLY`): memory that the allocator has handed from one transaction to
//! another. They are edges of the graph as all others are, because logs have to be put in an order by them. But a cycle of conflicts
//! does without them, so a component that only they hold together need not be checked: where threads allocate and free in
//! long regions, each is in one with all others by that, and with nothing else.

use crate::nodes::Place;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

/// The edges that stand for no conflict, each from one transaction to another.
#[derive(Debug, Default)]
pub(crate) struct Orders(HashSet<[(usize, u64); 2], FxBuildHasher>);

fn pair(from: Place, to: Place) -> [(usize, u64); 2] {
    [from, to].map(|place| (place.slot, place.clock))
}

impl Orders {
    /// An edge has been read, which stands for a conflict or does not; one that does counts, whatever else there is.
    pub(crate) fn note(&mut self, from: Place, to: Place, is_conflict: bool) {
        if !is_conflict {
            self.0.insert(pair(from, to));
        } else if !self.0.is_empty() {
            self.0.remove(&pair(from, to));
        }
    }

    /// Forgets edges to transactions that the graph has not any more.
    pub(crate) fn retain(&mut self, mut has: impl FnMut(usize, u64) -> bool) {
        self.0.retain(|&[_, (slot, clock)]| has(slot, clock));
    }

    /// Whether some of these transactions are in a cycle of conflicts, if all of them are in one of any edges: whether there are
    /// some left when those are taken away, again and again, that nothing leads to. `edges` leads from one to
    /// others, by their places in the list or to none that is in it.
    pub(crate) fn has_cycle<I: Iterator<Item = Place>>(
        &self,
        members: &[Place],
        edges: impl Fn(usize) -> I,
    ) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let numbers = members.iter().enumerate();
        let numbers: HashMap<(usize, u64), usize, FxBuildHasher> = numbers
            .map(|(number, place)| ((place.slot, place.clock), number))
            .collect();
        let conflicts = |from: usize| {
            let conflicts =
                edges(from).filter(move |&to| !self.0.contains(&pair(members[from], to)));
            conflicts.filter_map(|to| numbers.get(&(to.slot, to.clock)).copied())
        };
        let mut into = vec![0usize; members.len()];
        for from in 0..members.len() {
            conflicts(from).for_each(|to| into[to] += 1);
        }
        let mut todo: Vec<usize> = (0..members.len()).filter(|&at| into[at] == 0).collect();
        let mut left = members.len();
        while let Some(from) = todo.pop() {
            left -= 1;
            for to in conflicts(from) {
                into[to] -= 1;
                if into[to] == 0 {
                    todo.push(to);
                }
            }
        }
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: usize) -> Place {
        Place {
            slot: number,
            clock: 1,
            region: 1,
        }
    }

    /// Whether three transactions are in a cycle of conflicts, each of which leads to the next one, if these edges are no conflicts.
    fn has_cycle(edges: &[(usize, usize)], orders: &[(usize, usize)]) -> bool {
        let members = [0, 1, 2].map(place);
        let mut all = Orders::default();
        for &(from, to) in edges {
            let is_conflict = !orders.contains(&(from, to));
            all.note(place(from), place(to), is_conflict);
        }
        all.has_cycle(&members, |from| {
            let out = edges.iter().filter(move |edge| edge.0 == from);
            out.map(|edge| place(edge.1))
        })
    }

    #[test]
    fn a_cycle_of_conflicts_needs_no_other_edge() {
        let circle = [(0, 1), (1, 2), (2, 0)];
        assert!(has_cycle(&circle, &[]));
        assert!(!has_cycle(&circle, &[(1, 2)]));
        // Two of them are in one of their own.
        let more = [(0, 1), (1, 2), (2, 0), (1, 0)];
        assert!(has_cycle(&more, &[(1, 2)]));
        assert!(!has_cycle(&more, &[(0, 1)]));
        // What leads elsewhere is not looked at.
        let elsewhere = [(0, 1), (1, 2), (2, 0), (2, 7)];
        assert!(!has_cycle(&elsewhere, &[(2, 0)]));
    }

    #[test]
    fn an_edge_that_is_both_is_a_conflict() {
        let members = [place(0), place(1)];
        let edges = |from: usize| std::iter::once(place(1 - from));
        let mut orders = Orders::default();
        orders.note(place(0), place(1), false);
        assert!(!orders.has_cycle(&members, edges));
        orders.note(place(0), place(1), true);
        assert!(orders.has_cycle(&members, edges));
        orders.note(place(1), place(0), false);
        orders.retain(|slot, _| slot != 0);
        assert!(orders.has_cycle(&members, edges));
    }
}
