//! The first of two runs: which regions are in a component of the imprecise graph.
//!
//! The program writes nothing down but which transaction comes after which (`Kind::Link`), and asks
//! which of its functions are regions (`atomsan_recording::answers`). So a transaction that has no
//! edge is never heard of, and the graph is made of edges alone.
//!
//! # When a transaction is over
//!
//! The clocks of all threads are looked at first, and the logs are read afterwards. An edge is
//! written before the clock moves on, so all edges into transactions that were over by then have
//! been read; an edge that leads out of one may come later, from a thread that was interrupted while
//! it wrote it. A cycle through a transaction that is over needs an edge into it that is there
//! already. So what no transaction reaches that may still get edges is dropped, and what comes later
//! out of it leads nowhere. Edges into a unary transaction come at its beginning: once the clock is
//! there, they have been read.

use crate::live::Live;
use atomsan_engines::Occurrence;
use atomsan_engines::doublechecker::idg::{Idg, Transaction};
use atomsan_engines::doublechecker::log::Tx;
use atomsan_engines::doublechecker::runs::StaticInfo;
use atomsan_recording::answers::Answers;
use atomsan_recording::format::{Kind, LOW, header};
use atomsan_recording::symbols::Symbols;
use atomsan_trace::{Event, FunctionId, Op, SiteId, StackId, ThreadId};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use std::io;

use crate::follow::Options;

/// The transactions of a slot that are nodes, by their numbers; whether one is over.
type Nodes = VecDeque<(u64, Tx, bool)>;

/// A first run, as far as it has been followed.
#[derive(Debug, Default)]
pub(crate) struct First {
    answers: Option<Answers>,
    maps: String,
    answered: u64,
    slots: Vec<Nodes>,
    idg: Idg,
    /// Transactions in the order in which they were heard of.
    count: u64,
    pub(crate) edges: u64,
    pub(crate) components: u64,
    /// Regions that have been found, by number; 0 for unary transactions.
    seen: HashSet<u32, FxBuildHasher>,
    pub(crate) found: StaticInfo,
}

/// How many transactions must have ended before components are looked for.
const PATIENCE: usize = 1 << 10;

impl First {
    /// Follows the program as far as it is now; whether there was anything new.
    pub(crate) fn advance(&mut self, live: &mut Live, options: &Options) -> io::Result<bool> {
        let mut news = self.answer(live, options)?;
        live.look_at_clocks()?;
        live.look()?;
        if self.slots.len() < live.slots() {
            self.slots.resize_with(live.slots(), Nodes::default);
        }
        for slot in 1..live.slots() {
            while live.has_more(slot) {
                news |= self.read(live, slot)?;
            }
        }
        if news {
            self.close(live);
        }
        if self.idg.is_due(if news { PATIENCE } else { 1 }) {
            self.check(live, options)?;
        }
        if self.idg.is_heavy() {
            self.sweep();
        }
        Ok(news)
    }

    /// The program has ended.
    pub(crate) fn finish(&mut self, live: &mut Live, options: &Options) -> io::Result<()> {
        while self.advance(live, options)? {}
        for at in 0..self.slots.len() {
            self.close_slot(at, |_, _| true);
        }
        self.check(live, options)
    }

    /// The memory map of the process.
    pub(crate) fn maps(&self) -> &str {
        &self.maps
    }

    fn answers(&mut self, live: &Live, options: &Options) -> io::Result<&mut Answers> {
        if self.answers.is_none() {
            self.maps = live.maps()?;
        }
        let maps = &*self.maps;
        Ok(self.answers.get_or_insert_with(|| {
            let symbols = Symbols::of_maps(std::iter::once(maps));
            Answers::new(symbols, options.recording.clone(), options.spec.clone())
        }))
    }

    /// Answers what the program has asked; whether there was anything.
    fn answer(&mut self, live: &Live, options: &Options) -> io::Result<bool> {
        let before = self.answered;
        let asked = live.counter(header::ASKED);
        while self.answered < asked
            && let Some(at) = live.asked(self.answered)?
        {
            let (from, function) = live.call(at)?;
            if self.answers(live, options)?.is_unknown(from, function)
                && self.maps != live.maps()?
            {
                // A library has been loaded since.
                self.answers = None;
            }
            let said = self.answers(live, options)?.answer(from, function);
            live.answer(at, said)?;
            self.answered += 1;
        }
        Ok(self.answered > before)
    }

