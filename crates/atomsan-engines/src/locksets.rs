//! Sets of locks as small ids.
//!
//! A program holds few different sets of locks, again and again, so each set is stored once and
//! named by a [`LocksetId`]. Two sets are equal exactly if their ids are, so "nothing changed" is
//! one comparison of integers.
//!
//! Sets that differ little share what they have in common. A set is a big-endian Patricia tree
//! (Okasaki and Gill, *Fast Mergeable Integer Maps*) over the numbers of its locks, with 64 locks
//! to a leaf, and each tree is stored once, wherever it is a part: a thread that nests a thousand
//! locks makes a thousand sets, but each is a few nodes on top of the one before. The shape of
//! such a tree depends on its elements only and not on the order in which they came, which is why
//! equal sets are equal trees. What two trees share is not looked at when they are intersected.
//!
//! The locks of a program have small numbers: all sets are leaves, and each operation is one on
//! words and at most one look into a table.

use atomsan_trace::LockId;
use hashbrown::{HashMap, HashTable};
use rustc_hash::{FxBuildHasher, FxHasher};
use smallvec::SmallVec;
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

/// A tree. It has the locks whose number, without the `height` lowest bits of it, is `prefix`, and
/// which are in the leaf or in one of the parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    prefix: u32,
    height: u8,
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Content {
    /// One bit for each lock, if the height is [`LEAF`].
    Leaf(u64),
    /// Those without and those with the bit below the prefix; neither is empty.
    Parts([LocksetId; 2]),
}

use Content::{Leaf, Parts};

/// How many intersections are remembered at a time.
const REMEMBERED: usize = 1 << 18;

/// The height of a leaf: it has 2⁶ locks.
const LEAF: u8 = 6;

impl Node {
    fn leaf(lock: LockId) -> Node {
        Node {
            prefix: lock.0 >> LEAF,
            height: LEAF,
            content: Leaf(1 << (lock.0 % (1 << LEAF))),
        }
    }

    /// Whether the other tree, which is not higher, lies in the range of this one.
    #[inline]
    fn covers(&self, other: &Node) -> bool {
        other.prefix >> (self.height - other.height) == self.prefix
    }

    /// Which part of this one the other tree belongs to: it is lower, and in the range.
    #[inline]
    fn side(&self, other: &Node) -> usize {
        (other.prefix >> (self.height - 1 - other.height)) as usize & 1
    }
}

/// What a set consists of; see [`Locksets::shape`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Few locks, which [`Locksets::locks`] tells.
    Few,
    /// Two smaller sets, which others may share.
    Union([LocksetId; 2]),
}

/// All sets of locks seen.
#[derive(Debug)]
pub struct Locksets {
    nodes: Vec<Node>,
    known: HashTable<LocksetId>,
    /// Of two sets that are not leaves, keyed by the lower id first.
    intersections: HashMap<(LocksetId, LocksetId), LocksetId, FxBuildHasher>,
}

impl Default for Locksets {
    fn default() -> Self {
        let empty = Node {
            prefix: 0,
            height: LEAF,
            content: Leaf(0),
        };
        Locksets {
            nodes: vec![empty],
            known: HashTable::new(),
            intersections: HashMap::default(),
        }
    }
}

impl Locksets {
    /// The set of these locks, in any order, repetitions allowed.
    pub fn intern(&mut self, locks: &[LockId]) -> LocksetId {
        let all = locks.iter();
        all.fold(LocksetId::EMPTY, |set, &lock| self.with(set, lock))
    }

    /// The locks of a set, ascending. [`LocksetId::ALL`] cannot be enumerated and gives none.
    pub fn locks(&self, set: LocksetId) -> impl Iterator<Item = LockId> {
        let mut left: SmallVec<[LocksetId; 8]> = SmallVec::new();
        if set != LocksetId::ALL {
            left.push(set);
        }
        let (mut base, mut bits) = (0, 0);
        std::iter::from_fn(move || {
            while bits == 0 {
                let node = self.node(left.pop()?);
                match node.content {
                    Leaf(leaf) => (base, bits) = (node.prefix << LEAF, leaf),
                    Parts([low, high]) => left.extend([high, low]),
                }
            }
            let lowest = bits.trailing_zeros();
            bits &= bits - 1;
            Some(LockId(base | lowest))
        })
    }

    /// What a set consists of: for those who go through many sets and through what they share
    /// once. [`LocksetId::ALL`] has no shape and looks empty.
    pub fn shape(&self, set: LocksetId) -> Shape {
        match self.nodes.get(set.0 as usize).map(|node| node.content) {
            Some(Parts(parts)) => Shape::Union(parts),
            _ => Shape::Few,
        }
    }

    /// How much is stored: the number of different sets, and of parts that they share.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the lock is in the set.
    #[inline]
    pub fn contains(&self, set: LocksetId, lock: LockId) -> bool {
        set == LocksetId::ALL || !self.apart(set, &Node::leaf(lock))
    }

    /// `set ∪ {lock}`.
    #[inline]
    pub fn with(&mut self, set: LocksetId, lock: LockId) -> LocksetId {
        match set {
            LocksetId::ALL => set,
            _ => self.with_leaf(set, &Node::leaf(lock)),
        }
    }

