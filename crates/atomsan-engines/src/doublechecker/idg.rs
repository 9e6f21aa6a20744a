//! The imprecise dependence graph (IDG): transactions, edges, components, reclaiming.
//!
//! An edge only ever leads to a transaction that is open. Two consequences:
//!
//! * **Components.** When the last transaction of a cycle finishes, all edges of the cycle are
//!   there. So it is enough to look for the strongly connected component of each transaction that
//!   finishes, and to look at finished transactions only (section 3.2.3).
//! * **Reclaiming.** A finished transaction that no open one reaches will never be reached by one:
//!   a path from an open transaction would have a first edge that leads to a finished one, and
//!   that edge would have to be there already. So it is in no cycle to come. Whatever
//!   open transactions do not reach is swept, when there is as much of it as of the rest. Handles
//!   ([`Tx`]) are weak: those of reclaimed transactions are recognised by their generation, and an
//!   edge from one is not worth making.

use super::log::{Log, Tx};
use crate::Occurrence;
use atomsan_trace::{FunctionId, SiteId, ThreadId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// A node of the graph.
#[derive(Debug)]
pub struct Transaction {
    /// Its thread.
    pub thread: ThreadId,
    /// The region it executes; `None` for merged unary transactions.
    pub region: Option<FunctionId>,
    /// Where the region was entered.
    pub entered: SiteId,
    /// Its first event.
    pub began: Occurrence,
    /// The position in the trace before which it finished, if it has.
    pub ended: Option<u64>,
    /// What it accessed.
    pub log: Log,
    /// Violations that have been reported: the positions of the two conflicting events.
    pub(super) reported: HashSet<(u64, u64), FxBuildHasher>,
}

impl Transaction {
    /// A transaction that begins.
    pub fn new(region: Option<FunctionId>, entered: SiteId, began: Occurrence) -> Transaction {
        Transaction {
            thread: began.event.thread,
            region,
            entered,
            began,
            ended: None,
            log: Log::default(),
            reported: HashSet::default(),
        }
    }
}

#[derive(Debug)]
struct Node {
    generation: u32,
    /// `None` in a free slot.
    transaction: Option<Transaction>,
    /// The slots of the successors; a transaction that is alive has only living successors.
    out: Vec<u32>,
    /// No edges leave it any more.
    retired: bool,
    /// The search that saw the node last, and what it noted.
    search: u64,
    number: u32,
    lowest: u32,
}

/// The graph.
#[derive(Debug, Default)]
pub struct Idg {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Empty logs of reclaimed transactions, for their memory.
    logs: Vec<Log>,
    search: u64,
    /// The transactions of the component found last.
    component: Vec<u32>,
    path: Vec<(u32, u32)>,
    /// How much there is (transactions and their logs), and how much makes sweeping worthwhile.
    weight: usize,
    limit: usize,
    edges: u64,
}

/// Sweeping less than this is not worthwhile.
const LEAST_LIMIT: usize = 1 << 14;
/// The number of a node whose component is complete.
const IN_NO_PATH: u32 = u32::MAX;

impl Idg {
    /// A transaction begins.
    pub fn open(&mut self, transaction: Transaction) -> Tx {
        self.weight += 1;
        let log = self.logs.pop().unwrap_or_default();
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.nodes.push(Node {
                    generation: 0,
                    transaction: None,
                    out: Vec::new(),
                    retired: false,
                    search: 0,
                    number: 0,
                    lowest: 0,
                });
                self.nodes.len() as u32 - 1
            }
        };
        let node = &mut self.nodes[slot as usize];
        node.transaction = Some(Transaction { log, ..transaction });
        Tx {
            slot,
            generation: node.generation,
        }
    }

    /// A transaction finishes: no edge will lead to it any more.
    pub fn close(&mut self, tx: Tx, index: u64) {
        if let Some(transaction) = self.get_mut(tx) {
            transaction.ended = Some(index);
            transaction.log.settle();
            let log = transaction.log.items().len();
            self.weight += log;
        }
    }

    /// A transaction, unless it has been reclaimed.
    #[inline]
    pub fn get(&self, tx: Tx) -> Option<&Transaction> {
        let node = self.nodes.get(tx.slot as usize)?;
        (node.generation == tx.generation).then_some(node.transaction.as_ref()?)
    }

    /// A transaction, unless it has been reclaimed.
    #[inline]
    pub fn get_mut(&mut self, tx: Tx) -> Option<&mut Transaction> {
        let node = self.nodes.get_mut(tx.slot as usize)?;
        if node.generation == tx.generation {
            node.transaction.as_mut()
        } else {
            None
        }
    }

    /// `to`, which is open, depends on `from`; both are alive.
    pub fn edge(&mut self, from: Tx, to: Tx) {
        let between_threads =
            self.get(from).map(|tx| tx.thread) != self.get(to).map(|tx| tx.thread);
        let node = &mut self.nodes[from.slot as usize];
        if node.out.last() != Some(&to.slot) && !node.retired {
            node.out.push(to.slot);
            self.edges += u64::from(between_threads);
        }
    }

    /// How many edges between threads were made.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// All transactions that are kept, some of them perhaps only because they have not been swept.
    pub fn transactions(&self) -> impl Iterator<Item = (Tx, &Transaction)> {
        self.nodes.iter().enumerate().filter_map(|(slot, node)| {
            let tx = Tx {
                slot: slot as u32,
                generation: node.generation,
            };
            Some((tx, node.transaction.as_ref()?))
        })
    }

    /// The transactions that depend on this one.
    pub fn successors(&self, tx: Tx) -> impl Iterator<Item = Tx> {
        let alive = self.get(tx).is_some();
        let out: &[u32] = if alive {
            &self.nodes[tx.slot as usize].out
        } else {
            &[]
        };
        out.iter().map(|&slot| self.handle(slot))
    }

    fn handle(&self, slot: u32) -> Tx {
        Tx {
            slot,
            generation: self.nodes[slot as usize].generation,
        }
    }

    /// Looks for the strongly connected component of a transaction that has just finished, among
    /// finished transactions. Whether it has more than one transaction; [`Idg::component`] has
    /// them then.
    pub fn find_component(&mut self, tx: Tx) -> bool {
        self.component.clear();
        if self.get(tx).is_none() || self.nodes[tx.slot as usize].out.is_empty() {
            return false;
        }
        self.tarjan(tx.slot);
        if self.component.len() < 2 {
            return false;
        }
        let nodes = &mut self.nodes;
        let began = |slot: &u32| {
            let transaction = nodes[*slot as usize].transaction.as_ref();
            transaction.map_or(0, |transaction| transaction.began.index)
        };
        self.component.sort_unstable_by_key(began);
        // A search of its own number tells members from the rest.
        self.search += 1;
        for (number, &slot) in self.component.iter().enumerate() {
            let node = &mut nodes[slot as usize];
            node.search = self.search;
            node.number = number as u32;
        }
        true
    }

    /// The strongly connected components of more than one transaction that these transactions
    /// reach, among finished transactions; each in the order in which its transactions began.
    /// One search for all of them.
    pub fn find_components(&mut self, of: &[Tx]) -> Vec<Vec<Tx>> {
        let mut found: Vec<Vec<Tx>> = Vec::new();
        let mut next = 0;
        self.component.clear();
        self.search += 1;
        for &tx in of {
            let node = &self.nodes[tx.slot as usize];
            let finished = self.get(tx).is_some_and(|tx| tx.ended.is_some());
            if finished && node.search != self.search && !node.retired {
                self.visit(tx.slot, &mut next);
                self.explore(&mut next, |idg, members| {
                    if members.len() > 1 {
                        found.push(members.iter().map(|&slot| idg.handle(slot)).collect());
                    }
                });
            }
        }
        let began = |tx: &Tx| self.get(*tx).map_or(0, |tx| tx.began.index);
        for component in &mut found {
            component.sort_unstable_by_key(began);
        }
        found
    }

    /// The component found last, in the order in which its transactions began.
    pub fn component(&self) -> impl ExactSizeIterator<Item = Tx> {
        self.component.iter().map(|&slot| self.handle(slot))
    }

    /// The place of a transaction in the component found last.
    #[inline]
    pub fn place_in_component(&self, tx: Tx) -> Option<usize> {
        let node = &self.nodes[tx.slot as usize];
        let inside = node.generation == tx.generation && node.search == self.search;
        inside.then_some(node.number as usize)
    }

    /// Tarjan's algorithm from one node; leaves the node's own component in `component`.
    fn tarjan(&mut self, root: u32) {
        self.search += 1;
        let mut next = 0;
        let mut own = Vec::new();
        self.visit(root, &mut next);
        // The root's own component is complete last.
        self.explore(&mut next, |_, members| {
            own.clear();
            own.extend_from_slice(members);
        });
        self.component = own;
    }

    /// Explores what the node on the path reaches; `complete` is told each component, as soon as
    /// all of it is known.
    fn explore(&mut self, next: &mut u32, mut complete: impl FnMut(&Idg, &[u32])) {
        while let Some(&mut (slot, ref mut edge)) = self.path.last_mut() {
            let at = *edge as usize;
            *edge += 1;
            if let Some(&successor) = self.nodes[slot as usize].out.get(at) {
                let node = &self.nodes[successor as usize];
                if node.search != self.search {
                    let transaction = node.transaction.as_ref();
                    let finished = transaction.is_some_and(|tx| tx.ended.is_some());
                    if finished && !node.retired {
                        self.visit(successor, next);
                    }
                } else if node.number != IN_NO_PATH {
                    let number = node.number;
                    let node = &mut self.nodes[slot as usize];
                    node.lowest = node.lowest.min(number);
                }
                continue;
            }
            self.path.pop();
            let Node { lowest, number, .. } = self.nodes[slot as usize];
            if let Some(&(parent, _)) = self.path.last() {
                let parent = &mut self.nodes[parent as usize];
                parent.lowest = parent.lowest.min(lowest);
            }
            if lowest == number {
                let start = self.component.iter().rposition(|&member| member == slot);
                let start = start.unwrap_or(0);
                complete(self, &self.component[start..]);
                for at in start..self.component.len() {
                    let member = self.component[at] as usize;
                    self.nodes[member].number = IN_NO_PATH;
                }
                self.component.truncate(start);
            }
        }
    }

    fn visit(&mut self, slot: u32, next: &mut u32) {
        let node = &mut self.nodes[slot as usize];
        node.search = self.search;
        node.number = *next;
        node.lowest = *next;
        *next += 1;
        self.component.push(slot);
        self.path.push((slot, 0));
    }

    /// Retires all but the youngest `keep` transactions of the component found last: they will not
    /// be in a component again. What only they reach will be reclaimed.
    pub fn retire(&mut self, keep: usize) {
        let old = self.component.len().saturating_sub(keep);
        for slot in std::mem::take(&mut self.component).drain(..old) {
            self.retire_one(slot);
        }
    }

    /// Retires transactions: they will not be in a component again.
    pub fn retire_all(&mut self, of: &[Tx]) {
        for tx in of {
            if self.get(*tx).is_some() {
                self.retire_one(tx.slot);
            }
        }
    }

    fn retire_one(&mut self, slot: u32) {
        let node = &mut self.nodes[slot as usize];
        node.out.clear();
        node.retired = true;
        if let Some(transaction) = &mut node.transaction {
            transaction.log.clear();
        }
    }

    /// Whether there is enough to make [`Idg::sweep`] worthwhile.
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.weight >= self.limit.max(LEAST_LIMIT)
    }

    /// Reclaims what none of the open transactions reaches.
    pub fn sweep(&mut self, open: impl Iterator<Item = Tx>) {
        self.search += 1;
        let mut todo: Vec<u32> = open
            .filter(|&tx| self.get(tx).is_some())
            .map(|tx| tx.slot)
            .collect();
        while let Some(slot) = todo.pop() {
            let node = &mut self.nodes[slot as usize];
            if node.search != self.search {
                node.search = self.search;
                todo.extend(&node.out);
            }
        }
        self.weight = 0;
        for (slot, node) in self.nodes.iter_mut().enumerate() {
            if node.search == self.search {
                let log = node
                    .transaction
                    .as_ref()
                    .map_or(0, |tx| tx.log.items().len());
                self.weight += 1 + log;
            } else if let Some(mut transaction) = node.transaction.take() {
                transaction.log.clear();
                self.logs.push(transaction.log);
                node.generation = node.generation.wrapping_add(1);
                node.out.clear();
                node.retired = false;
                self.free.push(slot as u32);
            }
        }
        self.limit = self.weight * 2;
    }
}
