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
//!
//! # Room
//!
//! Memory is looked at in *granules* of 8 bytes, and in *blocks* of 64 granules. First every block that is touched is
//! noted ([`seen`]); then only the shared granules are kept, in tables without gaps: a block
//! knows which of its granules these are and where they start in the tables, a granule where its
//! cells start. So a look is one in a table of blocks, which is small, and the rest is counting bits.
//! While a program runs, the tables grow ([`growth`]).
//!
//! The cells are touched in the same order in every pass over a recording, so the first pass can tell
//! the second by number which variables need no check ([`crate::handover`]); they get no name.

mod growth;
mod seen;

use crate::atomics::{Atomics, Follower};
use crate::file::Recording;
use crate::format::Kind;
use crate::handover::{Alone, HandedOver};
use atomsan_trace::VarId;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use seen::Seen;
use std::ops::Range;

/// A cell has no variable yet.
const NONE: u32 = u32::MAX;
/// A cell's variable needs no check.
const NEEDLESS: u32 = u32::MAX - 1;

/// What one thread has used and another frees is shared. Larger memory is data, and data is handed over.
const DATA: u64 = 1024;

/// 64 granules of 8 bytes.
const BLOCK: u64 = 512;
/// A range of more blocks than this is looked for among the blocks that there are.
const FEW: u64 = 8;

/// A block with granules that are shared.
#[derive(Debug)]
struct Block {
    /// Its address in blocks.
    number: u64,
    /// Bit `i`: threads share granule `i`.
    shared: u64,
    /// The first of these in the tables of granules.
    first: u32,
}

impl Block {
    /// Which of its shared granules a range has, as bits.
    fn granules(&self, range: &Range<u64>) -> u64 {
        let start = self.number * BLOCK;
        let mut granules = self.shared;
        if range.start > start {
            granules &= u64::MAX << ((range.start - start) / 8).min(63);
        }
        let end = range.end.saturating_sub(start).div_ceil(8);
        if end < 64 {
            granules &= (1 << end) - 1;
        }
        granules
    }

    /// Where a shared granule is in the tables.
    fn place(&self, granule: u32) -> usize {
        let before = self.shared & ((1 << granule) - 1);
        self.first as usize + before.count_ones() as usize
    }
}

/// The cells of the memory that threads share.
#[derive(Default)]
pub struct Cells {
    /// In ascending order.
    blocks: Vec<Block>,
    /// The same by number.
    numbers: HashMap<u64, u32, FxBuildHasher>,
    /// For each granule, bit `i`: a cell starts at byte `i`.
    starts: Vec<u8>,
    /// For each granule, the first of its cells; and the number of all.
    firsts: Vec<u32>,
    /// For each cell, its variable.
    vars: Vec<u32>,
    /// Which of its accesses need no check, for each of them.
    alone: Vec<Alone>,
    /// For each granule how often it has become new, if there will be another recording.
    renewed: Vec<u32>,
    atomics: Atomics,
    left_out: u64,
    /// How many granules of the tables are not in use any more.
    unused: usize,
    /// How many variables this pass has had, and how many have a name.
    count: u32,
    next: u32,
    /// Whether this is the first pass: variables have numbers, and no names.
    surveying: bool,
    needless: HandedOver,
    /// Variables of recordings before this one, by address and renewal.
    before: HashMap<(u64, u32), u32, FxBuildHasher>,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cells({} shared granules)", self.starts.len())
    }
}

