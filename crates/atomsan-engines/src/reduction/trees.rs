//! Transactions as trees (Wang–Stoller, 5.6).
//!
//! The root is the transaction, every other node one synchronised block in it. A node has the
//! variables accessed in it, but not in its children, each once (`varsOne`) or more often
//! (`varsMul`), and its children, also each once or more often: whether a loop went round twice or
//! a million times makes no difference to what can be said about it. Order within a node is not
//! kept, because the theorems do not need it.
//!
//! # Sharing
//!
//! The same code makes the same trees, so a node is stored once for each region and content. What
//! is kept beside the content, where each step happened, is that of its first occurrence. Since
//! nodes are not shared between regions, the steps of one node always belong to one execution of
//! the region they are reported for. Children are made before their parents, so ids increase from
//! the leaves to the roots.
//!
//! # Locks that do not nest
//!
//! The paper's locks are Java's, which nest. Others may be released in any order, and may be held
//! where a transaction begins or ends. A release that does not end the innermost block of the
//! transaction is kept as a step of the node in which it happens; such releases cut the node into
//! phases, and each entry has the number of its phase. The block that is ended is closed together
//! with the blocks inside it. A block whose lock is still held at the transaction's end is not
//! `closed`.
//!
//! # Cost
//!
//! A table by variable says in which node it was seen last, so a repeated access is one
//! comparison. When threads take turns with a variable, that table forgets; then the node has the
//! variable twice until it is closed (or has grown to twice its size), which merges them.

use crate::dense::slot;
use crate::engine::Occurrence;
use atomsan_trace::{FunctionId, LockId, VarId};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// A node, interned in [`Trees`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct NodeId(pub(super) u32);

/// A variable in a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct VarEntry {
    pub(super) var: VarId,
    /// How many releases that do not nest come before it in its node.
    pub(super) phase: u32,
    pub(super) first: Occurrence,
    /// The second access, if it is in `varsMul`.
    pub(super) second: Option<Occurrence>,
}

/// A child of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockEntry {
    pub(super) node: NodeId,
    pub(super) phase: u32,
    pub(super) acquire: Occurrence,
    /// The release; the end of the transaction if there is none.
    pub(super) release: Occurrence,
    /// Where the next block with the same content begins, if there is one.
    pub(super) second: Option<Occurrence>,
}

/// A release that does not end the innermost block.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReleaseEntry {
    pub(super) lock: LockId,
    pub(super) at: Occurrence,
}

/// A node of a tree: a synchronised block, or a whole transaction.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) region: FunctionId,
    /// The lock; none for a root.
    pub(super) lock: Option<LockId>,
    /// The lock was released before the transaction ended.
    pub(super) closed: bool,
    /// Where its transaction entered the region.
    pub(super) entered: Occurrence,
    vars: Range<usize>,
    blocks: Range<usize>,
    releases: Range<usize>,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Trees {
    nodes: Vec<Node>,
    vars: Vec<VarEntry>,
    blocks: Vec<BlockEntry>,
    releases: Vec<ReleaseEntry>,
    known: HashTable<NodeId>,
    seen_vars: Vec<Seen>,
    seen_blocks: Vec<Seen>,
    next_serial: u64,
}

/// Where something was entered last.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The open node; 0 for none.
    serial: u64,
    /// Its place in the builder's list.
    place: u32,
    /// There is nothing more to learn.
    twice: bool,
}

/// The transaction that a thread is in.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// The root, and the open blocks in it; empty outside of transactions.
    open: Vec<Open>,
    vars: Vec<VarEntry>,
    blocks: Vec<BlockEntry>,
    releases: Vec<ReleaseEntry>,
}

#[derive(Debug)]
struct Open {
    lock: Option<LockId>,
    acquire: Occurrence,
    /// Distinguishes it from all other open nodes there ever were.
    serial: u64,
    vars: usize,
    blocks: usize,
    releases: usize,
    /// How many variables it may have before they are merged.
    merge_at: usize,
    /// Its lock was released while blocks inside it were open.
    released: bool,
    phase: u32,
}

