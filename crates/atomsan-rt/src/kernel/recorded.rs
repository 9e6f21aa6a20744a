//! What the logs say: records, and their order by positions and edges.

use super::truth::Access;
use crate::format::{
    CHUNK_HEADER_SIZE, CHUNK_LOG, CHUNK_MAGIC, CHUNK_UNIT, ChunkHeader, HEADER_SIZE, Kind, LOW,
    header,
};
use crate::recording;
use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::vec::Vec;

/// A record, and which records of each log come before it.
pub(super) struct Record {
    pub(super) position: u64,
    pub(super) kind: Kind,
    size: usize,
    subject: u64,
    words: [u64; 3],
    /// For each log, how many of its records come before this one or are it.
    before: HashMap<u32, usize>,
}

impl Record {
    /// Whether it is an access; whether of that byte, and strong enough to stand for one like it.
    pub(super) fn stands_for(&self, byte: usize, write: bool, atomic: bool) -> bool {
        let (writes, is_atomic, size) = match self.kind {
            Kind::Read => (false, false, self.size),
            Kind::Write => (true, false, self.size),
            Kind::ReadRange => (false, false, self.words[1] as usize),
            Kind::WriteRange => (true, false, self.words[1] as usize),
            Kind::AtomicLoad | Kind::AtomicRmwFailed => (false, true, self.size),
            Kind::AtomicStore | Kind::AtomicRmw => (true, true, self.size),
            _ => return false,
        };
        let start = self.subject as usize;
        (writes || !write) && is_atomic == atomic && (start..start + size).contains(&byte)
    }
}

/// The logs of the threads since some positions.
pub(super) struct Logs {
    pub(super) logs: BTreeMap<u32, Vec<Record>>,
    /// The records in an order that respects the edges.
    order: Vec<(u32, usize)>,
}

/// An atomic operation without a record: the slot, the address, and how far its log went.
pub(super) type Unwritten = (u32, u64, u64);

/// A place in the logs.
pub(super) type Place = (u32, usize);

impl Logs {
    /// Reads what each log has from a position on.
    pub(super) fn read(since: &HashMap<u32, u64>) -> Logs {
        let mut logs = BTreeMap::<u32, Vec<Record>>::new();
        let base = core::ptr::from_ref(recording::counter(0)) as usize;
        let top = recording::counter(header::TOP).load(Ordering::Relaxed) as usize;
        for offset in (HEADER_SIZE..top).step_by(CHUNK_UNIT) {
            // SAFETY: a chunk of the mapped file; no thread writes while this runs.
            let chunk = unsafe { ((base + offset) as *const ChunkHeader).read() };
            if chunk.magic == CHUNK_MAGIC && chunk.kind == CHUNK_LOG {
                let since = since.get(&chunk.slot).copied().unwrap_or(0);
                let log = logs.entry(chunk.slot).or_default();
                read_chunk(&chunk, base + offset, since, log);
            }
        }
        for log in logs.values_mut() {
            log.sort_by_key(|record| record.position);
        }
        let mut logs = Logs {
            logs,
            order: Vec::new(),
        };
        logs.sort();
        logs
    }

    /// Finds an order that respects the edges.
    fn sort(&mut self) {
        let slots: Vec<u32> = self.logs.keys().copied().collect();
        let mut done: HashMap<u32, usize> = HashMap::new();
        loop {
            let before = self.order.len();
            for &slot in &slots {
                while let Some(known) = self.next(slot, &done) {
                    let index = done.get(&slot).copied().unwrap_or(0);
                    if let Some(record) =
                        self.logs.get_mut(&slot).and_then(|log| log.get_mut(index))
                    {
                        record.before = known;
                    }
                    self.order.push((slot, index));
                    done.insert(slot, index + 1);
                }
            }
            if self.order.len() == before {
                break;
            }
        }
        let all: usize = self.logs.values().map(Vec::len).sum();
        assert_eq!(self.order.len(), all, "the edges go round in a circle");
    }

