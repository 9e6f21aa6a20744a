//! Vector clocks that share what they have in common.
//!
//! A vector counts, for each thread, how many of its periods are known to have ended. Each thread that is
//! started or joined makes a new vector, which differs from an old one in few entries. As arrays they would take
//! the square of the number of threads, most of which may be long over. So a vector is a tree: its
//! leaves hold [`LEAF`] counts each, and a change copies the way from the root to one leaf. All the rest belongs
//! to both, and [`Arc`] frees what is nobody's any more.
//!
//! # Invariant
//!
//! A missing part is all 0, and so is a part that is below the root's height. [`Vector::join`] returns a part of
//! the one or the other wherever that is the maximum of both, so that vectors that were equal stay shared, and
//! to compare or join two of them costs what they differ in.

use std::sync::Arc;

/// How many counts a leaf has.
const LEAF: usize = 32;
/// How many parts a node has; with 8 bytes each, as large as a leaf.
const FAN: usize = 16;

#[derive(Clone, Debug)]
enum Node {
    Leaf([u32; LEAF]),
    Inner([Option<Arc<Node>>; FAN]),
}

/// A count for each thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vector {
    root: Option<Arc<Node>>,
    /// How many inner nodes there are on the way to a leaf.
    height: u32,
}

impl Vector {
    /// The count of a thread.
    #[inline]
    pub(crate) fn get(&self, thread: usize) -> u32 {
        let (mut node, mut height) = (self.root.as_deref(), self.height);
        if thread >= room(height) {
            return 0;
        }
        loop {
            match node {
                None => return 0,
                Some(Node::Leaf(counts)) => return counts[thread % LEAF],
                Some(Node::Inner(parts)) => {
                    height -= 1;
                    node = parts[thread / room(height) % FAN].as_deref();
                }
            }
        }
    }

    /// Counts at least so many for a thread.
    pub(crate) fn raise(&mut self, thread: usize, count: u32) {
        if count <= self.get(thread) {
            return;
        }
        while thread >= room(self.height) {
            self.grow();
        }
        let (mut at, mut height) = (&mut self.root, self.height);
        loop {
            let node = at.get_or_insert_with(|| {
                Arc::new(match height {
                    0 => Node::Leaf([0; LEAF]),
                    _ => Node::Inner(Default::default()),
                })
            });
            match Arc::make_mut(node) {
                Node::Leaf(counts) => {
                    counts[thread % LEAF] = count;
                    return;
                }
                Node::Inner(parts) => {
                    height -= 1;
                    at = &mut parts[thread / room(height) % FAN];
                }
            }
        }
    }

    /// The larger count of the two, for each thread.
    pub(crate) fn join(&mut self, other: &Vector) {
        if other.root.is_none() {
            return;
        }
        let mut other = other.clone();
        while self.height < other.height {
            self.grow();
        }
        while other.height < self.height {
            other.grow();
        }
        self.root = joined(self.root.as_ref(), other.root.as_ref());
    }

    /// Whether no count is larger than the other one's.
    pub(crate) fn is_within(&self, other: &Vector) -> bool {
        let (mut small, mut large) = (self.root.as_ref(), other.root.as_ref());
        // What the smaller tree has not is 0.
        for _ in self.height..other.height {
            large = large.and_then(|node| part(node, 0));
        }
        for _ in other.height..self.height {
            let Some(node) = small else { break };
            if (1..FAN).any(|at| part(node, at).is_some_and(has_any)) {
                return false;
            }
            small = part(node, 0);
        }
        is_within(small, large)
    }

    /// Adds the nodes that it consists of to those that are known.
    pub(crate) fn nodes(&self, known: &mut hashbrown::HashSet<usize>) {
        fn visit(node: &Arc<Node>, known: &mut hashbrown::HashSet<usize>) {
            if known.insert(Arc::as_ptr(node).addr())
                && let Node::Inner(parts) = &**node
            {
                parts.iter().flatten().for_each(|part| visit(part, known));
            }
        }
        self.root.iter().for_each(|root| visit(root, known));
    }

    fn grow(&mut self) {
        self.height += 1;
        if let Some(root) = self.root.take() {
            let mut parts: [Option<Arc<Node>>; FAN] = Default::default();
            parts[0] = Some(root);
            self.root = Some(Arc::new(Node::Inner(parts)));
        }
    }
}

/// How many threads there is room for in a tree.
#[inline]
fn room(height: u32) -> usize {
    LEAF << (FAN.ilog2() * height).min(usize::BITS - LEAF.ilog2() - 1)
}

