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
//!
//! # What a node carries
//!
//! Events are checked with the log of each transaction ([`Transaction`]); who only wants to know which transactions are in a
//! component has no more of them than a name. So what a node carries is a parameter ([`Carried`]), and lies elsewhere than
//! what searches go through: that is half a cache line for a node.

mod components;
mod successors;
#[cfg(test)]
mod tests;
mod transaction;

pub use components::Component;
pub use transaction::Transaction;

use super::log::Tx;
use components::Search;
use successors::{Lists, Successors};

/// What a node carries.
pub trait Carried {
    /// When it began, compared with others.
    fn began(&self) -> u64;

    /// How much is kept for it, besides the node.
    fn weight(&self) -> usize {
        0
    }

    /// Nobody will ask for what is kept for it.
    fn forget(&mut self) {}

    /// This one has been reclaimed, and the next one gets its node.
    fn follow(&mut self, next: Self);
}

/// What searches go through.
#[derive(Debug)]
struct Node {
    generation: u32,
    /// The search or the like that saw the node last, and what it noted.
    round: u32,
    number: u32,
    /// No edge will lead to it any more.
    has_finished: bool,
    /// No edges leave it any more.
    is_retired: bool,
    /// It has finished, and its component has not been looked for.
    is_pending: bool,
    /// Nothing is there.
    is_free: bool,
    /// The slots of the successors; a transaction that is alive has only living successors.
    out: Successors,
}

const _: () = assert!(size_of::<Node>() == 32);

/// The graph.
#[derive(Debug)]
pub struct Idg<T = Transaction> {
    nodes: Vec<Node>,
    lists: Lists,
    /// What each node carries; what is left of it in a free one.
    carried: Vec<T>,
    free: Vec<u32>,
    round: u32,
    search: Search,
    /// What has to be gone through, in a [reclaim](Idg::reclaim).
    todo: Vec<u32>,
    /// How much there is (transactions and their logs), and how much makes sweeping worthwhile.
    weight: usize,
    limit: usize,
    /// How much there may be.
    most: Option<usize>,
    /// How many transactions have been retired for that.
    forgotten: u64,
}

/// Sweeping less than this is not worthwhile.
const LEAST_LIMIT: usize = 1 << 14;

impl<T> Default for Idg<T> {
    fn default() -> Self {
        Idg {
            nodes: Vec::new(),
            lists: Lists::default(),
            carried: Vec::new(),
            free: Vec::new(),
            round: 0,
            search: Search::default(),
            todo: Vec::new(),
            weight: 0,
            limit: 0,
            most: None,
            forgotten: 0,
        }
    }
}

impl<T: Carried> Idg<T> {
    /// A transaction begins.
    #[inline]
    pub fn open(&mut self, carried: T) -> Tx {
        self.weight += 1;
        let Some(slot) = self.free.pop() else {
            return self.open_another(carried);
        };
        let node = &mut self.nodes[slot as usize];
        node.is_free = false;
        self.carried[slot as usize].follow(carried);
        Tx {
            slot,
            generation: node.generation,
        }
    }

    /// The same, with a node that is new.
    fn open_another(&mut self, carried: T) -> Tx {
        let slot = self.nodes.len() as u32;
        self.nodes.push(Node {
            generation: 0,
            round: 0,
            number: 0,
            has_finished: false,
            is_retired: false,
            is_pending: false,
            is_free: false,
            out: Successors::NONE,
        });
        self.carried.push(carried);
        Tx {
            slot,
            generation: 0,
        }
    }

    /// A transaction finishes: no edge will lead to it any more.
    #[inline]
    pub fn finish(&mut self, tx: Tx) {
        if self.is_alive(tx) {
            self.nodes[tx.slot as usize].has_finished = true;
        }
    }

    /// Whether a transaction has not been reclaimed. The generation of a free node is one that no handle has.
    #[inline]
    pub fn is_alive(&self, tx: Tx) -> bool {
        let node = self.nodes.get(tx.slot as usize);
        node.is_some_and(|node| node.generation == tx.generation)
    }

