//! Strongly connected components: Tarjan's algorithm, from the transactions on that have finished since the last search.
//!
//! A component is complete when the one of its members is left that was visited first. The path from the root on is a list,
//! not a recursion, because it may be as long as the graph; so the lowest number that a node has seen is
//! known there, and not in the node.

use super::super::log::Tx;
use super::{Carried, Idg};

/// A strongly connected component of more than one transaction.
#[derive(Debug)]
pub struct Component(Vec<u32>);

/// How many steps of a search a transaction pays for.
const STEPS: usize = 64;
/// The number of a node whose component is complete.
const IN_NO_PATH: u32 = u32::MAX;

/// A node on the path from where the search began.
#[derive(Clone, Copy, Debug)]
struct Step {
    slot: u32,
    /// How many of its edges have been followed.
    edges: u32,
    /// The lowest number that has been seen from it on.
    lowest: u32,
}

/// What a search needs, and what it has left.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The transactions whose components have not been looked for.
    pub(super) pending: Vec<u32>,
    /// The transactions of the component found last; while there is a search, those that have been visited and whose component is not
    /// complete.
    pub(super) component: Vec<u32>,
    path: Vec<Step>,
    /// Whether the search goes through transactions that have not finished.
    with_open: bool,
    /// What the last search and what followed from it cost.
    cost: usize,
}

impl<T: Carried> Idg<T> {
    /// The component of a transaction that has finished is to be looked for.
    #[inline]
    pub fn look_for(&mut self, tx: Tx) {
        let Some(node) = self.nodes.get_mut(tx.slot as usize) else {
            return;
        };
        if node.generation == tx.generation && !node.out.is_empty() && !node.is_pending {
            node.is_pending = true;
            self.search.pending.push(tx.slot);
        }
    }

    /// Whether a [search](Idg::components) is worth what the last one did cost; `patience` is how
    /// many transactions must wait for it at least.
    pub fn is_due(&self, patience: usize) -> bool {
        self.search.pending.len() >= patience.max(self.search.cost / STEPS)
    }

    /// Whether no transaction waits for a search.
    pub fn is_idle(&self) -> bool {
        self.search.pending.is_empty()
    }

    /// The strongly connected components of several finished transactions that have one in them
    /// whose component was to be looked for.
    pub fn components(&mut self) -> Vec<Component> {
        self.search_components(false)
    }

    /// The same of transactions that have finished or not. A dependence between two transactions that
    /// goes through others goes through members then, finished or not: who has no other way to
    /// know in which order the two are needs those as well.
    ///
    /// Who looks at a program while it runs has many to look for at once. Those that have finished last come first: what they
    /// lead to is little, and has been visited when an earlier one leads to them, so paths are short.
    pub fn components_with_open(&mut self) -> Vec<Component> {
        self.search.pending.reverse();
        self.search_components(true)
    }

    fn search_components(&mut self, with_open: bool) -> Vec<Component> {
        self.begin_round();
        self.search.with_open = with_open;
        self.search.cost = 0;
        self.search.component.clear();
        let mut found = Vec::new();
        let mut next = 0;
        let mut pending = std::mem::take(&mut self.search.pending);
        for &slot in &pending {
            if self.nodes[slot as usize].round != self.round {
                self.tarjan(slot, &mut next, &mut found);
            }
        }
        for slot in pending.drain(..) {
            self.nodes[slot as usize].is_pending = false;
        }
        self.search.pending = pending;
        found
    }

    /// Adds to what the last search did cost.
    pub fn spend(&mut self, steps: usize) {
        self.search.cost += steps;
    }

    /// Tarjan's algorithm, from one node on.
    fn tarjan(&mut self, root: u32, next: &mut u32, found: &mut Vec<Component>) {
        self.visit(root, next);
        while let Some(step) = self.search.path.last_mut() {
            let (slot, at) = (step.slot, step.edges as usize);
            step.edges += 1;
            self.search.cost += 1;
            if let Some(successor) = self.lists.get(&self.nodes[slot as usize].out, at) {
                let node = &self.nodes[successor as usize];
                if node.round != self.round {
                    if (node.has_finished || self.search.with_open) && !node.is_retired {
                        self.visit(successor, next);
                    }
                } else if node.number != IN_NO_PATH {
                    step.lowest = step.lowest.min(node.number);
                }
                continue;
            }
            let lowest = step.lowest;
            self.search.path.pop();
            if let Some(parent) = self.search.path.last_mut() {
                parent.lowest = parent.lowest.min(lowest);
            }
            if lowest == self.nodes[slot as usize].number {
                self.complete(slot, found);
            }
        }
    }

    #[inline]
    fn visit(&mut self, slot: u32, next: &mut u32) {
        let node = &mut self.nodes[slot as usize];
        node.round = self.round;
        node.number = *next;
        self.search.component.push(slot);
        self.search.path.push(Step {
            slot,
            edges: 0,
            lowest: *next,
        });
        *next += 1;
    }

    /// The component of which `root` was visited first is complete.
    fn complete(&mut self, root: u32, found: &mut Vec<Component>) {
        if self.search.component.last() == Some(&root) {
            // It is in a component with no other.
            self.search.component.pop();
            self.nodes[root as usize].number = IN_NO_PATH;
            return;
        }
        let visited = &mut self.search.component;
        let from = visited.iter().rposition(|&slot| slot == root);
        let members: Vec<u32> = visited.drain(from.unwrap_or(0)..).collect();
        let mut is_pending = false;
        for &slot in &members {
            let node = &mut self.nodes[slot as usize];
            node.number = IN_NO_PATH;
            is_pending |= node.is_pending;
        }
        if is_pending {
            found.push(Component(members));
        }
    }

    /// Makes this the component that [`Idg::component`] has.
    pub fn select(&mut self, component: Component) {
        self.search.component = component.0;
        let carried = &self.carried;
        let began = |slot: &u32| carried[*slot as usize].began();
        self.search.component.sort_unstable_by_key(began);
        // A round of its own tells members from the rest.
        self.begin_round();
        for (number, &slot) in self.search.component.iter().enumerate() {
            let node = &mut self.nodes[slot as usize];
            node.round = self.round;
            node.number = number as u32;
        }
    }

    /// The component found last, in the order in which its transactions began.
    pub fn component(&self) -> impl ExactSizeIterator<Item = Tx> {
        let members = self.search.component.iter();
        members.map(|&slot| self.handle(slot))
    }

    /// The place of a transaction in the component found last.
    #[inline]
    pub fn place_in_component(&self, tx: Tx) -> Option<usize> {
        let node = &self.nodes[tx.slot as usize];
        let inside = node.generation == tx.generation && node.round == self.round;
        inside.then_some(node.number as usize)
    }

    /// Retires all but the youngest `keep` transactions of the component found last: they will not
    /// be in a component again. What only they reach will be reclaimed.
    pub fn retire(&mut self, keep: usize) {
        let old = self.search.component.len().saturating_sub(keep);
        for at in 0..old {
            self.retire_one(self.search.component[at]);
        }
        self.search.component.drain(..old);
    }
}
