//! The graph, compared with what it is by definition: all transactions and all edges are kept, and who reaches whom is
//! found by going there.

use super::{Carried, Idg};
use crate::doublechecker::log::Tx;
use std::collections::BTreeSet;

/// What a node carries here: its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Number(usize);

impl Carried for Number {
    fn began(&self) -> u64 {
        self.0 as u64
    }

    fn follow(&mut self, next: Number) {
        *self = next;
    }
}

/// All transactions that there ever were.
#[derive(Debug, Default)]
struct Definition {
    edges: BTreeSet<(usize, usize)>,
    open: BTreeSet<usize>,
    handles: Vec<Tx>,
    /// Those that have finished since the last search, with an edge.
    pending: BTreeSet<usize>,
    /// They have no edges.
    retired: BTreeSet<usize>,
}

impl Definition {
    fn is_in_searches(&self, one: usize, with_open: bool) -> bool {
        !self.retired.contains(&one) && (with_open || !self.open.contains(&one))
    }

    /// All that can be reached by a way through such transactions, from one that has an edge on.
    fn reached(&self, from: usize, through: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(one) = todo.pop() {
            let out = self.edges.range((one, 0)..=(one, usize::MAX));
            for &(_, next) in out {
                if through(next) && seen.insert(next) {
                    todo.push(next);
                }
            }
        }
        seen
    }

    /// The components of more than one that have one which is pending.
    fn components(&self, with_open: bool) -> BTreeSet<Vec<usize>> {
        let through = |one| self.is_in_searches(one, with_open);
        let mut components = BTreeSet::new();
        for &one in self.pending.iter().filter(|&&one| through(one)) {
            let reached = self.reached(one, through);
            let back =
                (reached.into_iter()).filter(|&other| self.reached(other, through).contains(&one));
            let members: Vec<usize> = back.collect();
            if members.len() > 1 {
                components.insert(members);
            }
        }
        components
    }
}

/// Numbers that look random.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    }
}

/// What is compared: a graph of each kind.
#[derive(Debug, Default)]
struct Both {
    idg: Idg<Number>,
    definition: Definition,
}

impl Both {
    fn open(&mut self) {
        let number = self.definition.handles.len();
        let tx = self.idg.open(Number(number));
        assert_eq!(self.idg.get(tx), Some(&Number(number)));
        self.definition.handles.push(tx);
        self.definition.open.insert(number);
    }

    /// An edge from anywhere; out of what has been reclaimed or retired it is made by definition only.
    fn edge(&mut self, from: usize, to: usize) {
        let [one, other] = [from, to].map(|number| self.definition.handles[number]);
        if self.idg.is_alive(one) {
            self.idg.edge(one, other);
        }
        self.definition.edges.insert((from, to));
    }

    fn close(&mut self, number: usize) {
        let tx = self.definition.handles[number];
        self.idg.finish(tx);
        self.idg.look_for(tx);
        self.definition.open.remove(&number);
        let mut edges = self.definition.edges.iter();
        if edges.any(|edge| edge.0 == number) {
            self.definition.pending.insert(number);
        }
    }

    fn components(&mut self, with_open: bool) -> usize {
        let expected = self.definition.components(with_open);
        let found = if with_open {
            self.idg.components_with_open()
        } else {
            self.idg.components()
        };
        let number = found.len();
        let found = found.into_iter().map(|component| {
            self.idg.select(component);
            let members = self.idg.component();
            members.map(|tx| self.idg.get(tx).unwrap().0).collect()
        });
        let found: BTreeSet<Vec<usize>> = found.collect();
        assert_eq!(found, expected);
        assert_eq!(found.len(), number);
        assert!(self.idg.is_idle());
        self.definition.pending.clear();
        number
    }

    /// Exactly that is kept which something reaches that is open, or whose component has not been looked for. By definition
    /// there are more edges, namely those out of what is gone; they are in no way from what is kept.
    fn sweep(&mut self) {
        let Both { idg, definition } = self;
        idg.sweep(definition.open.iter().map(|&one| definition.handles[one]));
        let mut expected = BTreeSet::new();
        for &one in definition.open.union(&definition.pending) {
            expected.insert(one);
            expected.extend(definition.reached(one, |_| true));
        }
        let kept = idg.transactions().map(|(tx, number)| {
            assert_eq!(tx, definition.handles[number.0]);
            number.0
        });
        assert_eq!(kept.collect::<BTreeSet<usize>>(), expected);
    }
}

#[test]
fn components_and_what_is_kept_are_those_of_the_definition() {
    let mut components = 0;
    for seed in 0..20_000 {
        let mut below = numbers(seed);
        let mut both = Both::default();
        let with_open = seed % 2 == 0;
        let (edges, retires) = (3 + below(8), seed % 3 == 0);
        for _ in 0..60 + below(60) {
            let all = both.definition.handles.len();
            let open: Vec<usize> = both.definition.open.iter().copied().collect();
            match below(edges + 5) {
                0 => both.open(),
                1 if !open.is_empty() => both.close(open[below(open.len())]),
                2 => components += both.components(with_open),
                3 => both.sweep(),
                4 if retires && all > 0 => {
                    let one = below(all);
                    let tx = both.definition.handles[one];
                    if both.idg.is_alive(tx) && !open.contains(&one) {
                        both.idg.retire_all(std::iter::once(tx));
                        both.definition.retired.insert(one);
                        both.definition.edges.retain(|edge| edge.0 != one);
                    }
                }
                _ if open.is_empty() => both.open(),
                _ => {
                    // Usually one of the last ones, and some have many.
                    let from = if below(4) == 0 {
                        below(all)
                    } else {
                        all - 1 - below(all.min(5))
                    };
                    let to = open[below(open.len())];
                    if from != to && !both.definition.retired.contains(&from) {
                        both.edge(from, to);
                    }
                }
            }
        }
    }
    assert!(components > 10_000, "{components}");
}

#[test]
fn a_limit_retires_the_oldest_that_have_finished() {
    let mut idg = Idg::default();
    idg.limit(1000);
    let all: Vec<Tx> = (0..=600).map(|number| idg.open(Number(number))).collect();
    for &tx in &all[1..] {
        idg.edge(all[0], tx);
        idg.finish(tx);
    }
    idg.sweep(std::iter::once(all[0]));
    // All are reached, and only the first one is open, so the others lose their edges, oldest first.
    assert_eq!(idg.forgotten(), 601 - 250);
    assert!(all.iter().all(|&tx| idg.is_alive(tx)));
}

#[test]
fn rounds_that_start_again_are_none_that_have_been() {
    let mut both = Both::default();
    both.idg.round = u32::MAX - 3;
    for round in 0..8 {
        both.open();
        both.open();
        both.edge(2 * round, 2 * round + 1);
        both.edge(2 * round + 1, 2 * round);
        both.close(2 * round);
        both.close(2 * round + 1);
        assert_eq!(both.components(false), 1);
        both.sweep();
    }
    assert!(both.idg.round < 100);
}
