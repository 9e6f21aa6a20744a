//! The imprecise graph, from what the program says of it: which transaction comes after which.
//!
//! The program knows its regions (`atomsan_rt::regions`) and numbers its transactions. It writes an
//! edge with the numbers and the regions of both ends (`Kind::Link`) into a log that has nothing
//! else. So a transaction that has no edge is never heard of, and the graph is made of edges alone.
//!
//! # When a transaction is over
//!
//! The clocks of all threads are looked at first, and the logs are read afterwards. An edge is
//! written before the clock moves on, so all edges into transactions that were over by then have
//! been read; an edge that leads out of one may come at any time, when somebody uses what it has used
//! last. A cycle through a transaction that is over needs an edge into it that is there
//! already. So what no transaction reaches that may still get edges is dropped, and what comes later
//! out of it leads nowhere. Edges into a unary transaction come at its beginning: once the clock is
//! there, they have been read.

use crate::live::Live;
use atomsan_engines::Occurrence;
use atomsan_engines::doublechecker::idg::{Idg, Transaction};
use atomsan_engines::doublechecker::log::Tx;
use atomsan_recording::file::Record;
use atomsan_recording::format::{Kind, LOW};
use atomsan_trace::{Event, FunctionId, Op, SiteId, StackId, ThreadId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// How many threads are remembered that were started, at least, before anybody asks for them.
const FORKS: usize = 1 << 12;

/// So many times as long as a search has taken, there is none.
const TIMES: u32 = 4;
/// So long there is none, while there are new edges.
const AT_LEAST: Duration = Duration::from_millis(2);

/// How many transactions are added before it is worthwhile to look which can be dropped.
const MESS: u64 = 1 << 11;

/// How many transactions without edges are remembered for a slot.
const NOTES: usize = 1 << 14;

/// A transaction: its slot, its number there and its region, plus 1; 0 if it is unary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    pub(crate) clock: u64,
    pub(crate) region: u16,
}

/// The transactions of a slot that are nodes, by their numbers.
#[derive(Debug, Default)]
struct Slot {
    nodes: Vec<(u64, Tx)>,
    /// Numbers and regions of transactions with edges that have been read since, in no order: those of edges into them
    /// grow, and so do those of edges out of them into one other slot.
    mentioned: Vec<(u64, u16)>,
    /// All that is before this number is over, and all edges into that have been read.
    settled: u64,
    /// Words of calls whose end has not been read.
    calls: Vec<u64>,
}

impl Slot {
    /// The node with a number.
    fn find(&self, clock: u64) -> Option<Tx> {
        let at = self.nodes.binary_search_by_key(&clock, |node| node.0);
        at.ok().map(|at| self.nodes[at].1)
    }

    /// A transaction has an edge.
    fn mention(&mut self, place: Place) {
        let mentioned = (place.clock, place.region);
        if self.mentioned.last() != Some(&mentioned) {
            self.mentioned.push(mentioned);
        }
    }
}

/// The graph, as far as the program has been followed.
#[derive(Debug, Default)]
pub(crate) struct Links {
    slots: Vec<Slot>,
    /// Edges that have been read and are not in the graph yet.
    fresh: Vec<(Place, Place)>,
    /// Those that are not over.
    open: Vec<(Place, Tx)>,
    /// Transactions of each slot that may have no edge, and their regions.
    notes: Vec<VecDeque<(u64, u16)>>,
    idg: Idg,
    /// What each node is, by its place in the graph.
    places: Vec<Place>,
    /// Transactions in the order in which they were heard of; how many there were when what is in no
    /// cycle was dropped.
    count: u64,
    swept: u64,
    /// Records that name threads.
    pub(crate) names: Vec<Record>,
    /// Threads that were started: the record and the return addresses of the calls there, innermost
    /// first.
    pub(crate) forks: Vec<(Record, Vec<u64>)>,
    /// The calls that led to allocations, as words of a snapshot, by their numbers.
    pub(crate) calls: HashMap<u64, Box<[u64]>, FxBuildHasher>,
    pub(crate) edges: u64,
    pub(crate) components: u64,
    /// When components were looked for, and how long that and their check took.
    rested: Option<Instant>,
    took: Duration,
}

