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
    /// Most edges are from or to one of the last.
    nodes: VecDeque<(u64, Tx)>,
    /// All that is before this number is over, and all edges into that have been read.
    settled: u64,
    /// Words of calls whose end has not been read.
    calls: Vec<u64>,
}

impl Slot {
    /// The place of a number, or where it would be.
    fn find(&self, clock: u64) -> Result<usize, usize> {
        match self.nodes.back() {
            Some(&(last, _)) if last > clock => self
                .nodes
                .binary_search_by_key(&clock, |&(number, _)| number),
            Some(&(last, _)) if last == clock => Ok(self.nodes.len() - 1),
            _ => Err(self.nodes.len()),
        }
    }

    fn at(&self, place: usize) -> Option<Tx> {
        self.nodes.get(place).map(|&(_, tx)| tx)
    }
}

/// The graph, as far as the program has been followed.
#[derive(Debug, Default)]
pub(crate) struct Links {
    slots: Vec<Slot>,
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

    fn edge(&mut self, from: Place, to: Place) {
        self.edges += 1;
        if self.slots.len() <= from.slot {
            // It has started since.
            self.slots.resize_with(from.slot + 1, Slot::default);
        }
        if self.is_unreachable(from) {
            return;
        }
        if let (Some(from), Some(to)) = (self.node(from), self.node(to)) {
            self.idg.edge(from, to);
        }
    }

    /// Whether no edge leads to a transaction, nor to one before it in its slot, and none will: it is
    /// in no cycle, whatever it leads to.
    fn is_unreachable(&self, place: Place) -> bool {
        self.slots.get(place.slot).is_none_or(|slot| {
            place.clock < slot.settled && slot.nodes.front().is_none_or(|node| node.0 > place.clock)
        })
    }

    /// A transaction as a node.
    fn node(&mut self, place: Place) -> Option<Tx> {
        let at = match self.slots.get(place.slot)?.find(place.clock) {
            Ok(at) => return self.slots[place.slot].at(at),
            Err(at) => at,
        };
        self.count += 1;
        let region = place.region.checked_sub(1);
        let began = Occurrence {
            index: self.count,
            stack: StackId::EMPTY,
            event: Event {
                thread: ThreadId(place.slot as u32),
                site: SiteId::UNKNOWN,
                op: Op::Yield,
            },
        };
        let region = region.map(|region| FunctionId(region.into()));
        let tx = (self.idg).open(Transaction::new(region, SiteId::UNKNOWN, began));
        if self.places.len() <= tx.index() {
            self.places.resize(tx.index() + 1, Place::default());
        }
        self.places[tx.index()] = place;
        self.open.push((place, tx));
        let slot = &mut self.slots[place.slot];
        if let Some(before) = at.checked_sub(1).and_then(|before| slot.at(before)) {
            self.idg.edge(before, tx);
        }
        if let Some(after) = slot.at(at) {
            self.idg.edge(tx, after);
        }
        slot.nodes.insert(at, (place.clock, tx));
        Some(tx)
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
        self.idg.retire_all(&all);
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
        let first = self.slots.get(slot).and_then(|slot| slot.nodes.front());
        first.is_some_and(|&(clock, _)| clock <= until)
    }
}
