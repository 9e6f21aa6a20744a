//! What the atomic operations of user code amount to.
//!
//! # Reads that do not count
//!
//! By what the thread does next at the same place:
//!
//! | read | next | why |
//! |---|---|---|
//! | load | compare-exchange that succeeds and expected the value loaded | the two are one read-modify-write |
//! | load | compare-exchange that fails | the value was out of date, and the program knows |
//! | compare-exchange that failed | another read or compare-exchange | it is tried again |
//! | load | the same load, and only other loads in between | the thread spins |
//!
//! Without these rules every lock-free loop would be a false alarm.
//!
//! # What is taken back
//!
//! A reader that adds itself to a count, sees that it came too late and takes itself back has only
//! looked: additions and changes of single bits commute with its own, and a compare-exchange does not
//! succeed while the count is wrong. So a sum and the difference that undoes it, with no other atomic
//! operation or synchronisation of the thread in between, are one load. They are not if anybody ever
//! overwrites the word, by a store or a swap: what is then taken back was never there, and the difference is a
//! blind write ([`Atomics::takes_back_blindly`]).
//!
//! # Spinning
//!
//! A thread that repeats a load at the same place of the same invocation, with nothing but loads in
//! between, waits for another one: it is no decision but a blocking operation, and splits the regions it
//! is in, as any other. A place where a thread was seen to spin is a place where all threads
//! wait, even those that find at once what they wait for ([`Atomics::spins`]).
//!
//! # Locks of the user's own
//!
//! A word is a lock if every thread changes it in turns: by a compare-exchange from *free* to *taken* (or
//! by a swap of one byte that finds it free), then back to *free*. Nobody else can change it in between, for everybody's first
//! step needs it to be free; so the word excludes like a mutex whatever the program calls it, and
//! its changes are acquisitions and releases ([`Atomics::own_lock`]). Words with more states (counted
//! readers, waiters) are no such locks.

use crate::file::Record;
use crate::format::{ADDED, COMPARED, Kind};
use crate::models::Change;
use crate::positions::Positions;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

type FxMap<K, V> = HashMap<K, V, FxBuildHasher>;
type FxSet<K> = HashSet<K, FxBuildHasher>;

/// What is known of all atomic operations of a recording.
#[derive(Debug, Default)]
pub struct Atomics {
    harmless: Positions,
    spins: FxSet<u64>,
    /// Positions of sums that are undone and of what undoes them, by the word.
    undone: FxMap<u64, u64>,
    undoing: FxMap<u64, u64>,
    /// Words that are overwritten whatever they were.
    overwritten: FxSet<u64>,
    words: FxMap<u64, Word>,
}

/// A word that may be a lock.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// Taken by changing the first value to the second one, so far; and whether it was ever let go.
    Lock {
        free: u64,
        taken: u64,
        released: bool,
    },
    Other,
}

impl Atomics {
    /// Forgets that an atomic read does not count: nobody asks again.
    pub fn forget(&mut self, position: u64) {
        self.harmless.remove(position);
        self.undone.remove(&position);
        self.undoing.remove(&position);
    }

    /// Forgets words that may be locks, but for those at these addresses.
    pub fn retain_words(&mut self, keep: impl Fn(u64) -> bool) {
        self.words.retain(|&address, _| keep(address));
        self.overwritten.retain(|&address| keep(address));
    }

    /// Whether the atomic read at this position does not count.
    pub fn is_harmless(&self, position: u64) -> bool {
        self.harmless.contains(position) || self.counts(&self.undoing, position)
    }

    /// Whether the change at this position is taken back, so that it only is a look.
    pub fn is_taken_back(&self, position: u64) -> bool {
        self.counts(&self.undone, position)
    }

    /// Whether the change at this position takes back what may have been overwritten meanwhile.
    pub fn takes_back_blindly(&self, position: u64) -> bool {
        let word = self.undoing.get(&position);
        word.is_some_and(|word| self.overwritten.contains(word))
    }

    fn counts(&self, undone: &FxMap<u64, u64>, position: u64) -> bool {
        let word = undone.get(&position);
        word.is_some_and(|word| !self.overwritten.contains(word))
    }

    /// Program counters of loads at which threads spin.
    pub fn spins(&self) -> impl Iterator<Item = u64> {
        self.spins.iter().copied()
    }

