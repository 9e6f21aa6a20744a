//! The chunks of the program's logs, of which only those are read that have a transaction in a
//! component.
//!
//! A chunk says which transaction was the last when it was begun, so two neighbours say which
//! transactions are in the first of them. It goes back to the program, unread, as soon as none of
//! these can be in a cycle any more: they are over, or unary, and the graph has none of them and none that
//! is before them in the log. If too many
//! chunks have to stay, the oldest are forgotten.
//!
//! A thread starts its last chunk again where nobody can need what is in it (`atomsan_rt::thread`), so
//! that one is looked at again before it is read.

use crate::links::{Links, Place};
use crate::live::{ChunkAt, Live};
use crate::origins;
use crate::uses::{self, Uses};
use atomsan_recording::Origin;
use atomsan_recording::file::{Piece, Record};
use atomsan_recording::format::{Kind, first_word};
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;

/// The chunks of one slot's log that have not been given back.
#[derive(Debug, Default)]
struct Slot {
    chunks: VecDeque<ChunkAt>,
    /// Whether the log's first chunk has been seen.
    begun: bool,
}

/// All chunks that have not been given back.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    slots: Vec<Slot>,
    /// How many there are.
    count: usize,
    /// How many were given back although they might have been needed.
    pub(crate) forgotten: u64,
}

/// A part of a log that belongs to one transaction, as a piece of a recording.
#[derive(Debug)]
pub(crate) struct Part {
    slot: usize,
    position: u64,
    previous: u64,
    snapshot: Vec<u64>,
    words: Vec<u64>,
}

impl Part {
    pub(crate) fn piece(&self) -> Piece<'_> {
        Piece {
            slot: self.slot,
            position: self.position,
            previous: self.previous,
            snapshot: &self.snapshot,
            words: &self.words,
        }
    }
}

