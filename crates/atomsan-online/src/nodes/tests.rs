//! The graph, one edge after the other and many at once; and compared with what it is by definition, for programs that never were.

use super::*;
use std::collections::BTreeSet;

/// The transactions that each one leads to, by their slots and numbers.
fn reached(nodes: &Nodes) -> Vec<(Place, Vec<Place>)> {
    let place = |tx: Tx| nodes.idg.get(tx).unwrap().place();
    let all = nodes.slots.iter().flat_map(|slot| &slot.nodes);
    let reached = all.map(|&(key, tx)| {
        assert_eq!(place(tx).key(), key);
        let (mut seen, mut todo) = (Vec::new(), vec![tx]);
        while let Some(tx) = todo.pop() {
            if !seen.contains(&place(tx)) {
                seen.push(place(tx));
                todo.extend(nodes.idg.successors(tx));
            }
        }
        seen.sort_unstable();
        (place(tx), seen)
    });
    reached.collect()
}

/// Numbers that look random.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}

#[test]
fn edges_at_once_are_what_they_are_one_by_one() {
    for seed in 0..2000u64 {
        let mut below = numbers(seed);
        let edges: Vec<(Place, Place)> = (0..1 + below(12))
            .map(|_| {
                let from = below(3) as usize;
                let to = (from + 1 + below(2) as usize) % 3;
                let mut place = |slot| Place {
                    slot,
                    clock: 1 + below(9),
                    region: 1,
                };
                (place(from), place(to))
            })
            .collect();
        let built = |at_once: usize| {
            let mut nodes = Nodes::default();
            nodes.make_room(3);
            for some in edges.chunks(at_once) {
                some.iter()
                    .for_each(|&(from, to)| nodes.edge(from, to, true));
                nodes.add_edges();
            }
            reached(&nodes)
        };
        let one_by_one = built(1);
        assert!(one_by_one.windows(2).all(|two| two[0].0 < two[1].0));
        for at_once in [2, 5, edges.len()] {
            assert_eq!(built(at_once), one_by_one, "{edges:?}");
        }
    }
}

#[test]
fn a_node_is_found_from_everywhere() {
    let mut slot = Slot::default();
    let mut idg: Idg<Named> = Idg::default();
    for clock in (0..40).map(|number| 3 * number) {
        let place = Place {
            slot: 0,
            clock,
            region: 7,
        };
        let key = place.key();
        let named = Named {
            key,
            slot: 0,
            began: 0,
        };
        slot.nodes.push((key, idg.open(named)));
    }
    for near in 0..50 {
        for clock in 0..125 {
            slot.near = near;
            assert_eq!(slot.position(clock), clock.div_ceil(3).min(40) as usize);
            let found = slot.find(clock).and_then(|tx| idg.get(tx));
            let found = found.map(|named| named.key.clock());
            assert_eq!(found, (clock % 3 == 0 && clock < 120).then_some(clock));
        }
    }
}

/// A thread: its transactions, of which the last one is current, and its log.
#[derive(Debug, Default)]
struct Thread {
    regions: Vec<u16>,
    /// Edges into its transactions that have not been read.
    log: Vec<(Place, Place)>,
}

impl Thread {
    fn clock(&self) -> u64 {
        self.regions.len() as u64 - 1
    }
}

/// Edges, all of which are kept.
#[derive(Debug, Default)]
struct Definition {
    edges: BTreeSet<(Place, Place)>,
    /// Those that have ended; and since the last search, with an edge.
    over: BTreeSet<Place>,
    pending: BTreeSet<Place>,
}

impl Definition {
    /// All transactions that have an edge.
    fn all(&self) -> BTreeSet<Place> {
        self.edges
            .iter()
            .flat_map(|edge| [edge.0, edge.1])
            .collect()
    }

    /// What a transaction leads to: by its edges, or because it is the next one.
    fn next(&self, all: &BTreeSet<Place>, one: Place) -> Vec<Place> {
        let behind = (all.iter()).find(|other| other.slot == one.slot && other.clock > one.clock);
        let out = self.edges.iter().filter(|edge| edge.0 == one);
        out.map(|edge| edge.1).chain(behind.copied()).collect()
    }

