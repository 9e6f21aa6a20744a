//! The imprecise dependence graph (IDG): transactions, edges, components, reclaiming.
//!
//! An edge only ever leads to a transaction that is open. Two consequences:
//!
//! * **Components.** When the last transaction of a cycle finishes, all edges of the cycle are
//!   there. So it is enough to look for the strongly connected component of each transaction that
//!   finishes, and to look at finished transactions only (section 3.2.3). Later is as good: where
//!   a search is long (a thousand threads have each reached half a million transactions), the next
//!   one waits until enough transactions have finished to share it ([`Idg::is_due`]), and each
//!   of them costs a fixed number of steps.
//! * **Reclaiming.** A finished transaction that no open one reaches will never be reached by one:
//!   a path from an open transaction would have a first edge that leads to a finished one, and
//!   that edge would have to be there already. So it is in no cycle to come. Whatever
//!   open transactions do not reach is swept, when there is as much of it as of the rest. Handles
//!   ([`Tx`]) are weak: those of reclaimed transactions are recognised by their generation, and an
//!   edge from one is not worth making.
//!
//! A transaction that stays open, because its thread does not run, may reach all that others do meanwhile.
//! There can be a limit to that ([`Idg::limit`]): beyond it the older transactions are retired, as
//! those of a component that is too large are.

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
    /// It has finished, and its component has not been looked for.
    pending: bool,
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
    /// Whether the search goes through transactions that have not finished.
    with_open: bool,
    /// The transactions whose components have not been looked for.
    pending: Vec<u32>,
    /// What the last search and what followed from it cost.
    cost: usize,
    /// How much there is (transactions and their logs), and how much makes sweeping worthwhile.
    weight: usize,
    limit: usize,
    /// How much there may be.
    most: Option<usize>,
    /// How many transactions have been retired for that.
    forgotten: u64,
    edges: u64,
}

/// A strongly connected component of more than one transaction.
#[derive(Debug)]
pub struct Component(Vec<u32>);

/// How many steps of a search a transaction pays for.
const STEPS: usize = 64;
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
                    pending: false,
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

    /// The component of a transaction that has finished is to be looked for.
    pub fn look_for(&mut self, tx: Tx) {
        let Some(node) = self.nodes.get_mut(tx.slot as usize) else {
            return;
        };
        if node.generation == tx.generation && !node.out.is_empty() && !node.pending {
            node.pending = true;
            self.pending.push(tx.slot);
        }
    }

    /// Whether a [search](Idg::components) is worth what the last one did cost; `patience` is how
    /// many transactions must wait for it at least.
    pub fn is_due(&self, patience: usize) -> bool {
        self.pending.len() >= patience.max(self.cost / STEPS)
    }

    /// Whether no transaction waits for a search.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The strongly connected components of several finished transactions that have one in them
    /// whose component was to be looked for.
    pub fn components(&mut self) -> Vec<Component> {
        self.search_components(false)
    }

    /// The same of transactions that have finished or not. A dependence between two transactions that
    /// goes through others goes through members then, finished or not: who has no other way to
    /// know in which order the two are needs those as well.
    pub fn components_with_open(&mut self) -> Vec<Component> {
        self.search_components(true)
    }

    fn search_components(&mut self, with_open: bool) -> Vec<Component> {
        self.with_open = with_open;
        self.search += 1;
        self.cost = 0;
        self.component.clear();
        let mut found = Vec::new();
        let mut next = 0;
        let pending = std::mem::take(&mut self.pending);
        for &slot in &pending {
            if self.nodes[slot as usize].search != self.search {
                self.tarjan(slot, &mut next, &mut found);
            }
        }
        for slot in pending {
            self.nodes[slot as usize].pending = false;
        }
        found
    }

    /// Adds to what the last search did cost.
    pub fn spend(&mut self, steps: usize) {
        self.cost += steps;
    }

    /// Makes this the component that [`Idg::component`] has.
    pub fn select(&mut self, component: Component) {
        self.component = component.0;
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

    /// Tarjan's algorithm, from one node on.
    fn tarjan(&mut self, root: u32, next: &mut u32, found: &mut Vec<Component>) {
        self.visit(root, next);
        while let Some(&mut (slot, ref mut edge)) = self.path.last_mut() {
            let at = *edge as usize;
            *edge += 1;
            self.cost += 1;
            if let Some(&successor) = self.nodes[slot as usize].out.get(at) {
                let node = &self.nodes[successor as usize];
                if node.search != self.search {
                    let transaction = node.transaction.as_ref();
                    let finished = transaction.is_some_and(|tx| tx.ended.is_some());
                    if (finished || self.with_open) && !node.retired {
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
                self.complete(slot, found);
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

    /// The component of which `root` was visited first is complete.
    fn complete(&mut self, root: u32, found: &mut Vec<Component>) {
        let from = self.component.iter().rposition(|&slot| slot == root);
        let mut pending = false;
        let members = from.unwrap_or(0)..;
        for &slot in &self.component[members.clone()] {
            let node = &mut self.nodes[slot as usize];
            node.number = IN_NO_PATH;
            pending |= node.pending;
        }
        let members = self.component.drain(members);
        if pending && members.len() > 1 {
            found.push(Component(members.collect()));
        }
    }

    /// Retires all but the youngest `keep` transactions of the component found last: they will not
    /// be in a component again. What only they reach will be reclaimed.
    pub fn retire(&mut self, keep: usize) {
        let old = self.component.len().saturating_sub(keep);
        for at in 0..old {
            self.retire_one(self.component[at]);
        }
        self.component.drain(..old);
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

    /// There may be so much of transactions and their logs, and not more.
    pub fn limit(&mut self, most: usize) {
        self.most = Some(most);
    }

    /// How many transactions have been retired because there was more.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Reclaims what none of the open transactions reaches, nor one whose component has not been
    /// looked for.
    pub fn sweep(&mut self, open: impl Iterator<Item = Tx> + Clone) {
        self.reclaim(open.clone());
        let most = self.most.unwrap_or(usize::MAX);
        if self.weight > most / 2 {
            self.retire_old(most / 4);
            self.reclaim(open);
        }
        self.limit = (self.weight * 2).min(most);
    }

    /// Retires the oldest transactions that have finished, until there is so much left.
    fn retire_old(&mut self, left: usize) {
        let mut finished: Vec<(u64, u32, usize)> = (self.nodes.iter().enumerate())
            .filter_map(|(slot, node)| {
                let transaction = node.transaction.as_ref()?;
                let weight = 1 + transaction.log.items().len();
                (transaction.ended.is_some() && !node.retired).then_some((
                    transaction.began.index,
                    slot as u32,
                    weight,
                ))
            })
            .collect();
        finished.sort_unstable();
        let mut weight = self.weight;
        for (_, slot, one) in finished {
            if weight <= left {
                break;
            }
            weight -= one;
            self.forgotten += 1;
            self.retire_one(slot);
        }
    }

    fn reclaim(&mut self, open: impl Iterator<Item = Tx>) {
        self.search += 1;
        let mut todo: Vec<u32> = open
            .filter(|&tx| self.get(tx).is_some())
            .map(|tx| tx.slot)
            .chain(self.pending.iter().copied())
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
    }
}
