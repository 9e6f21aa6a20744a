//! A walk through the log of a slot, which visits what belongs to the transactions of components.
//!
//! What is walked through is chunks of the log or, the second time, what the first walk has [visited](crate::visited) in them. A
//! chunk begins with a snapshot of the thread and says which transaction it begins in, so a walk starts at any chunk; within
//! one it has to pass all records up to those that it visits, because where a record starts is known from the one before it,
//! and which calls the thread is in from all of them. It is over with a chunk behind the last transaction there
//! that belongs to a component, and reads no further: mostly a component has one transaction of a few dozen
//! records in a chunk of thousands.

use crate::live::{ChunkAt, Live, Word};
use crate::visited::Visited;
use atomsan_recording::file::Record;
use atomsan_recording::format::{GUARD, Kind, LOW, first_word, second_word};
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;

/// How many words the longest record has.
const LONGEST: usize = 4;

/// Transactions of a slot that belong to a component, and its last part among those that are found.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) component: usize,
    pub(crate) clocks: RangeInclusive<u64>,
    /// The part that is being made, and the position of the last one in this transaction.
    pub(crate) open: Option<usize>,
    pub(crate) last: Option<u64>,
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

/// A piece of a log, as far as it is at hand.
struct Log<'a> {
    words: &'a [Word],
    /// The position of the first of them.
    position: u64,
    /// Whether there are more of them.
    goes_on: bool,
    /// What is [settled](Live::settled).
    settled: u64,
    /// Behind this transaction there is nothing to visit.
    last: u64,
}

fn words(words: &[Word]) -> Vec<u64> {
    words.iter().copied().map(u64::from_le_bytes).collect()
}

/// The record at a place, and its words; `None` if there is none, or not all of it.
fn record_at(words: &[Word], at: usize, position: u64) -> Option<(Record, [u64; LONGEST])> {
    let rest = words.get(at..)?;
    let mut these = [0; LONGEST];
    for (one, word) in these.iter_mut().zip(rest) {
        *one = u64::from_le_bytes(*word);
    }
    let record = Record::parse(&these[..rest.len().min(LONGEST)], position)?;
    Some((record, these))
}