    fn reached(&self, all: &BTreeSet<Place>, from: Place) -> BTreeSet<Place> {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(one) = todo.pop() {
            todo.extend(
                self.next(all, one)
                    .into_iter()
                    .filter(|&next| seen.insert(next)),
            );
        }
        seen
    }

    /// Ends what is over by these clocks.
    fn close(&mut self, clocks: &[u64]) {
        let all = self.all();
        for &one in &all {
            let is_over = one.clock < clocks[one.slot] + u64::from(one.region == 0);
            if is_over
                && self.over.insert(one)
                && one.region != 0
                && !self.next(&all, one).is_empty()
            {
                self.pending.insert(one);
            }
        }
    }

    /// The component of a transaction.
    fn component(&self, all: &BTreeSet<Place>, one: Place) -> Vec<Place> {
        let there = self.reached(all, one).into_iter();
        let back = there.filter(|&other| self.reached(all, other).contains(&one));
        back.collect()
    }

    /// What is reached by something that is open, or whose component has not been looked for.
    fn needed(&self) -> BTreeSet<Place> {
        let all = self.all();
        let open = all.difference(&self.over);
        let mut needed: BTreeSet<Place> = open.chain(&self.pending).copied().collect();
        for one in needed.clone() {
            needed.extend(self.reached(&all, one));
        }
        needed
    }
}

/// A program that never was, and its follower.
struct Run<R> {
    below: R,
    threads: Vec<Thread>,
    nodes: Nodes,
    /// What was read, without the edges that lead out of what nothing reaches.
    definition: Definition,
    /// All of it.
    everything: Definition,
    /// Whether what was forgotten had not been searched, and there has been no search since.
    waits: bool,
}

impl<R: FnMut(u64) -> u64> Run<R> {
    fn new(mut below: R) -> Run<R> {
        let slots = 2 + below(3) as usize;
        let thread = || Thread {
            regions: vec![0],
            log: Vec::new(),
        };
        Run {
            below,
            threads: std::iter::repeat_with(thread).take(slots).collect(),
            nodes: Nodes::default(),
            definition: Definition::default(),
            everything: Definition::default(),
            waits: false,
        }
    }

    fn place(&self, slot: usize, clock: u64) -> Place {
        Place {
            slot,
            clock,
            region: self.threads[slot].regions[clock as usize],
        }
    }

    /// An edge into the current transaction of a thread, out of one of another's last.
    fn depend(&mut self, to: usize) {
        let slots = self.threads.len();
        let from = (to + 1 + (self.below)(slots as u64 - 1) as usize) % slots;
        let now = self.threads[from].clock();
        let clock = now - (self.below)(4).min(now);
        let edge = (
            self.place(from, clock),
            self.place(to, self.threads[to].clock()),
        );
        self.threads[to].log.push(edge);
    }

    /// A thread does something. Edges into a unary transaction are there as soon as it is.
    fn step(&mut self) {
        let thread = (self.below)(self.threads.len() as u64) as usize;
        let is_unary = self.threads[thread].regions.last() == Some(&0);
        if !is_unary && (self.below)(2) == 0 {
            self.depend(thread);
        } else {
            let region = (self.below)(4) as u16;
            self.threads[thread].regions.push(region);
            if region == 0 && (self.below)(2) == 0 {
                self.depend(thread);
            }
        }
    }

    /// The follower looks at the clocks, while the program goes on, and at the logs.
    fn follow(&mut self) {
        let clocks: Vec<u64> = self.threads.iter().map(Thread::clock).collect();
        for at in 0..self.threads.len() {
            for (from, to) in std::mem::take(&mut self.threads[at].log) {
                self.nodes.make_room(self.threads.len());
                if !self.nodes.is_unreachable(from) {
                    self.definition.edges.insert((from, to));
                }
                self.everything.edges.insert((from, to));
                self.nodes.edge(from, to, true);
            }
            if (self.below)(3) == 0 {
                self.step();
            }
        }
        self.nodes.add_edges();
        self.nodes.close(|slot| clocks[slot]);
        self.definition.close(&clocks);
    }

