//! The parts of logs that belong to the transactions of a component: a walk through the chunks of a slot, and
//! what it finds.
//!
//! Each transaction is a part that stands by itself: a snapshot of its thread, and its records. The snapshot says all that
//! the thread is in the middle of and that changes the meaning of what it does: its calls, and what it initialises. What conflicts
//! with nothing in the component is left out on the way ([`Uses`]), and a part goes on behind
//! such a gap, because no call is left out that it is in. A call in which nothing is left goes too. Of a
//! transaction without any conflict there are only the edges: others are in order because of them.

use crate::live::{ChunkAt, Live};
use crate::uses::{self, Uses};
use atomsan_recording::file::{Piece, Record};
use atomsan_recording::format::{GUARD, Kind, LOW, first_word, second_word};
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;

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

/// What has been found of a component.
#[derive(Debug, Default)]
pub(crate) struct Found {
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
    pub(crate) fn end_transaction(&mut self) {
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
    pub(crate) fn into_parts(self) -> Vec<Part> {
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
    pub(crate) clocks: RangeInclusive<u64>,
    /// The part that is being made, and the position of the last one in this transaction.
    open: Option<usize>,
    last: Option<u64>,
}

impl Stretch {
    pub(crate) fn new(component: usize, clocks: RangeInclusive<u64>) -> Stretch {
        Stretch {
            component,
            clocks,
            open: None,
            last: None,
        }
    }
}

/// Where the first record is, from a place on, that says something of the thread: of what belongs to no component, nothing
/// else is wanted, and that is most of a chunk.
fn skipped(words: &[u64], mut at: usize) -> usize {
    while let Some(&first) = words.get(at)
        && let Some(kind) = Kind::from_number((first >> 56) as u8)
    {
        let is_wanted = match kind {
            Kind::Transaction
            | Kind::Enter
            | Kind::Exit
            | Kind::Unnamed
            | Kind::ThreadStart
            | Kind::Continue => true,
            Kind::Acquire | Kind::AcquireShared | Kind::Release | Kind::ReleaseShared => {
                let second = words.get(at + 1);
                second.is_some_and(|second| (second >> 48) as u16 == GUARD)
            }
            _ => false,
        };
        if is_wanted {
            break;
        }
        at += kind.words();
    }
    at.min(words.len())
}

/// A walk through some chunks of a log.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) slot: usize,
    stretches: Vec<Stretch>,
    /// Those that the current transaction is in.
    active: Vec<usize>,
    /// The thread's name, the functions that it is in, and what it initialises that is initialised once, with how many
    /// functions are around that: what a snapshot is made of.
    thread: [u64; 4],
    frames: Vec<[u64; 2]>,
    initialising: Vec<(usize, [u64; 2])>,
    /// Whether the last chunk was walked through, so that the thread is known.
    goes_on: bool,
    /// How many transactions have been entered so far.
    pub(crate) transaction: u64,
}

impl Walk {
    pub(crate) fn new(slot: usize, stretches: Vec<Stretch>) -> Walk {
        Walk {
            slot,
            stretches,
            active: Vec::new(),
            thread: [0; 4],
            frames: Vec::new(),
            initialising: Vec::new(),
            goes_on: false,
            transaction: 0,
        }
    }

    /// Leaves components out, before the walk has begun.
    pub(crate) fn retain(&mut self, component: impl Fn(usize) -> bool) {
        (self.stretches).retain(|stretch| component(stretch.component));
    }

    /// Whether some of these transactions belong to a component.
    fn wants(&self, from: u64, to: u64) -> bool {
        let mut stretches = self.stretches.iter();
        stretches.any(|stretch| *stretch.clocks.start() <= to && from <= *stretch.clocks.end())
    }

    /// The chunks that have such transactions.
    pub(crate) fn wanted(&self, chunks: &VecDeque<ChunkAt>) -> impl Iterator<Item = usize> {
        (0..chunks.len()).filter(|&index| {
            let end = chunks.get(index + 1).map_or(u64::MAX, |next| next.clock);
            self.wants(chunks[index].clock, end)
        })
    }

    /// The components that the current transaction is in.
    pub(crate) fn components(&self) -> impl Iterator<Item = usize> {
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
        self.initialising.clear();
        let mut at = 0;
        while let Some(record) = Record::parse(&snapshot[at..], 0) {
            let len = record.kind.words();
            self.follow(&record, &snapshot[at..at + len]);
            at += len;
        }
    }

    /// The thread, the calls that it is in, and what it initialises in each.
    pub(crate) fn snapshot(&self) -> Vec<u64> {
        let mut snapshot = Vec::new();
        if self.thread[0] != 0 {
            snapshot.extend(self.thread);
            let mut from = 0;
            for &(depth, words) in &self.initialising {
                snapshot.extend(self.frames[from..depth].iter().flatten());
                snapshot.extend(words);
                from = depth;
            }
            snapshot.extend(self.frames[from..].iter().flatten());
        }
        snapshot
    }