    /// What an atomic operation does to a lock of the user's own; `None` if there is no lock.
    pub fn own_lock(&self, record: &Record) -> Option<Option<Change>> {
        let Some(&Word::Lock {
            free,
            taken,
            released: true,
        }) = self.words.get(&record.subject)
        else {
            return None;
        };
        Some(match record.kind {
            Kind::AtomicRmw if record.extra == [free, taken] => Some(Change::Acquire),
            Kind::AtomicRmw if record.extra[0] == record.extra[1] => None,
            Kind::AtomicStore | Kind::AtomicRmw => Some(Change::Release),
            Kind::AtomicLoad | Kind::AtomicRmwFailed => None,
            _ => return None,
        })
    }
}

/// A read that may turn out not to count.
#[derive(Clone, Copy, Debug)]
struct Read {
    record: Record,
    /// The invocation it was in.
    chain: u64,
    /// How much else the thread had done.
    busy: u64,
}

/// Follows the log of one slot.
#[derive(Debug, Default)]
pub struct Follower {
    last: FxMap<u64, Read>,
    /// The last atomic operation, if it was a sum.
    added: Option<Record>,
    /// Words that may be locks, held by this thread.
    holding: FxMap<u64, ()>,
    /// The open calls: a number for each chain of call sites.
    calls: Vec<u64>,
    /// How many records there were that are no atomic reads.
    busy: u64,
}

impl Follower {
    /// Forgets reads that may turn out not to count.
    pub fn forget(&mut self) {
        self.last.clear();
    }

    /// Follows one record.
    pub fn step(&mut self, atomics: &mut Atomics, record: &Record) {
        match record.kind {
            Kind::Enter => {
                let outer = self.calls.last().copied().unwrap_or(0);
                let mixed = (outer ^ record.subject).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                self.calls.push(mixed.rotate_left(23));
                return;
            }
            Kind::Exit => {
                self.calls.pop();
                return;
            }
            Kind::Transaction => {
                let left = record.second.min(self.calls.len() as u64) as usize;
                self.calls.truncate(self.calls.len() - left);
                return;
            }
            Kind::ThreadStart => {
                self.calls.clear();
                self.last.clear();
                self.holding.clear();
            }
            Kind::AtomicRmw | Kind::AtomicStore => self.change(atomics, record),
            _ => {}
        }
        self.take_back(atomics, record);
        let read = Read {
            record: *record,
            chain: self.calls.last().copied().unwrap_or(0),
            busy: self.busy,
        };
        let last = match record.kind {
            Kind::AtomicLoad => self.last.insert(record.subject, read),
            Kind::AtomicRmwFailed => {
                self.busy += 1;
                self.last.insert(record.subject, read)
            }
            Kind::AtomicRmw | Kind::AtomicStore => {
                self.busy += 1;
                self.last.remove(&record.subject)
            }
            Kind::Yield | Kind::ThreadName | Kind::Initialise => return,
            _ => {
                self.busy += 1;
                return;
            }
        };
        if let Some(last) = last {
            again(atomics, &last, &read);
        }
    }

    /// Is a sum undone by this operation?
    fn take_back(&mut self, atomics: &mut Atomics, now: &Record) {
        if let Kind::Read | Kind::Write | Kind::ReadRange | Kind::WriteRange = now.kind {
            return;
        }
        let last = self.added.take();
        let changes = now.kind == Kind::AtomicRmw;
        if now.kind == Kind::AtomicStore || changes && now.detail() == 0 {
            atomics.overwritten.insert(now.subject);
        }
        if !changes || now.detail() != ADDED {
            return;
        }
        let unused = 64 - 8 * u32::from(now.size.clamp(1, 8));
        let sum = |[before, after]: [u64; 2]| after.wrapping_sub(before);
        let undoes = |last: &Record| {
            let both = sum(last.extra).wrapping_add(sum(now.extra));
            last.subject == now.subject && both << unused == 0
        };
        match last.filter(undoes) {
            Some(last) => {
                atomics.undone.insert(last.position, now.subject);
                atomics.undoing.insert(now.position, now.subject);
            }
            None => self.added = Some(*now),
        }
    }

