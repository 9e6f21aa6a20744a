//! When logs take so much memory that components have to be looked for.
//!
//! A search and the check of what it finds are seldom worth their time while little has happened, so they
//! wait ([`Links::is_due`](crate::links::Links::is_due)). But what waits for them keeps its logs, and those of all that comes after it in the
//! same threads. So nothing waits while there are more chunks than usual and twice as many as there were at
//! some time since the last check. Then at least half of them are new, and however many must be kept,
//! no more than twice as many chunks are read for this reason as the program has written.

use atomsan_recording::format::FEW_CHUNKS;

/// So many chunks are usual: half of what a program may have before it waits.
const USUAL: usize = FEW_CHUNKS / 2;

/// How many chunks there are, compared with how many must be kept.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// The fewest that there were since the last check, if they were counted after it.
    least: Option<usize>,
}

impl Pressure {
    /// Whether so many chunks are reason enough for a check.
    pub(crate) fn is_high(&self, chunks: usize) -> bool {
        chunks >= USUAL.max(2 * self.least.unwrap_or(0))
    }

    /// There is a check, whatever its reason.
    pub(crate) fn check(&mut self) {
        self.least = None;
    }

    /// So many chunks are left of those that could be given back.
    pub(crate) fn count(&mut self, chunks: usize) {
        self.least = Some(self.least.map_or(chunks, |least| least.min(chunks)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many chunks are read, and how many there are at most, if the program writes so many and each check
    /// leaves some of those that there are.
    fn run(written: usize, leaves: impl Fn(usize) -> usize) -> (usize, usize) {
        let (mut pressure, mut chunks, mut read, mut most) = (Pressure::default(), 0, 0, 0);
        for _ in 0..written {
            chunks += 1;
            most = chunks.max(most);
            if pressure.is_high(chunks) {
                read += chunks;
                pressure.check();
                chunks = leaves(chunks);
            }
            pressure.count(chunks);
        }
        (read, most)
    }

    #[test]
    fn there_are_few_chunks_if_none_must_be_kept() {
        let (read, most) = run(10_000, |_| 0);
        assert!(read <= 10_000 && most <= USUAL, "{read} {most}");
    }

    #[test]
    fn chunks_are_read_twice_on_average_if_all_must_be_kept() {
        for written in [100, 1000, 10_000] {
            for percent in [50, 90, 99, 100] {
                let (read, _) = run(written, |chunks| chunks * percent / 100);
                assert!(read <= 2 * written, "{written} {percent} {read}");
            }
        }
    }
}
