//! Which open transactions does a transaction come after?
//!
//! AeroDrome gives every transaction a vector clock and asks it one question only: *does this
//! clock know the beginning of the transaction that is open in thread u?* The answer is one bit,
//! so a clock is kept here as the set of open transactions that it knows: its *ancestors*.
//! Nothing else is worth remembering, because an edge can only ever lead to a transaction that is
//! open, so a transaction with no open ancestor can never again be part of a cycle.
//!
//! # Invariant
//!
//! After each call, for each transaction `n` that is alive, `ancestors(n)` is exactly the set of
//! open transactions from which a path of [`Clocks::order`]ed edges leads to `n` (itself not
//! included).
//!
//! * `order(n, m)` with `m` open: whatever comes before `n`, and `n` itself, now comes before `m`
//!   and before all that has `m` as an ancestor. If `m` already is an ancestor of `n`, the edge
//!   would close a cycle; it is refused and nothing changes.
//! * `close(m)`: no edge can lead to `m` any more, so `m` is dropped from all sets. What came
//!   before `m` is already in every set that contained `m`, by the invariant. Transactions whose
//!   set becomes empty are dead: their handles become stale and their slots are used again.
//!
//! # Cost
//!
//! Closed transactions with the same ancestors will have the same ancestors for ever, so they
//! share one set (a *class*). An edge that tells nothing new costs a subset test of bit words.
//! One that does costs a pass over the open transactions and the classes, which are few: they do
//! not grow with the trace, only with the ways in which open transactions are ordered.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// A handle of a transaction; weak: it does not keep the transaction alive, and a stale one is
/// recognised by its generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TxRef {
    slot: u32,
    generation: u32,
}

impl TxRef {
    /// The handle of no transaction; never alive.
    pub const NONE: TxRef = TxRef {
        slot: u32::MAX,
        generation: 0,
    };

    /// Where data about a transaction that is alive may be kept; used again when it is dead.
    #[inline]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// What an edge means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Edge {
    /// The order is consistent, and holds from now on.
    Ordered,
    /// The opposite order holds already: the edge would close a cycle and was refused.
    Cycle,
}

/// A set of open transactions, by the number each has while it is open.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Set(SmallVec<[u64; 2]>);

impl Set {
    #[inline]
    fn contains(&self, bit: u32) -> bool {
        let word = self.0.get(bit as usize / 64).copied().unwrap_or(0);
        word >> (bit % 64) & 1 == 1
    }

    fn insert(&mut self, bit: u32) {
        let word = bit as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (bit % 64);
    }