impl Chunks {
    /// Looks for chunks that are new. A transaction may go on in one of them, so a component is made
    /// of [parts](Chunks::parts) only after that.
    pub(crate) fn look(&mut self, live: &Live) -> io::Result<()> {
        if self.slots.len() < live.slots() {
            self.slots.resize_with(live.slots(), Slot::default);
        }
        (1..self.slots.len()).try_for_each(|at| self.find(live, at))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Gives back the chunks that are not needed; `keep` gets what is given back. Whether some were
    /// forgotten that may have been needed.
    pub(crate) fn advance(
        &mut self,
        live: &mut Live,
        links: &Links,
        most: usize,
        mut keep: impl FnMut(usize, u64, &[u64]),
        keeps: bool,
    ) -> io::Result<bool> {
        for at in 1..self.slots.len() {
            while self.is_done(live, links, at) {
                self.give_back(live, at, &mut keep, keeps)?;
            }
        }
        if self.count <= most {
            return Ok(false);
        }
        while self.count > most / 2 {
            let oldest = (self.slots.iter().enumerate())
                .filter(|(_, slot)| slot.chunks.len() > 1)
                .min_by_key(|(_, slot)| slot.chunks.front().map(|chunk| chunk.position));
            let Some((at, _)) = oldest else {
                break;
            };
            self.give_back(live, at, &mut keep, keeps)?;
            self.forgotten += 1;
        }
        Ok(true)
    }

    /// Finds the chunks that a log has by now.
    fn find(&mut self, live: &Live, at: usize) -> io::Result<()> {
        let slot = &mut self.slots[at];
        if !slot.begun {
            let Some(first) = live.first_chunk(at)? else {
                return Ok(());
            };
            slot.begun = true;
            self.count += 1;
            slot.chunks.push_back(first);
        }
        while let Some(last) = slot.chunks.back_mut()
            && live.has_left(at, last)
            && let Some(now) = live.chunk_now(last)?
        {
            if now.position != last.position {
                *last = now;
                continue;
            }
            let Some(next) = live.next_chunk(last)? else {
                break;
            };
            self.count += 1;
            slot.chunks.push_back(next);
        }
        Ok(())
    }

    /// Looks again at the last chunk of a log, which may have started again.
    fn look_again(&mut self, live: &Live, at: usize) -> io::Result<()> {
        if let Some(last) = self
            .slots
            .get_mut(at)
            .and_then(|slot| slot.chunks.back_mut())
            && let Some(now) = live.chunk_now(last)?
        {
            *last = now;
        }
        Ok(())
    }

    /// Whether the oldest chunk of a log is not needed any more.
    fn is_done(&self, live: &Live, links: &Links, at: usize) -> bool {
        let chunks = &self.slots[at].chunks;
        let Some(next) = chunks.get(1) else {
            return false;
        };
        let (now, unary) = (live.clock(at), live.is_unary(at));
        (next.clock < now || next.clock == now && unary) && !links.has_any(at, next.clock)
    }

    fn give_back(
        &mut self,
        live: &mut Live,
        at: usize,
        keep: &mut impl FnMut(usize, u64, &[u64]),
        keeps: bool,
    ) -> io::Result<()> {
        if let Some(chunk) = self.slots[at].chunks.pop_front() {
            self.count -= 1;
            if keeps {
                let (_, words) = live.content(at, &chunk)?;
                keep(at, chunk.position, &words);
            }
            live.give_back(chunk.offset)?;
        }
        Ok(())
    }

    /// The calls that threads are in, if one of the addresses is on their stack.
    pub(crate) fn of_stacks(
        &mut self,
        live: &mut Live,
        addresses: &[u64],
    ) -> io::Result<Vec<Origin>> {
        let mut origins = Vec::new();
        for at in 0..self.slots.len() {
            self.look_again(live, at)?;
            if let Some(last) = self.slots[at].chunks.back() {
                origins.extend(origins::of_stack(live, at, last, addresses)?);
            }
        }
        Ok(origins)
    }

    /// What is left of all logs.
    pub(crate) fn rest(
        &self,
        live: &mut Live,
        mut keep: impl FnMut(usize, u64, &[u64]),
    ) -> io::Result<()> {
        for (at, slot) in self.slots.iter().enumerate() {
            for chunk in &slot.chunks {
                let (_, words) = live.content(at, chunk)?;
                keep(at, chunk.position, &words);
            }
        }
        Ok(())
    }

    /// The parts of the logs that belong to the transactions of each component, without what conflicts with
    /// nothing in it ([`Uses`]); nothing at all if there is no conflict. Transactions between two of
    /// a slot belong to the component as well, even if they have no edge of their own: the later of the two may
    /// stand for what they did. Of what is not settled there is only the order.
    ///
    /// The logs are read twice, so that only what is left is ever in memory.
    pub(crate) fn parts(
        &mut self,
        live: &mut Live,
        components: &[Vec<Place>],
    ) -> io::Result<Vec<Vec<Part>>> {
        let mut ranges = Vec::new();
        for (component, places) in components.iter().enumerate() {
            let mut places = places.clone();
            places.sort_unstable();
            for of_slot in places.chunk_by(|one, other| one.slot == other.slot) {
                let clocks = of_slot[0].clock..=of_slot[of_slot.len() - 1].clock;
                ranges.push((of_slot[0].slot, Stretch::new(component, clocks)));
            }
        }
        ranges.sort_by_key(|&(slot, _)| slot);
        for &(slot, _) in &ranges {
            self.look_again(live, slot)?;
        }
        let mut walks = Vec::new();
        for of_slot in ranges.chunk_by(|one, other| one.0 == other.0) {
            let slot = of_slot[0].0;
            let stretches = of_slot.iter().map(|(_, stretch)| stretch.clone());
            let mut stretches: Vec<Stretch> = stretches.collect();
            stretches.sort_by_key(|stretch| *stretch.clocks.start());
            let walk = Walk::new(slot, stretches);
            if let Some(chunks) = self.slots.get(slot).map(|slot| &slot.chunks) {
                walks.push((walk, chunks));
            }
        }
        let wanted = |(walk, chunks): &(Walk, &VecDeque<ChunkAt>)| walk.wanted(chunks).count();
        let mut uses = Uses::new(walks.iter().map(wanted).sum());
        for (walk, chunks) in &walks {
            walk.clone().through(live, chunks, |walk, record, _| {
                for component in walk.components() {
                    uses.note(component, walk.slot, record);
                }
            })?;
        }
        let mut found: Vec<Found> = components.iter().map(|_| Found::default()).collect();
        for (mut walk, chunks) in walks {
            let mut transaction = 0;
            walk.through(live, chunks, |walk, record, words| {
                if std::mem::replace(&mut transaction, walk.transaction) != walk.transaction {
                    found.iter_mut().for_each(Found::end_transaction);
                }
                walk.add(record, words, &uses, &mut found);
            })?;
            found.iter_mut().for_each(Found::end_transaction);
        }
        let found = found.into_iter();
        Ok(found.map(Found::into_parts).collect())
    }
}

/// What has been found of a component.
#[derive(Debug, Default)]
struct Found {
    parts: Vec<Part>,
    /// Where the parts of the current transaction start.
    start: usize,
    /// Whether it has a conflict, and whether any has had one.
    conflict: bool,
    conflicts: bool,
    /// Its edges, each with its position.
    edges: Vec<(u64, [u64; 2])>,
    /// How many calls the last record and those before it are that nothing has happened in.
    calls: usize,
}

impl Found {
    /// The current transaction ends. If it has no conflict, only the order it has put itself into is left.
    fn end_transaction(&mut self) {
        if !std::mem::take(&mut self.conflict) && self.start < self.parts.len() {
            let mut transaction = self.parts.drain(self.start..);
            let first = transaction.next();
            drop(transaction);
            let mut previous = 0;
            let mut first = first.filter(|_| !self.edges.is_empty());
            for &(position, words) in &self.edges {
                let snapshot = first.take().map(|first| (first.slot, first.snapshot));
                let slot = self.parts.last().map_or(0, |last| last.slot);
                let (slot, snapshot) = snapshot.unwrap_or((slot, Vec::new()));
                self.parts.push(Part {
                    slot,
                    position,
                    previous,
                    snapshot,
                    words: words.to_vec(),
                });
                previous = position;
            }
        }
        self.edges.clear();
        self.start = self.parts.len();
        self.calls = 0;
    }

