//! Which bytes are one variable.
//!
//! Programs access the same memory in pieces of different sizes: a field by itself, the structure
//! as a whole. A *cell* is a set of neighbouring bytes that no access of the recording separates;
//! an access is then one event for each cell that it touches, no two variables overlap, and two
//! fields that share a machine word stay apart.
//!
//! Memory that only one thread ever touches, under any name, cannot conflict with anything. It
//! gets no variables, and its accesses no events.
//!
//! Memory that is allocated or freed is new: its cells get new variables from then on.
//!
//! What atomic operations of the user's own code amount to is worked out on the way
//! ([`crate::atomics`]).

use crate::atomics::{Atomics, Follower};
use crate::file::{Record, Recording};
use crate::format::Kind;
use atomsan_trace::VarId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::ops::Range;

const NONE: u32 = u32::MAX;
/// The largest block that is shared by being freed.
const BLOCK: u64 = 1024;
/// More than one thread.
const MANY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Seen {
    /// Bit `i`: a cell starts at byte `i`.
    starts: u8,
    thread: u32,
}

struct Granule {
    starts: u8,
    /// The variable of the cell that starts at each byte.
    vars: [u32; 8],
    /// How often it has become new.
    renewed: u32,
}

impl Granule {
    fn new(starts: u8) -> Granule {
        Granule {
            starts,
            vars: [NONE; 8],
            renewed: 0,
        }
    }
}

/// The cells of the memory that threads share.
#[derive(Default)]
pub struct Cells {
    shared: HashMap<u64, Granule, FxBuildHasher>,
    /// The same granules, in order.
    sorted: Vec<u64>,
    atomics: Atomics,
    next: u32,
    /// Variables of recordings before this one, by address and renewal.
    before: HashMap<(u64, u32), u32, FxBuildHasher>,
    /// Whether there will be a recording after this one.
    again: bool,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cells({} shared granules)", self.sorted.len())
    }
}

impl Cells {
    /// Looks through a whole recording.
    pub fn new(recording: &Recording) -> Cells {
        let mut seen: HashMap<u64, Seen, FxBuildHasher> = HashMap::default();
        let mut atomics = Atomics::default();
        for slot in 0..recording.slots() {
            let mut thread = slot as u32;
            let mut follower = Follower::default();
            for record in recording.log(slot) {
                match record.kind {
                    Kind::Edge => continue,
                    Kind::ThreadStart | Kind::Continue => thread = record.subject as u32,
                    Kind::Alloc => continue,
                    Kind::Free => {
                        note_end(&mut seen, &record, thread);
                        continue;
                    }
                    _ => {}
                }
                follower.step(&mut atomics, &record);
                for (granule, starts) in record.range().into_iter().flat_map(pieces) {
                    let seen = seen.entry(granule).or_insert(Seen { starts, thread });
                    seen.starts |= starts;
                    if seen.thread != thread {
                        seen.thread = MANY;
                    }
                }
            }
        }
        let shared: HashMap<u64, Granule, FxBuildHasher> = seen
            .into_iter()
            .filter(|(_, seen)| seen.thread == MANY)
            .map(|(granule, Seen { starts, .. })| (granule, Granule::new(starts)))
            .collect();
        let mut sorted: Vec<u64> = shared.keys().copied().collect();
        sorted.sort_unstable();
        Cells {
            shared,
            sorted,
            atomics,
            next: 0,
            before: HashMap::default(),
            again: false,
        }
    }

    /// Looks through another recording of the same process; what has the same address has the
    /// same variable as before.
    #[must_use]
    pub fn again(self, recording: &Recording) -> Cells {
        Cells {
            next: self.next,
            before: self.before,
            again: true,
            ..Cells::new(recording)
        }
    }

    /// Forgets all variables, as if nothing had been touched.
    pub fn restart(&mut self) {
        for granule in self.shared.values_mut() {
            granule.vars = [NONE; 8];
        }
        self.next = 0;
    }

    /// Starts over with the same recording; what has been named keeps its variable.
    pub fn rewind(&mut self) {
        for granule in self.shared.values_mut() {
            granule.vars = [NONE; 8];
            granule.renewed = 0;
        }
    }

    /// Threads share more memory, or have separated it more, than was known.
    pub fn extend(&mut self, granules: &[(u64, u8)]) {
        let known = self.sorted.len();
        for &(granule, starts) in granules {
            match self.shared.get_mut(&granule) {
                Some(known) => known.starts |= starts,
                None => {
                    self.shared.insert(granule, Granule::new(starts));
                    self.sorted.push(granule);
                }
            }
        }
        if self.sorted.len() > known {
            self.sorted.sort_unstable();
        }
    }

    /// The cells that start in a granule, as bits, if threads share it.
    pub fn starts(&self, granule: u64) -> Option<u8> {
        Some(self.shared.get(&granule)?.starts)
    }

    /// How many variables there are.
    pub fn vars(&self) -> u32 {
        self.next
    }

    /// Starts variables again from the first; memory that has none is forgotten, and all of it if
    /// there is still more than so much.
    pub fn start_over(&mut self, most: usize) {
        self.shared.retain(|_, granule| granule.vars != [NONE; 8]);
        if self.shared.len() > most {
            self.shared.clear();
        }
        self.sorted
            .retain(|granule| self.shared.contains_key(granule));
        self.restart();
    }

    /// Forgets what is known of words in memory that threads do not share.
    pub fn forget_words(&mut self) {
        let shared = &self.shared;
        (self.atomics).retain_words(|address| shared.contains_key(&(address & !7)));
    }

