//! Which threads touch which memory: every block that is touched, and where accesses start and end in it.
//!
//! Most memory is one thread's own, so a block has one owner until a second thread comes; only
//! then each granule has its own.

use super::{BLOCK, FxBuildHasher, HashMap, Range, bits, pieces};

/// Nobody.
const NOBODY: u32 = u32::MAX;
/// More than one thread.
const MANY: u32 = u32::MAX - 1;

/// More blocks than this are not noted: 2 GB of memory that is touched.
const BLOCKS: usize = 1 << 22;
/// An access to more bytes than this is one to the first of them.
const LONGEST: u64 = 1 << 26;
/// All accesses that are longer than that have so many bytes, or are short from then on.
const SHORT: u64 = 1 << 16;
const PATIENCE: u64 = 1 << 36;

struct Block {
    /// For each granule, bit `i`: an access starts at byte `i`, or ends before it.
    starts: [u8; 64],
    /// Bit `i`: somebody has granule `i`.
    touched: u64,
    owner: u32,
    /// The owner of each granule, if they differ.
    owners: Option<Box<[u32; 64]>>,
}

/// The memory that is touched.
pub(super) struct Seen {
    numbers: HashMap<u64, u32, FxBuildHasher>,
    blocks: Vec<Block>,
    /// The block that was touched last, and its number.
    last: (u64, usize),
    left_out: u64,
    /// How many bytes long accesses may still have.
    patience: u64,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            numbers: HashMap::default(),
            blocks: Vec::new(),
            last: (0, 0),
            left_out: 0,
            patience: PATIENCE,
        }
    }
}

impl Seen {
    /// A thread accesses these bytes.
    pub(super) fn note(&mut self, mut range: Range<u64>, thread: u32) {
        let len = range.end - range.start;
        if len > SHORT {
            let most = LONGEST.min(self.patience).max(SHORT);
            self.left_out = self.left_out.saturating_add(len.saturating_sub(most));
            range.end = range.start + len.min(most);
            self.patience = self.patience.saturating_sub(len.min(most));
        }
        self.touch(range, thread, true);
    }

    /// A thread frees these bytes.
    pub(super) fn free(&mut self, range: Range<u64>, thread: u32) {
        self.touch(range, thread, false);
    }

    fn touch(&mut self, mut range: Range<u64>, thread: u32, accesses: bool) {
        let thread = thread.min(MANY - 1);
        while range.start < range.end {
            let number = range.start / BLOCK;
            let end = range.end.min((number + 1).saturating_mul(BLOCK));
            match self.block(number, thread) {
                Some(block) => {
                    let range = range.start % BLOCK..end - number * BLOCK;
                    block.touch(range, thread, accesses);
                }
                None => self.left_out = self.left_out.saturating_add(end - range.start),
            }
            range.start = end;
        }
    }

    fn block(&mut self, number: u64, thread: u32) -> Option<&mut Block> {
        if self.last.0 != number || self.blocks.is_empty() {
            let next = self.blocks.len();
            let full = next >= BLOCKS;
            let place = match self.numbers.entry(number) {
                hashbrown::hash_map::Entry::Occupied(known) => *known.get() as usize,
                hashbrown::hash_map::Entry::Vacant(_) if full => return None,
                hashbrown::hash_map::Entry::Vacant(new) => {
                    new.insert(next as u32);
                    self.blocks.push(Block {
                        starts: [0; 64],
                        touched: 0,
                        owner: thread,
                        owners: None,
                    });
                    next
                }
            };
            self.last = (number, place);
        }
        self.blocks.get_mut(self.last.1)
    }

    /// How many bytes were accessed that are not noted.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Calls for each block that has granules of several threads, in order: with its number, which
    /// granules these are, as bits, and the starts of all of them.
    pub(super) fn shared(self, mut each: impl FnMut(u64, u64, &[u8; 64])) {
        let mut shared: Vec<(u64, u64, u32)> = Vec::new();
        for (number, place) in self.numbers {
            if let Some(owners) = &self.blocks[place as usize].owners {
                let many = owners
                    .iter()
                    .enumerate()
                    .map(|(at, &owner)| (owner == MANY, at));
                let bits = many.fold(0, |bits, (many, at)| bits | u64::from(many) << at);
                if bits != 0 {
                    shared.push((number, bits, place));
                }
            }
        }
        shared.sort_unstable();
        for (number, bits, place) in shared {
            each(number, bits, &self.blocks[place as usize].starts);
        }
    }
}

impl Block {
    /// A thread accesses or frees these of its bytes.
    fn touch(&mut self, range: Range<u64>, thread: u32, accesses: bool) {
        if self.owner != thread && self.owners.is_none() {
            let mut owners = Box::new([NOBODY; 64]);
            bits(self.touched).for_each(|granule| owners[granule as usize] = self.owner);
            self.owners = Some(owners);
        }
        for (base, starts) in pieces(range) {
            let granule = (base / 8) as usize;
            self.touched |= 1 << granule;
            if accesses {
                self.starts[granule] |= starts;
            }
            if let Some(owners) = &mut self.owners {
                let owner = &mut owners[granule];
                match *owner {
                    NOBODY => *owner = thread,
                    known if known != thread => *owner = MANY,
                    _ => {}
                }
            }
        }
    }
}
