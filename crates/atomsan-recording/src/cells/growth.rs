//! Cells of a program that is running: the tables grow, and start over.
//!
//! Nothing is inserted in the middle of a table: a block that has more granules or more cells than before
//! is written once more at the end, with the variables it has, and what it leaves behind is
//! *unused*. When that is more than half, the tables are put in order again; so growing
//! costs no more than it brings, on the whole.

use super::{BLOCK, Block, Cells, NONE, bits};

impl Cells {
    /// Threads share more memory, or have separated it more, than was known.
    pub fn extend(&mut self, granules: &[(u64, u8)]) {
        let mut news = granules.to_vec();
        news.sort_unstable();
        let known = self.blocks.len();
        for news in news.chunk_by(|a, b| a.0 / BLOCK == b.0 / BLOCK) {
            self.extend_block(news[0].0 / BLOCK, news);
        }
        if self.blocks.len() > known || self.unused > self.starts.len() / 2 {
            self.blocks.sort_unstable_by_key(|block| block.number);
            self.number_blocks();
        }
        if self.unused > self.starts.len() / 2 {
            self.tidy();
        }
    }

    /// Puts a block at the end of the tables, with more granules or more cells than it had.
    fn extend_block(&mut self, number: u64, news: &[(u64, u8)]) {
        let known = self.numbers.get(&number).map(|&place| place as usize);
        let mut starts = [0; 64];
        for &(granule, more) in news {
            starts[(granule % BLOCK / 8) as usize] |= more;
        }
        let more = starts.iter().zip(0..);
        let more = more.fold(0, |bits, (&one, at)| bits | u64::from(one != 0) << at);
        let old = known.map(|place| &self.blocks[place]);
        let (had, from) = old.map_or((0, 0), |old| (old.shared, old.first as usize));
        let first = self.starts.len() as u32;
        let mut place = from;
        for granule in bits(had | more) {
            let more = starts[granule as usize];
            if had >> granule & 1 == 0 {
                self.add(more, [NONE; 8]);
            } else {
                self.add(self.starts[place] | more, self.vars_at(place));
                place += 1;
            }
        }
        self.unused += had.count_ones() as usize;
        let block = Block {
            number,
            shared: had | more,
            first,
        };
        match known {
            Some(place) => self.blocks[place] = block,
            None => self.blocks.push(block),
        }
    }

    /// The variables of a granule, by byte.
    fn vars_at(&self, place: usize) -> [u32; 8] {
        let mut vars = [NONE; 8];
        let cells = &self.vars[self.firsts[place] as usize..];
        for (byte, &var) in bits(self.starts[place].into()).zip(cells) {
            vars[byte as usize] = var;
        }
        vars
    }

    /// Puts the tables in order again, without what is not in use.
    fn tidy(&mut self) {
        let mut tidy = Cells::default();
        let mut blocks = std::mem::take(&mut self.blocks);
        for block in &mut blocks {
            let from = block.first as usize;
            block.first = tidy.starts.len() as u32;
            for place in from..from + block.shared.count_ones() as usize {
                tidy.add(self.starts[place], self.vars_at(place));
            }
        }
        self.blocks = blocks;
        (self.starts, self.firsts, self.vars) = (tidy.starts, tidy.firsts, tidy.vars);
        self.unused = 0;
    }

    /// Starts variables again from the first; memory that has none is forgotten, and all of it if
    /// there is still more than so much.
    pub fn start_over(&mut self, most: usize) {
        let mut used = Vec::new();
        for block in &self.blocks {
            for granule in bits(block.shared) {
                let place = block.place(granule);
                if self.vars_at(place) != [NONE; 8] {
                    let address = block.number * BLOCK + 8 * u64::from(granule);
                    used.push((address, self.starts[place]));
                }
            }
        }
        if used.len() > most {
            used.clear();
        }
        *self = Cells {
            atomics: std::mem::take(&mut self.atomics),
            ..Cells::default()
        };
        self.extend(&used);
    }

    /// Forgets what is known of words in memory that threads do not share.
    pub fn forget_words(&mut self) {
        let mut atomics = std::mem::take(&mut self.atomics);
        atomics.retain_words(|address| self.is_shared(&(address..address + 1)));
        self.atomics = atomics;
    }

    /// Exchanges the memory, but not what is known of atomic operations.
    pub fn swap_memory(&mut self, other: &mut Cells) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.atomics, &mut other.atomics);
    }
}
