//! Who uses what in a component, to leave out what conflicts with nothing in it: memory that only one slot
//! uses there, or that nobody writes to. Reads of shared data are most of what a component has, and
//! many components have nothing else: an edge stands for all that its owner did.
//!
//! What is left out is in no cycle of the component, because no dependence between two of its threads
//! starts or ends there. Locks and atomic operations are not left out one by one, because what
//! others mean depends on them; but a transaction in which nothing conflicts goes as a whole, but for the order
//! that it has put itself into. Most of a component are such transactions, where a thread has waited in the
//! middle of a region while another went through thousands.
//!
//! Granules are not told apart if they have the same place in the table. What is in the same place seems
//! to be used together, so more stays than must, and nothing goes that must stay. Neighbours have places
//! in the same cache line, because what is used together often lies together: nearly all the time is
//! waiting for the table otherwise.

use atomsan_recording::file::Record;
use atomsan_recording::format::{CHUNK_UNIT, Kind, SLOTS};
use std::ops::Range;

/// The table has so many places, as a power of two, at least and at most: a place is two bytes.
const PLACES: (u32, u32) = (10, 21);
/// A table of more places, as a power of two, is not kept for the next time.
const KEPT: u32 = 18;
/// So many neighbours, as a power of two, have places next to each other: a cache line of them.
const NEIGHBOURS: u32 = 5;
/// From so many granules on, a range is not looked at granule by granule.
const LARGE: u64 = 1 << 10;
/// How many such ranges of a component are told apart.
const RANGES: usize = 64;

/// Another slot uses it too.
const SHARED: u16 = 1 << 14;
/// Somebody writes to it.
const WRITTEN: u16 = 1 << 15;
// Slots are numbered from 1.
const _: () = assert!(SLOTS < SHARED as usize);

/// What a record is in its component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// It may be in conflict with another slot's.
    Conflict,
    /// It may say something of one that is.
    Context,
    /// Nothing.
    None,
}

/// Who uses what in some components.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// The slot that was the first to use what is at a place, [`SHARED`] and [`WRITTEN`]; 0 if nobody
    /// does.
    places: Vec<u16>,
    /// Those at which something is used.
    touched: Vec<u32>,
    shift: u32,
    /// Large ranges of each component.
    ranges: Vec<Vec<Large>>,
    /// Whether there are too many of them.
    all: bool,
    /// The components that may have conflicts.
    conflicts: Vec<bool>,
}

/// A large range that a slot uses.
#[derive(Debug)]
struct Large {
    granules: Range<u64>,
    slot: u16,
    /// [`WRITTEN`] or 0.
    written: u16,
}

impl Large {
    fn meets(&self, granules: &Range<u64>) -> bool {
        self.granules.start < granules.end && granules.start < self.granules.end
    }
}

/// What a record is about, in granules, and whether it only reads. `None` if it is about no memory.
fn used(record: &Record) -> Option<(Range<u64>, bool)> {
    let range = match record.range() {
        Some(range) => range,
        None if is_synchronisation(record.kind) => record.subject..record.subject + 1,
        None => return None,
    };
    let reads = matches!(record.kind, Kind::Read | Kind::ReadRange | Kind::AtomicLoad);
    Some((range.start >> 3..range.end.div_ceil(8), reads))
}

fn is_synchronisation(kind: Kind) -> bool {
    use Kind::{
        Acquire, AcquireShared, Arrive, Leave, Notify, Release, ReleaseShared, Wait, Woken,
    };
    matches!(
        kind,
        Acquire | Release | AcquireShared | ReleaseShared | Wait | Woken | Notify | Arrive | Leave
    )
}

fn is_always_conflict(kind: Kind) -> bool {
    matches!(kind, Kind::Fork | Kind::Join)
}

impl Uses {
    /// Nobody uses anything any more; there will be so many chunks of records. The table stays, because to make another one each
    /// time takes longer than what is mostly done with it.
    pub(crate) fn start_over(&mut self, chunks: usize) {
        let records = chunks * CHUNK_UNIT / 16;
        let bits = records.next_power_of_two().ilog2() + 2;
        let bits = bits.clamp(PLACES.0, PLACES.1);
        if self.places.len() > 1 << KEPT {
            (self.places, self.touched) = (Vec::new(), Vec::new());
        } else {
            for &place in &self.touched {
                self.places[place as usize] = 0;
            }
        }
        if self.places.len() < 1 << bits {
            self.places = vec![0; 1 << bits];
        }
        self.touched.clear();
        self.shift = u64::BITS - bits;
        self.ranges.clear();
        self.all = false;
        self.conflicts.clear();
    }

    /// There may be a conflict in a component.
    fn conflict(&mut self, component: usize) {
        if self.conflicts.len() <= component {
            self.conflicts.resize(component + 1, false);
        }
        self.conflicts[component] = true;
    }

    /// Whether there may be a conflict in a component. If not, each of its records is none.
    pub(crate) fn may_conflict(&self, component: usize) -> bool {
        self.conflicts.get(component).is_some_and(|&may| may)
    }