impl Cells {
    /// Looks through a whole recording.
    pub fn new(recording: &Recording) -> Cells {
        let mut seen = Seen::default();
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
                        let range = record
                            .range()
                            .filter(|range| range.end - range.start <= DATA);
                        range.into_iter().for_each(|range| seen.free(range, thread));
                        continue;
                    }
                    _ => {}
                }
                follower.step(&mut atomics, &record);
                if let Some(range) = record.range() {
                    seen.note(range, thread);
                }
            }
        }
        let mut cells = Cells {
            left_out: seen.left_out(),
            atomics,
            surveying: true,
            ..Cells::default()
        };
        seen.shared(|number, shared, starts| {
            cells.blocks.push(Block {
                number,
                shared,
                first: cells.starts.len() as u32,
            });
            for granule in bits(shared) {
                cells.add(starts[granule as usize], [NONE; 8]);
            }
        });
        cells.number_blocks();
        cells
    }

    /// Adds a granule to the tables, with the variables that the cells at its bytes have.
    fn add(&mut self, starts: u8, vars: [u32; 8]) {
        if self.firsts.is_empty() {
            self.firsts.push(0);
        }
        self.starts.push(starts);
        let cells = bits(starts.into()).map(|byte| vars[byte as usize]);
        self.vars.extend(cells);
        self.alone.resize(self.vars.len(), Alone::Never);
        self.firsts.push(self.vars.len() as u32);
    }

    fn number_blocks(&mut self) {
        let numbers = self.blocks.iter().map(|block| block.number);
        self.numbers = numbers.zip(0..).collect();
    }

    /// The cells that start in a granule, as bits, if threads share it.
    pub fn starts(&self, granule: u64) -> Option<u8> {
        let block = &self.blocks[*self.numbers.get(&(granule / BLOCK))? as usize];
        let bit = (granule % BLOCK / 8) as u32;
        (block.shared >> bit & 1 != 0).then(|| self.starts[block.place(bit)])
    }

    /// How many variables there are.
    pub fn vars(&self) -> u32 {
        self.next
    }

    /// What the atomic operations amount to, to add to it.
    pub fn atomics_mut(&mut self) -> &mut Atomics {
        &mut self.atomics
    }

    /// Looks through another recording of the same process; what has the same address has the
    /// same variable as before.
    #[must_use]
    pub fn again(self, recording: &Recording) -> Cells {
        let mut cells = Cells {
            next: self.next,
            before: self.before,
            ..Cells::new(recording)
        };
        cells.renewed = vec![0; cells.starts.len()];
        cells
    }

    /// Starts over with the same recording. From now on, these variables, by their numbers in the
    /// pass before, are left out.
    pub fn leave_out(&mut self, needless: HandedOver) {
        self.needless = needless;
        self.surveying = false;
        self.vars.fill(NONE);
        self.count = 0;
        // What a recording before this one has named keeps its name, though this one may have nothing
        // that is shared.
        if self.before.is_empty() {
            self.next = 0;
        }
        self.renewed.fill(0);
    }

    /// Starts over with the same recording.
    pub fn restart(&mut self) {
        let needless = std::mem::take(&mut self.needless);
        self.leave_out(needless);
    }

    /// What the atomic operations of the recording amount to.
    pub fn atomics(&self) -> &Atomics {
        &self.atomics
    }

    /// How many bytes were accessed that are not looked at, because there were too many.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The blocks that a range has a part of, as places in the table.
    fn blocks(&self, range: &Range<u64>) -> Range<usize> {
        let numbers = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let first = (self.blocks).partition_point(|block| block.number < numbers.start);
        let len = self.blocks[first..].partition_point(|block| block.number < numbers.end);
        first..first + len
    }

    /// Calls for each block that a range has a part of, with its place in the table; stops when
    /// told to.
    fn each_block(&self, range: &Range<u64>, mut each: impl FnMut(usize) -> bool) -> bool {
        let numbers = range.start / BLOCK..range.end.div_ceil(BLOCK);
        if numbers.end.saturating_sub(numbers.start) > FEW {
            return self.blocks(range).any(each);
        }
        numbers
            .filter_map(|number| self.numbers.get(&number))
            .any(|&place| each(place as usize))
    }

    /// Whether threads share any of these bytes.
    #[inline]
    pub fn is_shared(&self, range: &Range<u64>) -> bool {
        let range = range.start..range.end.max(range.start.saturating_add(1));
        self.each_block(&range, |place| self.blocks[place].granules(&range) != 0)
    }

    /// What stands for a variable that is left out.
    pub const LEFT_OUT: VarId = VarId(NEEDLESS);

    /// The variables that an access touches, with the address of each and whether it is new; those
    /// that are left out as [`Cells::LEFT_OUT`].
    pub fn touch(&mut self, range: Range<u64>, mut each: impl FnMut(VarId, u64, bool, Alone)) {
        let first = range.start / BLOCK;
        // Nearly all accesses are in one block.
        if range.end <= (first + 1) * BLOCK {
            if let Some(&place) = self.numbers.get(&first) {
                self.touch_block(place as usize, &range, &mut each);
            }
            return;
        }
        for place in self.blocks(&range) {
            self.touch_block(place, &range, &mut each);
        }
    }

    #[inline]
    fn touch_block(
        &mut self,
        place: usize,
        range: &Range<u64>,
        each: &mut impl FnMut(VarId, u64, bool, Alone),
    ) {
        let block = &self.blocks[place];
        for granule in bits(block.granules(range)) {
            let place = block.place(granule);
            let base = block.number * BLOCK + 8 * u64::from(granule);
            let starts = self.starts[place];
            // An access starts at the start of a cell.
            let mut touched = u64::from(starts);
            if range.start > base {
                touched &= u64::MAX << (range.start - base);
            }
            if range.end - base < 8 {
                touched &= (1 << (range.end - base)) - 1;
            }
            for byte in bits(touched) {
                let before = starts & ((1 << byte) - 1);
                let cell = self.firsts[place] + before.count_ones();
                let address = base + u64::from(byte);
                let var = &mut self.vars[cell as usize];
                let mut new = false;
                if *var == NONE && self.surveying {
                    *var = self.count;
                    self.count += 1;
                } else if *var == NONE {
                    *var = NEEDLESS;
                    self.alone[cell as usize] = self.needless.alone(VarId(self.count));
                    if !self.needless.contains(VarId(self.count)) {
                        *var = self.next;
                        if let Some(&renewed) = self.renewed.get(place) {
                            let known = self.before.entry((address, renewed));
                            *var = *known.or_insert(self.next);
                        }
                        new = *var == self.next;
                        self.next += u32::from(new);
                    }
                    self.count += 1;
                }
                each(VarId(*var), address, new, self.alone[cell as usize]);
            }
        }
    }

    /// The variables that live in a range.
    pub fn live(&self, range: &Range<u64>) -> Vec<VarId> {
        let mut live = Vec::new();
        self.each_block(range, |place| {
            let block = &self.blocks[place];
            for granule in bits(block.granules(range)) {
                let place = block.place(granule);
                let cells = self.firsts[place] as usize..self.firsts[place + 1] as usize;
                let vars = self.vars[cells].iter().filter(|&&var| var < NEEDLESS);
                live.extend(vars.map(|&var| VarId(var)));
            }
            false
        });
        live
    }

    /// Makes memory new; its variables so far are told.
    pub fn renew(&mut self, range: &Range<u64>, mut old: impl FnMut(VarId)) {
        let numbers = range.start / BLOCK..range.end.div_ceil(BLOCK);
        if numbers.end.saturating_sub(numbers.start) > FEW {
            for place in self.blocks(range) {
                self.renew_block(place, range, &mut old);
            }
            return;
        }
        for number in numbers {
            if let Some(&place) = self.numbers.get(&number) {
                self.renew_block(place as usize, range, &mut old);
            }
        }
    }

    fn renew_block(&mut self, place: usize, range: &Range<u64>, old: &mut impl FnMut(VarId)) {
        let block = &self.blocks[place];
        for granule in bits(block.granules(range)) {
            let place = block.place(granule);
            if let Some(renewed) = self.renewed.get_mut(place) {
                *renewed += 1;
            }
            let cells = self.firsts[place] as usize..self.firsts[place + 1] as usize;
            for var in &mut self.vars[cells] {
                match std::mem::replace(var, NONE) {
                    NONE | NEEDLESS => {}
                    var => old(VarId(var)),
                }
            }
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

/// The bits that are set, from the lowest.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::Builder;
    use crate::format::first_word;

    fn recording(accesses: &[(usize, u64, u8)]) -> Recording {
        let mut builder = Builder::default();
        for &(slot, address, size) in accesses {
            builder.push(slot, &[first_word(Kind::Write, size, address), 0]);
        }
        builder.build()
    }

    fn cells(accesses: &[(usize, u64, u8)]) -> Cells {
        Cells::new(&recording(accesses))
    }

    fn touched(cells: &mut Cells, range: Range<u64>) -> Vec<u32> {
        let mut vars = Vec::new();
        cells.touch(range, |var, _, _, _| vars.push(var.0));
        assert!(!vars.contains(&NEEDLESS));
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

    /// A component may have nothing that is shared; what was named before keeps its number.
    #[test]
    fn names_outlive_a_recording_with_nothing_in_it() {
        let shared = |address| recording(&[(1, address, 8), (2, address, 8)]);
        let mut cells = Cells::default();
        let mut names = Vec::new();
        for (recording, address) in [
            (shared(0x1000), 0x1000),
            (recording(&[(1, 0x2000, 8)]), 0x2000),
            (shared(0x3000), 0x3000),
            (shared(0x1000), 0x1000),
        ] {
            cells = cells.again(&recording);
            cells.leave_out(HandedOver::default());
            names.push(touched(&mut cells, address..address + 8));
        }
        assert_eq!(names, [vec![0], vec![], vec![1], vec![0]]);
    }

    #[test]
    fn renewed_memory_has_new_variables() {
        let mut cells = cells(&[(1, 0x1000, 8), (2, 0x1000, 8)]);
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [0]);
        cells.renew(&(0x0ff0..0x1001), |_| {});
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [1]);
        assert_eq!(touched(&mut cells, 0x1000..0x1008), [1]);
    }
}