/// A walk through some chunks of a log.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) slot: usize,
    pub(crate) stretches: Vec<Stretch>,
    /// Those that the current transaction is in.
    pub(crate) active: Vec<usize>,
    /// The thread's name, the functions that it is in, and what it initialises that is initialised once, with how many
    /// functions are around that: what a snapshot is made of.
    thread: [u64; 4],
    frames: Vec<[u64; 2]>,
    initialising: Vec<(usize, [u64; 2])>,
    /// The current transaction.
    clock: u64,
    /// The next one that belongs to a component, if the current one belongs to none.
    next: u64,
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
            clock: 0,
            next: 0,
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

    /// No part goes on here.
    fn close(&mut self) {
        for &active in &self.active {
            self.stretches[active].open = None;
        }
    }

    /// What follows belongs to this transaction.
    fn enter(&mut self, clock: u64) {
        self.close();
        self.clock = clock;
        self.active.clear();
        // They are sorted by their starts.
        let begun = (self.stretches).partition_point(|stretch| *stretch.clocks.start() <= clock);
        let active = (0..begun).filter(|&at| clock <= *self.stretches[at].clocks.end());
        self.active.extend(active);
        let next = self.stretches.get(begun);
        self.next = next.map_or(u64::MAX, |next| *next.clocks.start());
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

    /// The thread is somewhere else: behind a gap in the log, or behind what was not visited.
    fn jump(&mut self) {
        self.transaction += 1;
        for stretch in &mut self.stretches {
            stretch.last = None;
        }
    }

    /// The last transaction that belongs to a component, of those that begin up to one.
    fn last_until(&self, until: u64) -> u64 {
        let begun = self.stretches.iter();
        let begun = begun.take_while(|stretch| *stretch.clocks.start() <= until);
        begun
            .map(|stretch| *stretch.clocks.end())
            .max()
            .unwrap_or(0)
    }

    /// Walks through the chunks of the log, and visits the records that belong to a component.
    pub(crate) fn through(
        &mut self,
        live: &mut Live,
        chunks: &VecDeque<ChunkAt>,
        visited: &mut Visited,
        mut visit: impl FnMut(&mut Walk, &Record, &[u64]),
    ) -> io::Result<()> {
        let wanted: Vec<usize> = self.wanted(chunks).collect();
        let settled = live.settled(self.slot);
        // The chunk before which the thread is known, because it has been walked up to there.
        let mut known = None;
        for index in wanted {
            let chunk = &chunks[index];
            if chunk.is_needless {
                continue;
            }
            let end = chunks.get(index + 1).map_or(u64::MAX, |next| next.clock);
            let last = self.last_until(end);
            let mut reading = live.begin(self.slot, chunk);
            let goes_on = known == Some(index);
            known = Some(index + 1);
            let mut at = None;
            while let Some(content) = live.read_on(&mut reading)? {
                let from = match at {
                    Some(from) => from,
                    None => {
                        if !goes_on {
                            self.jump();
                            self.start(&words(content.snapshot));
                        }
                        self.enter(chunk.clock);
                        self.begin(visited, chunk.position, !goes_on);
                        0
                    }
                };
                let piece = Log {
                    words: content.records,
                    position: chunk.position,
                    goes_on: !content.is_all,
                    settled,
                    last,
                };
                at = self.along(&piece, from, visited, &mut visit);
                if at.is_none() {
                    known = None;
                    break;
                }
            }
        }
        self.close();
        Ok(())
    }

    /// Walks once more through what another walk has visited, which was for these components and maybe for more.
    pub(crate) fn again(
        &mut self,
        visited: &Visited,
        settled: u64,
        mut visit: impl FnMut(&mut Walk, &Record, &[u64]),
    ) {
        for run in visited.runs() {
            if run.is_new {
                self.jump();
            }
            self.start(run.snapshot);
            self.enter(run.clock);
            let log = Log {
                words: run.words,
                position: run.position,
                goes_on: false,
                settled,
                last: u64::MAX,
            };
            self.along(&log, 0, &mut Visited::default(), &mut visit);
        }
        self.close();
    }

    /// What follows is visited if it belongs to a component: a run that begins at a position, in another transaction than the last one or
    /// in the same.
    fn begin(&self, visited: &mut Visited, position: u64, is_new: bool) {
        if !self.active.is_empty() {
            visited.begin(self.snapshot(), self.clock, position, is_new);
        }
    }

    /// Passes over what belongs to no component, which is most of a chunk; of that, nothing is wanted but what it says of
    /// the thread. Where there is something else, or the end.
    fn pass(&mut self, words: &[Word], mut at: usize) -> usize {
        while let Some(&[first, second]) = words.get(at..).and_then(<[Word]>::first_chunk)
            && let Some(kind) = Kind::from_number(first[7])
        {
            let [first, second] = [first, second].map(u64::from_le_bytes);
            match kind {
                Kind::Enter => self.frames.push([first, second]),
                Kind::Exit => self.leave(1),
                Kind::Transaction if first & LOW < self.next => self.leave(second),
                Kind::Transaction
                | Kind::Unnamed
                | Kind::Initialising
                | Kind::ThreadStart
                | Kind::Continue => break,
                Kind::Acquire | Kind::AcquireShared | Kind::Release | Kind::ReleaseShared
                    if (second >> 48) as u16 == GUARD =>
                {
                    break;
                }
                _ => {}
            }
            at += kind.words();
        }
        at
    }

    /// Walks through a piece of the log from a place on. Where it goes on, if there may be more to visit.
    fn along(
        &mut self,
        log: &Log<'_>,
        mut at: usize,
        visited: &mut Visited,
        visit: &mut impl FnMut(&mut Walk, &Record, &[u64]),
    ) -> Option<usize> {
        loop {
            if self.active.is_empty() {
                if self.next > log.last {
                    return None;
                }
                at = self.pass(log.words, at);
            }
            if log.goes_on && at + LONGEST > log.words.len() {
                return Some(at);
            }
            let position = log.position + 8 * at as u64;
            let Some((record, these)) = record_at(log.words, at, position) else {
                return Some(at);
            };
            let len = record.kind.words();
            let (from, words) = (at, &these[..len]);
            at += len;
            if record.kind == Kind::Transaction {
                self.follow(&record, words);
                let goes_on = !self.active.is_empty();
                self.enter(record.subject);
                self.transaction += 1;
                for &active in &self.active {
                    self.stretches[active].last = None;
                }
                if !goes_on {
                    self.begin(visited, position + 8 * len as u64, true);
                } else if !self.active.is_empty() {
                    visited.extend(&log.words[from..at]);
                }
                continue;
            }
            if !self.active.is_empty() {
                visited.extend(&log.words[from..at]);
            }
            if record.position >= log.settled && record.kind != Kind::Edge {
                // A part has no gaps.
                self.close();
            } else if !self.active.is_empty() {
                visit(self, &record, words);
            }
            self.follow(&record, words);
        }
    }
}

#[cfg(test)]
mod tests;