    /// Where a granule has its place: its line is told by a hash, which also stirs the places in it, so that
    /// those at the same offset in two lines of memory seldom meet.
    fn place(&self, component: usize, granule: u64) -> usize {
        let line = granule >> NEIGHBOURS ^ (component as u64) << 48;
        let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        (mixed ^ granule & ((1 << NEIGHBOURS) - 1)) as usize
    }

    /// A slot does something in a component.
    pub(crate) fn note(&mut self, component: usize, slot: usize, record: &Record) {
        let Some((granules, reads)) = used(record) else {
            if is_always_conflict(record.kind) {
                self.conflict(component);
            }
            return;
        };
        let (slot, written) = (slot as u16, if reads { 0 } else { WRITTEN });
        if granules.end - granules.start > LARGE {
            return self.note_large(component, granules, slot, written);
        }
        let mut conflicts = false;
        for granule in granules {
            let place = self.place(component, granule);
            let before = self.places[place];
            if before == 0 {
                self.touched.push(place as u32);
            }
            let used = also(before, slot, written);
            self.places[place] = used;
            conflicts |= is_conflict(used);
        }
        if conflicts {
            self.conflict(component);
        }
    }

    /// A slot uses a large range; those of a slot that meet are one.
    fn note_large(&mut self, component: usize, granules: Range<u64>, slot: u16, written: u16) {
        if self.ranges.len() <= component {
            self.ranges.resize_with(component + 1, Vec::new);
        }
        // Who uses something in it is not looked for.
        self.conflict(component);
        let ranges = &mut self.ranges[component];
        let mut known = ranges.iter_mut();
        if let Some(known) = known.find(|known| known.slot == slot && known.meets(&granules)) {
            let Range { start, end } = known.granules;
            known.granules = start.min(granules.start)..end.max(granules.end);
            known.written |= written;
        } else if ranges.len() < RANGES {
            ranges.push(Large {
                granules,
                slot,
                written,
            });
        } else {
            self.all = true;
        }
    }

    /// What a record is in a component.
    pub(crate) fn part(&self, component: usize, record: &Record) -> Part {
        if is_always_conflict(record.kind) {
            return Part::Conflict;
        }
        let Some((granules, _)) = used(record) else {
            return Part::Context;
        };
        let is_large = granules.end - granules.start > LARGE;
        let conflicts = self.is_conflict(component, &granules, is_large);
        match record.kind {
            // Who uses what is allocated is in conflict.
            Kind::Alloc if conflicts => Part::Context,
            _ if conflicts => Part::Conflict,
            Kind::Read | Kind::Write | Kind::ReadRange | Kind::WriteRange if !is_large => {
                Part::None
            }
            Kind::Alloc | Kind::Free if !is_large => Part::None,
            _ => Part::Context,
        }
    }

    /// Whether some of the granules are used in conflict. Of a large range that is only told if another one
    /// meets it; what else meets it finds out by itself.
    fn is_conflict(&self, component: usize, granules: &Range<u64>, is_large: bool) -> bool {
        let ranges = self.ranges.get(component).map_or(&[][..], |ranges| ranges);
        let large = || ranges.iter().filter(|large| large.meets(granules));
        if self.all || is_large {
            let all = large().fold(0, |used, large| also(used, large.slot, large.written));
            return self.all || is_conflict(all);
        }
        let meets_large = large().next().is_some();
        granules.clone().any(|granule| {
            let mut used = self.places[self.place(component, granule)];
            if meets_large {
                let here = large().filter(|large| large.granules.contains(&granule));
                used = here.fold(used, |used, large| also(used, large.slot, large.written));
            }
            is_conflict(used)
        })
    }
}

/// Who uses something if a slot does too.
fn also(used: u16, slot: u16, written: u16) -> u16 {
    let first = used & !(SHARED | WRITTEN);
    let used = match first {
        0 => slot,
        first if first != slot => used | SHARED,
        _ => used,
    };
    used | written
}

