//! The transaction graph: transactions, the dependences between them, and the cycle that one more
//! dependence would close.
//!
//! [`Clocks`] decide whether a dependence closes a cycle and which transactions are still worth
//! keeping; the graph adds what a person wants to see: for each edge, the two events that made it.
//! It is searched only when a cycle is to be shown.
//!
//! A transaction that is alive has only successors that are alive (they share its open
//! ancestors), so an edge never leads to a slot that was reused: reclaiming needs no bookkeeping
//! here beyond clearing a slot when it gets a new transaction.

use crate::clocks::{Clocks, Edge, TxRef};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

#[derive(Debug)]
struct Node<D, E> {
    data: D,
    out: Vec<(TxRef, E)>,
    /// The sources of edges that lead here, so that each edge is kept once. Only while open.
    sources: HashSet<TxRef, FxBuildHasher>,
}

/// A transaction graph with data `D` on transactions and `E` on edges.
#[derive(Debug)]
pub struct Graph<D, E> {
    clocks: Clocks,
    nodes: Vec<Node<D, E>>,
    edges: u64,
}

/// One edge of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathEdge<E> {
    /// The transaction that comes first.
    pub from: TxRef,
    /// The one that depends on it.
    pub to: TxRef,
    /// The edge's data.
    pub data: E,
}

impl<D, E> Default for Graph<D, E> {
    fn default() -> Self {
        Graph {
            clocks: Clocks::default(),
            nodes: Vec::new(),
            edges: 0,
        }
    }
}

impl<D, E: Copy> Graph<D, E> {
    /// A transaction begins.
    pub fn open(&mut self, data: D) -> TxRef {
        let tx = self.clocks.open();
        match self.nodes.get_mut(tx.slot()) {
            Some(node) => {
                node.data = data;
                node.out.clear();
                node.sources.clear();
            }
            None => self.nodes.push(Node {
                data,
                out: Vec::new(),
                sources: HashSet::default(),
            }),
        }
        tx
    }

    /// A transaction ends: no edge will lead to it any more. It is reclaimed, with all that
    /// depends on it, as soon as no transaction it depends on is open.
    pub fn close(&mut self, tx: TxRef) {
        if self.clocks.is_alive(tx) {
            self.nodes[tx.slot()].sources.clear();
            self.clocks.close(tx);
        }
    }

    /// The newest generation of a handle, for [`Graph::restart`].
    pub fn newest(&self) -> u32 {
        self.clocks.newest()
    }

    /// Starts anew with the same memory, for the transactions of another graph whose handles are
    /// not newer than `generation`; see [`Clocks::restart`].
    pub fn restart(&mut self, generation: u32) {
        self.clocks.restart(generation);
    }

    /// Whether the transaction can still be part of a cycle.
    #[inline]
    pub fn is_alive(&self, tx: TxRef) -> bool {
        self.clocks.is_alive(tx)
    }

    /// How many transactions are kept.
    pub fn alive(&self) -> usize {
        self.clocks.alive()
    }

    /// How many edges were made.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// The data of a transaction that is alive.
    pub fn get(&self, tx: TxRef) -> Option<&D> {
        self.is_alive(tx).then(|| &self.nodes[tx.slot()].data)
    }

    /// What a transaction is, to be changed; `None` if it is dead.
    pub fn get_mut(&mut self, tx: TxRef) -> Option<&mut D> {
        self.is_alive(tx).then(|| &mut self.nodes[tx.slot()].data)
    }

    /// `to`, which must be open, depends on `from`. If that closes a cycle, the edge is refused
    /// and the graph stays as it is. Dead transactions need no edges.
    #[inline]
    pub fn edge(&mut self, from: TxRef, to: TxRef, data: impl FnOnce() -> E) -> Edge {
        if from == to || !self.is_alive(from) || !self.is_alive(to) {
            return Edge::Ordered;
        }
        if self.nodes[to.slot()].sources.contains(&from) {
            return Edge::Ordered;
        }
        let edge = self.clocks.order(from, to);
        // Searching is affordable in small graphs only.
        debug_assert!(self.alive() > 64 || (edge == Edge::Cycle) == self.reaches(to, from));
        if edge == Edge::Ordered {
            self.edges += 1;
            self.nodes[to.slot()].sources.insert(from);
            self.nodes[from.slot()].out.push((to, data()));
        }
        edge
    }