impl Links {
    /// Reads what all logs have to say, after the clocks have been looked at; whether there was anything
    /// new.
    pub(crate) fn advance(&mut self, live: &mut Live) -> io::Result<bool> {
        live.look()?;
        if self.slots.len() < live.slots() {
            self.slots.resize_with(live.slots(), Slot::default);
        }
        if self.notes.len() < live.slots() {
            self.notes.resize_with(live.slots(), VecDeque::default);
        }
        let before = self.edges;
        for slot in 1..live.slots() {
            while live.has_more(slot) {
                self.read(live, slot)?;
            }
        }
        self.add_edges();
        self.close(|place| place.clock < live.clock(place.slot) + u64::from(place.region == 0));
        for (at, slot) in self.slots.iter_mut().enumerate() {
            slot.settled = live.clock(at);
        }
        Ok(self.edges > before)
    }

    /// The program has ended, and so have all transactions.
    pub(crate) fn finish(&mut self) {
        self.close(|_| true);
    }

    /// Reads what is at hand of a log.
    fn read(&mut self, live: &mut Live, slot: usize) -> io::Result<()> {
        let (words, mut at, _) = live.take(slot)?;
        let mut calls = std::mem::take(&mut self.slots[slot].calls);
        while let Some(&first) = words.get(at) {
            let Some(kind) = Kind::from_number((first >> 56) as u8) else {
                break;
            };
            if kind == Kind::Link
                && let Some(&[_, second, clock]) = words[at..].first_chunk()
            {
                let part = |number: u32| (second >> (16 * number)) as u16;
                let from = Place {
                    slot: part(0).into(),
                    clock: first & LOW,
                    region: part(1),
                };
                let region = part(2);
                self.edge(
                    from,
                    Place {
                        slot,
                        clock,
                        region,
                    },
                );
            }
            match kind {
                Kind::ThreadName => self.names.extend(Record::parse(&words[at..], 0)),
                Kind::Continue => {
                    calls.clear();
                    calls.extend(words.iter().skip(at).take(kind.words()));
                }
                Kind::Enter => calls.extend(words.iter().skip(at).take(kind.words())),
                Kind::Calls if words.len() > at + 1 => {
                    self.calls.insert(words[at + 1], calls.as_slice().into());
                    calls.clear();
                }
                Kind::Transaction if words.len() > at + 1 => {
                    let notes = &mut self.notes[slot];
                    if notes.len() == NOTES {
                        notes.pop_front();
                    }
                    notes.push_back((first & LOW, words[at + 1] as u16));
                }
                Kind::Fork => {
                    if let Some(record) = Record::parse(&words[at..], 0) {
                        let entered = calls.chunks_exact(Kind::Enter.words());
                        let called = entered.rev().map(|words| words[0] & LOW);
                        let calls_there = std::iter::once(record.pc()).chain(called);
                        self.forks.push((record, calls_there.collect()));
                        calls.clear();
                    }
                }
                _ => {}
            }
            at += kind.words();
        }
        // Of many threads, the last ones are known.
        if self.forks.len() > 2 * FORKS {
            self.forks.drain(..FORKS);
        }
        self.slots[slot].calls = calls;
        let all = words.len();
        live.put(slot, words, all);
        Ok(())
    }

    /// An edge has been read. Those that come at once go to the graph at once, because they do not come in the
    /// order of the transactions that they lead out of.
    /// Whether one leads out of what nothing reaches is clear before that: all edges into what is settled are in the
    /// graph already.
    fn edge(&mut self, from: Place, to: Place) {
        self.edges += 1;
        if self.slots.len() <= from.slot {
            // It has started since.
            self.slots.resize_with(from.slot + 1, Slot::default);
        }
        if !self.is_unreachable(from) {
            self.slots[from.slot].mention(from);
            self.slots[to.slot].mention(to);
            self.fresh.push((from, to));
        }
    }

    /// Adds what has been read to the graph.
    fn add_edges(&mut self) {
        for slot in 0..self.slots.len() {
            self.add_nodes(slot);
        }
        for (from, to) in std::mem::take(&mut self.fresh) {
            let node = |place: Place| self.slots[place.slot].find(place.clock);
            if let (Some(from), Some(to)) = (node(from), node(to)) {
                self.idg.edge(from, to);
            }
        }
    }