    /// The thread's stack.
    pub(crate) fn stack(&self) -> std::ops::Range<u64> {
        let [_, _, low, size] = self.thread;
        low..low.saturating_add(size)
    }

    /// What a record says of the calls that the thread is in, and of what it initialises.
    pub(crate) fn follow(&mut self, record: &Record, words: &[u64]) {
        match record.kind {
            Kind::Enter => self.frames.push([words[0], words[1]]),
            Kind::Unnamed => {
                let unnamed = record.subject.min(1 << 20) as usize;
                let frames = self.frames.len() + unnamed;
                let unknown = [first_word(Kind::Enter, 0, 0), 0];
                self.frames.resize(frames, unknown);
            }
            Kind::Exit => self.leave(1),
            Kind::Transaction => self.leave(record.second),
            Kind::Initialising => self
                .initialising
                .push((self.frames.len(), [words[0], words[1]])),
            Kind::Acquire | Kind::AcquireShared if record.detail() == GUARD => {
                let first = first_word(Kind::Initialising, 0, record.subject);
                let second = second_word(0, record.pc());
                self.initialising.push((self.frames.len(), [first, second]));
            }
            Kind::Release | Kind::ReleaseShared if record.detail() == GUARD => {
                let is_this = |&(_, [first, _]): &(usize, [u64; 2])| first & LOW == record.subject;
                if let Some(at) = self.initialising.iter().rposition(is_this) {
                    self.initialising.truncate(at);
                }
            }
            Kind::ThreadStart | Kind::Continue => {
                self.frames.clear();
                self.initialising.clear();
                self.thread.copy_from_slice(&words[..4]);
                self.thread[0] = first_word(Kind::Continue, 0, record.subject);
            }
            _ => {}
        }
    }

    /// So many functions are left, and with them what is initialised in them: an exception does not say so.
    fn leave(&mut self, functions: u64) {
        let left = functions.min(self.frames.len() as u64) as usize;
        let depth = self.frames.len() - left;
        self.frames.truncate(depth);
        while (self.initialising.pop_if(|(around, _)| *around > depth)).is_some() {}
    }