    /// A word is changed: is it still a lock?
    fn change(&mut self, atomics: &mut Atomics, record: &Record) {
        // A swap that found it taken, for example.
        if record.kind == Kind::AtomicRmw && record.extra[0] == record.extra[1] {
            return;
        }
        let word = atomics.words.get(&record.subject).copied();
        let held = self.holding.remove(&record.subject).is_some();
        let takes =
            record.kind == Kind::AtomicRmw && (record.detail() == COMPARED || record.size == 1);
        let after = match record.kind {
            Kind::AtomicRmw => record.extra[1],
            _ => record.extra[0],
        };
        let now = match word {
            None if takes => Word::Lock {
                free: record.extra[0],
                taken: record.extra[1],
                released: false,
            },
            Some(Word::Lock { free, taken, .. }) if held && after == free => Word::Lock {
                free,
                taken,
                released: true,
            },
            Some(lock @ Word::Lock { free, taken, .. })
                if !held && takes && record.extra == [free, taken] =>
            {
                lock
            }
            _ => Word::Other,
        };
        if let (Word::Lock { .. }, true, false) = (now, takes, held) {
            self.holding.insert(record.subject, ());
        }
        atomics.words.insert(record.subject, now);
    }
}

/// A word is read once, and then accessed again.
fn again(atomics: &mut Atomics, last: &Read, read: &Read) {
    let (before, now) = (&last.record, &read.record);
    let compared = now.kind == Kind::AtomicRmw && now.detail() == COMPARED;
    let harmless = match (before.kind, now.kind) {
        (Kind::AtomicLoad, Kind::AtomicRmw) => compared && before.extra[0] == now.extra[0],
        (Kind::AtomicLoad, Kind::AtomicRmwFailed) => true,
        (Kind::AtomicLoad, Kind::AtomicLoad) => {
            let spins =
                before.pc() == now.pc() && last.chain == read.chain && last.busy == read.busy;
            if spins {
                atomics.spins.insert(now.pc());
            }
            spins
        }
        (Kind::AtomicRmwFailed, Kind::AtomicRmw) => compared,
        (Kind::AtomicRmwFailed, kind) => kind != Kind::AtomicStore,
        _ => false,
    };
    if harmless {
        atomics.harmless.insert(before.position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Recording;
    use crate::file::tests::Builder;
    use crate::format::{MASKED, first_word, second_word};

    fn followed(recording: &Recording) -> Atomics {
        let mut atomics = Atomics::default();
        for slot in 0..recording.slots() {
            let mut follower = Follower::default();
            recording
                .log(slot)
                .for_each(|record| follower.step(&mut atomics, &record));
        }
        atomics
    }

    #[test]
    fn reads_that_are_part_of_a_compare_exchange() {
        let mut builder = Builder::default();
        let mut pc = 0;
        let mut atomic = |kind, detail, words: &[u64]| {
            pc += 1;
            let mut record = vec![first_word(kind, 4, 0x1000), second_word(detail, pc)];
            record.extend(words);
            builder.push(1, &record)
        };
        let unrelated = atomic(Kind::AtomicLoad, 0, &[1]);
        let stale = atomic(Kind::AtomicLoad, 0, &[1]);
        let failed = atomic(Kind::AtomicRmwFailed, 0, &[2]);
        atomic(Kind::AtomicRmw, COMPARED, &[2, 3]);
        let load = atomic(Kind::AtomicLoad, 0, &[3]);
        atomic(Kind::AtomicRmw, COMPARED, &[3, 4]);
        let before_add = atomic(Kind::AtomicLoad, 0, &[4]);
        atomic(Kind::AtomicRmw, 0, &[4, 5]);
        let given_up = atomic(Kind::AtomicRmwFailed, 0, &[5]);
        let atomics = followed(&builder.build());
        assert!(
            [stale, failed, load]
                .iter()
                .all(|&at| atomics.is_harmless(at))
        );
        assert!(
            ![unrelated, before_add, given_up]
                .iter()
                .any(|&at| atomics.is_harmless(at))
        );
    }

    /// One record for each (slot, kind, detail, program counter, words).
    fn recorded(records: &[(usize, Kind, u16, u64, &[u64])]) -> (Atomics, Vec<Record>) {
        let mut builder = Builder::default();
        for &(slot, kind, detail, pc, words) in records {
            let mut record = vec![first_word(kind, 4, 0x1000), second_word(detail, pc)];
            record.extend(words);
            builder.push(slot, &record);
        }
        let recording = builder.build();
        let records = (0..recording.slots()).flat_map(|slot| recording.log(slot));
        let records = records.collect();
        (followed(&recording), records)
    }

    #[test]
    fn what_is_taken_back() {
        let add: (usize, Kind, u16, u64, &[u64]) = (1, Kind::AtomicRmw, ADDED, 1, &[1, 3]);
        let back: (usize, Kind, u16, u64, &[u64]) = (1, Kind::AtomicRmw, ADDED, 2, &[7, 5]);
        let looks = |records: &[(usize, Kind, u16, u64, &[u64])]| {
            let (atomics, records) = recorded(records);
            atomics.is_taken_back(records[0].position) && atomics.is_harmless(records[1].position)
        };
        let other = (2, Kind::AtomicRmw, MASKED, 3, &[3, 2][..]);
        assert!(looks(&[add, back, other]));
        let swap = (2, Kind::AtomicRmw, 0, 3, &[3, 0][..]);
        assert!(!looks(&[add, back, swap]), "somebody overwrites it");
        let blindly = |records: &[(usize, Kind, u16, u64, &[u64])]| {
            let (atomics, records) = recorded(records);
            atomics.takes_back_blindly(records[1].position)
        };
        assert!(blindly(&[add, back, swap]) && !blindly(&[add, back, other]));
        assert!(
            !looks(&[add, (1, Kind::AtomicRmw, ADDED, 2, &[7, 6])]),
            "not all of it"
        );
        assert!(
            !looks(&[add, (2, Kind::AtomicRmw, ADDED, 2, &[7, 5])]),
            "somebody else"
        );
    }

    #[test]
    fn spinning() {
        let load = |pc, value: &'static [u64]| (1, Kind::AtomicLoad, 0, pc, value);
        let (atomics, records) = recorded(&[load(7, &[0]), load(7, &[0]), load(7, &[1])]);
        let harmless = |record: &Record| atomics.is_harmless(record.position);
        assert_eq!(
            records.iter().map(harmless).collect::<Vec<_>>(),
            [true, true, false]
        );
        assert_eq!(atomics.spins().collect::<Vec<_>>(), [7]);
        let store: (usize, Kind, u16, u64, &[u64]) = (1, Kind::AtomicStore, 0, 8, &[2]);
        for other in [load(9, &[0]), store] {
            let (atomics, _) = recorded(&[load(7, &[0]), other, load(7, &[1])]);
            assert_eq!(atomics.spins().count(), 0, "{other:?}");
        }
    }

    #[test]
    fn locks_of_the_users_own() {
        let take: &[u64] = &[0, 1];
        let (atomics, records) = recorded(&[
            (1, Kind::AtomicRmw, COMPARED, 1, take),
            (1, Kind::AtomicStore, 0, 2, &[0]),
            (2, Kind::AtomicRmwFailed, 0, 1, &[1]),
            (2, Kind::AtomicRmw, COMPARED, 1, take),
            (2, Kind::AtomicRmw, 0, 2, &[1, 0]),
        ]);
        let changes: Vec<_> = records
            .iter()
            .map(|record| atomics.own_lock(record))
            .collect();
        let (acquire, release) = (Some(Some(Change::Acquire)), Some(Some(Change::Release)));
        assert_eq!(changes, [acquire, release, Some(None), acquire, release]);
    }

    #[test]
    fn what_only_looks_like_a_lock() {
        let take: (usize, Kind, u16, u64, &[u64]) = (1, Kind::AtomicRmw, COMPARED, 1, &[0, 1]);
        let add: (usize, Kind, u16, u64, &[u64]) = (1, Kind::AtomicRmw, 0, 1, &[0, 1]);
        let none = |records: &[(usize, Kind, u16, u64, &[u64])]| {
            let (atomics, records) = recorded(records);
            assert!(
                records
                    .iter()
                    .all(|record| atomics.own_lock(record).is_none())
            );
        };
        none(&[take]);
        none(&[take, (2, Kind::AtomicStore, 0, 2, &[0])]);
        none(&[take, (1, Kind::AtomicStore, 0, 2, &[2])]);
        none(&[add, (1, Kind::AtomicRmw, 0, 2, &[1, 0])]);
    }
}
