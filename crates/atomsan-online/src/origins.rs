//! Where memory comes from, for its name.
//!
//! Chunks go back to the program unread, and with them what they say of allocations. So a chunk
//! says in its header whether it has any; only such a chunk is looked through before it goes, and
//! the others that are still there when something has no name. Of an address that was
//! allocated several times the last time counts, by position: chunks of different threads come in
//! no other order. Nothing but names depends on it.
//!
//! What is on the stack of a thread belongs to the calls that the thread is in now: who lets others
//! use a local waits for them.

use crate::chunks::Walk;
use crate::live::{ChunkAt, Live};
use atomsan_recording::Origin;
use atomsan_recording::file::Record;
use atomsan_recording::format::Kind;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// How many calls above an allocation are kept.
const CALLS: usize = 40;
/// How many allocations are remembered.
const MOST: usize = 1 << 18;

/// Where memory was allocated and locks were initialised.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    blocks: BTreeMap<u64, Made>,
    locks: HashMap<u64, Made, FxBuildHasher>,
    /// Snapshots of calls, each once.
    calls: HashMap<Rc<[u64]>, (), FxBuildHasher>,
    /// How far each slot has been looked through.
    looked: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Made {
    position: u64,
    end: u64,
    record: [u64; 3],
    calls: Rc<[u64]>,
}

impl Made {
    fn origin(&self, words: usize) -> Origin {
        Origin {
            snapshot: self.calls.to_vec(),
            record: self.record[..words].to_vec(),
        }
    }
}

impl Origins {
    /// Looks through a chunk, if it has something, as far as that has not been done.
    pub(crate) fn look_through(
        &mut self,
        live: &mut Live,
        slot: usize,
        chunk: &ChunkAt,
    ) -> io::Result<()> {
        if self.looked.len() <= slot {
            self.looked.resize(slot + 1, 0);
        }
        let looked = self.looked[slot];
        if live.written(slot, chunk) <= looked || !live.has_origins(chunk)? {
            return Ok(());
        }
        let mut end = looked;
        walk(live, slot, chunk, |walk, record, words| {
            end = record.position + 1;
            if record.position >= looked && matches!(record.kind, Kind::Alloc | Kind::Initialise) {
                self.note(walk, record, words);
            }
        })?;
        self.looked[slot] = end.max(looked);
        Ok(())
    }

    fn note(&mut self, walk: &Walk, record: &Record, words: &[u64]) {
        let calls = walk.snapshot(CALLS);
        let calls = match self.calls.get_key_value(&*calls) {
            Some((known, ())) => Rc::clone(known),
            None => {
                let calls: Rc<[u64]> = calls.into();
                self.calls.insert(Rc::clone(&calls), ());
                calls
            }
        };
        let range = record.range().unwrap_or(record.subject..record.subject);
        let mut made = Made {
            position: record.position,
            end: range.end,
            record: [0; 3],
            calls,
        };
        made.record[..words.len()].copy_from_slice(words);
        let older = |known: &Made| known.position <= made.position;
        if record.kind == Kind::Initialise {
            if self.locks.get(&record.subject).is_none_or(older) {
                self.locks.insert(record.subject, made);
            }
        } else if self.blocks.get(&range.start).is_none_or(older) {
            self.blocks.insert(range.start, made);
        }
        if self.blocks.len() + self.locks.len() > MOST {
            self.forget();
        }
    }

    /// Forgets the older half.
    fn forget(&mut self) {
        let made = self.blocks.values().chain(self.locks.values());
        let mut positions: Vec<u64> = made.map(|made| made.position).collect();
        let middle = positions.len() / 2;
        let (_, &mut middle, _) = positions.select_nth_unstable(middle);
        self.blocks.retain(|_, made| made.position >= middle);
        self.locks.retain(|_, made| made.position >= middle);
        self.calls.retain(|calls, ()| Rc::strong_count(calls) > 1);
    }

    /// Where addresses come from, as far as that is known without the threads' stacks; what is
    /// left has none.
    pub(crate) fn of_memory(&self, addresses: &mut Vec<u64>) -> Vec<Origin> {
        let mut origins = BTreeMap::new();
        addresses.retain(|&address| {
            if let Some(lock) = self.locks.get(&address) {
                origins.insert((address, 1), lock.origin(2));
            }
            // Blocks that have ended may start in between.
            let mut below = self.blocks.range(..=address).rev().take(16);
            let Some((&start, made)) = below.find(|(_, made)| address < made.end) else {
                return true;
            };
            origins.insert((start, 0), made.origin(3));
            false
        });
        origins.into_values().collect()
    }
}

/// The calls that a slot's thread is in, if one of the addresses is on its stack.
pub(crate) fn of_stack(
    live: &mut Live,
    slot: usize,
    last: &ChunkAt,
    addresses: &[u64],
) -> io::Result<Option<Origin>> {
    let walk = walk(live, slot, last, |_, _, _| {})?;
    let stack = walk.stack();
    let is_there = addresses.iter().any(|address| stack.contains(address));
    Ok(is_there.then(|| Origin {
        snapshot: walk.snapshot(usize::MAX),
        record: Vec::new(),
    }))
}

/// Walks through a chunk.
fn walk(
    live: &mut Live,
    slot: usize,
    chunk: &ChunkAt,
    mut visit: impl FnMut(&Walk, &Record, &[u64]),
) -> io::Result<Walk> {
    let (snapshot, words) = live.content(slot, chunk)?;
    let mut walk = Walk::new(slot, Vec::new());
    walk.start(&snapshot);
    let mut at = 0;
    while let Some(record) = Record::parse(&words[at..], chunk.position + 8 * at as u64) {
        let len = record.kind.words();
        visit(&walk, &record, &words[at..at + len]);
        walk.follow(&record, &words[at..at + len]);
        at += len;
    }
    Ok(walk)
}