impl Builder {
    /// Whether the thread is in a transaction.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self, at: &Occurrence, trees: &mut Trees) {
        self.push(None, at, trees);
    }

    /// The transaction ends; gives its root, or nothing if nothing was in it.
    pub(super) fn end(
        &mut self,
        region: FunctionId,
        entered: &Occurrence,
        at: &Occurrence,
        trees: &mut Trees,
    ) -> Option<NodeId> {
        while self.open.len() > 1 {
            self.close(region, entered, at, false, trees);
        }
        let root = self.open.pop()?;
        let nothing = self.vars.is_empty() && self.blocks.is_empty() && self.releases.is_empty();
        let node = (!nothing).then(|| self.intern(&root, region, entered, true, trees));
        self.vars.clear();
        self.blocks.clear();
        self.releases.clear();
        node
    }

    /// An access.
    #[inline]
    pub(super) fn access(&mut self, var: VarId, at: &Occurrence, trees: &mut Trees) {
        let Some(open) = self.open.last() else {
            return;
        };
        let seen = slot(&mut trees.seen_vars, var.index());
        if seen.serial == open.serial {
            if !seen.twice {
                seen.twice = true;
                self.vars[seen.place as usize].second = Some(*at);
            }
            return;
        }
        *seen = Seen {
            serial: open.serial,
            place: self.vars.len() as u32,
            twice: false,
        };
        self.vars.push(VarEntry {
            var,
            phase: open.phase,
            first: *at,
            second: None,
        });
        if self.vars.len() - open.vars > open.merge_at {
            self.merge(trees);
        }
    }

    /// A lock that was not held is acquired: a block begins.
    pub(super) fn acquire(&mut self, lock: LockId, at: &Occurrence, trees: &mut Trees) {
        if self.is_open() {
            self.push(Some(lock), at, trees);
        }
    }

    /// A lock is released and not held any more.
    pub(super) fn release(
        &mut self,
        lock: LockId,
        region: FunctionId,
        entered: &Occurrence,
        at: &Occurrence,
        trees: &mut Trees,
    ) {
        let Some(innermost) = self.open.len().checked_sub(1) else {
            return;
        };
        let of_lock = |open: &Open| open.lock == Some(lock) && !open.released;
        match self.open.iter().rposition(of_lock) {
            Some(place) if place == innermost => {
                self.close(region, entered, at, true, trees);
                // Blocks that were only kept open by this one end with it.
                while self.open.last().is_some_and(|open| open.released) {
                    self.close(region, entered, at, true, trees);
                }
            }
            place => {
                if let Some(place) = place {
                    self.open[place].released = true;
                }
                self.releases.push(ReleaseEntry { lock, at: *at });
                let open = &mut self.open[innermost];
                open.phase += 1;
                open.serial = trees.serial();
            }
        }
    }

    fn push(&mut self, lock: Option<LockId>, at: &Occurrence, trees: &mut Trees) {
        self.open.push(Open {
            lock,
            acquire: *at,
            serial: trees.serial(),
            vars: self.vars.len(),
            blocks: self.blocks.len(),
            releases: self.releases.len(),
            merge_at: 64,
            released: false,
            phase: 0,
        });
    }

    /// Closes the innermost block and enters it into the one around it.
    fn close(
        &mut self,
        region: FunctionId,
        entered: &Occurrence,
        at: &Occurrence,
        closed: bool,
        trees: &mut Trees,
    ) {
        let (Some(block), Some(parent)) = (self.open.pop(), self.open.last()) else {
            return;
        };
        let (serial, phase) = (parent.serial, parent.phase);
        let closed = closed || block.released;
        let node = self.intern(&block, region, entered, closed, trees);
        self.vars.truncate(block.vars);
        self.blocks.truncate(block.blocks);
        self.releases.truncate(block.releases);
        let seen = slot(&mut trees.seen_blocks, node.0 as usize);
        if seen.serial == serial {
            if !seen.twice {
                seen.twice = true;
                self.blocks[seen.place as usize].second = Some(block.acquire);
            }
            return;
        }
        *seen = Seen {
            serial,
            place: self.blocks.len() as u32,
            twice: false,
        };
        self.blocks.push(BlockEntry {
            node,
            phase,
            acquire: block.acquire,
            release: *at,
            second: None,
        });
    }

    /// Merges what the innermost node has twice.
    #[cold]
    fn merge(&mut self, trees: &mut Trees) {
        let Some(open) = self.open.last_mut() else {
            return;
        };
        merge_vars(&mut self.vars, open.vars);
        open.merge_at = 64.max(2 * (self.vars.len() - open.vars));
        // Places have changed.
        open.serial = trees.serial();
    }

    fn intern(
        &mut self,
        open: &Open,
        region: FunctionId,
        entered: &Occurrence,
        closed: bool,
        trees: &mut Trees,
    ) -> NodeId {
        merge_vars(&mut self.vars, open.vars);
        merge_blocks(&mut self.blocks, open.blocks);
        let content = Content {
            region,
            lock: open.lock,
            closed,
            vars: &self.vars[open.vars..],
            blocks: &self.blocks[open.blocks..],
            releases: &self.releases[open.releases..],
        };
        trees.intern(&content, entered)
    }
}