fn is_conflict(used: u16) -> bool {
    used & (SHARED | WRITTEN) == SHARED | WRITTEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use atomsan_recording::format::{first_word, second_word};

    fn record(kind: Kind, size: u8, address: u64, extra: u64) -> Record {
        let words = [first_word(kind, size, address), second_word(0, 1), extra, 0];
        Record::parse(&words, 8).unwrap()
    }

    fn uses(chunks: usize) -> Uses {
        let mut uses = Uses::default();
        uses.start_over(chunks);
        uses
    }

    #[test]
    fn nothing_is_left_when_it_starts_over() {
        let mut uses = Uses::default();
        for chunks in [1, 64, 1, 4, 64, 4] {
            uses.start_over(chunks);
            assert!(uses.places.iter().all(|&place| place == 0));
            assert!(!uses.may_conflict(0));
            for granule in 0..1000 {
                uses.note(0, 1, &record(Kind::Write, 8, granule << 12, 0));
                uses.note(0, 2, &record(Kind::Write, 8, granule << 12, 0));
            }
            assert!(uses.may_conflict(0));
            assert!(uses.places.len() <= 1 << KEPT || chunks == 64);
        }
    }

    #[test]
    fn what_one_slot_uses_and_what_nobody_writes_to_is_no_conflict() {
        let mut uses = uses(1);
        let read = |address| record(Kind::Read, 8, address, 0);
        let write = |address| record(Kind::Write, 8, address, 0);
        uses.note(0, 1, &write(0x1000));
        uses.note(0, 1, &read(0x1000));
        uses.note(0, 1, &read(0x2000));
        uses.note(0, 2, &read(0x2000));
        uses.note(0, 1, &read(0x3000));
        uses.note(0, 2, &write(0x3004));
        assert_eq!(uses.part(0, &write(0x1000)), Part::None);
        assert_eq!(uses.part(0, &read(0x2000)), Part::None);
        assert_eq!(uses.part(0, &read(0x3000)), Part::Conflict);
        assert_eq!(uses.part(0, &write(0x3004)), Part::Conflict);
        assert!(uses.may_conflict(0));
        // Another component has conflicts of its own.
        assert!(!uses.may_conflict(1));
        assert_eq!(uses.part(1, &read(0x3000)), Part::None);
    }

    #[test]
    fn neighbours_have_places_next_to_each_other() {
        let uses = uses(16);
        let line = |first: u64| -> Vec<usize> {
            let mut places: Vec<usize> = (first..first + 32).map(|at| uses.place(0, at)).collect();
            places.sort_unstable();
            places
        };
        for first in (0..1 << 20).step_by(32) {
            let places = line(first);
            assert_eq!(places[0] % 32, 0);
            assert!(places.windows(2).all(|two| two[0] + 1 == two[1]));
        }
        // Few that are as far apart as pages are meet.
        let mut far: Vec<usize> = (0..1000).map(|page| uses.place(0, page * 512)).collect();
        far.sort_unstable();
        far.dedup();
        assert!(far.len() > 990, "{}", far.len());
    }

    #[test]
    fn a_component_may_have_a_conflict_if_one_of_its_records_is_one() {
        let noted = |records: &[(usize, Record)]| {
            let mut uses = uses(1);
            records
                .iter()
                .for_each(|(slot, record)| uses.note(3, *slot, record));
            let conflicts = records
                .iter()
                .any(|(_, one)| uses.part(3, one) == Part::Conflict);
            assert!(uses.may_conflict(3) || !conflicts, "{records:?}");
            assert!(!uses.may_conflict(2));
            uses.may_conflict(3)
        };
        let read = (1, record(Kind::Read, 8, 0x1000, 0));
        let write = (2, record(Kind::Write, 8, 0x1000, 0));
        let large = (2, record(Kind::WriteRange, 0, 0x1000, 1 << 20));
        assert!(!noted(&[]));
        assert!(!noted(&[read, (2, read.1)]));
        assert!(!noted(&[write, write]));
        assert!(noted(&[read, write]));
        assert!(noted(&[write, read]));
        assert!(noted(&[(1, record(Kind::Fork, 0, 2, 0))]));
        assert!(noted(&[read, large]));
    }

    #[test]
    fn locks_that_two_slots_take_are_conflicts() {
        let mut uses = uses(1);
        for (slot, lock) in [(1, 0x1000), (1, 0x2000), (2, 0x2000)] {
            uses.note(0, slot, &record(Kind::Acquire, 0, lock, 0));
            uses.note(0, slot, &record(Kind::Release, 0, lock, 0));
        }
        assert_eq!(
            uses.part(0, &record(Kind::Acquire, 0, 0x1000, 0)),
            Part::Context
        );
        assert_eq!(
            uses.part(0, &record(Kind::Acquire, 0, 0x2000, 0)),
            Part::Conflict
        );
    }

    #[test]
    fn large_ranges_conflict_with_what_others_do_in_them() {
        let mut uses = uses(1);
        let read = |address| record(Kind::Read, 8, address, 0);
        let write = |address| record(Kind::WriteRange, 0, address, 1 << 20);
        uses.note(0, 1, &write(0x10_0000));
        uses.note(0, 1, &read(0x10_8000));
        uses.note(0, 2, &read(0x11_0000));
        uses.note(0, 2, &read(0x8_0000));
        assert_eq!(uses.part(0, &read(0x10_8000)), Part::None);
        assert_eq!(uses.part(0, &read(0x11_0000)), Part::Conflict);
        assert_eq!(uses.part(0, &read(0x8_0000)), Part::None);
        // The range itself stays.
        assert_eq!(uses.part(0, &write(0x10_0000)), Part::Context);
        uses.note(0, 2, &record(Kind::ReadRange, 0, 0x18_0000, 1 << 20));
        assert_eq!(uses.part(0, &write(0x10_0000)), Part::Conflict);
        for number in 0..100 {
            uses.note(0, 1, &write(number << 32));
        }
        assert_eq!(uses.part(0, &read(0x8_0000)), Part::Conflict);
    }
}