    /// `set ∖ {lock}`; [`LocksetId::ALL`] stays what it is.
    #[inline]
    pub fn without(&mut self, set: LocksetId, lock: LockId) -> LocksetId {
        match set {
            LocksetId::ALL => set,
            _ => self.without_leaf(set, &Node::leaf(lock)),
        }
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
    pub fn disjoint(&self, a: LocksetId, b: LocksetId) -> bool {
        if a.is_empty() || b.is_empty() {
            return true;
        }
        if a == b || a == LocksetId::ALL || b == LocksetId::ALL {
            return false;
        }
        self.apart(a, &self.node(b))
    }

    /// `a ⊆ b`.
    #[inline]
    pub fn is_subset(&mut self, a: LocksetId, b: LocksetId) -> bool {
        self.intersection(a, b) == a
    }

    #[inline]
    fn node(&self, set: LocksetId) -> Node {
        self.nodes[set.0 as usize]
    }

    fn intersection_of_different(&mut self, a: LocksetId, b: LocksetId) -> LocksetId {
        let (x, y) = (self.node(a), self.node(b));
        if x.height < y.height {
            return self.intersection_of_different(b, a);
        }
        if !x.covers(&y) {
            return LocksetId::EMPTY;
        }
        match (x.content, y.content) {
            (Leaf(ours), Leaf(theirs)) => match ours & theirs {
                both if both == ours => a,
                both if both == theirs => b,
                both => self.leaf(x, both),
            },
            (Parts(parts), _) if x.height > y.height => self.intersection(parts[x.side(&y)], b),
            (Parts(ours), Parts(theirs)) => {
                let key = (a.min(b), a.max(b));
                if let Some(&known) = self.intersections.get(&key) {
                    return known;
                }
                let parts = [0, 1].map(|side| self.intersection(ours[side], theirs[side]));
                let result = self.union(x, parts);
                // It saves work, and is made again if it is missed.
                if self.intersections.len() >= REMEMBERED {
                    self.intersections.clear();
                }
                self.intersections.insert(key, result);
                result
            }
            // A leaf is the lowest there is.
            _ => LocksetId::EMPTY,
        }
    }

    /// Whether no lock is in both, the set and the tree.
    fn apart(&self, set: LocksetId, tree: &Node) -> bool {
        let (x, y) = (&self.node(set), tree);
        match (x.content, y.content) {
            _ if x.height >= y.height && !x.covers(y) => true,
            _ if x.height < y.height && !y.covers(x) => true,
            (Leaf(ours), Leaf(theirs)) => ours & theirs == 0,
            (Parts(ours), Parts(theirs)) if x.height == y.height => {
                (0..2).all(|side| self.disjoint(ours[side], theirs[side]))
            }
            (Parts(parts), _) if x.height > y.height => self.apart(parts[x.side(y)], y),
            (_, Parts(parts)) => self.disjoint(set, parts[y.side(x)]),
            _ => true,
        }
    }

    fn with_leaf(&mut self, set: LocksetId, leaf: &Node) -> LocksetId {
        if set.is_empty() {
            return self.keep(*leaf);
        }
        let node = self.node(set);
        if !node.covers(leaf) {
            return self.fork(set, &node, leaf);
        }
        match (node.content, leaf.content) {
            (Parts(mut parts), _) => {
                let side = node.side(leaf);
                parts[side] = self.with_leaf(parts[side], leaf);
                self.union(node, parts)
            }
            (Leaf(bits), Leaf(new)) if bits & new == 0 => self.leaf(node, bits | new),
            _ => set,
        }
    }

    /// The set, which `node` is the root of, and a leaf that is out of its range.
    fn fork(&mut self, set: LocksetId, node: &Node, leaf: &Node) -> LocksetId {
        let above = node.height - LEAF;
        let differ = (node.prefix << above) ^ leaf.prefix;
        let bit = differ.ilog2();
        let one = self.keep(*leaf);
        let parts = match leaf.prefix >> bit & 1 {
            0 => [one, set],
            _ => [set, one],
        };
        self.keep(Node {
            prefix: leaf.prefix >> (bit + 1),
            height: LEAF + bit as u8 + 1,
            content: Parts(parts),
        })
    }

    fn without_leaf(&mut self, set: LocksetId, leaf: &Node) -> LocksetId {
        let node = self.node(set);
        if !node.covers(leaf) {
            return set;
        }
        match (node.content, leaf.content) {
            (Parts(mut parts), _) => {
                let side = node.side(leaf);
                parts[side] = self.without_leaf(parts[side], leaf);
                self.union(node, parts)
            }
            (Leaf(bits), Leaf(old)) if bits & old != 0 => self.leaf(node, bits & !old),
            _ => set,
        }
    }

    /// A leaf in the place of `node`.
    fn leaf(&mut self, node: Node, bits: u64) -> LocksetId {
        match bits {
            0 => LocksetId::EMPTY,
            _ => self.keep(Node {
                content: Leaf(bits),
                ..node
            }),
        }
    }

    /// The two parts, of which one may have become empty, in the place of `node`.
    fn union(&mut self, node: Node, parts: [LocksetId; 2]) -> LocksetId {
        match parts {
            [LocksetId::EMPTY, part] | [part, LocksetId::EMPTY] => part,
            _ => self.keep(Node {
                content: Parts(parts),
                ..node
            }),
        }
    }

    fn keep(&mut self, node: Node) -> LocksetId {
        let Locksets { nodes, known, .. } = self;
        let of = |id: &LocksetId| &nodes[id.0 as usize];
        let hash_of_node = hash(&node);
        if let Some(&id) = known.find(hash_of_node, |id| *of(id) == node) {
            return id;
        }
        let id = LocksetId(nodes.len() as u32);
        known.insert_unique(hash_of_node, id, |id| hash(of(id)));
        nodes.push(node);
        id
    }
}

fn hash(node: &Node) -> u64 {
    let mut hasher = FxHasher::default();
    node.hash(&mut hasher);
    hasher.finish()
}
