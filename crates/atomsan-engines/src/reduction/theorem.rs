//! Theorems 1 and 2 on transaction trees.
//!
//! A transaction is atomic if it has the form (R + AcqA*Rel)* N? (L + AcqA*Rel)*. On a tree: call a
//! *step* of a node each racing access in it, and each child that is a real synchronised block
//! (its acquire a right-mover, its release a left-mover, and nothing else). Both-movers are no
//! steps, and neither are blocks that can be ignored:
//!
//! * A block whose lock is thread-local or protected has both-movers for its acquire and release.
//!   Its own steps are steps of the node around it.
//! * A block in which nothing but variables of the kind *A* is accessed (thread-local or
//!   read-only) is an AcqA*Rel, and left out (Theorem 2). What it contains may itself be of that
//!   form: leave out the inner one first.
//!
//! A node is then of the required form if and only if it has at most one step, and that step, if it
//! is a block, is of the required form itself. For if there are two, one of them comes first; it is
//! a non-mover or ends with a left-mover, and the other one is a non-mover or begins with a
//! right-mover. That does not depend on which comes first, so the order in a node is not needed.
//!
//! A release that does not nest is a left-mover in the middle of its node: before the first of them
//! there may be one step, after it none. If the block around it has both-movers for its own acquire
//! and release, so that all this happens in the node around that one, then how it lies to the steps
//! there is not looked at: it counts as a step, which can only add alarms.

use super::races::Commutes;
use super::trees::{Node, NodeId, Trees};
use crate::engine::Occurrence;
use atomsan_trace::{LockId, VarId};

/// What all accesses and lock operations of the execution say.
pub(super) struct Facts {
    pub(super) vars: Vec<Commutes>,
    /// Locks that are thread-local or protected.
    pub(super) both_movers: Vec<bool>,
    /// Theorem 2 instead of Theorem 1.
    pub(super) acq_a_rel: bool,
}

impl Facts {
    fn var(&self, var: VarId) -> Commutes {
        self.vars.get(var.index()).copied().unwrap_or_default()
    }

    fn is_both_mover(&self, lock: LockId) -> bool {
        (self.both_movers.get(lock.index()).copied()).unwrap_or(false)
    }
}

/// What is said about a node.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// Its steps, 2 standing for more.
    steps: u8,
    /// Steps after a release that does not nest.
    steps_after: u8,
    /// There is such a release, of a lock that matters.
    releases: bool,
    /// Nothing in it interacts with other threads, but for acquiring and releasing.
    inert: bool,
    /// It has the required form.
    reducible: bool,
}

/// A violation: the step that committed, and the one that must not follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Violation {
    pub(super) entered: Occurrence,
    pub(super) committed: Occurrence,
    pub(super) violated: Occurrence,
}

/// The verdict on all nodes.
pub(super) struct Verdicts<'a> {
    trees: &'a Trees,
    facts: &'a Facts,
    nodes: Vec<Judged>,
}

impl<'a> Verdicts<'a> {
    /// Judges all nodes, children first.
    pub(super) fn new(trees: &'a Trees, facts: &'a Facts) -> Self {
        let mut verdicts = Verdicts {
            trees,
            facts,
            nodes: Vec::with_capacity(trees.len()),
        };
        for id in 0..trees.len() {
            let judged = verdicts.judge(trees.node(NodeId(id as u32)));
            verdicts.nodes.push(judged);
        }
        verdicts
    }

    /// How the transaction with this root is not of the required form, if it is not.
    pub(super) fn violation(&self, root: NodeId) -> Option<Violation> {
        let mut at = root;
        while !self.of(at).reducible {
            let node = self.trees.node(at);
            // The innermost place says most.
            let mut children = self.trees.blocks(node).iter();
            match children.find(|child| !self.of(child.node).reducible) {
                Some(child) => at = child.node,
                None => return Some(self.between(node)),
            }
        }
        None
    }

    fn of(&self, node: NodeId) -> Judged {
        self.nodes[node.0 as usize]
    }

    fn judge(&self, node: &Node) -> Judged {
        let mut releases = self.trees.releases(node).iter();
        // What is in a later phase than this comes after a left-mover.
        let release = releases.position(|entry| self.matters(entry.lock));
        let is_after = |phase: u32| release.is_some_and(|at| phase as usize > at);
        let mut judged = Judged {
            steps: 0,
            steps_after: 0,
            releases: release.is_some(),
            inert: node.closed && release.is_none(),
            reducible: true,
        };
        for entry in self.trees.vars(node) {
            let commutes = self.facts.var(entry.var);
            judged.inert &= commutes == Commutes::Always;
            if commutes == Commutes::Not {
                judged.add(is_after(entry.phase), 1, entry.second.is_some());
            }
        }
        for entry in self.trees.blocks(node) {
            let child = self.of(entry.node);
            judged.inert &= child.inert;
            judged.reducible &= child.reducible;
            let steps = self.weight(entry.node);
            judged.add(is_after(entry.phase), steps, entry.second.is_some());
        }
        judged.reducible &= judged.fits();
        judged
    }

    fn matters(&self, lock: LockId) -> bool {
        !self.facts.is_both_mover(lock)
    }

    /// How many steps a child is to the node around it.
    fn weight(&self, child: NodeId) -> u8 {
        let judged = self.of(child);
        let lock = self.trees.node(child).lock;
        if judged.inert && self.facts.acq_a_rel {
            0
        } else if lock.is_some_and(|lock| self.matters(lock)) {
            1
        } else {
            // Both-movers around what it contains. A release in it is a left-mover.
            let steps = judged.steps.saturating_add(judged.steps_after);
            steps.max(u8::from(judged.releases))
        }
    }

    /// The first two steps of a node that has too many.
    fn between(&self, node: &Node) -> Violation {
        // Where a step begins and ends.
        let mut steps: Vec<(Occurrence, Occurrence)> = Vec::new();
        for entry in self.trees.vars(node) {
            if self.facts.var(entry.var) == Commutes::Not {
                steps.push((entry.first, entry.first));
                steps.extend(entry.second.map(|second| (second, second)));
            }
        }
        for entry in self.trees.blocks(node) {
            if self.weight(entry.node) > 0 {
                steps.push((entry.acquire, entry.release));
                steps.extend(entry.second.map(|second| (second, second)));
            }
        }
        // A release commits, and is never what violates.
        let mut committed = steps
            .iter()
            .min_by_key(|(begin, _)| begin.index)
            .map(|s| s.1);
        for entry in self.trees.releases(node) {
            if self.matters(entry.lock) && committed.is_none_or(|at| entry.at.index < at.index) {
                committed = Some(entry.at);
            }
        }
        let committed = committed.unwrap_or(node.entered);
        let later = steps.iter().map(|(begin, _)| *begin);
        let later = later.filter(|begin| begin.index > committed.index);
        let violated = later.min_by_key(|begin| begin.index);
        Violation {
            entered: node.entered,
            committed,
            violated: violated.unwrap_or(committed),
        }
    }
}

impl Judged {
    fn add(&mut self, after: bool, steps: u8, twice: bool) {
        let steps = steps.saturating_mul(1 + u8::from(twice));
        let count = if after {
            &mut self.steps_after
        } else {
            &mut self.steps
        };
        *count = count.saturating_add(steps).min(2);
    }

    /// Whether its own steps are of the required form.
    fn fits(&self) -> bool {
        self.steps <= 1 && self.steps_after == 0
    }
}
