//! A recording as the runtime left it: the logs of its slots, whether the process came to its
//! end or not. A log may have lost its beginning, or a part in the middle; it goes on with a
//! snapshot of the calls that the thread was in.
//!
//! Nothing in the file is trusted: a process that was killed leaves chunks without a header and
//! records without an end, and each of them only ends the log it is in.

use crate::format::{
    CHUNK_HEADER_SIZE, CHUNK_LOG, CHUNK_MAGIC, CHUNK_MAPS, CHUNK_UNIT, HEADER_SIZE, Kind, LOW,
    MAGIC, SLOTS, TAKEN, header,
};
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::Path;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read the recording {path}: {error}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file is something else.
    #[error(
        "{path} is not a recording of this version of atomsan; expected a file `PID.rec` that its runtime wrote"
    )]
    NotARecording {
        /// Which file.
        path: String,
    },
}

/// What the runtime counted, for the summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The process.
    pub pid: u64,
    /// Threads that were started, the first included.
    pub threads: u64,
    /// Events that were forgotten or not recorded because the budget was used up.
    pub dropped: u64,
    /// Threads that were not recorded because there were too many at once.
    pub unseen_threads: u64,
    /// Events in signal handlers that could not be recorded.
    pub interrupted: u64,
    /// Whether the process came to its exit handlers.
    pub exited: bool,
    /// How many bytes apart addresses are that the runtime could not tell from each other; 0 if it
    /// could.
    pub window: u64,
}

/// A recording of one process, in memory.
#[derive(Debug)]
pub struct Recording {
    data: Vec<u8>,
    /// The chunks of each slot's log, in order.
    slots: Vec<Vec<Chunk>>,
    maps: Vec<Range<usize>>,
    counters: Counters,
}

/// A piece of a log.
#[derive(Clone, Debug)]
struct Chunk {
    /// Where it is in the file: the snapshot, then the records.
    content: Range<usize>,
    /// How long the snapshot is.
    snapshot: usize,
    /// The position of the first record.
    position: u64,
    /// The position of the chunk that comes before it in the log.
    previous: u64,
}

/// A piece of a log that is to be part of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The log.
    pub slot: usize,
    /// The position of its first record.
    pub position: u64,
    /// The position of the piece that it goes on from; 0 if there is a gap before it.
    pub previous: u64,
    /// What is to be known of the thread if there is a gap.
    pub snapshot: &'a [u64],
    /// Its records.
    pub words: &'a [u64],
}