    /// All of it; nothing if there is no conflict.
    fn into_parts(self) -> Vec<Part> {
        if self.conflicts {
            self.parts
        } else {
            Vec::new()
        }
    }

    /// Leaves the innermost call out, in which nothing has happened; the position of the last part that is
    /// left of the transaction.
    fn forget_call(&mut self) -> Option<u64> {
        self.calls -= 1;
        let last = self.parts.last_mut()?;
        let len = last.words.len().saturating_sub(Kind::Enter.words());
        last.words.truncate(len);
        if !last.words.is_empty() {
            return Some(last.position);
        }
        let last = self.parts.pop()?;
        (last.previous != 0).then_some(last.previous)
    }
}

/// Transactions of a slot that belong to a component, and its last part among those that are found.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    component: usize,
    clocks: RangeInclusive<u64>,
    /// The part that is being made, and the position of the last one in this transaction.
    open: Option<usize>,
    last: Option<u64>,
}

impl Stretch {
    fn new(component: usize, clocks: RangeInclusive<u64>) -> Stretch {
        Stretch {
            component,
            clocks,
            open: None,
            last: None,
        }
    }
}

/// A walk through some chunks of a log.
#[derive(Clone)]
pub(crate) struct Walk {
    slot: usize,
    stretches: Vec<Stretch>,
    /// Those that the current transaction is in.
    active: Vec<usize>,
    /// The functions that the thread is in, and its name: what a snapshot is made of.
    thread: [u64; 4],
    frames: Vec<[u64; 2]>,
    /// Whether the last chunk was walked through, so that the thread is known.
    goes_on: bool,
    /// The transactions that have been entered so far.
    transaction: u64,
}

impl Walk {
    pub(crate) fn new(slot: usize, stretches: Vec<Stretch>) -> Walk {
        Walk {
            slot,
            stretches,
            active: Vec::new(),
            thread: [0; 4],
            frames: Vec::new(),
            goes_on: false,
            transaction: 0,
        }
    }

    /// Whether some of these transactions belong to a component.
    fn wants(&self, from: u64, to: u64) -> bool {
        let mut stretches = self.stretches.iter();
        stretches.any(|stretch| *stretch.clocks.start() <= to && from <= *stretch.clocks.end())
    }

    /// The chunks that have such transactions.
    fn wanted(&self, chunks: &VecDeque<ChunkAt>) -> impl Iterator<Item = usize> {
        (0..chunks.len()).filter(|&index| {
            let end = chunks.get(index + 1).map_or(u64::MAX, |next| next.clock);
            self.wants(chunks[index].clock, end)
        })
    }

    /// The components that the current transaction is in.
    fn components(&self) -> impl Iterator<Item = usize> {
        let active = self.active.iter();
        active.map(|&active| self.stretches[active].component)
    }

    /// A chunk is left out.
    fn gap(&mut self) {
        self.transaction += 1;
        self.goes_on = false;
        self.stretches
            .iter_mut()
            .for_each(|stretch| stretch.last = None);
    }

    /// No part goes on here.
    fn close(&mut self) {
        for &active in &self.active {
            self.stretches[active].open = None;
        }
    }

    /// What follows belongs to this transaction.
    fn enter(&mut self, clock: u64) {
        self.close();
        self.active.clear();
        // They are sorted by their starts.
        let begun = self.stretches.iter().enumerate();
        let begun = begun.take_while(|(_, stretch)| *stretch.clocks.start() <= clock);
        let active = begun.filter(|(_, stretch)| clock <= *stretch.clocks.end());
        self.active.extend(active.map(|(index, _)| index));
    }

    /// Starts with a snapshot.
    pub(crate) fn start(&mut self, snapshot: &[u64]) {
        self.frames.clear();
        let mut at = 0;
        while let Some(record) = Record::parse(&snapshot[at..], 0) {
            let len = record.kind.words();
            self.follow(&record, &snapshot[at..at + len]);
            at += len;
        }
    }