    /// Whether the edge would be refused.
    #[inline]
    pub fn closes_cycle(&self, from: TxRef, to: TxRef) -> bool {
        self.clocks.precedes(to, from)
    }

    /// Forgets the closed transactions that will not be asked for again, and how the others came
    /// to be ordered: each open transaction gets one edge to each of those that it leads to, with
    /// the data of the first edge of the path that led there. A path that leads through another
    /// open transaction goes on with the edges of that one, so a chain of open transactions stays
    /// a chain. Each [`Graph::path`] from an open transaction is still there, only shorter.
    pub fn retain(&mut self, keep: impl Fn(TxRef) -> bool) {
        // Which search has seen a slot last.
        let mut seen = vec![usize::MAX; self.nodes.len()];
        let mut todo = Vec::new();
        for slot in 0..self.nodes.len() {
            let Some(tx) = self.clocks.at(slot).filter(|&tx| self.clocks.is_open(tx)) else {
                continue;
            };
            let mut reached = Vec::new();
            seen[slot] = slot;
            for (next, data) in std::mem::take(&mut self.nodes[slot].out) {
                todo.push(next);
                while let Some(at) = todo.pop() {
                    if std::mem::replace(&mut seen[at.slot()], slot) == slot {
                        continue;
                    }
                    let open = self.clocks.is_open(at);
                    if open || keep(at) {
                        reached.push((at, data));
                    }
                    if open {
                        continue;
                    }
                    todo.extend(self.nodes[at.slot()].out.iter().map(|&(next, _)| next));
                }
            }
            self.nodes[tx.slot()].out = reached;
        }
        for slot in 0..self.nodes.len() {
            if !(self.clocks.at(slot)).is_some_and(|tx| self.clocks.is_open(tx)) {
                self.nodes[slot].out = Vec::new();
            }
        }
        self.clocks.retain(keep);
    }

    /// Replaces the data of a known edge if `better` says so of the old one. An edge that is
    /// buried under many later ones is left as it is.
    pub fn improve(&mut self, from: TxRef, to: TxRef, data: E, better: impl Fn(&E) -> bool) {
        const RECENT: usize = 16;
        if !self.is_alive(from) {
            return;
        }
        let recent = self.nodes[from.slot()].out.iter_mut().rev().take(RECENT);
        for (_, old) in recent.filter(|(target, _)| *target == to) {
            if better(old) {
                *old = data;
            }
        }
    }

    /// The edges that leave a transaction that is alive.
    pub fn successors(&self, tx: TxRef) -> &[(TxRef, E)] {
        if self.is_alive(tx) {
            &self.nodes[tx.slot()].out
        } else {
            &[]
        }
    }

    fn reaches(&self, from: TxRef, to: TxRef) -> bool {
        from == to || !self.path(from, to).is_empty()
    }

    /// A shortest path, empty if there is none.
    pub fn path(&self, from: TxRef, to: TxRef) -> Vec<PathEdge<E>> {
        self.search(from, to).0
    }