fn part(node: &Node, at: usize) -> Option<&Arc<Node>> {
    match node {
        Node::Inner(parts) => parts[at].as_ref(),
        Node::Leaf(_) => None,
    }
}

fn has_any(node: &Arc<Node>) -> bool {
    match &**node {
        Node::Leaf(counts) => counts.iter().any(|&count| count > 0),
        Node::Inner(parts) => parts.iter().flatten().any(has_any),
    }
}

fn is_same(a: Option<&Arc<Node>>, b: Option<&Arc<Node>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Both are of one height.
fn is_within(small: Option<&Arc<Node>>, large: Option<&Arc<Node>>) -> bool {
    if is_same(small, large) {
        return true;
    }
    match (small.map(|node| &**node), large.map(|node| &**node)) {
        (None, _) => true,
        (Some(_), None) => !small.is_some_and(has_any),
        (Some(Node::Leaf(small)), Some(Node::Leaf(large))) => {
            small.iter().zip(large).all(|(small, large)| small <= large)
        }
        (Some(Node::Inner(small)), Some(Node::Inner(large))) => {
            let mut parts = small.iter().zip(large);
            parts.all(|(small, large)| is_within(small.as_ref(), large.as_ref()))
        }
        _ => unreachable!("of one height"),
    }
}

/// Both are of one height.
fn joined(a: Option<&Arc<Node>>, b: Option<&Arc<Node>>) -> Option<Arc<Node>> {
    let (Some(one), Some(other)) = (a, b) else {
        return a.or(b).cloned();
    };
    if Arc::ptr_eq(one, other) {
        return a.cloned();
    }
    let (node, is_one, is_other) = match (&**one, &**other) {
        (Node::Leaf(a), Node::Leaf(b)) => {
            let counts = std::array::from_fn(|at| a[at].max(b[at]));
            (Node::Leaf(counts), counts == *a, counts == *b)
        }
        (Node::Inner(a), Node::Inner(b)) => {
            let parts: [_; FAN] = std::array::from_fn(|at| joined(a[at].as_ref(), b[at].as_ref()));
            let are = |of: &[Option<Arc<Node>>; FAN]| {
                let mut both = parts.iter().zip(of);
                both.all(|(part, of)| is_same(part.as_ref(), of.as_ref()))
            };
            let (is_one, is_other) = (are(a), are(b));
            (Node::Inner(parts), is_one, is_other)
        }
        _ => unreachable!("of one height"),
    };
    match () {
        () if is_one => a.cloned(),
        () if is_other => b.cloned(),
        () => Some(Arc::new(node)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A vector and the array that it stands for.
    fn made(raises: &[(usize, u32)]) -> (Vector, Vec<u32>) {
        let (mut vector, mut array) = (Vector::default(), vec![0; 10_000]);
        for &(thread, count) in raises {
            vector.raise(thread, count);
            array[thread] = count.max(array[thread]);
        }
        (vector, array)
    }

    fn raises() -> impl Strategy<Value = Vec<(usize, u32)>> {
        let thread = prop_oneof![0..40_usize, 0..10_000_usize];
        prop::collection::vec((thread, 0..4_u32), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_vector_is_what_the_array_is(first in raises(), second in raises(), shared in raises()) {
            let [(mut a, a_array), (b, b_array)] =
                [&first, &second].map(|own| made(&[&shared[..], own].concat()));
            prop_assert_eq!(a.is_within(&b), a_array.iter().zip(&b_array).all(|(a, b)| a <= b));
            a.join(&b);
            for (thread, (a_count, b_count)) in a_array.iter().zip(&b_array).enumerate() {
                prop_assert_eq!(a.get(thread), *a_count.max(b_count));
                prop_assert_eq!(b.get(thread), *b_count);
            }
            prop_assert!(b.is_within(&a));
            prop_assert_eq!(a.get(usize::MAX), 0);
        }
    }

    #[test]
    fn what_is_equal_stays_shared() {
        let mut first = Vector::default();
        (0..2_000).for_each(|thread| first.raise(thread, 1));
        let mut known = hashbrown::HashSet::new();
        first.nodes(&mut known);
        let all = known.len();
        let mut second = first.clone();
        second.raise(1_999, 2);
        second.nodes(&mut known);
        assert_eq!(known.len(), all + 3, "the way to one leaf");
        first.join(&second);
        first.nodes(&mut known);
        assert_eq!(known.len(), all + 3, "the larger one is taken as it is");
    }
}