    /// Reads what is at hand of a log; whether there was anything.
    fn read(&mut self, live: &mut Live, slot: usize) -> io::Result<bool> {
        let (words, mut at, _) = live.take(slot)?;
        let before = at;
        while let Some(&first) = words.get(at) {
            let Some(kind) = Kind::from_number((first >> 56) as u8) else {
                break;
            };
            if kind == Kind::Link
                && let Some(&[_, second, clock]) = words[at..].first_chunk()
            {
                let part = |number: u32| (second >> (16 * number)) as u16;
                let from = (usize::from(part(0)), first & LOW, part(1));
                self.edge(from, (slot, clock, part(2)));
            }
            at += kind.words();
        }
        let all = words.len();
        live.put(slot, words, all);
        Ok(before < all)
    }

    /// A transaction as a node: a slot, its number and its region.
    fn node(&mut self, (slot, clock, region): (usize, u64, u16)) -> Option<Tx> {
        let at = match self
            .slots
            .get(slot)?
            .binary_search_by_key(&clock, |node| node.0)
        {
            Ok(at) => return Some(self.slots[slot][at].1),
            Err(at) => at,
        };
        self.count += 1;
        let region = region
            .checked_sub(1)
            .map(|region| FunctionId(region.into()));
        let began = Occurrence {
            index: self.count,
            stack: StackId::EMPTY,
            event: Event {
                thread: ThreadId(slot as u32),
                site: SiteId::UNKNOWN,
                op: Op::Yield,
            },
        };
        let tx = (self.idg).open(Transaction::new(region, SiteId::UNKNOWN, began));
        let nodes = &mut self.slots[slot];
        nodes.insert(at, (clock, tx, false));
        if let Some(&(_, before, _)) = at.checked_sub(1).and_then(|at| nodes.get(at)) {
            self.idg.edge(before, tx);
        }
        if let Some(&(_, after, _)) = nodes.get(at + 1) {
            self.idg.edge(tx, after);
        }
        Some(tx)
    }

    fn edge(&mut self, from: (usize, u64, u16), to: (usize, u64, u16)) {
        self.edges += 1;
        if let (Some(from), Some(to)) = (self.node(from), self.node(to)) {
            self.idg.edge(from, to);
        }
    }

    /// Closes the transactions that get no more edges.
    fn close(&mut self, live: &Live) {
        for at in 0..self.slots.len() {
            let now = live.clock(at);
            self.close_slot(at, |clock, unary| clock < now + u64::from(unary));
        }
    }

    fn close_slot(&mut self, at: usize, is_over: impl Fn(u64, bool) -> bool) {
        for (clock, tx, over) in self.slots[at].iter_mut().rev() {
            let Some(region) = self.idg.get(*tx).map(|tx| tx.region) else {
                continue;
            };
            if *over {
                // Those before it may be new.
                continue;
            }
            if is_over(*clock, region.is_none()) {
                *over = true;
                self.idg.close(*tx, self.count);
                if region.is_some() {
                    self.idg.look_for(*tx);
                }
            }
        }
    }

    /// Looks for components, and names their regions.
    fn check(&mut self, live: &Live, options: &Options) -> io::Result<()> {
        let mut new = Vec::new();
        for component in self.idg.components() {
            self.components += 1;
            self.idg.select(component);
            for tx in self.idg.component() {
                let region = self.idg.get(tx).and_then(|tx| tx.region);
                let number = region.map_or(0, |region| region.0 + 1);
                if self.seen.insert(number) {
                    new.push(number);
                }
            }
            let len = self.idg.component().len();
            if len > options.component_limit {
                self.idg.retire(options.component_limit / 2);
            }
        }
        for number in new {
            let Some(region) = number.checked_sub(1) else {
                self.found.unary = true;
                continue;
            };
            let (place, which) = (region as usize / 4, u64::from(region % 4));
            let (from, function) = live.call(place)?;
            let name = self.answers(live, options)?.name(from, function, which);
            self.found.regions.extend(name.as_deref().map(Box::from));
        }
        Ok(())
    }

    fn sweep(&mut self) {
        let open: Vec<Tx> = (self.slots.iter())
            .flat_map(|nodes| nodes.iter().filter(|node| !node.2).map(|node| node.1))
            .collect();
        self.idg.sweep(open.into_iter());
        for nodes in &mut self.slots {
            nodes.retain(|&(_, tx, _)| self.idg.get(tx).is_some());
        }
    }
}