    /// The thread, and the innermost calls that it is in.
    pub(crate) fn snapshot(&self, calls: usize) -> Vec<u64> {
        let mut snapshot = Vec::new();
        if self.thread[0] != 0 {
            let from = self.frames.len().saturating_sub(calls);
            snapshot.extend(self.thread);
            snapshot.extend(self.frames[from..].iter().flatten());
        }
        snapshot
    }

    /// The thread's stack.
    pub(crate) fn stack(&self) -> std::ops::Range<u64> {
        let [_, _, low, size] = self.thread;
        low..low.saturating_add(size)
    }

    /// What a record says of the calls that the thread is in.
    pub(crate) fn follow(&mut self, record: &Record, words: &[u64]) {
        match record.kind {
            Kind::Enter => self.frames.push([words[0], words[1]]),
            Kind::Unnamed => {
                let unnamed = record.subject.min(1 << 20) as usize;
                let frames = self.frames.len() + unnamed;
                let unknown = [first_word(Kind::Enter, 0, 0), 0];
                self.frames.resize(frames, unknown);
            }
            Kind::Exit => {
                self.frames.pop();
            }
            Kind::ThreadStart | Kind::Continue => {
                self.frames.clear();
                self.thread.copy_from_slice(&words[..4]);
                self.thread[0] = first_word(Kind::Continue, 0, record.subject);
            }
            _ => {}
        }
    }

    /// Walks through the chunks of the log, and visits the records that belong to a component.
    fn through(
        &mut self,
        live: &mut Live,
        chunks: &VecDeque<ChunkAt>,
        mut visit: impl FnMut(&mut Walk, &Record, &[u64]),
    ) -> io::Result<()> {
        let wanted: Vec<usize> = self.wanted(chunks).collect();
        let mut next = 0;
        for index in wanted {
            let chunk = &chunks[index];
            if live.is_needless(chunk)? {
                continue;
            }
            if std::mem::replace(&mut next, index + 1) != index {
                self.gap();
            }
            let (snapshot, words) = live.content(self.slot, chunk)?;
            if !self.goes_on {
                self.start(&snapshot);
            }
            self.goes_on = true;
            self.enter(chunk.clock);
            let mut at = 0;
            while let Some(record) = Record::parse(&words[at..], chunk.position + 8 * at as u64) {
                let words = &words[at..at + record.kind.words()];
                at += words.len();
                if record.kind == Kind::Transaction {
                    self.enter(record.subject);
                    self.transaction += 1;
                    for &active in &self.active {
                        self.stretches[active].last = None;
                    }
                    continue;
                }
                if record.kind != Kind::Edge && !live.is_settled(self.slot, record.position) {
                    // A part has no gaps.
                    self.close();
                } else if !self.active.is_empty() {
                    visit(self, &record, words);
                }
                self.follow(&record, words);
            }
        }
        Ok(())
    }

    /// Adds a record to the parts of all components that it belongs to.
    fn add(&mut self, record: &Record, words: &[u64], uses: &Uses, found: &mut [Found]) {
        for index in 0..self.active.len() {
            let active = self.active[index];
            let Stretch {
                component,
                open,
                last,
                ..
            } = self.stretches[active];
            let found = &mut found[component];
            let part = uses.part(component, record);
            if part == uses::Part::None {
                // A part has no gaps.
                self.stretches[active].open = None;
                continue;
            }
            if record.kind == Kind::Exit && found.calls > 0 {
                let stretch = &mut self.stretches[active];
                (stretch.open, stretch.last) = (None, found.forget_call());
                continue;
            }
            if part == uses::Part::Conflict {
                (found.conflict, found.conflicts) = (true, true);
            }
            if let (Kind::Edge, &[first, second]) = (record.kind, words) {
                found.edges.push((record.position, [first, second]));
            }
            found.calls = if record.kind == Kind::Enter {
                found.calls + 1
            } else {
                0
            };
            let parts = &mut found.parts;
            let open = open.unwrap_or_else(|| {
                parts.push(Part {
                    slot: self.slot,
                    position: record.position,
                    previous: last.unwrap_or(0),
                    // What goes on needs none: no call is left out that it is in.
                    snapshot: match last {
                        None => self.snapshot(usize::MAX),
                        Some(_) => Vec::new(),
                    },
                    words: Vec::new(),
                });
                parts.len() - 1
            });
            let stretch = &mut self.stretches[active];
            if stretch.open.replace(open).is_none() {
                stretch.last = Some(record.position);
            }
            parts[open].words.extend_from_slice(words);
        }
    }
}
