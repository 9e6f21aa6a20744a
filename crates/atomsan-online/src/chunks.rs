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
use atomsan_recording::Origin;
use atomsan_recording::file::{Piece, Record};
use atomsan_recording::format::{Kind, first_word};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
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
    /// Visits all records.
    fn each(&self, mut visit: impl FnMut(&Record, &[u64])) {
        let mut at = 0;
        while let Some(record) = Record::parse(&self.words[at..], self.position + 8 * at as u64) {
            let len = record.kind.words();
            visit(&record, &self.words[at..at + len]);
            at += len;
        }
    }

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

    /// The parts of the logs that belong to the transactions of each component. Those between two of
    /// a slot belong to it as well, even if they have no edge of their own: the later of the two may
    /// stand for what they did. Of what is not settled there is only the order.
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
        let mut parts: Vec<Vec<Part>> = components.iter().map(|_| Vec::new()).collect();
        for of_slot in ranges.chunk_by(|one, other| one.0 == other.0) {
            let slot = of_slot[0].0;
            self.look_again(live, slot)?;
            let Some(chunks) = self.slots.get(slot).map(|slot| &slot.chunks) else {
                continue;
            };
            let stretches = of_slot.iter().map(|(_, stretch)| stretch.clone());
            let mut walk = Walk::new(slot, stretches.collect());
            for (index, chunk) in chunks.iter().enumerate() {
                let end = chunks.get(index + 1).map_or(u64::MAX, |next| next.clock);
                if !walk.wants(chunk.clock, end) || live.is_needless(chunk)? {
                    walk.gap();
                    continue;
                }
                let (snapshot, words) = live.content(slot, chunk)?;
                let is_settled = |position| live.is_settled(slot, position);
                walk.through(chunk, &snapshot, &words, is_settled, &mut parts);
            }
        }
        Ok(parts)
    }
}

/// The largest range that is looked at granule by granule.
const LARGEST: u64 = 1 << 20;

fn granules(record: &Record) -> std::ops::Range<u64> {
    let range = record.range().unwrap_or(0..0);
    range.start >> 3..range.end.div_ceil(8)
}

/// Leaves out the accesses that conflict with none in the parts: of memory that only one slot
/// accesses in them, or that nobody writes to. Reads of shared data are most of what such a
/// component has.
pub(crate) fn without_private(parts: Vec<Part>) -> Vec<Part> {
    let mut uses = HashMap::<u64, Use, FxBuildHasher>::default();
    let mut too_large = false;
    for part in &parts {
        part.each(|record, _| {
            let granules = granules(record);
            if granules.end - granules.start > LARGEST / 8 {
                too_large = true;
                return;
            }
            let reads = matches!(record.kind, Kind::Read | Kind::ReadRange | Kind::AtomicLoad);
            for granule in granules {
                let slot = part.slot as u32;
                let known = uses.entry(granule).or_insert(Use { slot, both: 0 });
                known.both |= u8::from(known.slot != slot) | u8::from(!reads) << 1;
            }
        });
    }
    if too_large {
        return parts;
    }
    let is_private = |record: &Record| {
        let plain = matches!(
            record.kind,
            Kind::Read | Kind::Write | Kind::ReadRange | Kind::WriteRange
        );
        let private = |granule| uses.get(&granule).is_none_or(|known| known.both != 3);
        plain && granules(record).all(private)
    };
    let mut kept = Vec::new();
    for part in parts {
        let mut last = None;
        let mut open = None;
        part.each(|record, words| {
            if is_private(record) {
                open = None;
                return;
            }
            let at = *open.get_or_insert_with(|| {
                kept.push(Part {
                    slot: part.slot,
                    position: record.position,
                    previous: last.unwrap_or(part.previous),
                    // What goes on needs none.
                    snapshot: match last {
                        Some(_) => Vec::new(),
                        None => part.snapshot.clone(),
                    },
                    words: Vec::new(),
                });
                last = Some(record.position);
                kept.len() - 1
            });
            kept[at].words.extend_from_slice(words);
        });
    }
    kept
}

/// Who uses a granule.
struct Use {
    slot: u32,
    /// 1 if another slot does too, and 2 if somebody writes to it.
    both: u8,
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
        }
    }

    /// Whether some of these transactions belong to a component.
    fn wants(&self, from: u64, to: u64) -> bool {
        let mut stretches = self.stretches.iter();
        stretches.any(|stretch| *stretch.clocks.start() <= to && from <= *stretch.clocks.end())
    }

    /// A chunk is left out.
    fn gap(&mut self) {
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
        let active = self.stretches.iter().enumerate();
        let active = active.filter(|(_, stretch)| stretch.clocks.contains(&clock));
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

    fn through(
        &mut self,
        chunk: &ChunkAt,
        snapshot: &[u64],
        words: &[u64],
        is_settled: impl Fn(u64) -> bool,
        parts: &mut [Vec<Part>],
    ) {
        if !self.goes_on {
            self.start(snapshot);
        }
        self.goes_on = true;
        self.enter(chunk.clock);
        let mut at = 0;
        while let Some(record) = Record::parse(&words[at..], chunk.position + 8 * at as u64) {
            let words = &words[at..at + record.kind.words()];
            at += words.len();
            if record.kind == Kind::Transaction {
                self.enter(record.subject);
                for stretch in &mut self.stretches {
                    stretch.last = None;
                }
                continue;
            }
            if record.kind != Kind::Edge && !is_settled(record.position) {
                // A part has no gaps.
                self.close();
            } else {
                self.add(&record, words, parts);
            }
            self.follow(&record, words);
        }
    }

    /// Adds a record to the parts of all components that it belongs to.
    fn add(&mut self, record: &Record, words: &[u64], parts: &mut [Vec<Part>]) {
        for index in 0..self.active.len() {
            let active = self.active[index];
            let snapshot = match self.stretches[active].open {
                None => self.snapshot(usize::MAX),
                Some(_) => Vec::new(),
            };
            let stretch = &mut self.stretches[active];
            let parts = &mut parts[stretch.component];
            let open = *stretch.open.get_or_insert_with(|| {
                parts.push(Part {
                    slot: self.slot,
                    position: record.position,
                    previous: stretch.last.replace(record.position).unwrap_or(0),
                    snapshot,
                    words: Vec::new(),
                });
                parts.len() - 1
            });
            parts[open].words.extend_from_slice(words);
        }
    }
}