    /// Equal sets must be equal words, so there are no zero words at the end.
    fn remove(&mut self, bit: u32) {
        if let Some(word) = self.0.get_mut(bit as usize / 64) {
            *word &= !(1 << (bit % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_subset(&self, other: &Set) -> bool {
        self.0.len() <= other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    fn union(&mut self, other: &Set) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Dead,
    /// Its number among the open transactions.
    Open(u32),
    /// Its class.
    Closed(u32),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
}

#[derive(Debug, Default)]
struct Open {
    ancestors: Set,
    /// Whether it may be in any set.
    has_successors: bool,
}

/// Closed transactions that have the same ancestors.
#[derive(Debug, Default)]
struct Class {
    ancestors: Set,
    members: Vec<u32>,
}

/// The transactions that are alive and the order among them.
#[derive(Debug, Default)]
pub struct Clocks {
    slots: Vec<Slot>,
    dead: Vec<u32>,
    open: Vec<Open>,
    unused: Vec<u32>,
    classes: Vec<Class>,
    /// The classes with members, and the others.
    active: Vec<u32>,
    idle: Vec<u32>,
    by_ancestors: HashMap<Set, u32, FxBuildHasher>,
    alive: usize,
    /// Where the generations of new slots start, and the newest one given out.
    oldest: u32,
    newest: u32,
    /// A spare list, to save allocations.
    scratch: Vec<u32>,
}

impl Clocks {
    /// A transaction begins. Nothing comes before it yet.
    pub fn open(&mut self) -> TxRef {
        let bit = self.unused.pop().unwrap_or_else(|| {
            self.open.push(Open::default());
            self.open.len() as u32 - 1
        });
        let slot = self.dead.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: self.oldest,
                state: State::Dead,
            });
            self.slots.len() as u32 - 1
        });
        self.alive += 1;
        let entry = &mut self.slots[slot as usize];
        entry.state = State::Open(bit);
        // Generation 0 is never alive, so that `TxRef::NONE` is stale everywhere.
        entry.generation = entry.generation.wrapping_add(1).max(1);
        self.newest = self.newest.max(entry.generation);
        TxRef {
            slot,
            generation: entry.generation,
        }
    }

    /// The newest generation of a handle, for [`Clocks::restart`].
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// Starts anew, for another purpose and without giving memory back. All handles become stale,
    /// and stay so; new ones also differ from all handles of other clocks that are not newer than
    /// `generation`. Every transaction must have been closed.
    pub fn restart(&mut self, generation: u32) {
        debug_assert_eq!(self.alive, 0);
        self.slots.clear();
        self.dead.clear();
        self.oldest = generation;
        self.newest = generation;
    }

    /// Whether the transaction can still be part of a cycle.
    #[inline]
    pub fn is_alive(&self, tx: TxRef) -> bool {
        self.state(tx) != State::Dead
    }

    /// Whether edges can still lead to the transaction.
    pub fn is_open(&self, tx: TxRef) -> bool {
        matches!(self.state(tx), State::Open(_))
    }

    /// The transaction that is alive in a slot.
    pub fn at(&self, slot: usize) -> Option<TxRef> {
        let tx = TxRef {
            slot: slot as u32,
            generation: self.slots.get(slot)?.generation,
        };
        self.is_alive(tx).then_some(tx)
    }

    /// How many transactions are alive.
    pub fn alive(&self) -> usize {
        self.alive
    }

    #[inline]
    fn state(&self, tx: TxRef) -> State {
        match self.slots.get(tx.slot as usize) {
            Some(slot) if slot.generation == tx.generation => slot.state,
            _ => State::Dead,
        }
    }

    /// Whether `earlier`, which is open, is known to come before `later`.
    pub fn precedes(&self, earlier: TxRef, later: TxRef) -> bool {
        let State::Open(bit) = self.state(earlier) else {
            return false;
        };
        match self.state(later) {
            State::Dead => false,
            State::Open(other) => self.open[other as usize].ancestors.contains(bit),
            State::Closed(class) => self.classes[class as usize].ancestors.contains(bit),
        }
    }

    /// `from` comes before `to`, which must be open. Dead transactions and a transaction and
    /// itself are in order anyway.
    pub fn order(&mut self, from: TxRef, to: TxRef) -> Edge {
        let State::Open(target) = self.state(to) else {
            return Edge::Ordered;
        };
        if from == to {
            return Edge::Ordered;
        }
        let known = &self.open[target as usize].ancestors;
        let news = match self.state(from) {
            State::Dead => return Edge::Ordered,
            State::Closed(class) => {
                let before = &self.classes[class as usize].ancestors;
                if before.contains(target) {
                    return Edge::Cycle;
                }
                if before.is_subset(known) {
                    return Edge::Ordered;
                }
                before.clone()
            }
            State::Open(source) => {
                let before = &self.open[source as usize].ancestors;
                if before.contains(target) {
                    return Edge::Cycle;
                }
                if known.contains(source) {
                    // The invariant: then all that comes before it is known as well.
                    return Edge::Ordered;
                }
                let mut news = before.clone();
                news.insert(source);
                self.open[source as usize].has_successors = true;
                news
            }
        };
        self.open[target as usize].ancestors.union(&news);
        if self.open[target as usize].has_successors {
            for open in &mut self.open {
                if open.ancestors.contains(target) {
                    open.ancestors.union(&news);
                }
            }
            self.update_classes(target, |ancestors| ancestors.union(&news));
        }
        Edge::Ordered
    }

    /// The transaction ends: no edge will lead to it any more.
    pub fn close(&mut self, tx: TxRef) {
        let State::Open(bit) = self.state(tx) else {
            return;
        };
        let open = &mut self.open[bit as usize];
        let ancestors = std::mem::take(&mut open.ancestors);
        if std::mem::take(&mut open.has_successors) {
            for open in &mut self.open {
                open.ancestors.remove(bit);
            }
            self.update_classes(bit, |ancestors| ancestors.remove(bit));
        }
        self.unused.push(bit);
        if ancestors.is_empty() {
            self.kill(tx.slot);
        } else {
            let class = self.class(ancestors);
            self.classes[class as usize].members.push(tx.slot);
            self.slots[tx.slot as usize].state = State::Closed(class);
        }
    }

    /// Forgets closed transactions that will not be asked for again. The order among the others
    /// does not change: sets are closed, so nothing is known only through a member.
    pub fn retain(&mut self, keep: impl Fn(TxRef) -> bool) {
        let mut forgotten = std::mem::take(&mut self.scratch);
        let Clocks {
            classes,
            active,
            idle,
            by_ancestors,
            slots,
            ..
        } = self;
        active.retain(|&index| {
            let class = &mut classes[index as usize];
            class.members.retain(|&slot| {
                let generation = slots[slot as usize].generation;
                let keep = keep(TxRef { slot, generation });
                if !keep {
                    forgotten.push(slot);
                }
                keep
            });
            if class.members.is_empty() {
                by_ancestors.remove(&class.ancestors);
                idle.push(index);
            }
            !class.members.is_empty()
        });
        for slot in forgotten.drain(..) {
            self.kill(slot);
        }
        self.scratch = forgotten;
    }

    fn kill(&mut self, slot: u32) {
        self.slots[slot as usize].state = State::Dead;
        self.dead.push(slot);
        self.alive -= 1;
    }

    /// The class of these ancestors.
    fn class(&mut self, ancestors: Set) -> u32 {
        if let Some(&class) = self.by_ancestors.get(&ancestors) {
            return class;
        }
        let class = self.idle.pop().unwrap_or_else(|| {
            self.classes.push(Class::default());
            self.classes.len() as u32 - 1
        });
        self.classes[class as usize].ancestors = ancestors.clone();
        self.by_ancestors.insert(ancestors, class);
        self.active.push(class);
        class
    }

    /// Changes the sets of all classes that have `bit`: some become equal and are merged, some
    /// become empty and their members die.
    fn update_classes(&mut self, bit: u32, change: impl Fn(&mut Set)) {
        let mut changed = std::mem::take(&mut self.scratch);
        let classes = &self.classes;
        self.active.retain(|&class| {
            let affected = classes[class as usize].ancestors.contains(bit);
            if affected {
                changed.push(class);
            }
            !affected
        });
        for &class in &changed {
            self.by_ancestors
                .remove(&self.classes[class as usize].ancestors);
        }
        for class in changed.drain(..) {
            let entry = &mut self.classes[class as usize];
            change(&mut entry.ancestors);
            if entry.ancestors.is_empty() {
                for slot in std::mem::take(&mut entry.members) {
                    self.kill(slot);
                }
                self.idle.push(class);
            } else if let Some(&twin) = self.by_ancestors.get(&entry.ancestors) {
                self.merge(class, twin);
            } else {
                self.by_ancestors.insert(entry.ancestors.clone(), class);
                self.active.push(class);
            }
        }
        self.scratch = changed;
    }

    /// Moves the members of `class`, which is about to be idle, to `twin`; the smaller side is
    /// renamed, so a transaction is renamed at most a logarithmic number of times.
    fn merge(&mut self, class: u32, twin: u32) {
        let mut few = std::mem::take(&mut self.classes[class as usize].members);
        let mut many = std::mem::take(&mut self.classes[twin as usize].members);
        let (mut from, mut to) = (class, twin);
        if few.len() > many.len() {
            std::mem::swap(&mut few, &mut many);
            std::mem::swap(&mut from, &mut to);
            self.by_ancestors
                .insert(self.classes[to as usize].ancestors.clone(), to);
            let place = self.active.iter().position(|&active| active == from);
            self.active[place.expect("the twin is active")] = to;
        }
        for &slot in &few {
            self.slots[slot as usize].state = State::Closed(to);
        }
        many.append(&mut few);
        self.classes[to as usize].members = many;
        self.idle.push(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_edge_against_the_order_is_refused() {
        let mut clocks = Clocks::default();
        let (a, b, c) = (clocks.open(), clocks.open(), clocks.open());
        assert_eq!(clocks.order(b, c), Edge::Ordered);
        assert_eq!(clocks.order(a, b), Edge::Ordered, "c must learn of a");
        assert_eq!(clocks.order(c, a), Edge::Cycle);
        assert!(clocks.precedes(a, c) && !clocks.precedes(c, a));
    }

    #[test]
    fn a_closed_transaction_lives_while_an_ancestor_is_open() {
        let mut clocks = Clocks::default();
        let (a, b) = (clocks.open(), clocks.open());
        assert_eq!(clocks.order(a, b), Edge::Ordered);
        clocks.close(b);
        assert!(clocks.is_alive(b));
        assert_eq!(clocks.order(b, a), Edge::Cycle);
        clocks.close(a);
        assert!(!clocks.is_alive(a) && !clocks.is_alive(b));
        assert_eq!(clocks.alive(), 0);
        let again = clocks.open();
        assert_ne!(again, b, "a stale handle stays stale");
    }

    #[test]
    fn handles_from_before_a_restart_stay_stale() {
        let (mut first, mut second) = (Clocks::default(), Clocks::default());
        let mut old = Vec::new();
        for _ in 0..3 {
            let (a, b) = (first.open(), first.open());
            first.close(a);
            first.close(b);
            old.extend([a, b]);
        }
        second.restart(first.newest());
        for _ in 0..4 {
            let tx = second.open();
            assert!(second.is_alive(tx));
            assert!(old.iter().all(|&old| old != tx && !second.is_alive(old)));
        }
    }

    #[test]
    fn what_is_forgotten_does_not_change_the_order() {
        let mut clocks = Clocks::default();
        let (a, b, c) = (clocks.open(), clocks.open(), clocks.open());
        assert_eq!(clocks.order(a, b), Edge::Ordered);
        assert_eq!(clocks.order(b, c), Edge::Ordered);
        clocks.close(b);
        clocks.close(c);
        clocks.retain(|tx| tx == c);
        assert!(clocks.is_alive(a) && !clocks.is_alive(b) && clocks.is_alive(c));
        assert_eq!(clocks.alive(), 2);
        assert_eq!(clocks.order(c, a), Edge::Cycle);
        clocks.retain(|_| false);
        assert_eq!(clocks.alive(), 1, "open ones stay");
        clocks.close(a);
        assert_eq!(clocks.alive(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Open,
        Close(usize),
        Order(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => Just(Step::Open),
            2 => any::<usize>().prop_map(Step::Close),
            6 => any::<(usize, usize)>().prop_map(|(a, b)| Step::Order(a, b)),
        ];
        prop::collection::vec(step, 1..60)
    }

    /// The definition: a graph that never forgets, searched at each question.
    #[derive(Default)]
    struct Graph {
        edges: Vec<Vec<usize>>,
        open: Vec<bool>,
    }

    impl Graph {
        fn reaches(&self, from: usize, to: usize) -> bool {
            let mut todo = vec![from];
            let mut seen = vec![false; self.edges.len()];
            while let Some(at) = todo.pop() {
                if at == to {
                    return true;
                }
                if !std::mem::replace(&mut seen[at], true) {
                    todo.extend(&self.edges[at]);
                }
            }
            false
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn order_and_life_are_those_of_the_graph(steps in steps()) {
            let mut clocks = Clocks::default();
            let mut graph = Graph::default();
            let mut handles = Vec::new();
            for step in steps {
                match step {
                    Step::Open => {
                        handles.push(clocks.open());
                        graph.edges.push(Vec::new());
                        graph.open.push(true);
                    }
                    Step::Close(n) if !handles.is_empty() => {
                        let n = n % handles.len();
                        clocks.close(handles[n]);
                        graph.open[n] = false;
                    }
                    Step::Order(from, to) if !handles.is_empty() => {
                        let (from, to) = (from % handles.len(), to % handles.len());
                        if !graph.open[to] || from == to {
                            continue;
                        }
                        let cycle = graph.reaches(to, from);
                        let expected = if cycle { Edge::Cycle } else { Edge::Ordered };
                        prop_assert_eq!(clocks.order(handles[from], handles[to]), expected);
                        if !cycle {
                            graph.edges[from].push(to);
                        }
                    }
                    _ => {}
                }
                for n in 0..handles.len() {
                    let alive = (0..handles.len()).any(|m| graph.open[m] && graph.reaches(m, n));
                    prop_assert_eq!(clocks.is_alive(handles[n]), alive);
                }
            }
        }
    }
}