    /// Walks through the chunks of the log, and visits the records that belong to a component.
    pub(crate) fn through(
        &mut self,
        live: &mut Live,
        chunks: &VecDeque<ChunkAt>,
        mut visit: impl FnMut(&mut Walk, &Record, &[u64]),
    ) -> io::Result<()> {
        let wanted: Vec<usize> = self.wanted(chunks).collect();
        let ends = self.stretches.iter().map(|stretch| *stretch.clocks.end());
        let last = ends.max().unwrap_or(0);
        let settled = live.settled(self.slot);
        let mut next = 0;
        for index in wanted {
            let chunk = &chunks[index];
            if chunk.is_needless {
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
            loop {
                if self.active.is_empty() {
                    at = skipped(&words, at);
                }
                let position = chunk.position + 8 * at as u64;
                let Some(record) = Record::parse(&words[at..], position) else {
                    break;
                };
                let words = &words[at..at + record.kind.words()];
                at += words.len();
                if record.kind == Kind::Transaction {
                    if record.subject > last {
                        // Nothing of the rest belongs to any.
                        self.close();
                        return Ok(());
                    }
                    self.follow(&record, words);
                    self.enter(record.subject);
                    self.transaction += 1;
                    for &active in &self.active {
                        self.stretches[active].last = None;
                    }
                    continue;
                }
                if record.position >= settled && record.kind != Kind::Edge {
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
    pub(crate) fn add(&mut self, record: &Record, words: &[u64], uses: &Uses, found: &mut [Found]) {
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
                        None => self.snapshot(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use atomsan_recording::format::{
        CHUNK_HEADER_SIZE, CHUNK_MAGIC, ChunkHeader, ENTRY_SIZE, MAGIC, SLOT_ENTRIES, entry, header,
    };
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt as _;

    /// Follows a record.
    fn follow(walk: &mut Walk, words: &[u64]) {
        walk.follow(&Record::parse(words, 8).unwrap(), words);
    }

    fn enter(function: u64) -> [u64; 2] {
        [first_word(Kind::Enter, 0, 0), function]
    }

    fn guard(kind: Kind, guard: u64) -> [u64; 2] {
        [first_word(kind, 0, guard), second_word(GUARD, 7)]
    }

    fn initialising(guard: u64) -> [u64; 2] {
        [first_word(Kind::Initialising, 0, guard), second_word(0, 7)]
    }

    #[test]
    fn a_snapshot_says_what_is_being_initialised() {
        let thread = [first_word(Kind::Continue, 0, 3), 0, 0x1000, 0x100];
        let snapshot = [
            &thread[..],
            &enter(1),
            &initialising(0x10),
            &enter(2),
            &initialising(0x20),
        ];
        let mut walk = Walk::new(1, Vec::new());
        walk.start(&snapshot.concat());
        assert_eq!(walk.snapshot(), snapshot.concat());
        // Who finds something initialised is not initialising it.
        follow(&mut walk, &guard(Kind::AcquireShared, 0x30));
        follow(&mut walk, &guard(Kind::ReleaseShared, 0x30));
        assert_eq!(walk.snapshot(), snapshot.concat());
        follow(&mut walk, &guard(Kind::Release, 0x20));
        assert_eq!(walk.snapshot(), snapshot[..4].concat());
        follow(&mut walk, &guard(Kind::Acquire, 0x40));
        let now = [&snapshot[..4].concat()[..], &initialising(0x40)].concat();
        assert_eq!(walk.snapshot(), now);
        // An exception leaves it.
        follow(&mut walk, &[first_word(Kind::Exit, 0, 0), 0]);
        assert_eq!(walk.snapshot(), snapshot[..3].concat());
        follow(&mut walk, &[first_word(Kind::Transaction, 0, 9), 1]);
        assert_eq!(walk.snapshot(), thread);
    }

    /// A recording with one chunk, of slot 1.
    fn live(words: &[u64]) -> (tempfile::NamedTempFile, Live) {
        const CHUNK: usize = 1 << 20;
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |offset: usize, word: u64| {
            let file = file.as_file();
            file.write_all_at(&word.to_le_bytes(), offset as u64)
                .unwrap();
        };
        let entry = SLOT_ENTRIES + ENTRY_SIZE;
        write(header::MAGIC, MAGIC);
        write(header::HIGHEST_SLOT, 1);
        write(entry + entry::FIRST_CHUNK, CHUNK as u64);
        write(entry + entry::POSITION, 8 + 8 * words.len() as u64);
        write(CHUNK + offset_of!(ChunkHeader, magic), CHUNK_MAGIC.into());
        write(CHUNK + offset_of!(ChunkHeader, position), 8);
        for (at, &word) in words.iter().enumerate() {
            write(CHUNK + CHUNK_HEADER_SIZE + 8 * at, word);
        }
        let mut live = Live::open(file.path()).unwrap().unwrap();
        live.look().unwrap();
        live.look_at_clocks().unwrap();
        (file, live)
    }

    /// By definition: what is visited is what belongs to a transaction of a component, wherever in the log that is.
    #[test]
    fn a_walk_visits_the_transactions_of_components() {
        let transaction = |number| {
            let begin = [first_word(Kind::Transaction, 0, number), 0];
            let read = [first_word(Kind::Read, 8, 8 * number), second_word(0, 7)];
            [begin, read].concat()
        };
        let words: Vec<u64> = (1..=6).flat_map(transaction).collect();
        let (_file, mut live) = live(&words);
        let chunks = VecDeque::from([live.first_chunk(1).unwrap().unwrap()]);
        let ranges = (1..=7).flat_map(|start| (start..=7).map(move |end| start..=end));
        let ranges: Vec<RangeInclusive<u64>> = ranges.collect();
        for one in &ranges {
            for other in &ranges {
                let mut both = [one.clone(), other.clone()];
                both.sort_by_key(|range| *range.start());
                let stretches = (0..).zip(both);
                let stretches = stretches.map(|(number, range)| Stretch::new(number, range));
                let mut walk = Walk::new(1, stretches.collect());
                let mut visited = Vec::new();
                walk.through(&mut live, &chunks, |_, record, _| {
                    visited.push(record.subject / 8);
                })
                .unwrap();
                let is_wanted = |number: &u64| one.contains(number) || other.contains(number);
                let expected: Vec<u64> = (1..=6).filter(is_wanted).collect();
                assert_eq!(visited, expected, "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn guards_are_not_skipped() {
        let lock = |kind| [first_word(kind, 0, 0x10), second_word(0, 7)];
        let load = [first_word(Kind::AtomicLoad, 8, 0x10), second_word(0, 7), 1];
        let plain = [&lock(Kind::Acquire)[..], &load, &lock(Kind::Release)].concat();
        assert_eq!(skipped(&plain, 0), plain.len());
        for kind in [Kind::Acquire, Kind::ReleaseShared] {
            let words = [&plain[..], &guard(kind, 0x10)].concat();
            assert_eq!(skipped(&words, 0), plain.len());
        }
    }
}