    /// What comes before a log's next record, if all of that is in the order.
    fn next(&self, slot: u32, done: &HashMap<u32, usize>) -> Option<HashMap<u32, usize>> {
        let index = done.get(&slot).copied().unwrap_or(0);
        let log = &self.logs[&slot];
        let record = log.get(index)?;
        let mut before = match index.checked_sub(1) {
            Some(last) => log[last].before.clone(),
            None => HashMap::new(),
        };
        if record.kind == Kind::Edge {
            let (other, position) = (record.words[0] as u32, record.subject);
            if let Some(log) = self.logs.get(&other) {
                let count = log.partition_point(|record| record.position < position);
                if done.get(&other).copied().unwrap_or(0) < count {
                    return None;
                }
                if let Some(last) = count.checked_sub(1) {
                    for (&slot, &count) in &log[last].before {
                        let known = before.entry(slot).or_default();
                        *known = (*known).max(count);
                    }
                }
            }
        }
        before.insert(slot, index + 1);
        Some(before)
    }

    /// Whether the logs say that one record comes before another.
    pub(super) fn is_before(&self, first: Place, second: Place) -> bool {
        let before = &self.logs[&second.0][second.1].before;
        before.get(&first.0).is_some_and(|&count| count > first.1)
    }

    /// The number of the transaction that a record is in, where the program knows them.
    pub(super) fn transaction_of(&self, (slot, index): Place) -> Option<u64> {
        let records = self.logs[&slot][..=index].iter().rev();
        let mut marks = records.filter(|record| record.kind == Kind::Transaction);
        marks.next().map(|record| record.subject)
    }

    /// Whether an atomic operation has a record that was written for it, whether it has changed anything or not.
    pub(super) fn has_own(&self, access: &Access) -> bool {
        let (slot, from, to) = access.log;
        self.logs[&slot].iter().any(|record| {
            let is_now = (from..to).contains(&record.position);
            is_now && record.stands_for(access.address, false, true)
        })
    }

    /// Performs the atomic operations in the order of the logs: each finds what the last one left. Of what was not written down nobody knows
    /// what it left: it is behind all that its thread has written down before, if there is anything else, and nobody else has come
    /// in between.
    pub(super) fn replay_values(&self, unwritten: &[Unwritten]) {
        let mut memory = HashMap::<u64, u64>::new();
        let mut last = HashMap::<u64, (u32, u64)>::new();
        for &(slot, index) in &self.order {
            let record = &self.logs[&slot][index];
            let is_atomic =
                [false, true].map(|write| record.stands_for(record.subject as usize, write, true));
            if !is_atomic.contains(&true) {
                continue;
            }
            let before = last.insert(record.subject, (slot, record.position));
            let is_unknown = unwritten.iter().any(|&(other, subject, position)| {
                let is_behind = before.is_none_or(|(slot, last)| slot == other && last < position);
                let is_before = slot != other || position <= record.position;
                subject == record.subject && is_behind && is_before
            });
            if is_unknown && record.kind != Kind::AtomicStore {
                memory.insert(record.subject, record.words[1]);
            }
            let value = memory.entry(record.subject);
            let [_, first, second] = record.words;
            match record.kind {
                Kind::AtomicLoad | Kind::AtomicRmwFailed => {
                    assert_eq!(*value.or_default(), first, "a load finds the last value");
                }
                Kind::AtomicStore => {
                    value.insert_entry(first);
                }
                Kind::AtomicRmw => {
                    let value = value.or_default();
                    assert_eq!(*value, first, "an operation finds the last value");
                    *value = second;
                }
                _ => {}
            }
        }
    }
}

fn read_chunk(chunk: &ChunkHeader, address: usize, since: u64, log: &mut Vec<Record>) {
    let start = address + CHUNK_HEADER_SIZE + chunk.snapshot as usize;
    let mut at = start;
    while at + 8 <= address + CHUNK_UNIT {
        // SAFETY: words of a chunk of the mapped file; a record does not go beyond its chunk.
        let word = |index: usize| unsafe { (at as *const u64).add(index).read() };
        let Some(kind) = Kind::from_number((word(0) >> 56) as u8) else {
            return;
        };
        let mut words = [0; 3];
        for (index, word_) in words.iter_mut().enumerate().take(kind.words() - 1) {
            *word_ = word(index + 1);
        }
        let position = chunk.position + (at - start) as u64;
        if position >= since {
            log.push(Record {
                position,
                kind,
                size: (word(0) >> 48) as usize & 0xff,
                subject: word(0) & LOW,
                words,
                before: HashMap::new(),
            });
        }
        at += 8 * kind.words();
    }
}
