//! Where memory comes from, for its name.
//!
//! Chunks go back to the program unread, and with them what they say of allocations. So the program says that in a
//! table too, by address ([`origin`]), and of each way to an allocation once which calls
//! it is (`atomsan_rt::thread::origins`). Here it is looked up when something has no name. Of an
//! address that was allocated several times the last time counts. Nothing but names depends on it.
//!
//! What is on the stack of a thread belongs to the calls that the thread is in now: who lets others
//! use a local waits for them.

use crate::live::{ChunkAt, Live};
use crate::walk::Walk;
use atomsan_recording::Origin;
use atomsan_recording::file::Record;
use atomsan_recording::format::{Kind, LOW, origin};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// How many places a small block may start before an address that is in it.
const BEFORE: usize = (origin::LARGE_SIZE / origin::UNIT) as usize;

/// The calls that led to allocations, as words of a snapshot, by their numbers.
type Calls = HashMap<u64, Box<[u64]>, FxBuildHasher>;

/// An entry of the table.
#[derive(Clone, Copy)]
struct Made([u64; 4]);

impl Made {
    fn range(self) -> Range<u64> {
        let start = self.0[0] & LOW;
        start..start.saturating_add(self.0[2])
    }

    fn is(self, kind: Kind) -> bool {
        Kind::from_number((self.0[0] >> 56) as u8) == Some(kind)
    }

    /// Where that was; `None` if two have written to the place at a time.
    fn origin(self, calls: &Calls) -> Option<Origin> {
        let [first, second, third, last] = self.0;
        let number = origin::mixed(last, [first, second, third]);
        let words = if self.is(Kind::Initialise) { 2 } else { 3 };
        Some(Origin {
            snapshot: calls.get(&number)?.to_vec(),
            record: self.0[..words].to_vec(),
        })
    }
}

/// The block that an address is in, among some entries: the last that starts before it.
fn block(entries: &[[u64; 4]], address: u64) -> Option<Made> {
    let made = entries.iter().map(|&words| Made(words));
    made.filter(|made| made.is(Kind::Alloc) && made.range().contains(&address))
        .max_by_key(|made| made.range().start)
}

/// Where addresses come from, as far as that is known without the threads' stacks; what is left has none.
pub(crate) fn of_memory(
    live: &Live,
    calls: &Calls,
    addresses: &mut Vec<u64>,
) -> io::Result<Vec<Origin>> {
    let mut origins = BTreeMap::new();
    let mut large = None;
    let mut left = Vec::new();
    for &address in addresses.iter() {
        let lock = Made(live.origins(origin::of_lock(address), 1)?[0]);
        if lock.is(Kind::Initialise) && lock.0[0] & LOW == address {
            origins.extend(lock.origin(calls).map(|found| ((address, 1), found)));
        }
        let small = small_around(live, address)?;
        let mut found = block(&small, address);
        if found.is_none() {
            if large.is_none() {
                large = Some(live.origins(origin::SMALL, origin::LARGE)?);
            }
            found = large.as_deref().and_then(|large| block(large, address));
        }
        match found.and_then(|made| Some((made, made.origin(calls)?))) {
            Some((made, found)) => drop(origins.insert((made.range().start, 0), found)),
            None => left.push(address),
        }
    }
    *addresses = left;
    Ok(origins.into_values().collect())
}

/// The entries of small blocks that an address may be in.
fn small_around(live: &Live, address: u64) -> io::Result<Vec<[u64; 4]>> {
    let end = origin::of_block(address, 0) + 1;
    let start = end.saturating_sub(BEFORE + 1);
    let mut entries = live.origins(start, end - start)?;
    let missing = (BEFORE + 1).saturating_sub(end);
    if missing > 0 {
        // The table is a ring.
        entries.extend(live.origins(origin::SMALL - missing, missing)?);
    }
    Ok(entries)
}

/// The calls that a slot's thread is in, if one of the addresses is on its stack.
pub(crate) fn of_stack(
    live: &mut Live,
    slot: usize,
    last: &ChunkAt,
    addresses: &[u64],
) -> io::Result<Option<Origin>> {
    let (snapshot, words) = live.content(slot, last)?;
    let mut walk = Walk::new(slot, Vec::new());
    walk.start(&snapshot);
    let mut at = 0;
    while let Some(record) = Record::parse(&words[at..], last.position + 8 * at as u64) {
        let len = record.kind.words();
        walk.follow(&record, &words[at..at + len]);
        at += len;
    }
    let stack = walk.stack();
    let is_there = addresses.iter().any(|address| stack.contains(address));
    Ok(is_there.then(|| Origin {
        snapshot: walk.snapshot(),
        record: Vec::new(),
    }))
}