    /// A shortest path, and how many edges were looked at.
    fn search(&self, from: TxRef, to: TxRef) -> (Vec<PathEdge<E>>, usize) {
        // A transaction that is interrupted over and over has many successors, and usually it is
        // the latest of them that it depends on in turn.
        let mut latest = self.successors(from).iter().rev().zip(1..);
        let straight = latest.find(|((next, _), _)| *next == to && to != from);
        if let Some((&(_, data), looked_at)) = straight {
            return (vec![PathEdge { from, to, data }], looked_at);
        }
        let mut looked_at = self.successors(from).len();
        let mut reached_by: hashbrown::HashMap<TxRef, Option<PathEdge<E>>, FxBuildHasher> =
            hashbrown::HashMap::default();
        reached_by.insert(from, None);
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                break;
            }
            looked_at += self.successors(at).len();
            for &(next, data) in self.successors(at) {
                reached_by.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    Some(PathEdge {
                        from: at,
                        to: next,
                        data,
                    })
                });
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        while let Some(Some(edge)) = reached_by.get(&at) {
            path.push(*edge);
            at = edge.from;
        }
        path.reverse();
        (path, looked_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_cycle_an_edge_would_close() {
        let mut graph = Graph::<&str, u32>::default();
        let (a, b, c) = (graph.open("a"), graph.open("b"), graph.open("c"));
        assert_eq!(graph.edge(a, b, || 1), Edge::Ordered);
        assert_eq!(graph.edge(b, c, || 2), Edge::Ordered);
        assert_eq!(graph.edge(c, a, || 3), Edge::Cycle);
        let path: Vec<u32> = graph.path(a, c).iter().map(|edge| edge.data).collect();
        assert_eq!(path, [1, 2]);
        assert_eq!(graph.edges(), 2);
    }

    #[test]
    fn the_latest_of_many_successors_is_found_at_once() {
        let mut graph = Graph::<(), u32>::default();
        let first = graph.open(());
        for step in 0..1000 {
            let next = graph.open(());
            assert_eq!(graph.edge(first, next, || step), Edge::Ordered);
            graph.close(next);
            let (path, looked_at) = graph.search(first, next);
            assert_eq!((path.len(), path[0].data), (1, step));
            assert_eq!(looked_at, 1);
        }
    }

    #[test]
    fn closing_the_last_open_ancestor_reclaims_the_chain() {
        let mut graph = Graph::<(), ()>::default();
        let first = graph.open(());
        let mut last = first;
        for _ in 0..100 {
            let next = graph.open(());
            assert_eq!(graph.edge(last, next, || ()), Edge::Ordered);
            if last != first {
                graph.close(last);
            }
            last = next;
        }
        graph.close(last);
        assert_eq!(graph.alive(), 101);
        graph.close(first);
        assert_eq!(graph.alive(), 0);
    }

    #[test]
    fn a_path_survives_the_transactions_it_led_through() {
        let mut graph = Graph::<(), u32>::default();
        let first = graph.open(());
        let mut last = first;
        for step in 0..100 {
            let next = graph.open(());
            assert_eq!(graph.edge(last, next, || step), Edge::Ordered);
            if last != first {
                graph.close(last);
            }
            last = next;
        }
        graph.close(last);
        graph.retain(|tx| tx == last);
        assert_eq!(graph.alive(), 2);
        assert!(graph.closes_cycle(last, first));
        let path: Vec<u32> = graph.path(first, last).iter().map(|e| e.data).collect();
        assert_eq!(path, [0]);
    }

    #[test]
    fn a_chain_of_open_transactions_stays_a_chain() {
        let mut graph = Graph::<(), u32>::default();
        let open: Vec<TxRef> = (0..100).map(|_| graph.open(())).collect();
        for (step, pair) in open.windows(2).enumerate() {
            // By way of a closed one that is forgotten.
            let between = graph.open(());
            let step = 2 * step as u32;
            assert_eq!(graph.edge(pair[0], between, || step), Edge::Ordered);
            graph.close(between);
            assert_eq!(graph.edge(between, pair[1], || step + 1), Edge::Ordered);
        }
        graph.retain(|_| false);
        assert_eq!(graph.alive(), 100);
        let edges: usize = open.iter().map(|&tx| graph.successors(tx).len()).sum();
        assert_eq!(edges, 99);
        let path = graph.path(open[0], open[99]);
        let steps: Vec<u32> = path.iter().map(|edge| edge.data).collect();
        assert_eq!(steps, (0..198).step_by(2).collect::<Vec<u32>>());
    }

    #[test]
    fn an_edge_is_kept_once() {
        let mut graph = Graph::<(), ()>::default();
        let (a, b) = (graph.open(()), graph.open(()));
        for _ in 0..10 {
            assert_eq!(graph.edge(a, b, || ()), Edge::Ordered);
        }
        assert_eq!(graph.successors(a).len(), 1);
    }
}
