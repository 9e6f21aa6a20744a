//! Sets of positions in a recording.
//!
//! A bit for each word of a chunk, in the chunks that have one: a thousandth of the recording where they
//! are few, and at most a 64th of it.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Positions of records.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// Bits by position, without its lowest [`BITS`] bits.
    pages: HashMap<u64, Box<[u64; 128]>, FxBuildHasher>,
}

/// A page has the positions of a chunk: 2¹³ words of 2³ bytes.
const BITS: u32 = 16;

/// The page of a position, and the word and the bit there.
fn place(position: u64) -> (u64, usize, u32) {
    let word = position >> 3;
    (
        position >> BITS,
        (word >> 6) as usize % 128,
        word as u32 % 64,
    )
}

impl Positions {
    pub(crate) fn insert(&mut self, position: u64) {
        let (page, word, bit) = place(position);
        let page = self.pages.entry(page).or_insert_with(|| Box::new([0; 128]));
        page[word] |= 1 << bit;
    }

    pub(crate) fn remove(&mut self, position: u64) {
        let (number, word, bit) = place(position);
        if let Some(page) = self.pages.get_mut(&number) {
            page[word] &= !(1 << bit);
            if page[word] == 0 && **page == [0; 128] {
                self.pages.remove(&number);
            }
        }
    }

    pub(crate) fn contains(&self, position: u64) -> bool {
        let (page, word, bit) = place(position);
        let page = self.pages.get(&page);
        page.is_some_and(|page| page[word] >> bit & 1 != 0)
    }
}

impl Extend<u64> for Positions {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, positions: I) {
        positions.into_iter().for_each(|one| self.insert(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_in_it() {
        let some = [8, 0, 65528, 65536, 1 << 47, 131_072 - 8];
        let mut positions = Positions::default();
        positions.extend(some);
        let all = (0..200_000).step_by(8).chain([1 << 47, (1 << 47) + 8]);
        let found: Vec<u64> = all.filter(|&at| positions.contains(at)).collect();
        assert_eq!(found, [0, 8, 65528, 65536, 131_072 - 8, 1 << 47]);
        some.iter().for_each(|&one| positions.remove(one));
        assert!(positions.pages.is_empty());
    }
}