    /// Exchanges the memory, but not what is known of atomic operations.
    pub fn swap_memory(&mut self, other: &mut Cells) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.atomics, &mut other.atomics);
    }

    /// What the atomic operations amount to, to add to it.
    pub fn atomics_mut(&mut self) -> &mut Atomics {
        &mut self.atomics
    }

    /// What the atomic operations of the recording amount to.
    pub fn atomics(&self) -> &Atomics {
        &self.atomics
    }

    /// Whether threads share any of these bytes.
    pub fn is_shared(&self, range: &Range<u64>) -> bool {
        if range.end <= (range.start & !7) + 8 {
            return self.shared.contains_key(&(range.start & !7));
        }
        let first = self
            .sorted
            .partition_point(|&granule| granule < range.start & !7);
        self.sorted
            .get(first)
            .is_some_and(|&granule| granule < range.end)
    }

    /// The variables that an access touches, with the address of each and whether it is new.
    pub fn touch(&mut self, range: Range<u64>, mut each: impl FnMut(VarId, u64, bool)) {
        let mut at = range.start;
        while at < range.end {
            let base = at & !7;
            let end = range.end.min(base + 8);
            if let Some(granule) = self.shared.get_mut(&base) {
                for byte in (at - base)..(end - base) {
                    // An access starts at the start of a cell.
                    if granule.starts >> byte & 1 == 0 {
                        continue;
                    }
                    let var = &mut granule.vars[byte as usize];
                    let mut new = *var == NONE;
                    if new {
                        *var = self.next;
                        if self.again {
                            let place = (base + byte, granule.renewed);
                            *var = *self.before.entry(place).or_insert(self.next);
                            new = *var == self.next;
                        }
                        self.next += u32::from(new);
                    }
                    each(VarId(*var), base + byte, new);
                }
            }
            at = base + 8;
        }
    }

    /// The variables that live in a range.
    pub fn live(&self, range: &Range<u64>) -> Vec<VarId> {
        let first = self
            .sorted
            .partition_point(|&granule| granule < range.start & !7);
        let granules = self.sorted[first..].iter();
        let granules = granules.take_while(|&&granule| granule < range.end);
        let granules = granules.filter_map(|granule| self.shared.get(granule));
        let vars = granules.flat_map(|granule| granule.vars);
        vars.filter(|&var| var != NONE).map(VarId).collect()
    }

    /// Makes memory new.
    pub fn renew(&mut self, range: &Range<u64>) {
        let first = self
            .sorted
            .partition_point(|&granule| granule < range.start & !7);
        for granule in self.sorted[first..]
            .iter()
            .take_while(|&&granule| granule < range.end)
        {
            if let Some(granule) = self.shared.get_mut(granule) {
                granule.vars = [NONE; 8];
                granule.renewed += 1;
            }
        }
    }
}

/// What one thread has used and another frees is shared. Large blocks are data, and data is handed
/// over.
fn note_end(seen: &mut HashMap<u64, Seen, FxBuildHasher>, free: &Record, thread: u32) {
    let range = free
        .range()
        .filter(|range| range.end - range.start <= BLOCK);
    for (granule, _) in range.into_iter().flat_map(pieces) {
        let seen = seen.entry(granule).or_insert(Seen { starts: 0, thread });
        if seen.thread != thread {
            seen.thread = MANY;
        }
    }
}

/// The granules that an access covers parts of, each with the cells that it makes start there.
pub(crate) fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, u8)> {
    let first = if range.is_empty() {
        range.end
    } else {
        range.start & !7
    };
    (first..range.end).step_by(8).map(move |base| {
        let mut starts = 1 << (range.start.max(base) - base);
        if range.end - base < 8 {
            starts |= 1 << (range.end - base);
        }
        (base, starts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::Builder;
    use crate::format::first_word;

    fn cells(accesses: &[(usize, u64, u8)]) -> Cells {
        let mut builder = Builder::default();
        for &(slot, address, size) in accesses {
            builder.push(slot, &[first_word(Kind::Write, size, address), 0]);
        }
        Cells::new(&builder.build())
    }

    fn touched(cells: &mut Cells, range: Range<u64>) -> Vec<u32> {
        let mut vars = Vec::new();
        cells.touch(range, |var, _, _| vars.push(var.0));
        vars
    }

    #[test]
    fn neighbours_in_one_word_stay_apart() {
        let mut cells = cells(&[(1, 0x1000, 4), (2, 0x1004, 4)]);
        assert_eq!(touched(&mut cells, 0x1000..0x1004), [0]);
        assert_eq!(touched(&mut cells, 0x1004..0x1008), [1]);
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [0, 1]);
    }

    #[test]
    fn what_nobody_separates_is_one_variable() {
        let mut cells = cells(&[(1, 0x1000, 16), (2, 0x1000, 16)]);
        assert_eq!(touched(&mut cells, 0x1000..0x1010), [0, 1], "one a granule");
    }

    #[test]
    fn what_one_thread_has_to_itself_is_no_variable() {
        let mut cells = cells(&[(1, 0x1000, 8), (1, 0x1000, 4), (2, 0x2000, 8)]);
        assert_eq!(touched(&mut cells, 0x1000..0x1008), []);
        assert!(!cells.is_shared(&(0..u64::MAX)));
    }

    #[test]
    fn renewed_memory_has_new_variables() {
        let mut cells = cells(&[(1, 0x1000, 8), (2, 0x1000, 8)]);
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [0]);
        cells.renew(&(0x0ff0..0x1001));
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [1]);
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [1]);
    }
}