    /// Makes nodes of a slot's transactions that were mentioned, each after the one before it.
    fn add_nodes(&mut self, slot: usize) {
        let mut mentioned = std::mem::take(&mut self.slots[slot].mentioned);
        // A stable sort is quick where there are few sequences that are in order.
        mentioned.sort();
        mentioned.dedup_by_key(|new| new.0);
        let mut nodes = std::mem::take(&mut self.slots[slot].nodes);
        let first = mentioned.first().map_or(u64::MAX, |new| new.0);
        let later = nodes.split_off(nodes.partition_point(|node| node.0 < first));
        let mut later = later.into_iter().peekable();
        let mut is_after_new = false;
        for &(clock, region) in &mentioned {
            while let Some(node) = later.next_if(|node| node.0 < clock) {
                self.add_node(&mut nodes, node, is_after_new);
                is_after_new = false;
            }
            if later.peek().is_none_or(|node| node.0 != clock) {
                let place = Place {
                    slot,
                    clock,
                    region,
                };
                let node = (clock, self.open(place));
                self.add_node(&mut nodes, node, true);
                is_after_new = true;
            }
        }
        for node in later {
            self.add_node(&mut nodes, node, is_after_new);
            is_after_new = false;
        }
        mentioned.clear();
        self.slots[slot].mentioned = mentioned;
        self.slots[slot].nodes = nodes;
    }

    /// Puts a node behind others of its slot; one of the last two is new, or their edge is there already.
    fn add_node(&mut self, nodes: &mut Vec<(u64, Tx)>, node: (u64, Tx), is_new: bool) {
        if is_new && let Some(&(_, before)) = nodes.last() {
            self.idg.edge(before, node.1);
        }
        nodes.push(node);
    }

    /// Whether no edge leads to a transaction, nor to one before it in its slot, and none will: it is
    /// in no cycle, whatever it leads to.
    fn is_unreachable(&self, place: Place) -> bool {
        self.slots.get(place.slot).is_none_or(|slot| {
            place.clock < slot.settled && slot.nodes.first().is_none_or(|node| node.0 > place.clock)
        })
    }

    /// A transaction becomes a node.
    fn open(&mut self, place: Place) -> Tx {
        self.count += 1;
        let began = Occurrence {
            index: self.count,
            stack: StackId::EMPTY,
            event: Event {
                thread: ThreadId(place.slot as u32),
                site: SiteId::UNKNOWN,
                op: Op::Yield,
            },
        };
        let region = place.region.checked_sub(1);
        let region = region.map(|region| FunctionId(region.into()));
        let tx = (self.idg).open(Transaction::new(region, SiteId::UNKNOWN, began));
        if self.places.len() <= tx.index() {
            self.places.resize(tx.index() + 1, Place::default());
        }
        self.places[tx.index()] = place;
        self.open.push((place, tx));
        tx
    }

    /// Closes the transactions that get no more edges.
    fn close(&mut self, is_over: impl Fn(&Place) -> bool) {
        let (idg, count) = (&mut self.idg, self.count);
        self.open.retain(|&(place, tx)| {
            let over = is_over(&place);
            if over {
                idg.close(tx, count);
            }
            if over && place.region != 0 {
                idg.look_for(tx);
            }
            !over
        });
    }

    /// Whether components are worth looking for: when so many transactions have ended that the last
    /// search was worth it; or when it was long ago, compared with what it took, so that few that have ended
    /// do not wait for ever, and all logs with them. `news` is whether there are edges that are new.
    pub(crate) fn is_due(&mut self, patience: usize, news: bool) -> bool {
        if self.idg.is_idle() {
            return false;
        }
        let now = Instant::now();
        let since = now - *self.rested.get_or_insert(now);
        let least = if news { AT_LEAST } else { Duration::ZERO };
        let due = self.idg.is_due(patience) || since >= least.max(TIMES * self.took);
        if due {
            self.rested = Some(now);
        }
        due
    }

    /// The components have been looked for and checked.
    pub(crate) fn rest(&mut self) {
        let now = Instant::now();
        let began = self.rested.replace(now);
        self.took = began.map_or(Duration::ZERO, |began| now - began);
    }

    /// The components that have a transaction which has ended since the last time, with those of
    /// their transactions that have not: the order of two others may go through them.
    pub(crate) fn components(&mut self) -> Vec<Vec<Place>> {
        let mut components = Vec::new();
        for component in self.idg.components_with_open() {
            self.components += 1;
            self.idg.select(component);
            let members = self.idg.component();
            let places: Vec<Place> = members.map(|tx| self.places[tx.index()]).collect();
            let last = self.idg.component().last().and_then(|tx| self.idg.get(tx));
            components.push((last.map_or(0, |tx| tx.began.index), places));
        }
        // What happened first is told first.
        components.sort_by_key(|(last, _)| *last);
        components.into_iter().map(|(_, places)| places).collect()
    }

