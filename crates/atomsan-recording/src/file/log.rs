//! The records of one slot, in order, read piece by piece.

use super::{Chunk, Ordering, Recording};
use crate::format::{Kind, LOW, TAKEN};
use std::ops::Range;

/// One record of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where it is in the logs; no two records have the same.
    pub position: u64,
    /// What it says.
    pub kind: Kind,
    /// Size of an access, in bytes.
    pub size: u8,
    /// An address, a position or a number.
    pub subject: u64,
    /// The second word.
    pub second: u64,
    /// The third and fourth word; 0 if the kind has none.
    pub extra: [u64; 2],
}

impl Record {
    /// The record at the start of these words, which is at a position.
    #[inline]
    pub fn parse(words: &[u64], position: u64) -> Option<Record> {
        let first = *words.first()?;
        let kind = Kind::from_number((first >> 56) as u8)?;
        let words = words.get(..kind.words())?;
        let extra = |index| words.get(index).copied().unwrap_or(0);
        Some(Record {
            position,
            kind,
            size: (first >> 48) as u8,
            subject: first & LOW,
            second: words[1],
            extra: [extra(2), extra(3)],
        })
    }

    /// The program counter after the instruction.
    pub fn pc(&self) -> u64 {
        self.second & LOW
    }

    /// The upper bits of the second word, but for [`Record::is_taken`].
    pub fn detail(&self) -> u16 {
        (self.second >> 48) as u16 & !TAKEN
    }

    /// Whether others have accessed the same bytes before.
    pub fn is_taken(&self) -> bool {
        (self.second >> 48) as u16 & TAKEN != 0
    }

    /// The bytes that a memory access covers; `None` if it is something else.
    pub fn range(&self) -> Option<Range<u64>> {
        let len = match self.kind {
            Kind::Read
            | Kind::Write
            | Kind::AtomicLoad
            | Kind::AtomicStore
            | Kind::AtomicRmw
            | Kind::AtomicRmwFailed => u64::from(self.size),
            Kind::ReadRange | Kind::WriteRange | Kind::Alloc | Kind::Free => self.extra[0],
            _ => return None,
        };
        Some(self.subject..self.subject.saturating_add(len))
    }
}

/// How many words the longest record has.
const LONGEST: usize = 4;
/// How many words are read at once, at least and at most.
const WINDOW: (usize, usize) = (1 << 9, 1 << 13);
/// How many words are read ahead, over all logs of a recording.
const WINDOWS: usize = 1 << 21;

/// The records of one slot, in order. Only a part of one chunk is in memory at a time.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    pub(super) recording: &'a Recording,
    /// The chunks that follow the current one.
    chunks: &'a [Chunk],
    /// A part of the current chunk, and how many words of it have been taken.
    window: Vec<u64>,
    at: usize,
    /// How many words the window may have.
    room: usize,
    /// What follows the window in the chunk.
    rest: Range<u64>,
    /// What is to be added to a place in the file to get the position.
    shift: u64,
    /// The position of the current chunk.
    pub(super) last: u64,
    next: Option<Record>,
}

impl<'a> Log<'a> {
    /// The log of these chunks of a recording.
    pub(super) fn new(recording: &'a Recording, chunks: &'a [Chunk]) -> Log<'a> {
        let logs = recording.slots();
        let mut log = Log {
            recording,
            chunks,
            window: Vec::new(),
            at: 0,
            room: (WINDOWS / logs.max(1)).clamp(WINDOW.0, WINDOW.1),
            rest: 0..0,
            shift: 0,
            last: 0,
            next: None,
        };
        log.settle();
        log
    }

    /// Where the next record starts; the largest number at the end.
    #[inline]
    pub fn position(&self) -> u64 {
        self.next.as_ref().map_or(u64::MAX, |next| next.position)
    }

    /// The next record, without taking it.
    #[inline]
    pub fn peek(&self) -> Option<&Record> {
        self.next.as_ref()
    }

    /// Goes on to the next chunk that has a record, if this one has none left.
    fn settle(&mut self) {
        loop {
            if self.window.len() - self.at < LONGEST && !self.rest.is_empty() {
                self.refill();
            }
            let left = 8 * (self.window.len() - self.at) as u64;
            let position = (self.rest.start - left).wrapping_add(self.shift);
            self.next = Record::parse(&self.window[self.at..], position);
            if self.next.is_some() {
                return;
            }
            self.window.clear();
            self.at = 0;
            let Some((chunk, rest)) = self.chunks.split_first() else {
                self.window = Vec::new();
                return;
            };
            let goes_on = chunk.goes_on_from(self.last);
            let start = chunk.content.start + chunk.snapshot;
            self.shift = chunk.position.wrapping_sub(start);
            self.rest = if goes_on { start } else { chunk.content.start }..chunk.content.end;
            self.last = chunk.position;
            self.chunks = rest;
        }
    }

    /// Drops what has been taken, and reads on.
    fn refill(&mut self) {
        self.window.drain(..self.at);
        self.at = 0;
        let wanted = (self.rest.end - self.rest.start) / 8;
        let wanted = wanted.min((self.room - self.window.len()) as u64);
        if self.recording.is_stopped() {
            (self.rest.end, self.chunks) = (self.rest.start, &[]);
            return;
        }
        let (from, source) = (self.rest.start, &self.recording.source);
        let read = source.words(from, wanted as usize, &mut self.window) as u64;
        self.recording
            .reading
            .read
            .fetch_add(8 * read, Ordering::Relaxed);
        self.rest.start += 8 * read;
        if read < wanted || wanted == 0 {
            // The file ends here, or what is left is no word.
            self.rest.end = self.rest.start;
        }
    }
}

impl Iterator for Log<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let record = self.next?;
        self.at += record.kind.words();
        self.settle();
        Some(record)
    }
}