    fn kept(&self) -> BTreeSet<Place> {
        let slots = self.nodes.slots.iter().enumerate();
        let kept: BTreeSet<Place> = slots
            .flat_map(|(at, slot)| {
                assert!(slot.nodes.is_sorted_by(|one, other| one.0 < other.0));
                slot.nodes
                    .iter()
                    .map(move |node| self.place(at, node.0.clock()))
            })
            .collect();
        assert_eq!(kept.len(), self.nodes.kept);
        kept
    }

    /// The components are those of all edges, but for what lies between two others in the same slot.
    fn search(&mut self) -> usize {
        self.waits = false;
        let found = self.nodes.components();
        let number = found.len();
        let sorted = found.into_iter().map(|mut component| {
            component.sort_unstable();
            component
        });
        let found: BTreeSet<Vec<Place>> = sorted.collect();
        let (all, known) = (self.everything.all(), self.definition.all());
        let mut expected = BTreeSet::new();
        for one in std::mem::take(&mut self.definition.pending) {
            let component = self.everything.component(&all, one).into_iter();
            let (members, between): (Vec<Place>, Vec<Place>) =
                component.partition(|place| known.contains(place));
            for place in between {
                let mut of_slot = members.iter().filter(|other| other.slot == place.slot);
                assert!(of_slot.clone().any(|other| other.clock < place.clock));
                assert!(of_slot.any(|other| other.clock > place.clock));
            }
            expected.extend(Some(members).filter(|members| members.len() > 1));
        }
        assert_eq!(found, expected);
        number
    }

    /// What is needed is kept, and nothing else is.
    fn sweep(&mut self) {
        self.nodes.sweep();
        let kept = self.kept();
        let needed = self.definition.needed();
        assert_eq!(kept, needed);
        for (slot, of_slot) in self.nodes.slots.iter().enumerate() {
            let open: BTreeSet<u64> = of_slot.nodes[of_slot.over..]
                .iter()
                .map(|node| node.0.clock())
                .collect();
            let expected = kept.difference(&self.definition.over);
            let expected = expected
                .filter(|place| place.slot == slot)
                .map(|place| place.clock);
            assert_eq!(open, expected.collect());
            for until in 0..=self.threads[slot].clock() {
                let has_any = needed
                    .iter()
                    .any(|place| place.slot == slot && place.clock <= until);
                assert_eq!(self.nodes.has_any(slot, until), has_any);
            }
        }
    }
}

#[test]
fn components_and_what_is_kept_are_those_of_the_definition() {
    let mut components = 0;
    for seed in 0..4000 {
        let mut run = Run::new(numbers(seed));
        for _ in 0..10 {
            for _ in 0..(run.below)(12) {
                run.step();
            }
            run.follow();
            let is_settled = !run.waits && run.definition.pending.is_empty() && {
                let all = run.definition.all();
                let mut open = all.difference(&run.definition.over);
                open.all(|&one| run.definition.next(&all, one).is_empty())
            };
            assert_eq!(run.nodes.is_settled(), is_settled);
            if (run.below)(2) == 0 {
                components += run.search();
            }
            if (run.below)(2) == 0 {
                run.sweep();
            }
            if (run.below)(20) == 0 {
                run.nodes.cut();
                run.waits |= !run.definition.pending.is_empty();
                run.definition = Definition::default();
                run.everything = Definition::default();
                assert!(run.kept().is_empty());
            }
        }
        run.follow();
        run.nodes.finish();
        run.definition.close(&vec![u64::MAX - 1; run.threads.len()]);
        components += run.search();
        run.sweep();
        assert!(run.kept().is_empty());
    }
    assert!(components > 4000, "{components}");
}
