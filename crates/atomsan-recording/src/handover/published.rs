//! What threads have made known at the words that they synchronise by: a clock for each.
//!
//! Words end with the memory that they are in, so there are no more clocks than words that are alive, and who uses
//! the memory next is not taken to be in order with those who used it before.

use super::clocks::{Clock, join};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::ops::Range;

/// Clocks by address.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// By granule: the words that start there.
    words: HashMap<u64, Vec<(u64, Clock)>, FxBuildHasher>,
    weight: usize,
}

const fn granule(address: u64) -> u64 {
    address >> 3
}

impl Published {
    pub(super) fn get(&self, address: u64) -> Option<&Clock> {
        let words = self.words.get(&granule(address))?;
        let (_, clock) = words.iter().find(|(at, _)| *at == address)?;
        Some(clock)
    }

    /// Adds to what is known at an address.
    pub(super) fn join(&mut self, address: u64, clock: &Clock) {
        let words = self.words.entry(granule(address)).or_default();
        let known = words.iter().position(|(at, _)| *at == address);
        let known = known.unwrap_or_else(|| {
            words.push((address, Clock::new()));
            words.len() - 1
        });
        let known = &mut words[known].1;
        let before = known.len();
        join(known, clock);
        self.weight += known.len() - before;
    }

    /// The memory is another one from now on.
    pub(super) fn forget(&mut self, range: Option<Range<u64>>) {
        let Some(range) = range.filter(|range| !range.is_empty()) else {
            return;
        };
        let granules = granule(range.start)..granule(range.end - 1) + 1;
        let weight =
            |words: &[(u64, Clock)]| words.iter().map(|(_, clock)| clock.len()).sum::<usize>();
        if (granules.end - granules.start) as usize > self.words.len() {
            let gone = self.words.extract_if(|at, _| granules.contains(at));
            self.weight -= gone.map(|(_, words)| weight(&words)).sum::<usize>();
            return;
        }
        for at in granules {
            if let Some(words) = self.words.remove(&at) {
                self.weight -= weight(&words);
            }
        }
    }

    /// How many granules have words.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// How many numbers there are in all clocks.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_with_their_memory() {
        let mut published = Published::default();
        for address in 100..200 {
            published.join(address, &vec![1, 2]);
        }
        published.join(120, &vec![2, 1, 3]);
        assert_eq!(published.get(120), Some(&vec![2, 2, 3]));
        assert_eq!(published.weight(), 201);
        published.forget(Some(112..144));
        assert_eq!((published.get(120), published.get(143)), (None, None));
        assert!(published.get(111).is_some() && published.get(144).is_some());
        assert_eq!(published.weight(), 2 * (100 - 32));
        published.forget(Some(0..1 << 40));
        assert_eq!(published.weight(), 0);
        published.forget(Some(7..7));
        published.forget(None);
    }
}