    /// A transaction, unless it has been reclaimed.
    #[inline]
    pub fn get(&self, tx: Tx) -> Option<&T> {
        self.is_alive(tx).then(|| &self.carried[tx.slot as usize])
    }

    /// A transaction, unless it has been reclaimed.
    #[inline]
    pub fn get_mut(&mut self, tx: Tx) -> Option<&mut T> {
        self.is_alive(tx)
            .then(|| &mut self.carried[tx.slot as usize])
    }

    /// `to`, which is open, depends on `from`; both are alive. Whether that is new, as far as one can see at once.
    #[inline]
    pub fn edge(&mut self, from: Tx, to: Tx) -> bool {
        let node = &mut self.nodes[from.slot as usize];
        !node.is_retired && self.lists.push(&mut node.out, to.slot)
    }

    /// All transactions that are kept, some of them perhaps only because they have not been swept.
    pub fn transactions(&self) -> impl Iterator<Item = (Tx, &T)> {
        let nodes = self.nodes.iter().zip(&self.carried).enumerate();
        nodes.filter_map(|(slot, (node, carried))| {
            let tx = Tx {
                slot: slot as u32,
                generation: node.generation,
            };
            (!node.is_free).then_some((tx, carried))
        })
    }

    /// The transactions that depend on this one.
    pub fn successors(&self, tx: Tx) -> impl Iterator<Item = Tx> {
        let out = if self.is_alive(tx) {
            self.nodes[tx.slot as usize].out
        } else {
            Successors::NONE
        };
        self.lists.iter(&out).map(|slot| self.handle(slot))
    }

    fn handle(&self, slot: u32) -> Tx {
        Tx {
            slot,
            generation: self.nodes[slot as usize].generation,
        }
    }

    /// Nodes that are seen from now on can be told from those that were seen before.
    fn begin_round(&mut self) {
        if self.round == u32::MAX {
            self.nodes.iter_mut().for_each(|node| node.round = 0);
            self.round = 0;
        }
        self.round += 1;
    }

    /// Retires transactions: they will not be in a component again.
    pub fn retire_all(&mut self, of: impl Iterator<Item = Tx>) {
        for tx in of {
            if self.is_alive(tx) {
                self.retire_one(tx.slot);
            }
        }
    }

    fn retire_one(&mut self, slot: u32) {
        let node = &mut self.nodes[slot as usize];
        self.lists.clear(&mut node.out);
        node.is_retired = true;
        self.carried[slot as usize].forget();
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
        let nodes = self.nodes.iter().zip(&self.carried).enumerate();
        let mut finished: Vec<(u64, u32, usize)> = nodes
            .filter(|(_, (node, _))| !node.is_free && node.has_finished && !node.is_retired)
            .map(|(slot, (_, carried))| (carried.began(), slot as u32, 1 + carried.weight()))
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
        self.begin_round();
        let mut todo = std::mem::take(&mut self.todo);
        todo.extend(open.filter(|&tx| self.is_alive(tx)).map(|tx| tx.slot));
        todo.extend(&self.search.pending);
        while let Some(slot) = todo.pop() {
            let node = &mut self.nodes[slot as usize];
            if node.round != self.round {
                node.round = self.round;
                todo.extend(self.lists.iter(&node.out));
            }
        }
        self.todo = todo;
        self.weight = 0;
        for (slot, node) in self.nodes.iter_mut().enumerate() {
            if node.round == self.round {
                self.weight += 1 + self.carried[slot].weight();
            } else if !node.is_free {
                self.carried[slot].forget();
                self.lists.clear(&mut node.out);
                node.generation = node.generation.wrapping_add(1);
                node.has_finished = false;
                node.is_retired = false;
                node.is_free = true;
                self.free.push(slot as u32);
            }
        }
    }
}
