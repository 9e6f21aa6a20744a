//! Which memory threads share, while a program runs.
//!
//! A whole recording tells at once which memory is touched by more than one thread, and how it is
//! cut into cells ([`crate::cells`]). Of a program that runs, only the past is known, and not all
//! of it can be kept. The runtime says with an access whether another thread had the memory before
//! it; from that moment on it is shared. What was done with it before that, but has not been
//! translated yet, is remembered here: two generations of accesses, of which the older one is
//! dropped whenever records have been translated. So what is kept follows what waits for
//! translation.

use crate::cells::{Cells, pieces};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::ops::Range;

/// Of one access, so much memory is looked at: what is copied in larger pieces is seldom shared.
const MOST: usize = 1 << 16;

type FxMap<K, V> = HashMap<K, V, FxBuildHasher>;

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Bit `i`: a cell starts at byte `i`.
    starts: u8,
    thread: u64,
}

/// What is known of the sharing of memory besides what the cells know.
#[derive(Debug, Default)]
pub struct Sharing {
    young: FxMap<u64, Seen>,
    old: FxMap<u64, Seen>,
    news: FxMap<u64, u8>,
}

impl Sharing {
    /// A thread accesses memory; `taken` says that another one had it before.
    pub fn access(&mut self, range: Range<u64>, thread: u64, taken: bool, cells: &Cells) {
        for (granule, starts) in pieces(range).take(MOST) {
            if let Some(known) = cells.starts(granule) {
                if known | starts != known {
                    *self.news.entry(granule).or_insert(0) |= starts;
                }
                continue;
            }
            if let Some(known) = self.news.get_mut(&granule) {
                *known |= starts;
                continue;
            }
            let before = self.old.get(&granule).copied();
            let now = self.young.entry(granule).or_insert(Seen { starts, thread });
            now.starts |= starts;
            let other = |seen: &Seen| seen.thread != thread;
            if taken || other(now) || before.as_ref().is_some_and(other) {
                let starts = now.starts | before.map_or(0, |before| before.starts);
                self.young.remove(&granule);
                self.news.insert(granule, starts);
            }
        }
    }

    /// What has become known since the last time, for [`Cells::extend`].
    pub fn take(&mut self) -> Vec<(u64, u8)> {
        self.old = std::mem::take(&mut self.young);
        self.news.drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(sharing: &mut Sharing, cells: &mut Cells) -> Vec<(u64, u8)> {
        let mut news = sharing.take();
        news.sort_unstable();
        cells.extend(&news);
        news
    }

    #[test]
    fn the_second_thread_makes_it_shared_with_what_the_first_did() {
        let (mut sharing, mut cells) = (Sharing::default(), Cells::default());
        sharing.access(8..12, 1, false, &cells);
        sharing.access(16..24, 1, false, &cells);
        assert_eq!(news(&mut sharing, &mut cells), []);
        sharing.access(8..16, 2, false, &cells);
        assert_eq!(news(&mut sharing, &mut cells), [(8, 0b1_0001)]);
        assert!(cells.is_shared(&(8..9)) && !cells.is_shared(&(16..24)));
    }

    #[test]
    fn what_is_long_ago_is_known_by_the_mark_only() {
        let (mut sharing, mut cells) = (Sharing::default(), Cells::default());
        sharing.access(8..16, 1, false, &cells);
        for _ in 0..2 {
            assert_eq!(news(&mut sharing, &mut cells), []);
        }
        sharing.access(8..16, 2, false, &cells);
        assert_eq!(news(&mut sharing, &mut cells), []);
        sharing.access(8..16, 1, true, &cells);
        assert_eq!(news(&mut sharing, &mut cells), [(8, 1)]);
    }

    #[test]
    fn shared_memory_can_be_cut_further() {
        let (mut sharing, mut cells) = (Sharing::default(), Cells::default());
        sharing.access(8..16, 1, true, &cells);
        news(&mut sharing, &mut cells);
        sharing.access(8..16, 1, true, &cells);
        assert_eq!(news(&mut sharing, &mut cells), []);
        sharing.access(12..14, 1, false, &cells);
        assert_eq!(news(&mut sharing, &mut cells), [(8, 0b101_0000)]);
        assert_eq!(cells.starts(8), Some(0b101_0001));
    }
}