impl Recording {
    /// A recording of pieces of logs, with memory maps.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = Piece<'a>>, maps: &str) -> Recording {
        let mut data = maps.as_bytes().to_vec();
        data.push(0);
        let mut recording = Recording {
            maps: std::iter::once(0..data.len()).collect(),
            data: Vec::new(),
            slots: Vec::new(),
            counters: Counters::default(),
        };
        for piece in pieces {
            let start = data.len();
            let words = piece.snapshot.iter().chain(piece.words);
            data.extend(words.flat_map(|word| word.to_le_bytes()));
            if recording.slots.len() <= piece.slot {
                recording.slots.resize_with(piece.slot + 1, Vec::new);
            }
            recording.slots[piece.slot].push(Chunk {
                content: start..data.len(),
                snapshot: 8 * piece.snapshot.len(),
                position: piece.position,
                previous: piece.previous,
            });
        }
        for chunks in &mut recording.slots {
            chunks.sort_by_key(|chunk| chunk.position);
        }
        recording.data = data;
        recording
    }

    /// Reads a recording.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let data = read_used(path).map_err(|error| Error::Read {
            path: path.display().to_string(),
            error,
        })?;
        Recording::parse(data).ok_or_else(|| Error::NotARecording {
            path: path.display().to_string(),
        })
    }

    /// Takes the content of a recording; `None` if it is none.
    pub fn parse(data: Vec<u8>) -> Option<Recording> {
        let field = |offset| word(&data, offset).unwrap_or(0);
        if field(header::MAGIC) != MAGIC {
            return None;
        }
        let counters = Counters {
            pid: field(header::PID),
            threads: field(header::THREADS),
            dropped: field(header::DROPPED),
            unseen_threads: field(header::UNSEEN_THREADS),
            interrupted: field(header::INTERRUPTED),
            window: field(header::SHADOW),
            exited: field(header::EXITED) != 0,
        };
        let top = (field(header::TOP) as usize).min(data.len());
        let mut recording = Recording {
            data,
            slots: Vec::new(),
            maps: Vec::new(),
            counters,
        };
        recording.find_chunks(top);
        Some(recording)
    }

    fn find_chunks(&mut self, top: usize) {
        let mut at = HEADER_SIZE;
        while at + CHUNK_HEADER_SIZE <= top {
            let field = |offset| word(&self.data, at + offset).unwrap_or(0);
            let (magic, kind) = (field(0) as u32, (field(0) >> 32) as u32);
            let (size, slot) = (field(8) as usize, field(16) as u32 as usize);
            let snapshot = (field(16) >> 32) as usize;
            if magic != CHUNK_MAGIC || size == 0 || size % CHUNK_UNIT != 0 {
                at += CHUNK_UNIT;
                continue;
            }
            let content = at + CHUNK_HEADER_SIZE..at.saturating_add(size).min(self.data.len());
            match kind {
                CHUNK_LOG if slot <= SLOTS && snapshot <= content.len() => {
                    let chunk = Chunk {
                        content,
                        snapshot,
                        position: field(24) & LOW,
                        previous: field(32),
                    };
                    if self.slots.len() <= slot {
                        self.slots.resize_with(slot + 1, Vec::new);
                    }
                    self.slots[slot].push(chunk);
                }
                CHUNK_MAPS => self.maps.push(content),
                _ => {}
            }
            at = at.saturating_add(size);
        }
        for chunks in &mut self.slots {
            chunks.sort_by_key(|chunk| chunk.position);
        }
    }

    /// What the runtime counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// How many slots there are; some may be empty.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The log of a slot.
    pub fn log(&self, slot: usize) -> Log<'_> {
        let chunks = self.slots.get(slot).map_or(&[][..], |chunks| chunks);
        let mut log = Log {
            data: &self.data,
            at: 0..0,
            shift: 0,
            last: 0,
            chunks,
        };
        log.settle();
        log
    }

    /// The memory map of the process, as often as it was written down.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.maps.iter().map(|range| {
            let text = &self.data[range.clone()];
            let len = text
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(text.len());
            std::str::from_utf8(&text[..len]).unwrap_or("")
        })
    }
}

/// The part of the file that is in use: the rest are holes, up to the size of the budget.
fn read_used(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let mut data = Vec::new();
    file.by_ref()
        .take(HEADER_SIZE as u64)
        .read_to_end(&mut data)?;
    let top = word(&data, header::TOP).unwrap_or(0);
    file.take(top.saturating_sub(HEADER_SIZE as u64))
        .read_to_end(&mut data)?;
    Ok(data)
}

fn word(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

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

/// The records of one slot, in order.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    data: &'a [u8],
    at: Range<usize>,
    /// What is to be added to a place in the file to get the position.
    shift: u64,
    /// The position of the current chunk.
    last: u64,
    chunks: &'a [Chunk],
}

impl Log<'_> {
    /// Where the next record starts; the largest number at the end.
    pub fn position(&self) -> u64 {
        if self.at.is_empty() {
            u64::MAX
        } else {
            (self.at.start as u64).wrapping_add(self.shift)
        }
    }

    /// The next record, without taking it.
    pub fn peek(&self) -> Option<Record> {
        let first = self.word(0)?;
        let kind = Kind::from_number((first >> 56) as u8)?;
        let extra = |index| {
            if kind.words() > index {
                self.word(index)
            } else {
                Some(0)
            }
        };
        Some(Record {
            position: self.position(),
            kind,
            size: (first >> 48) as u8,
            subject: first & LOW,
            second: self.word(1)?,
            extra: [extra(2)?, extra(3)?],
        })
    }

    fn word(&self, index: usize) -> Option<u64> {
        let at = self.at.start + 8 * index;
        if at + 8 > self.at.end {
            None
        } else {
            word(self.data, at)
        }
    }

    /// Goes on to the next chunk that has a record, if this one has none left.
    fn settle(&mut self) {
        while self.peek().is_none() {
            match self.chunks.split_first() {
                Some((chunk, rest)) => {
                    let goes_on = self.last != 0 && chunk.previous == self.last;
                    let start = chunk.content.start + chunk.snapshot;
                    self.shift = chunk.position.wrapping_sub(start as u64);
                    self.at = if goes_on { start } else { chunk.content.start }..chunk.content.end;
                    self.last = chunk.position;
                    self.chunks = rest;
                }
                None => {
                    self.at = 0..0;
                    return;
                }
            }
        }
    }
}