    /// The regions of transactions that lie between two of a component, in the same slot, and that were
    /// noted.
    pub(crate) fn between(&self, component: &[Place]) -> Vec<u16> {
        let mut places = component.to_vec();
        places.sort_unstable();
        let slots = places.chunk_by(|one, other| one.slot == other.slot);
        slots
            .filter_map(|of_slot| {
                let clocks = of_slot.first()?.clock..=of_slot.last()?.clock;
                Some((self.notes.get(of_slot[0].slot)?, clocks))
            })
            .flat_map(|(notes, clocks)| {
                // Numbers of a slot only grow.
                let start = notes.partition_point(|note| note.0 < *clocks.start());
                let end = notes.partition_point(|note| note.0 <= *clocks.end());
                notes.range(start..end).map(|note| note.1)
            })
            .collect()
    }

    /// Whether all transactions that an edge leads out of are over, and the components of all that are
    /// over have been looked for.
    pub(crate) fn is_settled(&self) -> bool {
        let mut open = self.open.iter();
        self.idg.is_idle() && open.all(|&(_, tx)| self.idg.successors(tx).next().is_none())
    }

    /// Forgets all transactions. To forget some and keep others would not do: if `A` is before `X` and
    /// `X` before `B`, and `X` is forgotten, nothing says any more that `A` is before `B`, and
    /// their logs could be put in an order that never was. What comes from now on cannot be before
    /// anything that is forgotten.
    pub(crate) fn cut(&mut self) {
        let nodes = self.slots.iter().flat_map(|slot| &slot.nodes);
        let all: Vec<Tx> = nodes.map(|&(_, tx)| tx).collect();
        self.idg.retire_all(all.into_iter());
        self.slots.iter_mut().for_each(|slot| slot.nodes.clear());
        self.open.clear();
        self.idg.sweep(std::iter::empty());
    }

    /// Drops what can be in no cycle any more, if enough has been added.
    pub(crate) fn tidy(&mut self) {
        let kept: usize = self.slots.iter().map(|slot| slot.nodes.len()).sum();
        if self.count - self.swept > MESS.max(kept as u64 / 2) {
            self.sweep();
        }
    }

    /// Drops what can be in no cycle any more.
    pub(crate) fn sweep(&mut self) {
        self.swept = self.count;
        self.idg.sweep(self.open.iter().map(|&(_, tx)| tx));
        for slot in &mut self.slots {
            slot.nodes.retain(|&(_, tx)| self.idg.get(tx).is_some());
        }
    }

    /// Whether a slot has a transaction that may be in a cycle, up to this number. Later ones may get
    /// an edge that leads out of them at any time, and there is a way to them from that one.
    pub(crate) fn has_any(&self, slot: usize, until: u64) -> bool {
        let first = self.slots.get(slot).and_then(|slot| slot.nodes.first());
        first.is_some_and(|&(clock, _)| clock <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The transactions that each one leads to, by their slots and numbers.
    fn reached(links: &Links) -> Vec<(Place, Vec<Place>)> {
        let place = |tx: Tx| links.places[tx.index()];
        let all = links.slots.iter().flat_map(|slot| &slot.nodes);
        let reached = all.map(|&(clock, tx)| {
            assert_eq!(place(tx).clock, clock);
            let (mut seen, mut todo) = (Vec::new(), vec![tx]);
            while let Some(tx) = todo.pop() {
                if !seen.contains(&place(tx)) {
                    seen.push(place(tx));
                    todo.extend(links.idg.successors(tx));
                }
            }
            seen.sort_unstable();
            (place(tx), seen)
        });
        reached.collect()
    }

    #[test]
    fn edges_at_once_are_what_they_are_one_by_one() {
        for seed in 0..2000u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = |limit: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % limit
            };
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
                let mut links = Links::default();
                links.slots.resize_with(3, Slot::default);
                for some in edges.chunks(at_once) {
                    some.iter().for_each(|&(from, to)| links.edge(from, to));
                    links.add_edges();
                }
                reached(&links)
            };
            let one_by_one = built(1);
            assert!(one_by_one.windows(2).all(|two| two[0].0 < two[1].0));
            for at_once in [2, 5, edges.len()] {
                assert_eq!(built(at_once), one_by_one, "{edges:?}");
            }
        }
    }
}
