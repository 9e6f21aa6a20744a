//! What a walk through a log has visited, for walking through it once more: who uses what is known only after the
//! first time ([`crate::uses`]), and to read and pass all of the log again would cost as much as the
//! first time.
//!
//! It is *runs* of records, each with a snapshot of the thread in front of it, as if it were a log by itself. Mostly that is
//! little, a few dozen records of a component. If it is more than there is room for, it is not kept, and the
//! log is read again.

use crate::live::Word;
use std::ops::Range;

/// How many words are kept of the logs that are walked through for the same components.
pub(crate) const ROOM: usize = 1 << 17;

/// What has been visited.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    runs: Vec<Head>,
    snapshots: Vec<u64>,
    words: Vec<Word>,
    /// How many words there may be, those of snapshots included.
    room: usize,
    /// Whether nothing is kept, because there was no room.
    is_full: bool,
}

#[derive(Debug)]
struct Head {
    clock: u64,
    position: u64,
    is_new: bool,
    snapshot: Range<usize>,
    /// Where its words start; they end where those of the next one start.
    start: usize,
}

/// Records that were visited one after the other.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// The transaction that the first one is in, and its position.
    pub(crate) clock: u64,
    pub(crate) position: u64,
    /// Whether it is another transaction than that of the last run.
    pub(crate) is_new: bool,
    /// What is to be known of the thread.
    pub(crate) snapshot: &'a [u64],
    pub(crate) words: &'a [Word],
}

impl Visited {
    /// Nothing yet; there may be so many words.
    pub(crate) fn with_room(room: usize) -> Visited {
        Visited {
            room,
            ..Visited::default()
        }
    }

    /// How many words others may have besides.
    pub(crate) fn room(&self) -> usize {
        self.room - self.snapshots.len() - self.words.len()
    }

    /// Another run begins.
    pub(crate) fn begin(&mut self, snapshot: Vec<u64>, clock: u64, position: u64, is_new: bool) {
        if !self.takes(snapshot.len()) {
            return;
        }
        let start = self.snapshots.len();
        self.snapshots.extend(snapshot);
        self.runs.push(Head {
            clock,
            position,
            is_new,
            snapshot: start..self.snapshots.len(),
            start: self.words.len(),
        });
    }

    /// The last run goes on with these words.
    pub(crate) fn extend(&mut self, words: &[Word]) {
        if self.takes(words.len()) {
            self.words.extend_from_slice(words);
        }
    }

    /// Whether there is room for so many words.
    fn takes(&mut self, words: usize) -> bool {
        if !self.is_full && self.room() < words {
            *self = Visited {
                is_full: true,
                ..Visited::with_room(self.room)
            };
        }
        !self.is_full
    }

    /// Whether all of it is there.
    pub(crate) fn is_all(&self) -> bool {
        !self.is_full
    }

    /// The runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.runs.iter().enumerate().map(|(at, head)| {
            let end = self
                .runs
                .get(at + 1)
                .map_or(self.words.len(), |next| next.start);
            Run {
                clock: head.clock,
                position: head.position,
                is_new: head.is_new,
                snapshot: &self.snapshots[head.snapshot.clone()],
                words: &self.words[head.start..end],
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_kept_or_nothing() {
        for room in 0..12 {
            let mut visited = Visited::with_room(room);
            for run in 1..=2u64 {
                visited.begin(vec![run; 2], run, 8 * run, true);
                visited.extend(&[[run as u8; 8]; 2]);
                visited.extend(&[[run as u8; 8]; 1]);
            }
            let runs: Vec<_> = visited
                .runs()
                .map(|run| (run.clock, run.words.len()))
                .collect();
            let (all, left) = if room < 10 {
                (vec![], room)
            } else {
                (vec![(1, 3), (2, 3)], room - 10)
            };
            assert_eq!(runs, all, "{room}");
            assert_eq!(visited.is_all(), room >= 10, "{room}");
            assert_eq!(visited.room(), left, "{room}");
        }
    }
}