impl Iterator for Log<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let record = self.peek()?;
        self.at.start += 8 * record.kind.words();
        self.settle();
        Some(record)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::{first_word, second_word};

    /// Builds recordings for tests: records by slot, each in its own chunk.
    #[derive(Default)]
    pub(crate) struct Builder {
        data: Vec<u8>,
        slots: Vec<Vec<u64>>,
    }

    impl Builder {
        /// Appends a record; its position is returned.
        pub(crate) fn push(&mut self, slot: usize, words: &[u64]) -> u64 {
            if self.slots.len() <= slot {
                self.slots.resize_with(slot + 1, Vec::new);
            }
            let position = self.end(slot);
            self.slots[slot].extend(words);
            position
        }

        /// The position after a slot's last record.
        pub(crate) fn end(&self, slot: usize) -> u64 {
            let len = self.slots.get(slot).map_or(0, Vec::len);
            ((slot + 1) * CHUNK_UNIT + 8 * len) as u64
        }

        pub(crate) fn build(mut self) -> Recording {
            let size = HEADER_SIZE + self.slots.len() * CHUNK_UNIT;
            self.data.resize(size, 0);
            let mut put = |at: usize, word: u64| {
                self.data[at..at + 8].copy_from_slice(&word.to_le_bytes());
            };
            put(header::MAGIC, MAGIC);
            put(header::TOP, size as u64);
            for (slot, words) in self.slots.iter().enumerate() {
                let at = HEADER_SIZE + slot * CHUNK_UNIT;
                put(at, u64::from(CHUNK_MAGIC) | u64::from(CHUNK_LOG) << 32);
                put(at + 8, CHUNK_UNIT as u64);
                put(at + 16, slot as u64);
                put(at + 24, ((slot + 1) * CHUNK_UNIT) as u64);
                for (index, &word) in words.iter().enumerate() {
                    put(at + CHUNK_HEADER_SIZE + 8 * index, word);
                }
            }
            Recording::parse(self.data).unwrap()
        }
    }

    #[test]
    fn records_come_back() {
        let mut builder = Builder::default();
        builder.push(
            1,
            &[
                first_word(Kind::Write, 4, 0x7fff_1234),
                second_word(0, 0x40_1000),
            ],
        );
        builder.push(
            1,
            &[
                first_word(Kind::AtomicRmw, 8, 0x1000),
                second_word(1, 0x40_2000),
                7,
                8,
            ],
        );
        let recording = builder.build();
        let records: Vec<_> = recording.log(1).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].range(), Some(0x7fff_1234..0x7fff_1238));
        assert_eq!((records[1].detail(), records[1].pc()), (1, 0x40_2000));
        assert_eq!(records[1].extra, [7, 8]);
        assert_eq!(recording.log(0).count() + recording.log(77).count(), 0);
    }

    #[test]
    fn a_record_that_was_cut_off_ends_the_log() {
        let mut builder = Builder::default();
        builder.push(0, &[first_word(Kind::Write, 4, 8), 9]);
        builder.push(0, &[0xff << 56, 3]);
        assert_eq!(builder.build().log(0).count(), 1);
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(Recording::parse(Vec::new()).is_none());
        assert!(Recording::parse(vec![1; 100_000]).is_none());
    }
}
