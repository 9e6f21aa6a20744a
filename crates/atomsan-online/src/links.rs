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

pub(crate) use crate::nodes::Place;

use crate::live::Live;
use crate::nodes::Nodes;
use crate::notes::Notes;
use atomsan_recording::file::Record;
use atomsan_recording::format::{Kind, LOW, ORDER_ONLY};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::io;
use std::time::{Duration, Instant};

/// How many threads are remembered that were started, at least, before anybody asks for them.
const FORKS: usize = 1 << 12;

/// So many times as long as a search has taken, there is none.
const TIMES: u32 = 4;
/// So long there is none, while there are new edges.
const AT_LEAST: Duration = Duration::from_millis(2);

/// The graph, as far as the program has been followed.
#[derive(Debug, Default)]
pub(crate) struct Links {
    nodes: Nodes,
    /// Transactions that may have no edge.
    pub(crate) notes: Notes,
    /// Words of calls whose end has not been read, of each slot.
    entered: Vec<Vec<u64>>,
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
        self.nodes.make_room(live.slots());
        if self.entered.len() < live.slots() {
            self.entered.resize_with(live.slots(), Vec::new);
        }
        let before = self.edges;
        for slot in 1..live.slots() {
            while live.has_more(slot) {
                self.read(live, slot)?;
            }
        }
        self.nodes.add_edges();
        self.nodes.close(|slot| live.clock(slot));
        Ok(self.edges > before)
    }

    /// The program has ended, and so have all transactions.
    pub(crate) fn finish(&mut self) {
        self.nodes.finish();
    }

    /// Reads what is at hand of a log.
    fn read(&mut self, live: &mut Live, slot: usize) -> io::Result<()> {
        let (words, mut at, _) = live.take(slot)?;
        let mut calls = std::mem::take(&mut self.entered[slot]);
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
                let to = Place {
                    slot,
                    clock: clock & LOW,
                    region: part(2),
                };
                self.edges += 1;
                self.nodes.edge(from, to, second & ORDER_ONLY == 0);
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
                    let region = words[at + 1] as u16;
                    self.notes.note(slot, first & LOW, region);
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
        self.entered[slot] = calls;
        let all = words.len();
        live.put(slot, words, all);
        Ok(())
    }

    /// Whether components are worth looking for: when so many transactions have ended that the last
    /// search was worth it; or when it was long ago, compared with what it took, so that few that have ended
    /// do not wait for ever, and all logs with them. `news` is whether there are edges that are new.
    pub(crate) fn is_due(&mut self, patience: usize, news: bool) -> bool {
        if self.nodes.is_idle() {
            return false;
        }
        let now = Instant::now();
        let since = now - *self.rested.get_or_insert(now);
        let least = if news { AT_LEAST } else { Duration::ZERO };
        let due = self.nodes.is_due(patience) || since >= least.max(TIMES * self.took);
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

    /// The components that are new, or have grown ([`Nodes::components`]).
    pub(crate) fn components(&mut self) -> Vec<Vec<Place>> {
        let components = self.nodes.components();
        self.components += components.len() as u64;
        components
    }

    /// Whether nothing remains to be done for the edges that have been read ([`Nodes::is_settled`]).
    pub(crate) fn is_settled(&self) -> bool {
        self.nodes.is_settled()
    }

    /// Forgets all transactions ([`Nodes::cut`]).
    pub(crate) fn cut(&mut self) {
        self.nodes.cut();
    }

    /// Drops what can be in no cycle any more, if enough has been added.
    pub(crate) fn tidy(&mut self) {
        self.nodes.tidy();
    }

    /// Drops what can be in no cycle any more.
    pub(crate) fn sweep(&mut self) {
        self.nodes.sweep();
    }

    /// Whether a slot has a transaction that may be in a cycle, up to this number.
    pub(crate) fn has_any(&self, slot: usize, until: u64) -> bool {
        self.nodes.has_any(slot, until)
    }
}