/// Sorts the entries from `from` on and joins those of one variable.
fn merge_vars(vars: &mut Vec<VarEntry>, from: usize) {
    vars[from..].sort_unstable_by_key(|entry| (entry.phase, entry.var, entry.first.index));
    let mut kept = from;
    for at in from..vars.len() {
        let entry = vars[at];
        let last = vars[from..kept].last_mut();
        match last.filter(|last| last.var == entry.var && last.phase == entry.phase) {
            Some(last) => last.second = last.second.or(Some(entry.first)),
            None => {
                vars[kept] = entry;
                kept += 1;
            }
        }
    }
    vars.truncate(kept);
}

/// Sorts the children from `from` on and joins equal ones.
fn merge_blocks(blocks: &mut Vec<BlockEntry>, from: usize) {
    blocks[from..].sort_unstable_by_key(|entry| (entry.phase, entry.node, entry.acquire.index));
    let mut kept = from;
    for at in from..blocks.len() {
        let entry = blocks[at];
        let last = blocks[from..kept].last_mut();
        match last.filter(|last| last.node == entry.node && last.phase == entry.phase) {
            Some(last) => last.second = last.second.or(Some(entry.acquire)),
            None => {
                blocks[kept] = entry;
                kept += 1;
            }
        }
    }
    blocks.truncate(kept);
}

/// What makes two nodes the same; not where their steps happened.
struct Content<'a> {
    region: FunctionId,
    lock: Option<LockId>,
    closed: bool,
    vars: &'a [VarEntry],
    blocks: &'a [BlockEntry],
    releases: &'a [ReleaseEntry],
}

impl Content<'_> {
    fn keys(&self) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
        let vars = self.vars.iter();
        let vars = vars.map(|entry| (entry.var.0, entry.phase, entry.second.is_some()));
        let blocks = self.blocks.iter();
        let blocks = blocks.map(|entry| (entry.node.0, entry.phase, entry.second.is_some()));
        let releases = self.releases.iter().map(|entry| (entry.lock.0, 0, false));
        vars.chain(blocks).chain(releases)
    }

    fn head(&self) -> (FunctionId, Option<LockId>, bool, [usize; 3]) {
        let lengths = [self.vars.len(), self.blocks.len(), self.releases.len()];
        (self.region, self.lock, self.closed, lengths)
    }

    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.head().hash(&mut hasher);
        self.keys().for_each(|key| key.hash(&mut hasher));
        hasher.finish()
    }

    fn same(&self, other: &Content<'_>) -> bool {
        self.head() == other.head() && self.keys().eq(other.keys())
    }
}

impl Trees {
    /// How many different nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// `varsOne` and `varsMul` of a node.
    pub(super) fn vars(&self, node: &Node) -> &[VarEntry] {
        &self.vars[node.vars.clone()]
    }

    /// The children of a node.
    pub(super) fn blocks(&self, node: &Node) -> &[BlockEntry] {
        &self.blocks[node.blocks.clone()]
    }

    /// The releases in a node that do not nest.
    pub(super) fn releases(&self, node: &Node) -> &[ReleaseEntry] {
        &self.releases[node.releases.clone()]
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    fn content(&self, id: NodeId) -> Content<'_> {
        let node = self.node(id);
        Content {
            region: node.region,
            lock: node.lock,
            closed: node.closed,
            vars: self.vars(node),
            blocks: self.blocks(node),
            releases: self.releases(node),
        }
    }

    fn intern(&mut self, content: &Content<'_>, entered: &Occurrence) -> NodeId {
        let hash = content.hash();
        let same = |&id: &NodeId| self.content(id).same(content);
        if let Some(&known) = self.known.find(hash, same) {
            return known;
        }
        let id = NodeId(self.nodes.len() as u32);
        let node = Node {
            region: content.region,
            lock: content.lock,
            closed: content.closed,
            entered: *entered,
            vars: append(&mut self.vars, content.vars),
            blocks: append(&mut self.blocks, content.blocks),
            releases: append(&mut self.releases, content.releases),
        };
        self.nodes.push(node);
        let mut known = std::mem::take(&mut self.known);
        known.insert_unique(hash, id, |&id| self.content(id).hash());
        self.known = known;
        id
    }
}

fn append<T: Copy>(arena: &mut Vec<T>, items: &[T]) -> Range<usize> {
    let start = arena.len();
    arena.extend_from_slice(items);
    start..arena.len()
}
